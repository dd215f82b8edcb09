"""JSON with comments and trailing commas, edited at exact spans.

Takes: the text of somebody's settings. Gives: its values, and the same text with one member
put in or taken out, every other character as it was. Refuses (``Malformed``): a text that is
no such JSON, and a place that is no object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from lookfar.serve.setup.malformed import Malformed, newline_of

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
    """A value and where it stands."""

    start: int
    end: int
    value: Any
    members: tuple[Member, ...] | None = None
    """Of an object; None of anything else."""

    def find(self, key: str) -> int | None:
        """The number of the member of that name: the last one, as every reader takes it."""
        found = [at for at, each in enumerate(self.members or ()) if each.key == key]
        return found[-1] if found else None


@dataclass(frozen=True, slots=True)
class Member:
    """A key of an object, its value, and the comma behind it where there is one."""

    key: str
    start: int
    node: Node
    comma: int | None


def parse(text: str) -> Node | None:
    """The value of a text; None where it holds nothing but blanks and comments."""
    try:
        start = _after_trivia(text, 0)
        if start == len(text):
            return None
        node = _value(text, start)
    except RecursionError:
        raise Malformed("it is nested too deeply") from None
    behind = _after_trivia(text, node.end)
    if behind != len(text):
        raise Malformed("something follows the end", text, behind)
    return node


def _after_trivia(text: str, at: int) -> int:
    found = _TRIVIA.match(text, at)
    end = found.end() if found else at
    if text.startswith("/*", end):
        raise Malformed("a comment never ends", text, end)
    return end


def _value(text: str, at: int) -> Node:
    if text.startswith("{", at):
        return _object(text, at)
    if text.startswith("[", at):
        return _array(text, at)
    if string := _STRING.match(text, at):
        return Node(at, string.end(), _string(text, string))
    if scalar := _SCALAR.match(text, at):
        return Node(at, scalar.end(), json.loads(scalar[0]))
    raise Malformed("a value is missing" if at == len(text) else "this is no value", text, at)


def _string(text: str, found: re.Match[str]) -> str:
    try:
        value: str = json.loads(found[0], strict=False)
    except ValueError:
        raise Malformed("this text has a wrong escape", text, found.start()) from None
    return value


def _object(text: str, start: int) -> Node:
    members: list[Member] = []
    at = _after_trivia(text, start + 1)
    while not text.startswith("}", at):
        key = _STRING.match(text, at)
        if key is None:
            raise Malformed("a key is missing", text, at)
        colon = _after_trivia(text, key.end())
        if not text.startswith(":", colon):
            raise Malformed("a colon is missing", text, colon)
        node = _value(text, _after_trivia(text, colon + 1))
        at, comma = _separator(text, node.end, "}")
        members.append(Member(_string(text, key), key.start(), node, comma))
    values = {each.key: each.node.value for each in members}
    return Node(start, at + 1, values, tuple(members))


def _array(text: str, start: int) -> Node:
    values: list[Any] = []
    at = _after_trivia(text, start + 1)
    while not text.startswith("]", at):
        node = _value(text, at)
        values.append(node.value)
        at, _ = _separator(text, node.end, "]")
    return Node(start, at + 1, values)


def _separator(text: str, at: int, closing: str) -> tuple[int, int | None]:
    """Where the next member, or the end, begins; and the comma before it."""
    at = _after_trivia(text, at)
    if text.startswith(",", at):
        return _after_trivia(text, at + 1), at
    if not text.startswith(closing, at):
        raise Malformed(f"a comma or {closing} is missing", text, at)
    return at, None


# --- putting in -------------------------------------------------------------------------------


def put(text: str, path: Sequence[str], value: Any) -> str:
    """The text with ``value`` at ``path``; objects on the way are made where there are none."""
    node = parse(text)
    if node is None:
        nl = newline_of(text)
        between = "" if not text or text.endswith("\n") else nl
        return text + between + _written(_nested(path, value), "", "  ", nl) + nl
    for depth, key in enumerate(path):
        if node.members is None:
            raise Malformed(f"{_named(path[:depth])} is no object", text, node.start)
        at = node.find(key)
        if at is None:
            return _inserted(text, node, key, _nested(path[depth + 1 :], value))
        node = node.members[at].node
    if same(node.value, value):
        return text
    indent = _indent_at(text, node.start)
    written = _written(value, indent, _unit(text), newline_of(text))
    return text[: node.start] + written + text[node.end :]


def same(one: Any, other: Any) -> bool:
    """Equal as JSON, where 1 is not true."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _named(path: Sequence[str]) -> str:
    return ".".join(path) or "the whole"


def _nested(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _inserted(text: str, node: Node, key: str, value: Any) -> str:
    """A new last member, behind whatever comments stand there."""
    members = node.members or ()
    last = members[-1] if members else None
    closing = node.end - 1
    nl, unit, outer = newline_of(text), _unit(text), _indent_at(text, node.start)
    behind = _line_end_before(text, closing)
    one_line = not _breaks(text[node.start : closing])
    tail = text[behind:]
    if last is not None and one_line:
        new = f" {json.dumps(key, ensure_ascii=False)}: {_inline(value)}"
    else:
        indent = _indent_of(text, last.start) if last is not None else None
        indent = outer + unit if indent is None else indent
        new = f"{nl}{indent}{json.dumps(key, ensure_ascii=False)}: "
        new += _written(value, indent, unit, nl)
        if last is None and not _breaks(text[behind:closing]):
            tail = nl + outer + tail
    if last is None:
        return text[:behind] + new + tail
    if last.comma is not None:
        return text[:behind] + new + "," + tail
    end = last.node.end
    return text[:end] + "," + text[end:behind] + new + tail


def _indent_at(text: str, at: int) -> str:
    """The blanks that the line of a place begins with."""
    found = _INDENT.match(text, text.rfind("\n", 0, at) + 1)
    return found[0] if found else ""


def _indent_of(text: str, at: int) -> str | None:
    """The blanks before a place, where nothing else stands on its line before it."""
    before = text[text.rfind("\n", 0, at) + 1 : at]
    return before if not before.strip(" \t") else None


def _unit(text: str) -> str:
    """What this text indents by."""
    found = _INDENTED.search(text)
    return found[1] if found else "  "


def _inline(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _written(value: Any, indent: str, unit: str, nl: str) -> str:
    """Objects over several lines, lists on one, as people write settings."""
    if not isinstance(value, dict) or not value:
        return _inline(value)
    inner = indent + unit
    rows = [
        f"{inner}{_inline(key)}: {_written(each, inner, unit, nl)}" for key, each in value.items()
    ]
    return "{" + nl + f",{nl}".join(rows) + f"{nl}{indent}" + "}"


# --- taking out -------------------------------------------------------------------------------


def drop(text: str, path: Sequence[str]) -> str:
    """The text without what is at ``path``; comments stay, and objects on the way, too."""
    while (place := _place(text, path)) is not None:
        parent, at = place
        text = _without(text, parent, at)
    return text


def _place(text: str, path: Sequence[str]) -> tuple[Node, int] | None:
    node = parse(text)
    for key in path[:-1]:
        at = node.find(key) if node is not None else None
        if node is None or node.members is None or at is None:
            return None
        node = node.members[at].node
    at = node.find(path[-1]) if node is not None else None
    return None if node is None or at is None else (node, at)


def _without(text: str, parent: Node, at: int) -> str:
    members = parent.members or ()
    member = members[at]
    start, end = member.start, member.node.end
    above = _line_end_before(text, start)
    if member.comma is not None:
        between, rest = text[end : member.comma], text[member.comma + 1 :]
    else:
        between, rest = "", text[end:]
    if len(members) == 1:
        inside = text[parent.start + 1 : start] + between + rest[: parent.end - len(text) - 1]
        if not inside.strip():
            return text[: parent.start] + "{}" + text[parent.end :]
    # The comment of a line above must not swallow what follows.
    if not _breaks(text[above:start]):
        start = above
    elif not between.strip() and _ENDS_LINE.match(rest):
        start, between, rest = above, "", rest.lstrip(" \t")
    before = text[:start]
    if member.comma is None and at:
        comma = members[at - 1].comma
        assert comma is not None, "members are parted by commas"
        before = text[:comma] + text[comma + 1 : start]
    return before + between + rest


def _line_end_before(text: str, at: int) -> int:
    """The end of the last line before a place on which anything stands; on one line, where the
    blanks before the place begin."""
    found = _LAST_BLANKS.search(text, 0, at)
    if found is None:
        return at
    same_line = _INDENT.match(text, found.start())
    end = same_line.end() if same_line else found.start()
    return end if end < at else found.start()


def _breaks(text: str) -> bool:
    return "\n" in text or "\r" in text
