"""Edit TOML as text: add, update or remove one table, keeping comments and order.

Every result is parsed again and compared with what was intended.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lookfar.serve.setup.malformed import Malformed, detect_newline

_STRING: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}'
    r"|'''(?:[^']|'{1,2}(?!'))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_BLANK: Final = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_KEY: Final = re.compile(
    r"[ \t]*(?:([A-Za-z0-9_-]+)|(\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'))[ \t]*(\.)?"
)
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class _Statement:
    """A table header or a key with its value."""

    path: tuple[str, ...]
    """Its full path of keys."""
    table: tuple[str, ...]
    start: int
    end: int
    """The position after its last line."""
    value: tuple[int, int] | None
    """The span of the value; None for a header."""


def put(text: str, path: Sequence[str], entry: Mapping[str, Any]) -> str:
    """Return the text with these keys in the table at ``path``; its other keys stay."""
    path = tuple(path)
    wanted = _parse(text)
    table = wanted
    for depth, key in enumerate(path):
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise Malformed(f"{'.'.join(path[: depth + 1])} is not a table")
    missing = {key: value for key, value in entry.items() if table.get(key) != value}
    table.update(missing)
    for key, value in missing.items():
        text = _set(text, path, key, value)
    return _check_result(text, wanted)


def drop(text: str, path: Sequence[str]) -> str:
    """Return the text without the table or key at ``path``, however it is written."""
    path = tuple(path)
    wanted = _parse(text)
    table = wanted
    for key in path[:-1]:
        table = table.get(key, {})
        if not isinstance(table, dict):
            return text
    if path[-1] not in table:
        return text
    del table[path[-1]]
    removed = [statement for statement in _statements(text) if statement.path[: len(path)] == path]
    for statement in reversed(removed):
        before, after = text[: statement.start], text[statement.end :]
        blank = re.search(r"(?:^|\n)(\r?\n)\Z", before)
        if statement.value is None and blank and not after.strip():
            before = before[: blank.start(1)]  # The blank line above it.
        text = before + after
    return _check_result(text, wanted, empty=path[:-1])


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Malformed(str(error)) from None


def _check_result(text: str, wanted: dict[str, Any], empty: tuple[str, ...] = ()) -> str:
    """Return the text if it has the wanted content.

    The tables on the path ``empty`` may be missing if nothing is in them.
    """
    try:
        result = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        result = {}
    wanted = copy.deepcopy(wanted)
    for depth in range(len(empty), 0, -1):
        _remove_if_empty(wanted, empty[:depth])
        _remove_if_empty(result, empty[:depth])
    if result != wanted:
        raise Malformed("the way this file is written does not allow a safe edit")
    return text


def _remove_if_empty(data: dict[str, Any], path: tuple[str, ...]) -> None:
    for key in path[:-1]:
        data = data.get(key, {})
    if data.get(path[-1]) == {}:
        del data[path[-1]]


def _append_table(text: str, path: tuple[str, ...], key: str, value: Any) -> str:
    nl = detect_newline(text)
    if text and not text.endswith("\n"):
        text += nl
    separator = nl if text else ""
    return f"{text}{separator}[{_dotted(path)}]{nl}{_dotted((key,))} = {as_toml(value)}{nl}"


def _set(text: str, path: tuple[str, ...], key: str, value: Any) -> str:
    statements = list(_statements(text))
    pairs = [statement for statement in statements if statement.value is not None]
    for pair in pairs:
        if pair.value is not None and pair.path == (*path, key):
            return text[: pair.value[0]] + as_toml(value) + text[pair.value[1] :]
    for pair in pairs:
        if pair.value is not None and pair.path == path:  # lookfar = { command = ... }
            begin, end = pair.value
            table = tomllib.loads(f"x = {text[begin:end]}")["x"] | {key: value}
            return text[:begin] + as_toml(table) + text[end:]
    siblings = [pair for pair in pairs if pair.path[:-1] == path]
    headers = [
        statement for statement in statements if statement.value is None and statement.path == path
    ]
    nl = detect_newline(text)
    for statement in siblings[-1:] or headers:
        table_path = statement.path if statement.value is None else statement.table
        row = f"{_dotted((*path, key)[len(table_path) :])} = {as_toml(value)}{nl}"
        above = text[: statement.end]
        return above + ("" if above.endswith("\n") else nl) + row + text[statement.end :]
    if not path:  # At the top: a line after a header would belong to its table.
        return f"{_dotted((key,))} = {as_toml(value)}{nl}{nl if text else ''}{text}"
    return _append_table(text, path, key, value)


def _dotted(path: Sequence[str]) -> str:
    return ".".join(key if _BARE.fullmatch(key) else as_toml(key) for key in path)


def as_toml(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{_dotted((key,))} = {as_toml(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return str(value)  # Dates have the same format in TOML.


def _statements(text: str) -> Iterator[_Statement]:
    """Yield headers and keys in order. The text must be valid TOML."""
    table: tuple[str, ...] = ()
    at = _skip(text, 0)
    while at < len(text):
        start = text.rfind("\n", 0, at) + 1
        if text[at] == "[":
            twice = text.startswith("[[", at)
            table, key_end = _parse_key(text, at + 1 + twice)
            end = _line_end(text, key_end)
            yield _Statement(table, table, start, end, None)
        else:
            key, equals = _parse_key(text, at)
            begin = equals + 1
            while text[begin] in " \t":
                begin += 1
            value_end = _value_end(text, begin)
            end = _line_end(text, value_end)
            yield _Statement((*table, *key), table, start, end, (begin, value_end))
        at = _skip(text, end)


def _skip(text: str, at: int) -> int:
    """Return the position after whitespace and comments."""
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _parse_key(text: str, at: int) -> tuple[tuple[str, ...], int]:
    parts: list[str] = []
    while match := _KEY.match(text, at):
        parts.append(match[1] or tomllib.loads(f"x = {match[2]}")["x"])
        at = match.end()
        if not match[3]:
            break
    return tuple(parts), at


def _value_end(text: str, at: int) -> int:
    """Return the end of a value, without the blanks and the comment after it."""
    depth, end = 0, at
    while at < len(text):
        if string := _STRING.match(text, at):
            at = end = string.end()
            continue
        char = text[at]
        if char in "#\n" and not depth:
            break
        if char == "#":
            at = text.find("\n", at)
            continue
        depth += (char in "[{") - (char in "]}")
        at += 1
        if char not in " \t\r\n":
            end = at
    return end
