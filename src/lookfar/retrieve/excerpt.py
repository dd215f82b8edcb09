"""The cited text itself, read from the source and checked against its hash.

Takes: passages, and the collections they stand in with a way to read texts as they are now. Gives:
hits whose text is on the disk at that place at this moment, or that say
otherwise. Refuses: to show text that fails its check; then the stored text of
the generation is shown and the state says ``changed`` or ``gone``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from lookfar.model import Contribution, Hit, Incomplete, Span, State, shown_path

if TYPE_CHECKING:
    from lookfar.ports import Place, Snapshot
    from lookfar.retrieve.diversify import Passage
    from lookfar.retrieve.ranking import Plan

ReadSource = Callable[[str], str | None]
"""The normalised text of a document as the disk has it now; ``None`` when it is gone."""


class Source(NamedTuple):
    """One collection that a question is asked of."""

    collection: str
    plan: Plan
    snapshot: Snapshot
    read: ReadSource
    aside: bool = False
    """It answers beside the others: how rare a word is, is counted without it."""
    recent: tuple[float, float] | None = None
    """Of memories: for how many days they count more, and how much."""


def cite(
    passages: Sequence[Passage],
    asked: Sequence[Source],
    *,
    max_chars: int,
    explain: Callable[[int], tuple[Contribution, ...]] | None,
) -> tuple[list[Hit], list[Incomplete]]:
    """Hits for passages, in their order, and what in them is no longer true of the disk."""
    texts: dict[tuple[int, str], str | None] = {}
    hits: list[Hit] = []
    stale: dict[str, None] = {}
    for passage in passages:
        place, source = passage.place, asked[passage.source]
        document = (passage.source, place.uri)
        if document not in texts:
            texts[document] = source.read(place.uri)
        text, span, state = _checked(passage, texts[document], source.snapshot)
        if state != "same":
            stale[place.uri] = None
        hits.append(
            Hit(
                collection=source.collection,
                uri=place.uri,
                title=place.title,
                heading_path=shown_path(
                    place.path, place.part, place.parts if passage.chunks == 1 else 1
                ),
                span=span,
                sha256=sha256(text.encode("utf-8")).hexdigest(),
                lane=place.lane,
                score=round(passage.score, 6),
                text=text[:max_chars],
                truncated=len(text) > max_chars,
                state=state,
                chunk_id=place.id.hex(),
                explanation=explain(passage.best) if explain else (),
                path=place.path,
                part=place.part if passage.chunks == 1 else 1,
                parts=place.parts if passage.chunks == 1 else 1,
            )
        )
    notes = (
        [Incomplete("stale", "these files changed after they were indexed", tuple(stale))]
        if stale
        else []
    )
    return hits, notes


def _checked(passage: Passage, source: str | None, snapshot: Snapshot) -> tuple[str, Span, State]:
    place = passage.place
    here = Span(passage.start, passage.end, passage.start_line, passage.end_line)
    if source is not None and _holds(source[place.start : place.end], place):
        if passage.chunks == 1:
            return source[here.start : here.end], here, "same"
        stored = snapshot.text(place.uri)
        if stored is not None and stored[here.start : here.end] == source[here.start : here.end]:
            return source[here.start : here.end], here, "same"
    stored = snapshot.text(place.uri)
    text = stored[here.start : here.end] if stored is not None else ""
    if source is None:
        return text, here, "gone"
    moved = source.find(text) if text else -1
    if moved < 0:
        return text, here, "changed"
    first = source.count("\n", 0, moved) + 1
    last = first + source.count("\n", moved, moved + len(text) - 1)
    return text, Span(moved, moved + len(text), first, last), "moved"


def _holds(text: str, place: Place) -> bool:
    return sha256(text.encode("utf-8")).digest() == place.sha
