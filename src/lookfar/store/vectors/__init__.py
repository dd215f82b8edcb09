"""The vector index: a memory-mapped file, a coarse first pass, and reuse of known vectors."""
