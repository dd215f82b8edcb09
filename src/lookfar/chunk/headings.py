"""Document to chunks along its heading tree.

Takes: a parsed document, sizes in tokens, and a way to count tokens. Gives:
chunks in document order whose spans, less their overlap, tile the text from the
end of the front matter to its end: joined they are the text again. Refuses: to
cut inside a fence, table or other atomic block (an oversized one stays whole),
and to make chunks of blank documents.

A section is one chunk. Sections that are too small join their neighbours under
the same parent and take the heading path they have in common; sections that are
too large are split at paragraphs, then sentences, then words.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lookfar.chunk.identity import chunk_id, content_name
from lookfar.lines import Lines
from lookfar.model import Chunk, Document, Section, Span

CountTokens = Callable[[str], int]

_PARAGRAPH_END = re.compile(r"\n[ \t]*\n\s*(?=\S|\Z)|\n(?=[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t])")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[。！？｡])[」』）]*\s*|\n+")
_WORD_END = re.compile(r"\s+|(?<=[\u3000-\u9fff\uac00-\ud7af])(?=[\u3000-\u9fff\uac00-\ud7af])")
_BOUNDARIES = (_PARAGRAPH_END, _SENTENCE_END, _WORD_END)
_ATOMIC = frozenset({"fence", "indented", "table", "html"})


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large chunks should be, in tokens of the active model."""

    max_tokens: int
    hard_max_tokens: int
    min_tokens: int
    overlap_tokens: int = 0
    merge_small: bool = True


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of text on its way to becoming a chunk."""

    start: int
    end: int
    tokens: int


@dataclass(frozen=True, slots=True)
class _Group:
    """Neighbouring sections that share a chunk, and the path that names them all."""

    first: int
    path: tuple[str, ...]
    start: int
    end: int
    tokens: int
    sections: int


def chunk(document: Document, sizes: Sizes, count: CountTokens) -> list[Chunk]:
    """Split ``document`` into its chunks."""
    if not document.text[document.body :].strip():
        return []
    groups = _own_texts(document, count)
    if sizes.merge_small:
        groups = _merge_small(document, groups, sizes)
    spans: list[tuple[_Group, Span, int, int, int]] = []
    lines = Lines(document.text)
    for group in groups:
        pieces = (
            [_Piece(group.start, group.end, group.tokens)]
            if group.tokens <= sizes.max_tokens
            else _split(document, group, sizes, count)
        )
        for number, piece in enumerate(pieces, 1):
            overlap = _overlap(document.text, pieces, number - 1, sizes)
            span = lines.span(piece.start - overlap, piece.end)
            spans.append((group, span, overlap, number, len(pieces)))
    return list(_named(document, spans))


def _named(
    document: Document, spans: Sequence[tuple[_Group, Span, int, int, int]]
) -> Iterator[Chunk]:
    seen: dict[bytes, int] = {}
    for ordinal, (group, span, overlap, part, parts) in enumerate(spans):
        text = document.text[span.start : span.end]
        content = content_name(document.title, group.path, text)
        occurrence = seen.get(content, 0)
        seen[content] = occurrence + 1
        yield Chunk(
            id=chunk_id(document.uri, content, occurrence),
            content=content,
            ordinal=ordinal,
            section=group.first,
            path=group.path,
            span=span,
            overlap=overlap,
            part=part,
            parts=parts,
        )


def _own_texts(document: Document, count: CountTokens) -> list[_Group]:
    """Each section's own text: from its heading to the next heading of any level."""
    text, sections = document.text, document.sections
    starts = [section.span.start for section in sections]
    starts[0] = document.body
    ends = [*starts[1:], len(text)]
    return [
        _Group(section.ordinal, section.path, start, end, count(text[start:end]), 1)
        for section, start, end in zip(sections, starts, ends, strict=True)
    ]


def _merge_small(document: Document, groups: list[_Group], sizes: Sizes) -> list[_Group]:
    merged = [groups[0]]
    for group in groups[1:]:
        previous = merged[-1]
        small = group.tokens < sizes.min_tokens or previous.tokens < sizes.min_tokens
        related = _related(document.sections[previous.first], document.sections[group.first])
        if small and related and previous.tokens + group.tokens <= sizes.max_tokens:
            merged[-1] = _join(document, previous, group)
        else:
            merged.append(group)
    return merged


def _related(earlier: Section, later: Section) -> bool:
    """Whether ``later`` stands under ``earlier`` or beside it under one parent."""
    if earlier.level == 0:
        return True
    own, other = earlier.path, later.path
    return other[: len(own)] == own or (len(own) > 1 and other[: len(own) - 1] == own[:-1])


def _join(document: Document, left: _Group, right: _Group) -> _Group:
    """One group with the headings both have in common; a bare heading lends its place."""
    head = document.sections[left.first]
    bare = left.sections == 1 and not document.text[head.body : left.end].strip()
    path = right.path if bare else _common(left.path, right.path)
    return _Group(
        left.first, path, left.start, right.end, left.tokens + right.tokens, left.sections + 1
    )


def _common(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    shared = 0
    while shared < min(len(left), len(right)) and left[shared] == right[shared]:
        shared += 1
    return left[:shared]


def _split(document: Document, group: _Group, sizes: Sizes, count: CountTokens) -> list[_Piece]:
    """Parts of at most ``max_tokens``, filled with whole paragraphs where that is possible."""
    splitter = _Splitter(document, sizes, count)
    pieces: list[_Piece] = []
    for piece in splitter.pieces(group.start, group.end):
        last = pieces[-1] if pieces else None
        if last and last.tokens + piece.tokens <= sizes.max_tokens:
            pieces[-1] = _Piece(last.start, piece.end, last.tokens + piece.tokens)
        else:
            pieces.append(piece)
    return _without_runts(pieces, sizes)


def _without_runts(pieces: list[_Piece], sizes: Sizes) -> list[_Piece]:
    """A part too small to stand alone joins the one before it; a lone heading, what it heads."""
    kept = pieces[:1]
    for piece in pieces[1:]:
        last = kept[-1]
        joined = last.tokens + piece.tokens
        runt = min(last.tokens, piece.tokens) < sizes.min_tokens
        heading = len(kept) == 1 and last.tokens < sizes.min_tokens
        if heading or piece.tokens == 0 or (runt and joined <= sizes.hard_max_tokens):
            kept[-1] = _Piece(last.start, piece.end, joined)
        else:
            kept.append(piece)
    return kept


class _Splitter:
    """Cuts one document at ever finer boundaries, and never inside an atomic block."""

    def __init__(self, document: Document, sizes: Sizes, count: CountTokens) -> None:
        self._text = document.text
        self._sizes = sizes
        self._count = count
        self._starts: list[int] = []
        self._ends: list[int] = []
        for block in sorted(document.blocks, key=lambda block: (block.start, -block.end)):
            # A block inside another is already protected by it.
            if block.kind in _ATOMIC and (not self._ends or block.start >= self._ends[-1]):
                self._starts.append(block.start)
                self._ends.append(block.end)

    def pieces(self, start: int, end: int, level: int = 0) -> Iterator[_Piece]:
        """Stretches that fit, in order; what no boundary can shorten stays long."""
        for left, right in self._cut(start, end, _BOUNDARIES[level]):
            tokens = self._count(self._text[left:right])
            if tokens <= self._sizes.max_tokens or self._is_atomic(left, right):
                yield _Piece(left, right, tokens)
            elif level + 1 < len(_BOUNDARIES):
                yield from self.pieces(left, right, level + 1)
            else:
                yield from self._by_length(left, right, tokens)

    def _by_length(self, start: int, end: int, tokens: int) -> Iterator[_Piece]:
        """One unbroken run of characters, in equal lengths."""
        step = max(1, (end - start) * self._sizes.max_tokens // tokens)
        for at in range(start, end, step):
            stop = min(at + step, end)
            yield _Piece(at, stop, -(-tokens * (stop - at) // (end - start)))

    def _cut(self, start: int, end: int, boundary: re.Pattern[str]) -> list[tuple[int, int]]:
        edges = {match.end() for match in boundary.finditer(self._text, start, end)}
        edges = {edge for edge in edges if not self._inside(edge)}
        first = bisect_right(self._ends, start)
        for left, right in zip(self._starts[first:], self._ends[first:], strict=True):
            if left >= end:
                break
            edges.update((left, right))
        ordered = [start, *sorted(edge for edge in edges if start < edge < end), end]
        return [(left, right) for left, right in pairwise(ordered) if right > left]

    def _inside(self, offset: int) -> bool:
        at = bisect_right(self._starts, offset - 1) - 1
        return at >= 0 and self._starts[at] < offset < self._ends[at]

    def _is_atomic(self, start: int, end: int) -> bool:
        at = bisect_right(self._starts, start) - 1
        return at >= 0 and self._ends[at] >= end


def _overlap(text: str, pieces: Sequence[_Piece], index: int, sizes: Sizes) -> int:
    """How many characters of the previous part to repeat: whole paragraphs, else whole words."""
    if not sizes.overlap_tokens or index == 0:
        return 0
    previous, piece = pieces[index - 1], pieces[index]
    length = previous.end - previous.start
    wanted = min(length, length * sizes.overlap_tokens // max(1, previous.tokens))
    target = piece.start - wanted
    reach = max(1, wanted // 2)
    window = text.rfind("\n\n", max(previous.start, target - reach), min(piece.start, target + reach))
    if window >= 0 and window + 2 < piece.start:
        return piece.start - (window + 2)
    space = max(text.rfind(" ", previous.start, target), text.rfind("\n", previous.start, target))
    return piece.start - (space + 1 if space >= 0 else target)

