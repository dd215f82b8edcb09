"""Document to chunks: pure functions, no clock, no disk, no randomness."""
