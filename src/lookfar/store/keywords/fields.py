"""The fields of the keyword index, shared by all stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lookfar.ports import Entry, Terms

FIELDS = Entry._fields
NAMES = ("title", "path", "description", "aliases", "keywords")
"""Fields for the names of a document and its front matter."""
PAGE_FIELDS = (*NAMES, "page")
"""Fields of a whole document; they are in the entry of its first chunk."""
NUMBERS = {field: at for at, field in enumerate((*FIELDS, *PAGE_FIELDS))}
"""The number of each field in posting lists."""
PAGE = NUMBERS["page"]
Named = tuple[int, str]
"""A field by its number, and a term."""
MOST_PAIRS = 20
"""The most pairs of words that one query looks for."""


def weigh_terms(terms: Terms) -> Iterable[tuple[str, float]]:
    return terms.items() if isinstance(terms, Mapping) else ((term, 1.0) for term in terms)
