"""The embedded store: one folder per collection with SQLite, tantivy and vector files."""
