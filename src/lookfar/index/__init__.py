"""Keep a collection up to date with its source: find what changed, and index it."""
