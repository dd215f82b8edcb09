"""Ways to find candidates: keywords, pages, vectors, exact wording, filters alone."""
