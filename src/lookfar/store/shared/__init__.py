"""What the SQLite and the PostgreSQL store share: reading snapshots and writing generations."""
