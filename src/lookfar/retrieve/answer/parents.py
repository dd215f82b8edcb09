"""Widen hits to the section around them, if it is short enough, without citing a text twice."""

from __future__ import annotations

from collections.abc import Sequence

from lookfar.model import Contribution, Section
from lookfar.retrieve.answer.diversify import Passage
from lookfar.retrieve.ranking import Source


def widen_to_sections(
    passages: Sequence[Passage], sources: Sequence[Source], most: int, wanted: int
) -> list[Passage]:
    """Return the first ``wanted`` passages, widened to sections of at most ``most`` characters."""
    sections: dict[tuple[int, str], list[Section]] = {}
    widened: list[Passage] = []
    for passage in passages:
        if len(widened) == wanted:
            break
        document = (passage.source, passage.place.uri)
        before = [better for better in widened if (better.source, better.place.uri) == document]
        if any(better.start <= passage.start and passage.end <= better.end for better in before):
            continue
        # Comments and programs are cited as they are: they have no document number.
        if passage.place.document >= 0:
            if document not in sections:
                sections[document] = sources[passage.source].snapshot.sections(passage.place.uri)
            wide = _widen(passage, sections[document], most)
            if not any(better.start < wide.end and wide.start < better.end for better in before):
                passage = wide
        widened.append(passage)
    return widened


def _widen(passage: Passage, sections: Sequence[Section], most: int) -> Passage:
    around = [
        section
        for section in sections
        if section.span.start <= passage.start
        and passage.end <= section.span.end
        and section.span.end - section.span.start > passage.end - passage.start
    ]
    nearest = min(around, key=lambda section: section.span.end - section.span.start, default=None)
    if nearest is None or nearest.span.end - nearest.span.start > most:
        return passage
    span = nearest.span
    lines = f"lines {passage.start_line}-{passage.end_line} matched"
    return passage._replace(
        start=span.start,
        end=span.end,
        start_line=span.start_line,
        end_line=span.end_line,
        path=nearest.path,
        steps=(*passage.steps, Contribution("parent", 0.0, f"widened to its section; {lines}")),
    )
