"""Parse texts that are read, and keep the last few results.

To open a document, its text is read, its outline listed and a part of it located. All of these
need the parsed text, and parsing a file of ten thousand lines takes a noticeable time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from lookfar.model import Document
from lookfar.text.parse.formats import text_parser_for

_MOST_KEPT: Final = 4
_LONGEST_KEPT: Final = 2_000_000
"""Characters of a text whose result is kept; longer ones would fill the memory of a server."""


def parse_text(uri: str, text: str, *, as_source: bool) -> Document:
    """Parse the text of a document; the result belongs to all callers and is not changed."""
    parse = _parse_and_keep if len(text) <= _LONGEST_KEPT else _parse
    return parse(uri, text, as_source)


def _parse(uri: str, text: str, as_source: bool) -> Document:
    return text_parser_for(uri, as_source=as_source)(uri, text)


# Equal arguments give equal results: a parser is a pure function.
_parse_and_keep = lru_cache(_MOST_KEPT)(_parse)
