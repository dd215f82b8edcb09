"""The web page for looking at an index, and the JSON routes it uses."""
