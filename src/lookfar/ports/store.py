"""Writing to an index, and the keyword index behind a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from lookfar.model import Fingerprint
from lookfar.ports.records import Known, LeftOut, Statistics, Terms, Version

KeywordHits = list[tuple[int, float]]
"""Chunk keys or documents, with scores."""


class Writer(Protocol):
    """The single writer of a collection; nothing is visible before ``activate``."""

    def known(self, uris: Collection[str] | None = None) -> dict[str, Known]: ...

    def missing(self, contents: Iterable[bytes]) -> set[bytes]:
        """Return the contents that have no vector yet."""
        ...

    def put(self, version: Version) -> None: ...

    def touch(self, document: int, fingerprint: Fingerprint, settled: bool) -> None: ...

    def remove(self, uri: str) -> None: ...

    def leave_out(self, files: Sequence[LeftOut]) -> None:
        """Replace the list of files that are on disk but not in the store."""
        ...

    def activate(self, manifest: Mapping[str, Any]) -> int:
        """Commit everything as one new generation."""
        ...


class Keywords(Protocol):
    """A keyword index as of one commit; later commits do not show."""

    def statistics(self, terms: Iterable[str]) -> Statistics: ...

    def scored_with(self, shared: Statistics) -> Keywords:
        """Return the same state with words weighted by other statistics."""
        ...

    def search(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None = None,
    ) -> KeywordHits: ...

    def best_of_each(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        documents: Sequence[int],
        admits: Callable[[int], bool] | None = None,
    ) -> KeywordHits: ...

    def search_pages(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None = None,
    ) -> KeywordHits: ...

    def knows(self, term: str) -> bool: ...

    def holding(
        self, terms: Sequence[str], apart: int = 0, most: int | None = None
    ) -> list[int]: ...

    def adjoining(
        self, pairs: Sequence[tuple[str, str, int]], keys: Sequence[int]
    ) -> dict[int, int]: ...

    def wording(
        self, groups: Sequence[Mapping[str, float]], keys: Sequence[int]
    ) -> dict[int, float]: ...

    def vocabulary(self, prefix: str = "", most: int | None = None) -> list[tuple[str, int]]: ...
