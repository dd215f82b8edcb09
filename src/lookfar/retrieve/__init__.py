"""Find and rank cited passages for a question, in plain stages."""
