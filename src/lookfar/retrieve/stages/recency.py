"""Boost what is new: recent memories, and recently changed documents if that is enabled."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from lookfar.ports import Snapshot
from lookfar.retrieve.neighbours.mentions import read_front_matter
from lookfar.retrieve.ranking import Candidate, Document, Ranking

_DAY = 86_400.0

RECENT: Final = ((7, 1.2), (30, 1.1))
"""The ages in days of recently changed documents, and their factors."""

Tier = tuple[float, float]
"""An age in days, and the factor up to that age."""


def boost_recent(ranking: Ranking, clock: Callable[[], float] = time.time) -> Ranking:
    """Multiply scores by the factor of the first tier that the document is young enough for."""
    tiers: Sequence[Tier] = RECENT if ranking.settings.recency else ()
    ages = _measure_ages(ranking, bool(tiers), clock())
    factors: dict[Document, float] = {}
    for candidate in ranking.candidates:
        age = ages.get(candidate.document)
        if age is not None and candidate.document not in factors:
            own = ranking.sources[candidate.source].recent
            theirs = [own] if own and candidate.place.lane == "memory" else tiers
            factors[candidate.document] = next((by for days, by in theirs if age <= days), 1.0)
    added = [
        (factors.get(document, 1.0) - 1) * score
        for document, score in zip(ranking.candidates.documents, ranking.scores, strict=True)
    ]

    def note(candidate: Candidate) -> str:
        days = int(ages[candidate.document])
        if candidate.place.lane == "memory":
            return "a recent memory"
        return f"changed {days} day{'s' if days > 1 else ''} ago" if days else "changed today"

    return ranking.add_step("recent", added, note) if any(added) else ranking


def _measure_ages(ranking: Ranking, documents_too: bool, now: float) -> dict[Document, float]:
    """Return the age in days of each document that may be boosted; never negative."""
    made: dict[Document, float] = {}
    others: dict[int, set[int]] = {}
    for candidate in ranking.candidates:
        if candidate.document in made:
            continue
        source = ranking.sources[candidate.source]
        if source.recent is not None and candidate.place.lane == "memory":
            when = _find_creation_time(source.snapshot, candidate.place.uri)
            if when is not None:
                made[candidate.document] = when
        elif documents_too:
            others.setdefault(candidate.source, set()).add(candidate.place.document)
    for number, documents in others.items():
        for document, when_ns in (
            ranking.sources[number].snapshot.modified(sorted(documents)).items()
        ):
            made[number, document] = when_ns / 1e9
    return {document: max(0.0, now - when) / _DAY for document, when in made.items()}


def _find_creation_time(snapshot: Snapshot, uri: str) -> float | None:
    """Return when a memory was created, from its front matter or else from the disk."""
    created = read_front_matter(snapshot, uri).get("created_at")
    try:
        when = datetime.fromisoformat(str(created))
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        known = snapshot.document(uri)
        return float(known["mtime_ns"]) / 1e9 if known else None
