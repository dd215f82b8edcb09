"""Ranking stages: each is a function ``Ranking -> Ranking`` that explains its effect."""
