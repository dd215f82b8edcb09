"""A hit in its surroundings: widened to the section that it is a part of.

Takes: passages, best first. Gives: the same, each with the span of the section around it where
that is short enough. Refuses: to cite a text twice: what already stands in a better hit is left
out, and what would take a better hit in stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lookfar.model import Contribution, Section

if TYPE_CHECKING:
    from lookfar.retrieve.answer.diversify import Passage
    from lookfar.retrieve.ranking import Source


def widen_to_sections(
    passages: Sequence[Passage], sources: Sequence[Source], most: int, wanted: int
) -> list[Passage]:
    """The first ``wanted`` passages, as sections of at most ``most`` characters."""
    sections: dict[tuple[int, str], list[Section]] = {}
    found: list[Passage] = []
    for each in passages:
        if len(found) == wanted:
            break
        document = (each.source, each.place.uri)
        before = [better for better in found if (better.source, better.place.uri) == document]
        if any(better.start <= each.start and each.end <= better.end for better in before):
            continue
        # A comment of code answers as itself; it stands in no document of the index.
        if each.place.document >= 0:
            if document not in sections:
                sections[document] = sources[each.source].snapshot.sections(each.place.uri)
            wide = _widen(each, sections[document], most)
            if not any(better.start < wide.end and wide.start < better.end for better in before):
                each = wide
        found.append(each)
    return found


def _widen(passage: Passage, sections: Sequence[Section], most: int) -> Passage:
    around = [
        section
        for section in sections
        if section.span.start <= passage.start
        and passage.end <= section.span.end
        and section.span.end - section.span.start > passage.end - passage.start
    ]
    nearest = min(around, key=lambda each: each.span.end - each.span.start, default=None)
    if nearest is None or nearest.span.end - nearest.span.start > most:
        return passage
    span = nearest.span
    lines = f"lines {passage.start_line}-{passage.end_line} were found"
    return replace(
        passage,
        start=span.start,
        end=span.end,
        start_line=span.start_line,
        end_line=span.end_line,
        path=nearest.path,
        steps=(*passage.steps, Contribution("parent", 0.0, f"widened to its section; {lines}")),
    )
