"""The call graph: which definitions a call reaches, what calls a definition, and what it calls."""
