"""Git repositories as a source: which may be read, and their commits."""
