"""Turn a ranking into the passages of an answer."""
