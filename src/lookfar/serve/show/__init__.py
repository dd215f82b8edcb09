"""How results look: text for terminals and agents, JSON for programs."""
