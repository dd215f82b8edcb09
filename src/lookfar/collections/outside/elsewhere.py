"""A folder elsewhere as a source: it is read where it is, and never written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lookfar.collections.outside.fetching import Fetched
from lookfar.sources.confine import Root

if TYPE_CHECKING:
    from lookfar.collections.outside.fetching import Request


def fetch_folder(request: Request) -> Fetched:
    """Check that the folder can be read; searches compare it with the index themselves."""
    Root.open(request.source.origin)
    return Fetched(unchanged=True)
