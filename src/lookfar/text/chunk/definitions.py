"""Source code to chunks along what it defines.

Takes: a parsed document of the lane ``code``, and sizes in tokens (four characters are
counted as one, so that nothing needs to be tokenised to be cut). Gives: chunks in order
whose spans, less their overlap, tile the whole file: joined they are the text again.
Refuses: to cut inside a line that fits, and to make chunks of blank files.

A definition is one chunk. One that is too large gives its members chunks of their own, and
what is left (the signature, the documentation, the fields) another; a body too large and
without members is cut where its statements end, by the look of its lines: after blank
lines, at the least indented. Neighbours that are small stand in one chunk up to the size
that chunks are filled to, and take the names they have in common.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

from lookfar.common.lines import Lines
from lookfar.model import Chunk, Document, Section, Symbol
from lookfar.text.chunk.identity import chunk_id
from lookfar.text.chunk.parts import Sizes

VERSION = 3
"""Raise whenever the same text and sizes would give other chunks or other embedded texts."""

MERGE_BELOW = 0.5
"""Of a full chunk: what is smaller joins its neighbour where both fit one chunk."""

_CHARS_PER_TOKEN = 4
_LONGEST_SIGNATURE = 200
_CLOSING = re.compile(r"[ \t]*(?:[)\]}]|(?:end|else|elif|except|catch|finally|fi|done)\b)")
_PATH_WORDS = re.compile(r"[\w.]+")


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of the file on its way to becoming a chunk."""

    start: int
    end: int
    section: int
    """Ordinal of the section that it begins in."""
    path: tuple[str, ...]
    parent: int
    """The section whose members may share a chunk with it."""
    part: int = 1
    parts: int = 1


def chunk(document: Document, sizes: Sizes, merge_below: float = MERGE_BELOW) -> list[Chunk]:
    """Split ``document`` into its chunks; ``merge_below`` is a share of a full chunk."""
    if not document.text.strip():
        return []
    cutter = _Cutter(document, sizes, merge_below)
    return list(_named(document, cutter.pieces(), cutter))


def embedded_text(document: Document, each: Chunk) -> str:
    """What the model sees: where the code stands, what it is part of, then the code itself."""
    return _embedded(document, each.path, each.section, each.part, each.span.start, each.span.end)


def _embedded(
    document: Document, path: tuple[str, ...], section: int, part: int, start: int, end: int
) -> str:
    lines = [" ".join(_PATH_WORDS.findall(document.uri))]
    if path:
        lines.append(" ".join(path))
    symbol = symbol_at(document, section)
    # The first part begins with the signature; the others would not say whose body they are.
    if symbol is not None and part > 1:
        lines.append(symbol.signature[:_LONGEST_SIGNATURE])
    lines.append(document.text[start:end].strip())
    return "\n".join(lines)


def symbol_at(document: Document, section: int) -> Symbol | None:
    """The symbol that a section is, if it is one."""
    symbols = document.symbols
    # Sections and symbols run in step; only the text before the first is no symbol.
    at = section - (len(document.sections) - len(symbols))
    if 0 <= at < len(symbols) and symbols[at].section == section:
        return symbols[at]
    return None


def symbols_in(document: Document, each: Chunk) -> list[Symbol]:
    """What a chunk defines: the symbols that begin in it, or else the one that it is part of."""
    first = max(0, each.section - (len(document.sections) - len(document.symbols)))
    found = []
    for symbol in document.symbols[first:]:
        span = document.sections[symbol.section].span
        if span.start >= each.span.end:
            break
        if span.start >= each.span.start:
            found.append(symbol)
    own = symbol_at(document, each.section)
    return found or ([own] if own else [])


def _named(document: Document, pieces: Sequence[_Piece], cutter: _Cutter) -> Iterator[Chunk]:
    lines = Lines(document.text)
    seen: dict[bytes, int] = {}
    for ordinal, piece in enumerate(pieces):
        overlap = cutter.overlap(pieces[ordinal - 1], piece) if ordinal else 0
        start = piece.start - overlap
        shown = _embedded(document, piece.path, piece.section, piece.part, start, piece.end)
        content = blake2b(shown.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        occurrence = seen.get(content, 0)
        seen[content] = occurrence + 1
        yield Chunk(
            id=chunk_id(document.uri, content, occurrence),
            content=content,
            ordinal=ordinal,
            section=piece.section,
            path=piece.path,
            span=lines.span(start, piece.end),
            overlap=overlap,
            part=piece.part,
            parts=piece.parts,
        )


class _Cutter:
    """Cuts one file into pieces."""

    def __init__(self, document: Document, sizes: Sizes, merge_below: float) -> None:
        self._text = document.text
        self._sections = document.sections
        self._full = max(64, (sizes.code_max_tokens or sizes.max_tokens) * _CHARS_PER_TOKEN)
        """A chunk is filled up to this many characters."""
        hard = sizes.code_max_tokens or sizes.hard_max_tokens
        self._most = max(self._full, hard * _CHARS_PER_TOKEN)
        """A definition this large is still one chunk."""
        small = max(sizes.min_tokens * _CHARS_PER_TOKEN, int(self._full * merge_below))
        self._small = small if sizes.merge_small else 0
        overlap = sizes.code_overlap_tokens
        overlap = sizes.overlap_tokens if overlap < 0 else overlap
        self._overlap = min(overlap * _CHARS_PER_TOKEN, self._full // 2)
        self._members: dict[int, list[Section]] = {}
        for section in document.sections:
            if section.level:
                self._members.setdefault(section.parent, []).append(section)

    def pieces(self) -> list[_Piece]:
        first = self._sections[0].ordinal if self._sections else 0
        found = list(self._within(-1, first, (), 0, len(self._text)))
        return self._merged(self._without_blanks(found))

    def overlap(self, before: _Piece, piece: _Piece) -> int:
        """How many characters of the part before to repeat: whole lines."""
        if not self._overlap or piece.part == 1 or before.section != piece.section:
            return 0
        start = max(before.start, piece.start - self._overlap)
        line = self._text.find("\n", start - 1, piece.start) + 1 if start else 0
        return piece.start - line if line and self._text[line : piece.start].strip() else 0

    def _within(
        self, owner: int, section: int, path: tuple[str, ...], start: int, end: int
    ) -> Iterator[_Piece]:
        """The pieces of what ``owner`` spans: its members, and what lies between them."""
        at = start
        for member in self._members.get(owner, ()):
            span = member.span
            if span.start > at:
                yield from self._split(at, span.start, section, path, owner)
            if span.end - span.start <= self._most:
                yield _Piece(span.start, span.end, member.ordinal, member.path, owner)
            elif member.ordinal in self._members:
                yield from self._within(
                    member.ordinal, member.ordinal, member.path, span.start, span.end
                )
            else:
                yield from self._split(span.start, span.end, member.ordinal, member.path, owner)
            at = span.end
        if at < end:
            yield from self._split(at, end, section, path, owner)

    def _split(
        self, start: int, end: int, section: int, path: tuple[str, ...], parent: int
    ) -> Iterator[_Piece]:
        """Parts of a stretch without members."""
        if end - start <= self._most:
            yield _Piece(start, end, section, path, parent)
            return
        cuts = list(self._cuts(start, end))
        for number, (left, right) in enumerate(pairwise(cuts), 1):
            yield _Piece(left, right, section, path, parent, number, len(cuts) - 1)

    def _cuts(self, start: int, end: int) -> Iterator[int]:
        """Where to cut so that each part is full, and none much smaller than the others."""
        yield start
        while end - start > self._most:
            parts = -(-(end - start) // self._full)
            target = start + (end - start) // parts
            start = self._best_cut(start, target, min(end, start + self._most))
            yield start
        yield end

    def _best_cut(self, start: int, target: int, latest: int) -> int:
        """The best beginning of a line near ``target``: shallow, after a blank line, no closer."""
        text = self._text
        earliest = start + (target - start) // 2
        best, best_cost = 0, 0.0
        at = text.find("\n", earliest, latest) + 1
        while 0 < at < latest:
            stop = text.find("\n", at, latest)
            stop = stop if stop >= 0 else latest
            line = text[at:stop]
            bare = line.lstrip()
            if bare:
                indent = len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())
                cost = indent * 1.0 + 24.0 * abs(at - target) / max(1, target - start)
                if _CLOSING.match(line):
                    cost += 40
                if not text[text.rfind("\n", 0, at - 1) + 1 : at].strip():
                    cost -= 10
                if not best or cost < best_cost:
                    best, best_cost = at, cost
            at = stop + 1 if stop < latest else 0
        # One line longer than a chunk: minified or data.
        return best or self._in_line(start, min(target, latest))

    def _in_line(self, start: int, target: int) -> int:
        """A cut inside a line: after a separator where one is near."""
        text = self._text
        for at in range(target, max(start, target - 200), -1):
            if text[at - 1] in " ,;{}\n":
                return at
        return target

    def _without_blanks(self, pieces: Sequence[_Piece]) -> list[_Piece]:
        """White space belongs to what stands before it, or after it at the very start."""
        kept: list[_Piece] = []
        carried = -1
        for piece in pieces:
            if not self._text[piece.start : piece.end].strip():
                if kept:
                    kept[-1] = _moved(kept[-1], kept[-1].start, piece.end)
                elif carried < 0:
                    carried = piece.start
                continue
            if carried >= 0:
                piece, carried = _moved(piece, carried, piece.end), -1
            kept.append(piece)
        return kept

    def _merged(self, pieces: Sequence[_Piece]) -> list[_Piece]:
        """Small neighbours in one chunk, never across the members of a type and its outside."""
        if not self._small:
            return list(pieces)
        kept: list[_Piece] = []
        for piece in pieces:
            before = kept[-1] if kept else None
            if before is not None and self._joins(before, piece):
                path = _common(before.path, piece.path)
                kept[-1] = _Piece(before.start, piece.end, before.section, path, before.parent)
            else:
                kept.append(piece)
        return kept

    def _joins(self, left: _Piece, right: _Piece) -> bool:
        if left.parent != right.parent or left.parts > 1 or right.parts > 1:
            return False
        sizes = (left.end - left.start, right.end - right.start)
        return sum(sizes) <= self._full and min(sizes) < self._small


def _moved(piece: _Piece, start: int, end: int) -> _Piece:
    return _Piece(start, end, piece.section, piece.path, piece.parent, piece.part, piece.parts)


def _common(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    shared = 0
    while shared < min(len(left), len(right)) and left[shared] == right[shared]:
        shared += 1
    return left[:shared]
