"""Resolve addresses, paths, names and symbols to places in documents."""
