"""Find credentials in files so that they are never indexed or shown."""
