"""Search line by line, as ripgrep does, over everything that is indexed.

``expression`` reads a regular expression and derives which texts a matching document must contain,
``matcher`` finds the matching lines of one text, and ``matching_lines`` searches the collections.
"""
