"""From a question to cited spans, as a list of plain stages."""
