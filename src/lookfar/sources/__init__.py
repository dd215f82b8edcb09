"""Sources of documents: which files may be read, their contents, and what changed.

Everything outside the folder, files whose names mark them as secret, and links are rejected.
"""
