"""Split a long section into parts that fit, at natural boundaries.

Paragraphs fill a part until it is full. A paragraph that is too long is cut at sentences, and a
sentence that is too long at words or by length. The parts tile the section. No part is blank, and
no cut is inside a fence, table or other atomic block or between a character and its marks. With
``split_blocks``, only a block that fits into a part is atomic.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from lookfar.common.lines import merge_ranges
from lookfar.model import Block, Document

CountTokens = Callable[[str], int]

_PARAGRAPH_END = re.compile(r"\n(?:[ \t]*\n)+|\n(?=[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t])")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[。！？｡])[」』）]*\s*|\n+")
_BOUNDARIES = (_PARAGRAPH_END, _SENTENCE_END)
_WORD_START = re.compile(r"(?<=\s)(?=\S)")
# A cut between two of these divides no word: such scripts have no spaces.
_UNSPACED = re.compile(
    "[\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7af\uf900-\ufaff\U00020000-\U000323af]"
)
_ATOMIC = frozenset({"fence", "indented", "table", "html"})
_JOINER = "\u200d"
_HALF_WIDTH_VOICE = "\uff9e\uff9f"
"""Marks of half-width kana, which Unicode classifies as letters."""
_LONGEST_CHARACTER = 32
_SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large chunks should be, in tokens of the active model."""

    max_tokens: int
    """A chunk is filled up to this, including what it repeats."""
    hard_max_tokens: int
    """Used only to absorb a small neighbour; only an atomic block may exceed it."""
    min_tokens: int
    overlap_tokens: int = 0
    """A part repeats about this much of the one before it."""
    merge_small: bool = True
    with_headings: bool = True
    """Whether a section's first chunk begins with its heading."""
    code_max_tokens: int = 0
    """Maximum for chunks of code; 0 for the general maximum."""
    code_overlap_tokens: int = -1
    """Overlap of parts of code; -1 for the general overlap."""
    part_tokens: int = 0
    """A part of a section of several chunks is filled up to this; 0 for ``max_tokens``."""
    split_blocks: bool = False
    """Split a code block or table that is larger than a chunk."""
    by_definitions: bool = True
    """Split code along its definitions, instead of by length alone."""
    merge_upwards: bool = False
    """Merge a small section only into the chunk of its parent heading."""
    by_length: bool = False
    """Count four characters as one token, instead of asking the model."""


@dataclass(frozen=True, slots=True)
class Part:
    """A range of text that will become a chunk."""

    start: int
    end: int
    tokens: int


class Splitter:
    """Splits one document at ever finer boundaries, and never inside an atomic block."""

    def __init__(self, document: Document, sizes: Sizes, count: CountTokens, part: int) -> None:
        """Split into parts of ``part`` tokens; the other sizes change in proportion."""
        self._document = document
        self._text = document.text
        self._count = count
        self._overlap = sizes.overlap_tokens
        self._split_blocks = sizes.split_blocks
        self._max = max(1, part - sizes.overlap_tokens)
        self._min = min(self._max, sizes.min_tokens * part // sizes.max_tokens)
        hard = sizes.hard_max_tokens * part // sizes.max_tokens
        self._hard = max(self._max, hard - sizes.overlap_tokens)

    def parts(self, start: int, end: int, body: int) -> list[Part]:
        """Split ``[start, end)`` into parts; ``body`` is where its heading ends."""
        parts: list[Part] = []
        self._fill(parts, start, end, body)
        return self._merge_small(parts)

    def overlap(self, previous: Part, part: Part) -> int:
        """Return how many characters of ``previous`` to repeat: whole paragraphs, else words."""
        length = previous.end - previous.start
        wanted = min(length, length * self._overlap // max(1, previous.tokens))
        if wanted <= 0:
            return 0
        target = part.start - wanted
        latest = part.start - wanted // 2
        paragraphs = _PARAGRAPH_END.finditer(self._text, max(previous.start, target - 2), latest)
        start = next((match.end() for match in paragraphs if match.end() >= target), -1)
        if start < 0:
            word = _WORD_START.search(self._text, target, latest)
            start = word.start() if word else self._character_boundary(previous.start, target)
        start = self._block_end(start)
        return part.start - start if self._text[start : part.start].strip() else 0

    def _fill(self, parts: list[Part], start: int, end: int, body: int, level: int = 0) -> None:
        """Fill the last part, then new ones, with the text between boundaries."""
        for left, right, atomic in self._cut(start, end, _BOUNDARIES[level]):
            tokens = self._count(self._text[left:right])
            if self._joins(parts, tokens) or (atomic and self._is_heading(parts, body)):
                _extend(parts, right, tokens)
            elif atomic or (tokens <= self._max and not self._is_small(parts)):
                parts.append(Part(left, right, tokens))
            elif level + 1 < len(_BOUNDARIES):
                self._fill(parts, left, right, body, level + 1)
            else:
                self._fill_by_length(parts, left, right, tokens)

    def _fill_by_length(self, parts: list[Part], start: int, end: int, tokens: int) -> None:
        """Cut at word ends: estimate the length by the average, and shorten it until it fits."""
        length = end - start
        while start < end:
            room = self._max - parts[-1].tokens if self._is_small(parts) else self._max
            stop = self._word_end(start, start + max(1, room * length // tokens), end)
            size = self._count(self._text[start:stop])
            while size > room and stop - start > 1:
                fitting = min((stop - start) * room // size, stop - start - 1)
                stop = self._word_end(start, start + max(1, fitting), end)
                size = self._count(self._text[start:stop])
            # White space joins the text before it, or at the start the text after it.
            blank = self._is_blank(start, stop)
            if len(parts) == 1:
                blank = blank or self._is_blank(parts[0].start, start)
            if parts and (blank or self._joins(parts, size)):
                _extend(parts, stop, size)
            else:
                parts.append(Part(start, stop, size))
            start = stop

    def _joins(self, parts: list[Part], tokens: int) -> bool:
        """Whether ``tokens`` more fit into the last part."""
        if not parts:
            return False
        limit = self._hard if self._is_small(parts) else self._max
        return parts[-1].tokens + tokens <= limit

    def _is_small(self, parts: list[Part]) -> bool:
        return bool(parts) and parts[-1].tokens < self._min

    def _is_heading(self, parts: list[Part], body: int) -> bool:
        return len(parts) == 1 and not self._text[body : parts[0].end].strip()

    def _merge_small(self, parts: list[Part]) -> list[Part]:
        """Merge small parts with the part before them if both fit."""
        merged = parts[:1]
        for part in parts[1:]:
            small = min(merged[-1].tokens, part.tokens) < self._min
            if small and merged[-1].tokens + part.tokens <= self._hard:
                _extend(merged, part.end, part.tokens)
            else:
                merged.append(part)
        return merged

    def _cut(
        self, start: int, end: int, boundary: re.Pattern[str]
    ) -> Iterator[tuple[int, int, bool]]:
        """Yield the ranges between boundaries, and whether each is an atomic block.

        White space belongs to the text before it, or at the start to the text after it.
        """
        starts, ends = self._blocks
        blocks = range(bisect_right(ends, start), bisect_left(starts, end))
        atomic = {max(start, starts[block]) for block in blocks}
        edges = {match.end() for match in boundary.finditer(self._text, start, end)}
        edges = {edge for edge in edges if self._block_end(edge) == edge}
        edges.update(atomic, (ends[block] for block in blocks))
        ordered = [start, *sorted(edge for edge in edges if start < edge < end), end]
        pending: tuple[int, int, bool] | None = None
        for left, right in pairwise(ordered):
            if pending is None:
                pending = (left, right, left in atomic)
            elif self._is_blank(left, right):
                pending = (pending[0], right, pending[2])
            elif self._is_blank(*pending[:2]):
                pending = (pending[0], right, left in atomic)
            else:
                yield pending
                pending = (left, right, left in atomic)
        if pending is not None:
            yield pending

    @cached_property
    def _blocks(self) -> tuple[list[int], list[int]]:
        """The starts and ends of atomic blocks."""
        return merge_ranges(
            (block.start, block.end)
            for block in self._document.blocks
            if block.kind in _ATOMIC and not (self._split_blocks and self._is_large(block))
        )

    def _is_large(self, block: Block) -> bool:
        return self._count(self._text[block.start : block.end]) > self._max

    def _block_end(self, offset: int) -> int:
        """Return ``offset``, or the end of the atomic block that contains it."""
        starts, ends = self._blocks
        block = bisect_left(starts, offset) - 1
        return ends[block] if block >= 0 and offset < ends[block] else offset

    def _is_blank(self, start: int, end: int) -> bool:
        return self._text[start:end].isspace()

    def _word_end(self, start: int, target: int, end: int) -> int:
        """Return the last word end before ``target``, searching at most half of the way back."""
        if target >= end:
            return end
        text = self._text
        for at in range(target, start + (target - start) // 2, -1):
            before, after = text[at - 1], text[at]
            if before.isspace() and not after.isspace():
                return at
            if (
                _UNSPACED.match(before)
                and _UNSPACED.match(after)
                and not is_one_character(before, after)
            ):
                return at
        return self._character_boundary(start, target)

    def _character_boundary(self, start: int, target: int) -> int:
        """Return ``target``, or a bit less to keep a character and its marks together."""
        for at in range(target, max(start, target - _LONGEST_CHARACTER), -1):
            if not is_one_character(self._text[at - 1], self._text[at]):
                return at
        return target


def _extend(parts: list[Part], end: int, tokens: int) -> None:
    parts[-1] = Part(parts[-1].start, end, parts[-1].tokens + tokens)


def is_one_character(before: str, after: str) -> bool:
    """Whether two code points are one character to a reader: accents, emoji, flags, ``ｶﾞ``."""
    if after.isascii():
        return False
    return (
        unicodedata.category(after)[0] == "M"
        or after in _HALF_WIDTH_VOICE
        or _JOINER in (before, after)
        or after in _SKIN_TONES
        or (_is_regional(before) and _is_regional(after))
    )


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
