"""Which section a heading path means: how headings are written, and which are called so.

Takes: a heading, or the end of a heading path, as people and web renderings write it, and the
sections of a document. Gives: the sections that it may mean. Refuses: to choose; where several
are left, whoever asked says what becomes of that.

Headings in a path are joined by `` > `` or `` → ``. Where a heading itself has such a sign, it
may be written as it is as long as only one section fits, or with a backslash before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from unicodedata import normalize

from lookfar.store.catalogue.link_names import fold

if TYPE_CHECKING:
    from lookfar.model import Section

_SEPARATOR = re.compile(r"(?:(?<=\s)|^)(?:>|→)(?=\s|$)|(?<!\\)→")
_ESCAPED = re.compile(r"\\([>→\\])")
_HELD = {">": "\ue000", "→": "\ue001", "\\": "\ue002"}
"""Stand-ins for signs that were escaped; from an area that no text uses."""
_FREED = {held: sign for sign, held in _HELD.items()}


def path_parts(path: str) -> list[tuple[str, ...]]:
    """The ways to take a written path apart: at its separators, or not at all."""
    held = _ESCAPED.sub(lambda sign: _HELD[sign[1]], path)
    ways = [
        tuple(freed(part) for part in _SEPARATOR.split(held)),
        tuple(freed(part) for part in held.split("→")),
        tuple(freed(part) for part in re.split("[>→]", held)),
        (freed(held),),
    ]
    return [way for way in dict.fromkeys(ways) if all(way)]


def shown(path: Sequence[str]) -> str:
    """A heading path that means the same when it is given back."""
    return " > ".join(re.sub(r"(?<!\S)>(?!\S)|[→\\]", r"\\\g<0>", title) for title in path)


def freed(part: str) -> str:
    """A heading without what its writing took: blanks around it, and stand-ins for signs."""
    return " ".join("".join(_FREED.get(sign, sign) for sign in part).split())


def called(sections: Sequence[Section], heading: str) -> list[Section]:
    """The sections that the end of a path may mean, in any case: one that it names whole, where
    there is one such, and of several the one in the same case."""
    written = path_parts(heading)
    ways = [tuple(fold(part) for part in way) for way in written]
    found = [each for each in sections if any(_ends_with(each.path, way) for way in ways)]
    whole = [
        each
        for each in found
        if any(len(each.path) == len(way) and _ends_with(each.path, way) for way in ways)
    ]
    exact = [each for each in whole if each.path in written]
    return next((some for some in (exact, whole) if len(some) == 1), found)


def slug(title: str) -> str:
    """The anchor that web renderings give a heading."""
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip())


def _ends_with(path: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return len(path) >= len(wanted) and all(
        fold(" ".join(title.split())) == part or part in _anchors(title)
        for title, part in zip(path[-len(wanted) :], wanted, strict=True)
    )


def _anchors(title: str) -> tuple[str, str]:
    """The anchors of a heading as names are compared; some renderings put one hyphen for a run."""
    composed = normalize("NFC", title)
    run = re.sub(r"\s+", " ", re.sub(r"[^\w\s-]", "", composed))
    return fold(slug(composed)), fold(slug(run))
