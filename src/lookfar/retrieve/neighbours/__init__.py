"""Find what is connected to a document: links, mentions, similar documents, communities."""
