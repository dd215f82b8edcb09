"""Normalised text to :class:`~lookfar.model.Document`: structure, never I/O.

Takes: the bytes of one file (``text``) and its name (``formats`` picks the
parser). Gives: a ``Document`` whose every span is exact in its own text.
Refuses: nothing; a text that cannot be understood is one section and a warning.
"""
