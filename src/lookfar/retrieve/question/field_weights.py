"""Weights of the fields of the keyword index, from the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lookfar.config import SearchSettings


def chunk_weights(settings: SearchSettings) -> dict[str, float]:
    names = ("headings", "tags", "code")
    return {name: getattr(settings, f"{name}_weight") for name in names} | {"body": 1.0}


PATH: Final = 0.3
CHUNK_WEIGHTS: Mapping[str, float] = chunk_weights(SearchSettings())
"""The default weights; chosen with bench/quality.py."""


def page_weights(settings: SearchSettings) -> dict[str, float]:
    """Return the weights of the fields of a whole document."""
    names = ("title", "description", "aliases", "keywords")
    weights = {name: getattr(settings, f"{name}_weight") for name in names}
    return weights | {"path": PATH, "page": 1.0}
