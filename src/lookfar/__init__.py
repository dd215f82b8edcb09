"""Lookfar: one local-first retrieval server for agents and the people who run them."""
