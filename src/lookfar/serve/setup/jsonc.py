"""Parse and edit JSON with comments and trailing commas.

An edit adds, replaces or removes one member and keeps every other character.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lookfar.serve.setup.malformed import Malformed, detect_newline

_TRIVIA: Final = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\r\n]|\\.)*"')
_SCALAR: Final = re.compile(
    r"(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)(?![\w.+-])"
)
_INDENTED: Final = re.compile(r'^([ \t]+)"', re.MULTILINE)
_INDENT: Final = re.compile(r"[ \t]*")
_LAST_BLANKS: Final = re.compile(r"(?<![ \t\r\n])[ \t\r\n]+\Z")
_ENDS_LINE: Final = re.compile(r"[ \t]*[\r\n]")


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its position in the text."""

    start: int
    end: int
    value: Any
    members: tuple[Member, ...] | None = None
    """The members of an object; None for any other value."""
    items: tuple[Node, ...] = ()
    """The values of a list."""

    def find(self, key: str) -> int | None:
        """Return the index of the last member with this key, which is the one that counts."""
        matches = [at for at, member in enumerate(self.members or ()) if member.key == key]
        return matches[-1] if matches else None


@dataclass(frozen=True, slots=True)
class Member:
    """A key of an object, its value, and the position of the comma after it, if any."""

    key: str
    start: int
    node: Node
    comma: int | None


def parse(text: str) -> Node | None:
    """Return the value of a text; None if it contains only whitespace and comments."""
    try:
        start = _skip_trivia(text, 0)
        if start == len(text):
            return None
        node = _parse_value(text, start)
    except RecursionError:
        raise Malformed("it is nested too deeply") from None
    end = _skip_trivia(text, node.end)
    if end != len(text):
        raise Malformed("unexpected text after the end", text, end)
    return node


def _skip_trivia(text: str, at: int) -> int:
    """Return the position after whitespace and comments."""
    match = _TRIVIA.match(text, at)
    end = match.end() if match else at
    if text.startswith("/*", end):
        raise Malformed("a comment is not closed", text, end)
    return end


def _parse_value(text: str, at: int) -> Node:
    if text.startswith("{", at):
        return _parse_object(text, at)
    if text.startswith("[", at):
        return _parse_array(text, at)
    if string := _STRING.match(text, at):
        return Node(at, string.end(), _decode_string(text, string))
    if scalar := _SCALAR.match(text, at):
        return Node(at, scalar.end(), json.loads(scalar[0]))
    raise Malformed("a value is missing" if at == len(text) else "this is not a value", text, at)


def _decode_string(text: str, match: re.Match[str]) -> str:
    try:
        value: str = json.loads(match[0], strict=False)
    except ValueError:
        raise Malformed("this string has an invalid escape", text, match.start()) from None
    return value


def _parse_object(text: str, start: int) -> Node:
    members: list[Member] = []
    at = _skip_trivia(text, start + 1)
    while not text.startswith("}", at):
        key = _STRING.match(text, at)
        if key is None:
            raise Malformed("a key is missing", text, at)
        colon = _skip_trivia(text, key.end())
        if not text.startswith(":", colon):
            raise Malformed("a colon is missing", text, colon)
        node = _parse_value(text, _skip_trivia(text, colon + 1))
        at, comma = _parse_separator(text, node.end, "}")
        members.append(Member(_decode_string(text, key), key.start(), node, comma))
    values = {member.key: member.node.value for member in members}
    return Node(start, at + 1, values, tuple(members))


def _parse_array(text: str, start: int) -> Node:
    items: list[Node] = []
    at = _skip_trivia(text, start + 1)
    while not text.startswith("]", at):
        items.append(_parse_value(text, at))
        at, _ = _parse_separator(text, items[-1].end, "]")
    return Node(start, at + 1, [item.value for item in items], items=tuple(items))


def _parse_separator(text: str, at: int, closing: str) -> tuple[int, int | None]:
    """Return where the next member or the end starts, and the position of the comma."""
    at = _skip_trivia(text, at)
    if text.startswith(",", at):
        return _skip_trivia(text, at + 1), at
    if not text.startswith(closing, at):
        raise Malformed(f"a comma or {closing} is missing", text, at)
    return at, None


def put(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with ``value`` at ``path``, creating objects on the way if needed."""
    node = parse(text)
    if node is None:
        nl = detect_newline(text)
        separator = "" if not text or text.endswith("\n") else nl
        return text + separator + _format(_nested(path, value), "", "  ", nl) + nl
    for depth, key in enumerate(path):
        if node.members is None:
            name = ".".join(path[:depth]) or "the file"
            raise Malformed(f"{name} is not an object", text, node.start)
        at = node.find(key)
        if at is None:
            return _insert(text, node, key, _nested(path[depth + 1 :], value))
        node = node.members[at].node
    if same(node.value, value):
        return text
    indent = _indent_at(text, node.start)
    formatted = _format(value, indent, _indent_unit(text), detect_newline(text))
    return text[: node.start] + formatted + text[node.end :]


def append(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with ``value`` at the end of the list at ``path``, created if needed."""
    node = _find_node(text, path)
    if node is not None and not isinstance(node.value, list):
        raise Malformed(f"{'.'.join(path)} is not a list", text, node.start)
    if node is None or not node.items:
        return put(text, path, [value])
    first, last = node.items[0], node.items[-1]
    nl, indent = detect_newline(text), _own_indent(text, first.start)
    new = f" {_inline(value)}"
    if indent is not None:
        new = f"{nl}{indent}{_format(value, indent, _indent_unit(text), nl)}"
    after = _skip_trivia(text, last.end)
    if text.startswith(",", after):
        return text[: after + 1] + new + "," + text[after + 1 :]
    return text[: last.end] + "," + new + text[last.end :]


def drop_items(text: str, path: Sequence[str], unwanted: Callable[[Any], bool]) -> str:
    """Return the text without some values of the list at ``path``, and without an empty list."""
    while (node := _find_node(text, path)) is not None:
        items = node.items
        at = next((at for at, item in enumerate(items) if unwanted(item.value)), None)
        if at is None:
            break
        if len(items) == 1:
            return drop(text, path)
        start, end = (items[at - 1].end, items[at].end) if at else (items[0].start, items[1].start)
        text = text[:start] + text[end:]
    return text


def _find_node(text: str, path: Sequence[str]) -> Node | None:
    place = _find_member(text, path)
    return (place[0].members or ())[place[1]].node if place else None


def same(one: Any, other: Any) -> bool:
    """Compare as JSON, where 1 and true differ."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _nested(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _insert(text: str, node: Node, key: str, value: Any) -> str:
    """Add a member at the end of an object, after any comments."""
    members = node.members or ()
    last = members[-1] if members else None
    closing = node.end - 1
    nl, unit, outer = detect_newline(text), _indent_unit(text), _indent_at(text, node.start)
    end_of_content = _content_end(text, closing)
    one_line = not _has_newline(text[node.start : closing])
    tail = text[end_of_content:]
    if last is not None and one_line:
        new = f" {json.dumps(key, ensure_ascii=False)}: {_inline(value)}"
    else:
        indent = _own_indent(text, last.start) if last is not None else None
        indent = outer + unit if indent is None else indent
        new = f"{nl}{indent}{json.dumps(key, ensure_ascii=False)}: "
        new += _format(value, indent, unit, nl)
        if last is None and not _has_newline(text[end_of_content:closing]):
            tail = nl + outer + tail
    if last is None:
        return text[:end_of_content] + new + tail
    if last.comma is not None:
        return text[:end_of_content] + new + "," + tail
    end = last.node.end
    return text[:end] + "," + text[end:end_of_content] + new + tail


def _indent_at(text: str, at: int) -> str:
    """Return the indentation of the line that contains a position."""
    match = _INDENT.match(text, text.rfind("\n", 0, at) + 1)
    return match[0] if match else ""


def _own_indent(text: str, at: int) -> str | None:
    """Return the indentation before a position; None if other text precedes it on its line."""
    before = text[text.rfind("\n", 0, at) + 1 : at]
    return before if not before.strip(" \t") else None


def _indent_unit(text: str) -> str:
    """Return the indentation that this text uses per level."""
    match = _INDENTED.search(text)
    return match[1] if match else "  "


def _inline(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _format(value: Any, indent: str, unit: str, nl: str) -> str:
    """Format a value as settings usually are: objects on several lines, lists on one."""
    if not isinstance(value, dict) or not value:
        return _inline(value)
    inner = indent + unit
    rows = [
        f"{inner}{_inline(key)}: {_format(member, inner, unit, nl)}"
        for key, member in value.items()
    ]
    return "{" + nl + f",{nl}".join(rows) + f"{nl}{indent}" + "}"


def drop(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at ``path``. Comments and the objects around it stay."""
    while (place := _find_member(text, path)) is not None:
        parent, at = place
        text = _remove(text, parent, at)
    return text


def _find_member(text: str, path: Sequence[str]) -> tuple[Node, int] | None:
    node = parse(text)
    for key in path[:-1]:
        at = node.find(key) if node is not None else None
        if node is None or node.members is None or at is None:
            return None
        node = node.members[at].node
    at = node.find(path[-1]) if node is not None else None
    return None if node is None or at is None else (node, at)


def _remove(text: str, parent: Node, at: int) -> str:
    members = parent.members or ()
    member = members[at]
    start, end = member.start, member.node.end
    above = _content_end(text, start)
    if member.comma is not None:
        between, rest = text[end : member.comma], text[member.comma + 1 :]
    else:
        between, rest = "", text[end:]
    if len(members) == 1:
        inside = text[parent.start + 1 : start] + between + rest[: parent.end - len(text) - 1]
        if not inside.strip():
            return text[: parent.start] + "{}" + text[parent.end :]
    # What follows must not end up in a line comment above.
    if not _has_newline(text[above:start]):
        start = above
    elif not between.strip() and _ENDS_LINE.match(rest):
        start, between, rest = above, "", rest.lstrip(" \t")
    before = text[:start]
    if member.comma is None and at:
        comma = members[at - 1].comma
        assert comma is not None, "members are separated by commas"
        before = text[:comma] + text[comma + 1 : start]
    return before + between + rest


def _content_end(text: str, at: int) -> int:
    """Return the end of the last line before a position that is not blank.

    If that is the line of the position itself, return where the blanks before it start.
    """
    match = _LAST_BLANKS.search(text, 0, at)
    if match is None:
        return at
    same_line = _INDENT.match(text, match.start())
    end = same_line.end() if same_line else match.start()
    return end if end < at else match.start()


def _has_newline(text: str) -> bool:
    return "\n" in text or "\r" in text
