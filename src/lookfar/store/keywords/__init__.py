"""The keyword index: terms, BM25 search, and the filters that speed up line search."""
