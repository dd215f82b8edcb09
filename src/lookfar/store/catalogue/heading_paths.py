"""Find the sections that match a heading, a heading path, or the end of one.

If several sections match, the caller decides what to do.

Headings in a path are joined by `` > `` or `` → ``, or by ``#`` as in notes, where headings between
them may be omitted. A heading that contains such a sign may be written as it is if only one section
matches, or with a backslash before the arrow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from unicodedata import normalize

from lookfar.model import Section
from lookfar.store.catalogue.link_names import fold

_SEPARATOR = re.compile(r"(?:(?<=\s)|^)(?:>|→)(?=\s|$)|(?<!\\)→")
_ESCAPED = re.compile(r"\\([>→\\])")
_PLACEHOLDERS = {">": "\ue000", "→": "\ue001", "\\": "\ue002"}
"""Placeholders for escaped signs, from the private use area of Unicode."""
_SIGNS = {placeholder: sign for sign, placeholder in _PLACEHOLDERS.items()}


def split_path(path: str) -> list[tuple[str, ...]]:
    """Return the possible ways to split a written path: at its separators, or not at all."""
    escaped = _ESCAPED.sub(lambda sign: _PLACEHOLDERS[sign[1]], path)
    ways = [
        tuple(clean_heading(part) for part in _SEPARATOR.split(escaped)),
        tuple(clean_heading(part) for part in escaped.split("→")),
        tuple(clean_heading(part) for part in re.split("[>→]", escaped)),
        (clean_heading(escaped),),
    ]
    return [way for way in dict.fromkeys(ways) if all(way)]


def format_path(path: Sequence[str]) -> str:
    """Format a heading path so that ``split_path`` reads it back."""
    return " > ".join(re.sub(r"(?<!\S)>(?!\S)|[→\\]", r"\\\g<0>", title) for title in path)


def clean_heading(part: str) -> str:
    """Strip a heading and restore its escaped signs."""
    return " ".join("".join(_SIGNS.get(sign, sign) for sign in part).split())


def match_headings(sections: Sequence[Section], heading: str) -> list[Section]:
    """Return the sections whose path ends with ``heading``, in any case.

    If exactly one has this whole path, return only that one; an exact match of case comes first.
    """
    written = split_path(heading)
    ways = [tuple(fold(part) for part in way) for way in written]
    matches = [
        section for section in sections if any(_ends_with(section.path, way) for way in ways)
    ]
    whole = [
        section
        for section in matches
        if any(len(section.path) == len(way) and _ends_with(section.path, way) for way in ways)
    ]
    exact = [section for section in whole if section.path in written]
    matches = next((some for some in (exact, whole) if len(some) == 1), matches)
    return matches or _match_nested(sections, heading)


def _match_nested(sections: Sequence[Section], heading: str) -> list[Section]:
    """Return the sections that a nested anchor of a note means: ``Outer#Inner``."""
    wanted = [fold(part) for item in heading.split("#") if (part := clean_heading(item))]
    if len(wanted) < 2:
        return []

    def fits(path: tuple[str, ...]) -> bool:
        above = iter(path)
        found = all(any(_is_called(title, part) for title in above) for part in wanted)
        return found and _is_called(path[-1], wanted[-1])

    return [section for section in sections if section.path and fits(section.path)]


def slug(title: str) -> str:
    """Return the anchor that web renderings give a heading."""
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip())


def _ends_with(path: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return len(path) >= len(wanted) and all(
        _is_called(title, part) for title, part in zip(path[-len(wanted) :], wanted, strict=True)
    )


def _is_called(title: str, part: str) -> bool:
    """Whether a folded name is a heading, as its title or as its anchor."""
    return fold(" ".join(title.split())) == part or part in _anchors(title)


def _anchors(title: str) -> tuple[str, str]:
    """Return the folded anchors of a heading; some renderings use one hyphen for several spaces."""
    composed = normalize("NFC", title)
    run = re.sub(r"\s+", " ", re.sub(r"[^\w\s-]", "", composed))
    return fold(slug(composed)), fold(slug(run))
