"""What changed in a folder since it was indexed, and when that is indexed."""
