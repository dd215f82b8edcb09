"""Sets of characters in a regular expression, and their conversion to RE2 syntax."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Final

LAST_CODE_POINT: Final = 0x10FFFF
NEWLINE: Final = 0x0A
_FEW: Final = 8

Ranges = tuple[tuple[int, int], ...]
POSIX_CLASSES: Final[dict[str, Ranges]] = {
    "alnum": ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": ((0x41, 0x5A), (0x61, 0x7A)),
    "ascii": ((0, 0x7F),),
    "blank": ((0x09, 0x09), (0x20, 0x20)),
    "cntrl": ((0, 0x1F), (0x7F, 0x7F)),
    "digit": ((0x30, 0x39),),
    "graph": ((0x21, 0x7E),),
    "lower": ((0x61, 0x7A),),
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((0x09, 0x0D), (0x20, 0x20)),
    "upper": ((0x41, 0x5A),),
    "word": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    "xdigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}


@dataclass(slots=True)
class ClassMembers:
    """The members of a class: character ranges, and sets that RE2 has a name for."""

    fold: bool
    ranges: list[tuple[int, int]] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    """Beginning with ``^`` if negated."""

    def to_re2(self, negated: bool) -> str:
        """Return the class in RE2 syntax without the line break; empty if nothing else is in it."""
        if any(source.startswith("^") for source in self.sources):
            if len(self.sources) == 1 and not self.ranges:
                inside = self.sources[0][1:]
                return f"[{inside}]" if negated else f"[^{inside}\\n]"
            # RE2 does not allow a negated set in a set.
            self.ranges, self.sources = self.expand(), []
        ranges = _merge(self.ranges)
        inside = "".join(self.sources)
        if negated:
            return f"[^{inside}{''.join(map(_range_to_re2, ranges))}\\n]"
        ranges = _drop_newline(ranges)
        inside += "".join(map(_range_to_re2, ranges))
        if not inside and not self.ranges:
            return r"[^\x00-\x{10ffff}]"  # An empty intersection.
        return f"[{inside}]" if inside else ""

    def list_few(self) -> str:
        """Return its characters, if they are few and it has no named set."""
        ranges = _drop_newline(_merge(self.ranges))
        if self.sources or sum(high - low + 1 for low, high in ranges) > _FEW:
            return ""
        return "".join(map(chr, _iterate_points(ranges)))

    def expand(self) -> list[tuple[int, int]]:
        """Return all its characters as ranges; with other cases if case is ignored."""
        if not self.sources and not self.fold:
            return _merge(self.ranges)
        named = [(f"[{source}]", self.fold) for source in self.sources]
        listed = "".join(map(_range_to_re2, _merge(self.ranges)))
        named += [(f"[{listed}]", self.fold)] if listed else []
        return _merge([pair for source, fold in named for pair in _list_members(source, fold)])

    def combine(self, sign: str, other: ClassMembers) -> ClassMembers:
        """Return the intersection (&&), difference (--) or symmetric difference (~~)."""
        own, others = self.expand(), other.expand()
        both = invert(_merge([*invert(own), *invert(others)]))
        if sign == "&&":
            return ClassMembers(self.fold, both)
        first = invert(_merge([*invert(own), *others]))
        if sign == "--":
            return ClassMembers(self.fold, first)
        second = invert(_merge([*invert(others), *own]))
        return ClassMembers(self.fold, _merge([*first, *second]))


@lru_cache(maxsize=32)
def _list_members(source: str, fold: bool) -> tuple[tuple[int, int], ...]:
    """Return all characters of an RE2 class as ranges, by matching it against all characters."""
    import re2

    matches = re2.finditer(f"(?i:{source})+" if fold else f"{source}+", _all_characters())
    return tuple(
        (low, high)
        for match in matches
        for low, high in _split_at_surrogates(match.group())
    )  # fmt: skip


@lru_cache(maxsize=1)
def _all_characters() -> bytes:
    return "".join(map(chr, chain(range(0xD800), range(0xE000, LAST_CODE_POINT + 1)))).encode()


def _split_at_surrogates(encoded: bytes) -> Iterator[tuple[int, int]]:
    """Split a run of characters at the surrogates, which are not characters."""
    text = encoded.decode()
    low, high = ord(text[0]), ord(text[-1])
    if low < 0xD800 and high > 0xDFFF:
        yield low, 0xD7FF
        yield 0xE000, high
    else:
        yield low, high


def _merge(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def invert(ranges: Ranges | list[tuple[int, int]]) -> list[tuple[int, int]]:
    inverted, after = [], 0
    for low, high in _merge(list(ranges)):
        if low > after:
            inverted.append((after, low - 1))
        after = high + 1
    if after <= LAST_CODE_POINT:
        inverted.append((after, LAST_CODE_POINT))
    return inverted


def _drop_newline(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    remaining: list[tuple[int, int]] = []
    for low, high in ranges:
        if low <= NEWLINE <= high:
            remaining += [pair for pair in ((low, NEWLINE - 1), (NEWLINE + 1, high))
                     if pair[0] <= pair[1]]  # fmt: skip
        else:
            remaining.append((low, high))
    return remaining


def _iterate_points(ranges: list[tuple[int, int]]) -> Iterator[int]:
    for low, high in ranges:
        yield from range(low, high + 1)


def _range_to_re2(pair: tuple[int, int]) -> str:
    low, high = pair
    return rf"\x{{{low:x}}}" if low == high else rf"\x{{{low:x}}}-\x{{{high:x}}}"
