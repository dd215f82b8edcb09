"""The embedded store: one folder per collection with SQLite, keyword segments and vectors."""
