"""The kinds of collections: folders, commits, memories and databases of documents."""
