"""Turn front matter, inline fields and metadata into typed, comparable properties.

A list becomes one property for each item, and a mapping one for each of its keys (``a.b``). Names
ignore case. Long values are cut and only the first of very many are kept, so that every property
fits into an index.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from typing import Any, Final, Literal, NamedTuple

from lookfar.common.periods import to_wall_seconds

VERSION: Final = 2
"""Raise this whenever the same metadata would give other properties."""
DAY_KEY: Final = "file.day"
"""The day that a note is about: from its name, or from ``date``."""
TAGS_KEY: Final = "file.tags"
"""The tags of a document, in its front matter and in its text."""
SUPERSEDED_KEY: Final = "file.superseded"
"""What a memory has that another one replaces; it is found out when it is asked for."""
OWN_KEYS: Final = "file."
"""How the names of properties begin that Lookfar adds itself."""
_DATE_KEY: Final = "date"
"""Not ``created``: a note that was begun years ago and changed today is found by its change."""

PropertyKind = Literal["text", "number", "boolean", "date", "datetime", "link"]

LONGEST_KEY: Final = 100
LONGEST_VALUE: Final = 300
"""In characters; PostgreSQL indexes at most 2,700 bytes."""
_MOST_PROPERTIES: Final = 500
_DEEPEST: Final = 4
_FIRST_YEAR, _LAST_YEAR = 1900, 2199
"""Eight digits in a name with another year are a number, not a day."""

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_DATETIME: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?\s?(?:[Zz]|[+-]\d{2}:?\d{2})?"
)
_LINK: Final = re.compile(r"!?\[\[([^\[\]|#^]*)([^\[\]|]*)(?:\|[^\[\]]*)?\]\]")
# `2026-11-16`, `2026_11_16` of Logseq, `20261116`, and the id `202611161030` of a Zettelkasten,
# alone or before the words of the name.
_DAY_IN_NAME: Final = re.compile(r"(\d{4})([-_.]?)(\d{2})\2(\d{2})(?:\d{4}(?:\d{2})?)?(?!\d)")


class Property(NamedTuple):
    """One value of a property."""

    key: str
    """The name, case-folded, with dashes for spaces."""
    name: str
    """The name as written."""
    kind: PropertyKind
    value: str
    """As written, perhaps cut."""
    folded: str
    """The value for comparison: case-folded; of a link, its target."""
    number: float | None
    """The value of a number or boolean; of a date, its seconds since 1970 on the clock."""


def fold_key(name: str) -> str:
    """Return the name of a property for comparison: ``Due Date`` and ``due-date`` are the same."""
    return "-".join(name.casefold().split())[:LONGEST_KEY]


def fold_value(text: str) -> str:
    """Return a text for comparison: in one case, without extra spaces."""
    return " ".join(text.casefold().split())[:LONGEST_VALUE]


def fold_tag(tag: str) -> str:
    """Return a tag for comparison: ``#Project/Alpha/`` and ``project/alpha`` are the same."""
    return fold_value(tag.strip().lstrip("#").strip("/"))


def read_link(text: str) -> str | None:
    """Return the target of a text that is one wikilink; None if it is anything else."""
    match = _LINK.fullmatch(text.strip())
    return (match[1] + match[2]).strip() if match else None


def list_properties(
    metadata: Mapping[str, Any],
    *,
    inline: Iterable[tuple[str, Any]] = (),
    tags: Iterable[str] = (),
    uri: str = "",
) -> list[Property]:
    """Return the properties of a document, in the order of its text.

    ``inline`` are fields in the text. Tags become :data:`TAGS_KEY`. With a ``uri``, a note whose
    name or date says which day it is about has that day as :data:`DAY_KEY`.
    """
    properties: list[Property] = []
    for name, value in (*metadata.items(), *inline):
        if not fold_key(str(name)).startswith(OWN_KEYS):
            properties += _flatten(str(name), value, 1)
        if len(properties) > _MOST_PROPERTIES:
            break
    del properties[_MOST_PROPERTIES:]
    own = [
        Property(TAGS_KEY, TAGS_KEY, "text", _clean(tag), fold_tag(_clean(tag)), None)
        for tag in dict.fromkeys(tags)
    ]
    day = _find_day(uri, properties) if uri else None
    if day is not None:
        own.append(_make(DAY_KEY, DAY_KEY, day.isoformat()))
    return [*dict.fromkeys(properties), *own]


def _flatten(name: str, value: Any, depth: int) -> Iterator[Property]:
    if depth > _DEEPEST or value is None:
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flatten(f"{name}.{key}", item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _flatten(name, item, depth + 1)
    elif fold_key(name) and str(value).strip():
        yield _make(fold_key(_clean(name)), _clean(name)[:LONGEST_KEY], value)


def _make(key: str, name: str, value: Any) -> Property:
    if isinstance(value, bool):
        text = "true" if value else "false"
        return Property(key, name, "boolean", text, text, float(value))
    if isinstance(value, int | float):
        number = _to_float(value)
        text = str(value)[:LONGEST_VALUE]
        return Property(key, name, "text" if number is None else "number", text, text, number)
    text = _clean(str(value)).strip()
    target = read_link(text)
    if target:
        return Property(key, name, "link", text[:LONGEST_VALUE], fold_value(target), None)
    moment = read_moment(text)
    if moment is not None:
        kind: PropertyKind = "date" if _DATE.fullmatch(text) else "datetime"
        return Property(key, name, kind, text, fold_value(text), to_wall_seconds(moment))
    return Property(key, name, "text", text[:LONGEST_VALUE], fold_value(text), None)


def read_moment(text: str) -> datetime | None:
    """Return a text that is a date or a time in the calendar; None if it is anything else."""
    if not _DATE.fullmatch(text) and not _DATETIME.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text.upper().replace(" ", "T", 1).replace(" ", ""))
    except ValueError:
        return None


def _to_float(value: int | float) -> float | None:
    """Return a number that can be compared; None if it is infinite or has too many digits."""
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if number == value and abs(number) != float("inf") else None


def _find_day(uri: str, properties: list[Property]) -> date | None:
    match = _DAY_IN_NAME.match(uri.rpartition("/")[2])
    if match:
        try:
            day = date(int(match[1]), int(match[3]), int(match[4]))
        except ValueError:
            day = date.min  # `20269999` is a number.
        if _FIRST_YEAR <= day.year <= _LAST_YEAR:
            return day
    for item in properties:
        if item.key == _DATE_KEY and item.kind in ("date", "datetime"):
            moment = read_moment(item.value)
            return moment.date() if moment else None
    return None


def _clean(text: str) -> str:
    """Replace what a store cannot hold: null characters and lone surrogates."""
    text = text.replace("\0", "\ufffd")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
