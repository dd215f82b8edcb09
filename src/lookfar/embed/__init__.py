"""Embedding models: providers, a reranker, and a deterministic double for tests."""
