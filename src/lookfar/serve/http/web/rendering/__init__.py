"""Render documents to trees of known node kinds, from which the web page builds its elements."""
