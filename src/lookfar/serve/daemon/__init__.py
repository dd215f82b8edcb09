"""The background process that keeps libraries open, and the clients that connect to it."""
