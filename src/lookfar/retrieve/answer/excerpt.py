"""Cite passages: read their text from the disk and check it against its hash.

If the check fails, the hit shows the text as it was indexed, with the state ``changed`` or
``gone``. A text that was moved is cited at its new position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from lookfar.model import Alike, Contribution, Hit, Incomplete, Span, State, display_path
from lookfar.retrieve.answer.focus import Excerpt, FocusQuery, find_best_sentences, find_in_each
from lookfar.retrieve.locate.places import list_places, stored_places
from lookfar.retrieve.locate.sections import find_innermost, find_moved, note_stale
from lookfar.text.extract.formats import extractor_for

if TYPE_CHECKING:
    from lookfar.model import Likeness, Places, Section
    from lookfar.ports import Snapshot
    from lookfar.retrieve.answer.diversify import Passage
    from lookfar.retrieve.ranking import Source

_Verified = tuple[str, Span, State]
"""The text of a passage, where it is now, and whether it changed."""
_MOST_ALSO = 5
"""Duplicates of a hit that are read and cited; the others are only counted."""

_MOST_OF_A_DEFINITION = 40_000
"""Characters of a definition that is cited whole."""
_FEWEST_NAMES = 2
_MOST_NAMES = 6
"""Definitions that the heading of a hit names."""


def cite(
    passages: Sequence[Passage],
    asked: Sequence[Source],
    *,
    max_chars: int,
    explain: Callable[[int], tuple[Contribution, ...]] | None,
    focus: FocusQuery | None = None,
) -> tuple[list[Hit], list[Incomplete]]:
    """Return hits for passages, in their order, and a note on files that have changed.

    With ``focus``, each hit reports which of its sentences answer best.
    """
    reader = _Reader(asked)
    hits: list[Hit] = []
    verified = [reader.read_verified(passage) for passage in passages]
    limits = [_MOST_OF_A_DEFINITION if passage.definition else max_chars for passage in passages]
    focuses = _find_focuses(passages, verified, limits, focus)
    for number, passage in enumerate(passages):
        place, focused, (text, span, state) = passage.place, focuses[number], verified[number]
        path, part, parts = _choose_headings(passage)
        definition = reader.find_definition(passage, focused[0]) if focused else None
        hits.append(
            Hit(
                collection=asked[passage.source].collection,
                uri=place.uri,
                title=place.title,
                heading_path=display_path(reader.name_contents(passage, path, parts), part, parts),
                span=span,
                sha256=_digest(text),
                lane=place.lane,
                score=round(passage.score, 6),
                text=text[: limits[number]],
                truncated=len(text) > limits[number],
                state=state,
                chunk_id=place.id.hex(),
                explanation=(*explain(passage.best), *passage.steps) if explain else (),
                path=path,
                part=part,
                parts=parts,
                also=tuple(
                    reader.cite_duplicate(*duplicate) for duplicate in passage.folded[:_MOST_ALSO]
                ),
                also_more=max(len(passage.folded) - _MOST_ALSO, 0),
                focus=focused,
                focus_path=definition.path if definition else (),
                focus_lines=definition.lines if definition else (0, 0),
                document_chars=len(reader.texts.get((passage.source, place.uri)) or ""),
                extracted=extractor_for(place.uri) is not None and place.lane == "docs",
                place=reader.find_place(passage, text, focused[0].start - span.start)
                if focused
                else reader.find_place(passage, text),
                places=reader.find_places(passage),
            )
        )
    return hits, note_stale(reader.stale)


def _find_focuses(
    passages: Sequence[Passage],
    verified: Sequence[_Verified],
    limits: Sequence[int],
    asked: FocusQuery | None,
) -> list[tuple[Span, ...]]:
    """Return for each passage the spans of the sentences that answer best, best first."""
    if asked is None:
        return [()] * len(passages)
    excerpts = [
        Excerpt(text[:limit], passage.place.lane == "code", passage.definition != "")
        for passage, (text, _, _), limit in zip(passages, verified, limits, strict=True)
    ]
    focuses = []
    for (text, *_), best, (_, span, _) in zip(
        excerpts, find_in_each(excerpts, asked), verified, strict=True
    ):
        spans = []
        for sentence in best:
            first = span.start_line + text.count("\n", 0, sentence.start)
            last = first + text.count("\n", sentence.start, sentence.end)
            spans.append(Span(span.start + sentence.start, span.start + sentence.end, first, last))
        focuses.append(tuple(spans))
    return focuses


def _choose_headings(passage: Passage) -> tuple[tuple[str, ...], int, int]:
    """Return the headings above a passage, and which part of how many of its section it is."""
    if passage.path is not None:
        return passage.path, 1, 1
    place = passage.place
    return (place.path, place.part, place.parts) if passage.chunks == 1 else (place.path, 1, 1)


class _Definition(NamedTuple):
    path: tuple[str, ...]
    lines: tuple[int, int]


class _Reader:
    """Reads each document once, and collects those that have changed since they were indexed."""

    def __init__(self, asked: Sequence[Source]) -> None:
        self._asked = asked
        self.texts: dict[tuple[int, str], str | None] = {}
        self._sections: dict[tuple[int, str], list[Section]] = {}
        self._places: dict[tuple[int, str], Places] = {}
        self.stale: dict[str, None] = {}

    def read_verified(self, passage: Passage) -> _Verified:
        """Return the text of a passage, its current span, and its state."""
        source, uri = self._asked[passage.source], passage.place.uri
        document = (passage.source, uri)
        if document not in self.texts:
            self.texts[document] = source.read(uri)
        text, span, state = _verify(passage, self.texts[document], source.snapshot)
        if state != "same":
            self.stale[uri] = None
        return text, span, state

    def find_definition(self, passage: Passage, line: Span) -> _Definition | None:
        """Return the innermost definition in code that contains a line."""
        if passage.place.lane != "code":
            return None
        if passage.definition:
            return _Definition(passage.path or (), (passage.start_line, passage.end_line))
        innermost = find_innermost(self._read_sections(passage), line.start)
        if innermost is None:
            return None
        span = innermost.span
        return _Definition(innermost.path, (span.start_line, span.end_line))

    def name_contents(self, passage: Passage, path: tuple[str, ...], parts: int) -> tuple[str, ...]:
        """Return the headings of a passage, with the definitions that it holds if several.

        Small neighbours share a chunk: the name of what is around them says too little, and the
        name of one of them would be wrong for the others.
        """
        if passage.place.lane != "code" or parts > 1:
            return path
        names: list[str] = []
        for section in self._read_sections(passage):
            span = section.span
            if span.start >= passage.end:
                break
            if section.path == path and passage.start <= span.start and span.end <= passage.end:
                return path  # All of what the headings name.
            if span.start >= passage.start and section.path[:-1] == path and section.level:
                names.append(section.title)
        if len(names) < _FEWEST_NAMES:
            return path
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        return (*path, ", ".join(names[:_MOST_NAMES]) + more)

    def _read_sections(self, passage: Passage) -> list[Section]:
        key = (passage.source, passage.place.uri)
        if key not in self._sections:
            snapshot = self._asked[passage.source].snapshot
            self._sections[key] = snapshot.sections(passage.place.uri)
        return self._sections[key]

    def find_places(self, passage: Passage) -> tuple[str, ...]:
        """Return where a passage of an extracted text is in its file, as it was indexed."""
        key = (passage.source, passage.place.uri)
        if key not in self._places:
            snapshot = self._asked[passage.source].snapshot
            self._places[key] = stored_places(snapshot, passage.place.uri)
        return list_places(self._places[key], passage.start, passage.end)

    def find_place(self, passage: Passage, text: str, offset: int | None = None) -> str:
        """Return the place of the best part of a passage; empty if it has none.

        Without the offset of that part, it is the sentence with most words of the question.
        """
        labels = self.find_places(passage)
        if len(labels) < 2:
            return labels[0] if labels else ""
        if offset is None:
            terms = self._asked[passage.source].plan.terms
            words = FocusQuery({term: 1 / len(terms) for term in terms})
            offset = next((s.start for s in find_best_sentences(text, words, code=False)), 0)
        start = passage.start + offset
        places = self._places[passage.source, passage.place.uri]
        return next(iter(list_places(places, start, start + 1)), "")

    def cite_duplicate(self, passage: Passage, by: Likeness) -> Alike:
        text, span, state = self.read_verified(passage)
        collection = self._asked[passage.source].collection
        return Alike(collection, passage.place.uri, span, _digest(text), state, by)


def _verify(passage: Passage, source: str | None, snapshot: Snapshot) -> tuple[str, Span, State]:
    place = passage.place
    here = Span(passage.start, passage.end, passage.start_line, passage.end_line)
    if source is not None and _digest(source[place.start : place.end]) == place.sha.hex():
        if (here.start, here.end) == (place.start, place.end):
            return source[here.start : here.end], here, "same"
        stored = snapshot.text(place.uri)
        if stored is not None and stored[here.start : here.end] == source[here.start : here.end]:
            return source[here.start : here.end], here, "same"
    stored = snapshot.text(place.uri)
    text = stored[here.start : here.end] if stored is not None else ""
    if source is None:
        return text, here, "gone"
    moved = find_moved(text, here.start, source, stored)
    if moved < 0:
        return text, here, "changed"
    first = source.count("\n", 0, moved) + 1
    last = first + source.count("\n", moved, moved + len(text) - 1)
    return text, Span(moved, moved + len(text), first, last), "moved"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8")).hexdigest()
