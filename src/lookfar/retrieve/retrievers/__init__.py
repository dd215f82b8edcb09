"""Ways to find candidates: keywords, pages, vectors, definitions, exact wording, filters."""
