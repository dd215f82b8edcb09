"""The functions, classes and sections of a source file, and the names that its variables have.

Positions are byte offsets, as in the syntax tree.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lookfar.model import Document
from lookfar.text.parse.calls.expressions import UNKNOWN

if TYPE_CHECKING:
    from tree_sitter import Node

Captured = dict[str, list["Node"]]
"""The nodes of one match of a query, by name; ``at`` is the node that was looked for."""
_DEEPEST = 4
CONTAINERS = frozenset(("class", "interface", "struct", "trait", "impl", "enum", "module"))


class Nesting:
    """Spans of which some contain others, in the order of their starts."""

    __slots__ = ("ends", "parents", "starts")

    def __init__(self, starts: list[int], ends: list[int], parents: list[int]) -> None:
        self.starts, self.ends, self.parents = starts, ends, parents

    def find(self, at: int) -> int:
        """Return the number of the innermost span around a position, or -1."""
        number = bisect_right(self.starts, at) - 1
        while number >= 0 and self.ends[number] <= at:
            number = self.parents[number]
        return number


class Sections:
    """The sections and lines of a document by byte offset."""

    def __init__(self, document: Document) -> None:
        sections = document.sections
        starts = [section.span.start for section in sections]
        ends = [section.span.end for section in sections]
        if not document.text.isascii():
            offsets = _count_bytes(document.text, {*starts, *ends})
            starts, ends = [offsets[at] for at in starts], [offsets[at] for at in ends]
        if sections and not sections[0].path:
            ends[0] = starts[0]  # The text before the first definition is not inside of any.
        self._nesting = Nesting(starts, ends, [section.parent for section in sections])
        self.find = self._nesting.find
        kinds = {symbol.section: symbol.kind for symbol in document.symbols}
        self._are_containers = [kinds.get(s.ordinal) in CONTAINERS for s in sections]
        self._breaks = [match.start() for match in re.finditer(b"\n", document.text.encode())]

    def find_line(self, start: int) -> int:
        """Return the line of a byte offset, from 1."""
        # Not ``start_point`` of a node, which crashes in tree-sitter 0.26.0.
        return bisect_left(self._breaks, start) + 1

    def find_container(self, start: int, end: int) -> int:
        """Return the section of the class that a node defines, or -1."""
        # The last byte is inside the body, where comments above do not matter.
        number = self.find(end - 1)
        nesting = self._nesting
        while number >= 0 and not (
            self._are_containers[number] and nesting.starts[number] <= start
        ):
            number = nesting.parents[number]
        return number


def _count_bytes(text: str, offsets: set[int]) -> dict[int, int]:
    """Return the byte offset of every character offset."""
    counted, before, size = {}, 0, 0
    for offset in sorted(offsets):
        size += len(text[before:offset].encode())
        counted[offset] = size
        before = offset
    return counted


class Scopes:
    """The functions and classes of a file, with the names that they bind.

    A name stands for an expression. With several different ones it is unknown; the expression of a
    name that was only set to something empty, such as ``None``, is empty.
    """

    def __init__(
        self, functions: Sequence[Captured], classes: Sequence[Captured], sections: Sections
    ) -> None:
        spans = {(c["at"][0].start_byte, -c["at"][0].end_byte, False) for c in functions}
        spans |= {(c["at"][0].start_byte, -c["at"][0].end_byte, True) for c in classes}
        starts: list[int] = []
        ends: list[int] = []
        self._parents: list[int] = []
        self._are_classes: list[bool] = []
        self._sections: list[int] = []
        """By scope: the section of a class; -1 for others."""
        open_scopes: list[int] = []
        for number, (start, negative_end, is_class) in enumerate(sorted(spans)):
            end = -negative_end
            while open_scopes and ends[open_scopes[-1]] <= start:
                open_scopes.pop()
            starts.append(start)
            ends.append(end)
            self._parents.append(open_scopes[-1] if open_scopes else -1)
            self._are_classes.append(is_class)
            self._sections.append(sections.find_container(start, end) if is_class else -1)
            open_scopes.append(number)
        self._bound: list[dict[str, str]] = [{} for _ in starts]
        self._local_names: set[str] = set()
        self._variables: dict[int, dict[str, str]] = {}
        self.find = Nesting(starts, ends, self._parents).find

    def is_method(self, scope: int) -> bool:
        """Whether a scope is directly inside a class."""
        parent = self._parents[scope] if scope >= 0 else -1
        return parent >= 0 and self._are_classes[parent]

    def find_class(self, scope: int) -> int:
        """Return the section of the class around a scope, or -1."""
        while scope >= 0 and not self._are_classes[scope]:
            scope = self._parents[scope]
        return self._sections[scope] if scope >= 0 else -1

    def bind(self, scope: int, name: str, value: str) -> None:
        """Record what a name stands for: in its function, its class or the file."""
        if scope >= 0 and not self._are_classes[scope]:
            _merge(self._bound[scope], name, value)
            self._local_names.add(name)
            return
        section = self._sections[scope] if scope >= 0 else -1
        if scope < 0 or section >= 0:
            self.bind_variable(section, name, value)

    def bind_variable(self, section: int, name: str, value: str) -> None:
        """Record what an attribute of a class, or with -1 a variable of the file, stands for."""
        _merge(self._variables.setdefault(section, {}), name, value)

    def set_default(self, exported: str) -> None:
        """Record what a script exports by default."""
        self._variables.setdefault(-1, {})["default"] = exported

    def list_variables(self) -> dict[int, dict[str, str]]:
        """Return the names of the file and of its classes that stand for one expression."""
        known: dict[int, dict[str, str]] = {}
        for section, names in sorted(self._variables.items()):
            values = {name: value for name, value in names.items() if value and value != UNKNOWN}
            if values:
                known[section] = values
        return known

    def is_local(self, name: str) -> bool:
        """Whether any function of the file binds a name."""
        return name in self._local_names

    def look_up(self, name: str, scope: int) -> str | None:
        """Return the expression of a local name; None if no function around binds it."""
        if name not in self._local_names:
            return None
        while scope >= 0:
            value = self._bound[scope].get(name)
            if value is not None:
                return value or UNKNOWN
            scope = self._parents[scope]
        return None

    def substitute(self, path: str, scope: int, depth: int = 0) -> str:
        """Replace a local name at the start of a path by what it stands for."""
        head, dot, rest = path.partition(".")
        bare = head.removesuffix("()")
        value = self.look_up(bare, scope)
        if value is None:
            return path
        if value == UNKNOWN or depth > _DEEPEST or value.partition(".")[0] == head:
            return UNKNOWN
        if bare != head:
            value = UNKNOWN if value.endswith("()") else f"{value}()"
        if value == UNKNOWN:
            return UNKNOWN
        return self.substitute(f"{value}{dot}{rest}", scope, depth + 1)


def _merge(names: dict[str, str], name: str, value: str) -> None:
    before = names.get(name)
    if not before:
        names[name] = value
    elif value and value != before:
        names[name] = UNKNOWN
