"""Small helpers that every room may use: folders, locks, line numbers, hidden characters, turns."""
