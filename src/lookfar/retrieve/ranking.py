"""What flows between stages: candidates with scores and the story of each score.

Takes: places from a snapshot. Gives: an immutable ranking. Refuses: hidden
changes; whoever alters a score leaves a contribution that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lookfar.model import Contribution, Filters, Mode
from lookfar.ports import Place

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Plan:
    """What the question asks for, worked out once."""

    text: str
    mode: Mode
    top_k: int
    filters: Filters
    terms: tuple[str, ...]
    """Distinct keyword terms, in the order of the question."""
    vector: NDArray[np.float32] | None
    vector_trust: float
    """0 to 1: how much of the question the model knows as words."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk on its way to becoming a hit."""

    place: Place
    keyword: float
    """BM25 of the chunk, 0 where no term matched."""
    page: float
    """BM25 of the whole document."""
    vector: float
    """Cosine similarity; 0 without a model."""
    score: float = 0.0
    trail: tuple[Contribution, ...] = ()

    def scored(self, score: float, stage: str, note: str = "") -> Candidate:
        """The same candidate with a new score, and what the stage added to it."""
        step = Contribution(stage, round(score - self.score, 6), note)
        return replace(self, score=score, trail=(*self.trail, step))


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates, best first."""

    plan: Plan
    candidates: tuple[Candidate, ...]

    def reordered(self, candidates: Iterable[Candidate]) -> Ranking:
        """A new ranking by score; ties by URI, then by position."""
        ordered = sorted(candidates, key=lambda c: (-c.score, c.place.uri, c.place.start))
        return replace(self, candidates=tuple(ordered))


Stage = Callable[[Ranking], Ranking]
"""One step of ranking: pure, and every change of a score explains itself."""
