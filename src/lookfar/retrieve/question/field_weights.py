"""How much a match counts in each field of the keyword index, by the settings."""

from __future__ import annotations

from collections.abc import Mapping

from lookfar.config import SearchSettings


def chunk_weights(settings: SearchSettings) -> dict[str, float]:
    """How much a match in each field of a chunk counts."""
    return {
        "headings": settings.headings_weight,
        "tags": settings.tags_weight,
        "body": settings.body_weight,
        "code": settings.code_weight,
    }


CHUNK_WEIGHTS: Mapping[str, float] = chunk_weights(SearchSettings())
"""The same where nobody set anything; chosen with bench/quality.py."""


def page_weights(settings: SearchSettings) -> dict[str, float]:
    """The same for the document as a whole: what it is called, and all of its text."""
    return {
        "title": settings.title_weight,
        "path": settings.path_weight,
        "description": settings.description_weight,
        "aliases": settings.aliases_weight,
        "keywords": settings.keywords_weight,
        "page": 1.0,
    }
