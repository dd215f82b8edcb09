"""The call graph: which definitions a call reaches, who calls a definition, and what it calls."""
