"""Ranking stages: functions ``Ranking -> Ranking`` that explain their effect."""
