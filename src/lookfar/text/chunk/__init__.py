"""Split documents into chunks: pure functions without clock, disk or randomness."""
