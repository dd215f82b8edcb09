"""Folders as a source: which files may be indexed, which exist, and what changed."""
