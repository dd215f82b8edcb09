"""Keeping a collection true to its source: what changed, and making it so."""
