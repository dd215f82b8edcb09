"""Find the inline fields of Dataview and Logseq in Markdown: ``key:: value``.

A field is a whole line, which may be a list item, or in brackets within a sentence:
``[key:: value]`` and ``(key:: value)``. As in these programs a space follows the colons, so that
``std::string`` is not a field. The caller decides which of them are in prose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

_SEPARATOR: Final = "::"
_LONGEST_KEY: Final = 100
_LONGEST_LINE: Final = 5_000
"""A longer line is data."""
_LINE_START: Final = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?:\[.\][ \t]+)?")
_KEY: Final = re.compile(r"[^\W_][^:\[\](){}<>|`*~#\"!?,;\\=\n]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,17})?")
_EMPHASIS: Final = re.compile(r"(\*{1,3}|_{1,3}|~~)(.+)\1")
_LINKS: Final = re.compile(r"!?\[\[[^\[\]]+\]\](?:\s*,\s*!?\[\[[^\[\]]+\]\])+")
_QUOTED: Final = re.compile(r'"[^"]*"(?:\s*,\s*"[^"]*")*')
_CLOSING: Final = {"[": "]", "(": ")"}


class Field(NamedTuple):
    """An inline field, and the offset of its colons."""

    offset: int
    name: str
    value: Any
    """Text, a number, a boolean, or a list."""


def find_fields(text: str) -> Iterator[Field]:
    """Yield everything that looks like a field, also in code."""
    at = text.find(_SEPARATOR)
    while at >= 0:
        start = text.rfind("\n", 0, at) + 1
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        if end - start <= _LONGEST_LINE:
            yield from _find_in_line(text[start:end], start)
        at = text.find(_SEPARATOR, end)


def _find_in_line(line: str, start: int) -> Iterator[Field]:
    opening = _LINE_START.match(line)
    begin = opening.end() if opening else 0
    at = line.find(_SEPARATOR)
    name = _read_key(line[begin:at])
    if name and _is_separator(line, at):
        value = line[at + 2 :].strip()
        if value:
            yield Field(start + at, name, read_value(value))
        return
    while at >= 0:
        field = _find_in_brackets(line, at) if _is_separator(line, at) else None
        if field is None:
            at = line.find(_SEPARATOR, at + 2)
            continue
        name, value, end = field
        yield Field(start + at, name, read_value(value))
        at = line.find(_SEPARATOR, end)


def _is_separator(line: str, at: int) -> bool:
    """Whether the colons end a name and are followed by a space."""
    after = line[at + 2 : at + 3]
    return at > 0 and not line[at - 1].isspace() and (not after or after.isspace())


def _find_in_brackets(line: str, at: int) -> tuple[str, str, int] | None:
    """Return name, value and end of a field in brackets whose colons are at ``at``."""
    least = max(0, at - _LONGEST_KEY)
    begin = max(line.rfind("[", least, at), line.rfind("(", least, at))
    if begin < 0 or line[begin - 1 : begin] == "[":
        return None
    name = _read_key(line[begin + 1 : at])
    opening, closing = line[begin], _CLOSING[line[begin]]
    depth = 1
    for end in range(at + 2, len(line)):
        depth += (line[end] == opening) - (line[end] == closing)
        if not depth:
            value = line[at + 2 : end].strip()
            return (name, value, end) if name and value else None
    return None


def _read_key(text: str) -> str:
    text = text.strip()
    emphasis = _EMPHASIS.fullmatch(text)
    name = emphasis[2].strip() if emphasis else text
    return name if len(name) <= _LONGEST_KEY and _KEY.fullmatch(name) else ""


def read_value(text: str) -> Any:
    """Return the value of a field: a number, boolean, text, or a list of links or quoted texts."""
    emphasis = _EMPHASIS.fullmatch(text)
    text = emphasis[2].strip() if emphasis else text
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    if _LINKS.fullmatch(text):
        return re.findall(r"!?\[\[[^\[\]]+\]\]", text)
    if _QUOTED.fullmatch(text):
        items = re.findall(r'"([^"]*)"', text)
        return items if len(items) > 1 else items[0]
    return text
