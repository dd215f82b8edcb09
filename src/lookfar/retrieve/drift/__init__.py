"""Documentation that names what is gone: compare claims with the code, and with git's history."""
