"""Texts to vectors: the providers, and the double that tests use beside them."""
