"""Collections of sources outside the user's folders, and where their files are stored."""
