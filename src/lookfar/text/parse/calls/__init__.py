"""Find the calls in source code, and what is needed to tell which definitions they reach.

``extract.py`` reads the facts of one file. Nothing is resolved here: which file an import means,
and who defines a method, is decided when the call graph is queried.
"""
