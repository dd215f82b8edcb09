"""Where an index lives on disk: one catalogue that is the truth, and what derives from it."""
