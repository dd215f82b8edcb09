"""Places and rankings small enough to compute by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from lookfar.config import SearchSettings
from lookfar.model import Filters, Mode
from lookfar.ports import Place
from lookfar.retrieve.ranking import Candidate, Candidates, Plan, Ranking

VECTOR = np.ones(4, dtype=np.float32)
"""Of a question; only its shape counts."""


def place(
    key: int,
    *,
    document: int = 1,
    uri: str = "a.md",
    title: str = "",
    path: tuple[str, ...] = (),
    start: int = 0,
    end: int = 10,
) -> Place:
    return Place(
        key=key,
        id=bytes(16),
        document=document,
        vector=key,
        uri=uri,
        title=title,
        lane="docs",
        path=path,
        ordinal=key,
        part=1,
        parts=1,
        start=start,
        end=end,
        start_line=1,
        end_line=1,
        overlap=0,
        sha=bytes(32),
    )


def ranking(
    candidates: list[Candidate],
    scores: list[float] | None = None,
    *,
    mode: Mode = "hybrid",
    terms: tuple[str, ...] = ("word",),
    vector: object = VECTOR,
    trust: float = 1.0,
    top_k: int = 10,
    settings: SearchSettings | None = None,
) -> Ranking:
    plan = Plan("word", mode, top_k, Filters(), terms, {}, vector, trust)  # type: ignore[arg-type]
    none = (0.0,) * len(candidates)
    settings = settings or SearchSettings()
    empty = Ranking(plan, Candidates(candidates), none, settings=settings)
    return empty.add_step("made", scores, lambda _: "by hand") if scores else empty


@pytest.fixture
def make_place() -> Callable[..., Place]:
    return place


@pytest.fixture
def make_ranking() -> Callable[..., Ranking]:
    return ranking
