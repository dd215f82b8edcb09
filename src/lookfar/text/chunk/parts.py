"""A long section to parts that fit, cut where a reader would.

Takes: a document, sizes in tokens, and a stretch of its text. Gives: parts in
order that tile the stretch, and how much of the part before each should repeat.
Refuses: to cut inside a fence, table or other atomic block, to make a blank
part, and to cut a character from the marks that belong to it.

Paragraphs fill a part until it is full. One that fits no part is cut at its
sentences, and a sentence that fits none at its words, by length: text without a
boundary in reach is cut anyway.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from lookfar.model import Document

CountTokens = Callable[[str], int]

_PARAGRAPH_END = re.compile(r"\n(?:[ \t]*\n)+|\n(?=[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t])")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[。！？｡])[」』）]*\s*|\n+")
_BOUNDARIES = (_PARAGRAPH_END, _SENTENCE_END)
_WORD_START = re.compile(r"(?<=\s)(?=\S)")
# Between two of these a cut divides no word: there is no white space to wait for.
_UNSPACED = re.compile(
    "[\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7af\uf900-\ufaff\U00020000-\U000323af]"
)
_ATOMIC = frozenset({"fence", "indented", "table", "html"})
_JOINER = "\u200d"
_HALF_WIDTH_VOICE = "\uff9e\uff9f"
"""Marks of half-width kana, which Unicode takes for letters."""
_LONGEST_CHARACTER = 32
_SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large chunks should be, in tokens of the active model."""

    max_tokens: int
    """A part is filled up to this, what it repeats included."""
    hard_max_tokens: int
    """Reached only to spare a neighbour from being small; only an atomic block goes beyond."""
    min_tokens: int
    overlap_tokens: int = 0
    """A part repeats at most this much of the one before it, by the average of that one."""
    merge_small: bool = True
    code_max_tokens: int = 0
    """Of chunks of code; 0 where they are as large as others."""
    code_overlap_tokens: int = -1
    """The same for what parts of code repeat; -1 where that is as much as in others."""


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of text on its way to becoming a chunk."""

    start: int
    end: int
    tokens: int


class Splitter:
    """Cuts one document at ever finer boundaries, and never inside an atomic block."""

    def __init__(self, document: Document, sizes: Sizes, count: CountTokens) -> None:
        self._document = document
        self._text = document.text
        self._count = count
        self._overlap = sizes.overlap_tokens
        self._max = max(1, sizes.max_tokens - sizes.overlap_tokens)
        self._min = min(self._max, sizes.min_tokens)
        self._hard = max(self._max, sizes.hard_max_tokens - sizes.overlap_tokens)

    def parts(self, start: int, end: int, body: int) -> list[Part]:
        """``[start, end)`` in parts; ``body`` is where its heading ends."""
        parts: list[Part] = []
        self._fill(parts, start, end, body)
        return self._without_runts(parts)

    def overlap(self, previous: Part, part: Part) -> int:
        """How many characters of ``previous`` to repeat: whole paragraphs, else whole words."""
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
            start = word.start() if word else self._whole_character(previous.start, target)
        start = self._block_end(start)
        return part.start - start if self._text[start : part.start].strip() else 0

    def _fill(self, parts: list[Part], start: int, end: int, body: int, level: int = 0) -> None:
        """Fill the last part, then new ones, with what lies between the boundaries."""
        for left, right, atomic in self._cut(start, end, _BOUNDARIES[level]):
            tokens = self._count(self._text[left:right])
            if self._joins(parts, tokens) or (atomic and self._is_heading(parts, body)):
                _extend(parts, right, tokens)
            elif atomic or (tokens <= self._max and not self._is_runt(parts)):
                parts.append(Part(left, right, tokens))
            elif level + 1 < len(_BOUNDARIES):
                self._fill(parts, left, right, body, level + 1)
            else:
                self._fill_by_length(parts, left, right, tokens)

    def _fill_by_length(self, parts: list[Part], start: int, end: int, tokens: int) -> None:
        """Take as much as should fit by the average, less if it does not, up to a word's end."""
        length = end - start
        while start < end:
            room = self._max - parts[-1].tokens if self._is_runt(parts) else self._max
            stop = self._word_end(start, start + max(1, room * length // tokens), end)
            taken = self._count(self._text[start:stop])
            while taken > room and stop - start > 1:
                fitting = min((stop - start) * room // taken, stop - start - 1)
                stop = self._word_end(start, start + max(1, fitting), end)
                taken = self._count(self._text[start:stop])
            # White space joins what stands before it, or after it at the very start.
            blank = self._is_blank(start, stop)
            if len(parts) == 1:
                blank = blank or self._is_blank(parts[0].start, start)
            if parts and (blank or self._joins(parts, taken)):
                _extend(parts, stop, taken)
            else:
                parts.append(Part(start, stop, taken))
            start = stop

    def _joins(self, parts: list[Part], tokens: int) -> bool:
        """Whether ``tokens`` more go into the last part."""
        if not parts:
            return False
        limit = self._hard if self._is_runt(parts) else self._max
        return parts[-1].tokens + tokens <= limit

    def _is_runt(self, parts: list[Part]) -> bool:
        return bool(parts) and parts[-1].tokens < self._min

    def _is_heading(self, parts: list[Part], body: int) -> bool:
        return len(parts) == 1 and not self._text[body : parts[0].end].strip()

    def _without_runts(self, parts: list[Part]) -> list[Part]:
        """A part too small to stand alone joins the one before it where that has room."""
        kept = parts[:1]
        for part in parts[1:]:
            runt = min(kept[-1].tokens, part.tokens) < self._min
            if runt and kept[-1].tokens + part.tokens <= self._hard:
                _extend(kept, part.end, part.tokens)
            else:
                kept.append(part)
        return kept

    def _cut(
        self, start: int, end: int, boundary: re.Pattern[str]
    ) -> Iterator[tuple[int, int, bool]]:
        """What lies between the boundaries, and whether it is an atomic block.

        White space belongs to what stands before it, or after it at the start.
        """
        starts, ends = self._blocks
        blocks = range(bisect_right(ends, start), bisect_left(starts, end))
        atomic = {max(start, starts[block]) for block in blocks}
        edges = {match.end() for match in boundary.finditer(self._text, start, end)}
        edges = {edge for edge in edges if self._block_end(edge) == edge}
        edges.update(atomic, (ends[block] for block in blocks))
        ordered = [start, *sorted(edge for edge in edges if start < edge < end), end]
        waiting: tuple[int, int, bool] | None = None
        for left, right in pairwise(ordered):
            if waiting is None:
                waiting = (left, right, left in atomic)
            elif self._is_blank(left, right):
                waiting = (waiting[0], right, waiting[2])
            elif self._is_blank(*waiting[:2]):
                waiting = (waiting[0], right, left in atomic)
            else:
                yield waiting
                waiting = (left, right, left in atomic)
        if waiting is not None:
            yield waiting

    @cached_property
    def _blocks(self) -> tuple[list[int], list[int]]:
        """Where atomic blocks start and end; those that touch the same text are one."""
        starts: list[int] = []
        ends: list[int] = []
        for block in sorted(self._document.blocks, key=lambda block: block.start):
            if block.kind not in _ATOMIC:
                continue
            if ends and block.start < ends[-1]:
                ends[-1] = max(ends[-1], block.end)
            else:
                starts.append(block.start)
                ends.append(block.end)
        return starts, ends

    def _block_end(self, offset: int) -> int:
        """``offset``, or the end of the atomic block that it lies inside."""
        starts, ends = self._blocks
        block = bisect_left(starts, offset) - 1
        return ends[block] if block >= 0 and offset < ends[block] else offset

    def _is_blank(self, start: int, end: int) -> bool:
        return self._text[start:end].isspace()

    def _word_end(self, start: int, target: int, end: int) -> int:
        """The last end of a word at or before ``target``, sought over half the way back."""
        if target >= end:
            return end
        text = self._text
        for at in range(target, start + (target - start) // 2, -1):
            before, after = text[at - 1], text[at]
            if before.isspace() and not after.isspace():
                return at
            if _UNSPACED.match(before) and _UNSPACED.match(after) and not belongs(before, after):
                return at
        return self._whole_character(start, target)

    def _whole_character(self, start: int, target: int) -> int:
        """``target``, or a little before it: not between a character and its marks."""
        for at in range(target, max(start, target - _LONGEST_CHARACTER), -1):
            if not belongs(self._text[at - 1], self._text[at]):
                return at
        return target


def _extend(parts: list[Part], end: int, tokens: int) -> None:
    parts[-1] = Part(parts[-1].start, end, parts[-1].tokens + tokens)


def belongs(before: str, after: str) -> bool:
    """Whether two neighbours are one character to a reader: accents, emoji, flags, ``ｶﾞ``."""
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
