"""Memories that were made lately count more.

Takes: the collections asked and a ranking. Gives: the ranking with a lift for chunks of recent
memories. Refuses: to look at any document of another lane, or of a collection that asked for
no such lift.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lookfar.retrieve.mentions import front_matter

if TYPE_CHECKING:
    from lookfar.ports import Snapshot
    from lookfar.retrieve.excerpt import Source
    from lookfar.retrieve.ranking import Ranking

_DAY = 86_400.0


def lift_recent(ranking: Ranking, sources: Sequence[Source]) -> Ranking:
    """Scores times the factor of their source, for memories younger than its days."""
    now = time.time()
    recent: dict[tuple[int, int], bool] = {}
    added: list[float] = []
    for each, score in zip(ranking.candidates, ranking.scores, strict=True):
        source = sources[each.source]
        lift = 0.0
        if source.recent is not None and each.place.lane == "memory":
            days, factor = source.recent
            if each.document not in recent:
                made = _made(source.snapshot, each.place.uri)
                recent[each.document] = made is not None and now - made <= days * _DAY
            lift = (factor - 1) * score if recent[each.document] else 0.0
        added.append(lift)
    if not any(added):
        return ranking
    return ranking.plus("recent", added, lambda _: "remembered lately")


def _made(snapshot: Snapshot, uri: str) -> float | None:
    """When a memory was made, in seconds: as it says, or else as the disk does."""
    said = front_matter(snapshot, uri).get("created_at")
    try:
        when = datetime.fromisoformat(str(said))
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        known = snapshot.document(uri)
        return float(known["mtime_ns"]) / 1e9 if known else None
