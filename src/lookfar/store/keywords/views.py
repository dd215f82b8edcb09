"""What a snapshot asks of its keyword index, whichever store has it.

Takes: nothing. Gives: the Protocol that a view of one committed state fulfils. Refuses: to say
how; the embedded one is :class:`lookfar.store.keywords.tantivy_index.KeywordView`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from lookfar.ports import Statistics, Terms

Hits = list[tuple[int, float]]
"""Chunk keys or documents, and scores."""


class Keywords(Protocol):
    """The state of one commit: nothing that is committed later shows in it."""

    def statistics(self, terms: Iterable[str]) -> Statistics: ...

    def scored_with(self, shared: Statistics) -> Keywords:
        """The same state, with words weighed by statistics from beyond it."""
        ...

    def search(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None = None,
    ) -> Hits: ...

    def best_of_each(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        documents: Sequence[int],
        admits: Callable[[int], bool] | None = None,
    ) -> Hits: ...

    def search_pages(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None = None,
    ) -> Hits: ...

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
