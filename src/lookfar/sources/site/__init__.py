"""Fetch pages of web sites: politely, within limits, and from public addresses only."""
