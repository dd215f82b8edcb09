"""Parse normalised text into a :class:`~lookfar.model.Document`, without I/O.

``formats`` picks the parser by file name. Every span is exact in the document's own text. A text
that cannot be parsed becomes one section with a warning.
"""
