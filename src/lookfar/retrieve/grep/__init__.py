"""Search line by line, as ripgrep does, over everything that is indexed.

``syntax`` reads an expression, ``literals`` says which texts must be in a document that it
matches, ``matcher`` finds the matching lines of one text, and ``search`` asks the collections.
"""
