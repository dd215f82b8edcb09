"""Find documentation that names removed code, by the current code and the git history."""
