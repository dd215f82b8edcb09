"""The lowest layer of the store: files, SQLite connections and small records."""
