"""Split source code into chunks along its definitions.

A definition is one chunk. If it is too large, its members get chunks of their own, and the rest
(signature, documentation, fields) another. A large body without members is cut between
statements, judged by its lines: after blank lines and with little indentation. Small neighbours
share a chunk and take their common names. Without overlaps, the chunks tile the file. A line that
fits is never cut, and a blank file has no chunks. Without ``by_definitions``, a file is cut as if
it had none.

Sizes are in tokens, and four characters count as one, so that nothing needs to be tokenised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

from lookfar.common.lines import Lines
from lookfar.model import Chunk, Document, Section, Symbol
from lookfar.text.chunk.identity import chunk_id, chunk_text, common_path
from lookfar.text.chunk.parts import Sizes

VERSION = 5
"""Increase it whenever the same text and sizes give other chunks or embedded texts."""

MERGE_BELOW = 0.5
"""Chunks below this share of a full one join a neighbour if both fit."""

_CHARS_PER_TOKEN = 4
_LONGEST_SIGNATURE = 200
_CLOSING = re.compile(r"[ \t]*(?:[)\]}]|(?:end|else|elif|except|catch|finally|fi|done)\b)")
_SHORT_MEMBER = 3
"""Lines after the first one of a short constant or property."""
_LONGEST_CLOSING = 16
"""Characters of brackets that close a definition, which are not a chunk of their own."""
_WORDS = re.compile(r"\w")
_PATH_WORDS = re.compile(r"[\w.]+")


@dataclass(frozen=True, slots=True)
class _Piece:
    """A range of the file that will become a chunk."""

    start: int
    end: int
    section: int
    """Ordinal of the section in which it starts."""
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
    return list(_make_chunks(document, cutter.pieces(), cutter))


def embedded_text(document: Document, chunk: Chunk) -> str:
    """Return the text to embed: path, enclosing definitions, then the code itself."""
    return f"{context_of(document, chunk)}\n{chunk_text(document, chunk)}"


def context_of(document: Document, chunk: Chunk) -> str:
    """Return what is embedded before the code of a chunk: its path and enclosing definitions."""
    return _make_context(document, chunk.path, chunk.section, chunk.part)


def _make_context(document: Document, path: tuple[str, ...], section: int, part: int) -> str:
    lines = [" ".join(_PATH_WORDS.findall(document.uri))]
    if path:
        lines.append(" ".join(path))
    symbol = symbol_at(document, section)
    # The first part starts with the signature; the others need it for context.
    if symbol is not None and part > 1:
        lines.append(symbol.signature[:_LONGEST_SIGNATURE])
    return "\n".join(lines)


def symbol_at(document: Document, section: int) -> Symbol | None:
    """Return the symbol that a section is, or None."""
    symbols = document.symbols
    # Each section is a symbol, except the text before the first one.
    at = section - (len(document.sections) - len(symbols))
    if 0 <= at < len(symbols) and symbols[at].section == section:
        return symbols[at]
    return None


def symbols_in(document: Document, chunk: Chunk) -> list[Symbol]:
    """Return the symbols that start in a chunk, or else the one that contains it."""
    first = max(0, chunk.section - (len(document.sections) - len(document.symbols)))
    symbols = []
    for symbol in document.symbols[first:]:
        span = document.sections[symbol.section].span
        if span.start >= chunk.span.end:
            break
        if span.start >= chunk.span.start:
            symbols.append(symbol)
    own = symbol_at(document, chunk.section)
    return symbols or ([own] if own else [])


def _make_chunks(document: Document, pieces: Sequence[_Piece], cutter: _Cutter) -> Iterator[Chunk]:
    lines = Lines(document.text)
    seen: dict[bytes, int] = {}
    for ordinal, piece in enumerate(pieces):
        overlap = cutter.overlap(pieces[ordinal - 1], piece) if ordinal else 0
        start = piece.start - overlap
        context = _make_context(document, piece.path, piece.section, piece.part)
        embedded = f"{context}\n{document.text[start : piece.end].strip()}"
        content = blake2b(embedded.encode("utf-8", "surrogatepass"), digest_size=16).digest()
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
        # A part holds its own text and what it repeats.
        self._full_part = max(64, self._full - self._overlap)
        self._most_part = max(self._full_part, self._most - self._overlap)
        self._members: dict[int, list[Section]] = {}
        # A short constant or property of a type is part of it, and not a place to cut.
        members = {
            symbol.section
            for symbol in document.symbols
            if symbol.kind in ("constant", "other") and symbol.parent_kind not in ("", "module")
        }
        for section in document.sections if sizes.by_definitions else ():
            height = section.span.end_line - section.span.start_line
            if section.level and (section.ordinal not in members or height > _SHORT_MEMBER):
                self._members.setdefault(section.parent, []).append(section)

    def pieces(self) -> list[_Piece]:
        first = self._sections[0].ordinal if self._sections else 0
        pieces = list(self._within(-1, first, (), 0, len(self._text)))
        return self._merge_small(self._join_blanks(pieces))

    def overlap(self, before: _Piece, piece: _Piece) -> int:
        """Return how many characters of the part before to repeat: whole lines."""
        if not self._overlap or piece.part == 1 or before.section != piece.section:
            return 0
        start = max(before.start, piece.start - self._overlap)
        line = self._text.find("\n", start - 1, piece.start) + 1 if start else 0
        return piece.start - line if line and self._text[line : piece.start].strip() else 0

    def _within(
        self, owner: int, section: int, path: tuple[str, ...], start: int, end: int
    ) -> Iterator[_Piece]:
        """Yield the pieces of ``owner``: its members, and the text between them."""
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
        """Split a range without members into parts."""
        if end - start <= self._most:
            yield _Piece(start, end, section, path, parent)
            return
        cuts = list(self._cuts(start, end))
        for number, (left, right) in enumerate(pairwise(cuts), 1):
            yield _Piece(left, right, section, path, parent, number, len(cuts) - 1)

    def _cuts(self, start: int, end: int) -> Iterator[int]:
        """Yield cuts that give full parts of similar size."""
        yield start
        while end - start > self._most_part:
            parts = -(-(end - start) // self._full_part)
            target = start + (end - start) // parts
            start = self._best_cut(start, target, min(end, start + self._most_part))
            yield start
        yield end

    def _best_cut(self, start: int, target: int, latest: int) -> int:
        """Return the best line start near ``target``: little indented, after a blank line."""
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
        # A single line that is longer than a chunk is minified code or data.
        return best or self._in_line(start, min(target, latest))

    def _in_line(self, start: int, target: int) -> int:
        """Return a cut inside a line, after a separator if one is near."""
        text = self._text
        for at in range(target, max(start, target - 200), -1):
            if text[at - 1] in " ,;{}\n":
                return at
        return target

    def _join_blanks(self, pieces: Sequence[_Piece]) -> list[_Piece]:
        """Join white space and closing brackets with the piece before them.

        White space at the start joins the piece after it.
        """
        joined: list[_Piece] = []
        carried = -1
        for piece in pieces:
            text = self._text[piece.start : piece.end].strip()
            if not text or (joined and len(text) <= _LONGEST_CLOSING and not _WORDS.search(text)):
                if joined:
                    joined[-1] = _with_span(joined[-1], joined[-1].start, piece.end)
                elif carried < 0:
                    carried = piece.start
                continue
            if carried >= 0:
                piece, carried = _with_span(piece, carried, piece.end), -1
            joined.append(piece)
        return joined

    def _merge_small(self, pieces: Sequence[_Piece]) -> list[_Piece]:
        """Merge small neighbours that have the same parent."""
        if not self._small:
            return list(pieces)
        merged: list[_Piece] = []
        for piece in pieces:
            before = merged[-1] if merged else None
            if before is not None and self._joins(before, piece):
                path = common_path(before.path, piece.path)
                merged[-1] = _Piece(before.start, piece.end, before.section, path, before.parent)
            else:
                merged.append(piece)
        return merged

    def _joins(self, left: _Piece, right: _Piece) -> bool:
        if left.parent != right.parent or left.parts > 1 or right.parts > 1:
            return False
        sizes = (left.end - left.start, right.end - right.start)
        return sum(sizes) <= self._full and min(sizes) < self._small


def _with_span(piece: _Piece, start: int, end: int) -> _Piece:
    return _Piece(start, end, piece.section, piece.path, piece.parent, piece.part, piece.parts)
