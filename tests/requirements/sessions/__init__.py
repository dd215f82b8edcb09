"""Client sessions as the documents of the five systems show them.

A package, so that its modules may have the names of those in ``tests/serve/toolsets``.
"""
