"""Weights of the fields of the keyword index, from the settings."""

from __future__ import annotations

from collections.abc import Mapping

from lookfar.config import SearchSettings


def chunk_weights(settings: SearchSettings) -> dict[str, float]:
    """Return the weights of the fields of a chunk."""
    return {
        "headings": settings.headings_weight,
        "tags": settings.tags_weight,
        "body": settings.body_weight,
        "code": settings.code_weight,
    }


CHUNK_WEIGHTS: Mapping[str, float] = chunk_weights(SearchSettings())
"""The default weights; chosen with bench/quality.py."""


def page_weights(settings: SearchSettings) -> dict[str, float]:
    """Return the weights of the fields of a whole document."""
    return {
        "title": settings.title_weight,
        "path": settings.path_weight,
        "description": settings.description_weight,
        "aliases": settings.aliases_weight,
        "keywords": settings.keywords_weight,
        "page": 1.0,
    }
