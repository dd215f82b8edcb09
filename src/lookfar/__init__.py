"""Lookfar: a local-first retrieval server for agents and the people who run them.

from lookfar import Library

with Library.open("docs") as library:
    for hit in library.search("how do I roll back?").hits:
        print(hit.uri, hit.span.start_line, hit.text)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lookfar.errors import LookfarError
    from lookfar.library import Library
    from lookfar.model import (
        Answer,
        Edit,
        Filters,
        GenerationDiff,
        GenerationInfo,
        Hit,
        IndexReport,
        Outline,
        Reading,
        Related,
        Span,
        Status,
    )

__version__ = "0.2.0"

__all__ = [
    "Answer",
    "Edit",
    "Filters",
    "GenerationDiff",
    "GenerationInfo",
    "Hit",
    "IndexReport",
    "Library",
    "LookfarError",
    "Outline",
    "Reading",
    "Related",
    "Span",
    "Status",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Import names on first use, so that the command line starts quickly."""
    if name == "Library":
        from lookfar.library import Library

        return Library
    if name == "LookfarError":
        from lookfar.errors import LookfarError

        return LookfarError
    if name in __all__:
        from lookfar import model

        return getattr(model, name)
    raise AttributeError(f"module 'lookfar' has no attribute {name!r}")
