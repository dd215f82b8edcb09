"""Read the Sphinx directives that document or include a piece of Python code.

Takes reStructuredText; returns the symbols that the directives name and the parameters that their
signatures and their ``:param:`` fields list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from lookfar.model import ClaimKind

_DIRECTIVE: Final = re.compile(
    r"^(?P<indent>[ \t]*)\.\. (?:py:)?(?P<kind>module|currentmodule|auto(?:module|class|function"
    r"|method|attribute|data|exception|decorator)|class|function|method|exception|attribute|data"
    r"|staticmethod|classmethod|decorator|coroutinefunction|coroutinemethod)::[ \t]*"
    r"(?:async[ \t]+|class[ \t]+)?(?P<name>[A-Za-z_][\w.]*)(?P<open>\()?"
)
_FIELD: Final = re.compile(r"^(?P<indent>[ \t]+):(?:param|parameter|arg|keyword)\s+(?:[^:]*\s)?"
                           r"\*{0,2}(?P<name>[A-Za-z_]\w*):")  # fmt: skip
_OTHER: Final = re.compile(r"^(?P<indent>[ \t]*)\.\. [\w:-]+::")
_CALLABLE: Final = ("class", "function", "method", "exception")
_MOST_LINES: Final = 40
"""The most lines of one signature."""


class Documented(NamedTuple):
    """A symbol that a directive documents, or a parameter of it."""

    kind: ClaimKind
    name: str
    line: int
    """Counted from 1."""
    call: str = ""
    is_full: bool = False
    """Whether a directive says which module the name is in."""


def read_directives(text: str) -> Iterator[Documented]:
    """Yield the symbols and parameters in the order of the text."""
    lines = text.split("\n")
    module = ""
    around: list[tuple[int, str]] = []
    """Directives that contain the current line: indentation and full name, empty if unknown."""
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        while around and around[-1][0] >= indent:
            around.pop()
        match = _DIRECTIVE.match(line)
        if match is None:
            field = _FIELD.match(line)
            if field is not None and around and around[-1][1]:
                yield Documented("parameter", field["name"], number + 1, around[-1][1])
            elif _OTHER.match(line):
                around.append((indent, ""))
            continue
        kind, name = match["kind"], match["name"].rstrip(".")
        if kind in ("module", "currentmodule", "automodule"):
            module = "" if name == "None" else name
            if kind == "automodule":
                yield Documented("symbol", name, number + 1, is_full=True)
            continue
        full = _qualify(name, module, around)
        around.append((indent, full if kind.endswith(_CALLABLE) else ""))
        if kind.startswith("auto") or "." in full:
            yield Documented("symbol", full, number + 1, is_full=bool(module))
        if match["open"] and not kind.startswith("auto"):
            for parameter, line_number in _read_signature(lines, number, match.end()):
                yield Documented("parameter", parameter, line_number + 1, full)


def _qualify(name: str, module: str, around: list[tuple[int, str]]) -> str:
    """Return the full name of what a directive documents."""
    outer = next((full for _, full in reversed(around) if full), "")
    if outer and "." not in name:
        return f"{outer}.{name}"
    if not module or name.startswith(f"{module.partition('.')[0]}."):
        return name
    return f"{module}.{name}"


def _read_signature(lines: list[str], number: int, column: int) -> Iterator[tuple[str, int]]:
    """Yield the parameters of a signature with their lines, if its brackets close."""
    depth, current = 1, ""
    parameters: list[tuple[str, int]] = []
    for line_number in range(number, min(number + _MOST_LINES, len(lines))):
        for letter in lines[line_number][column:]:
            # Square brackets around a parameter mark it as optional; others belong to a type.
            nested = depth > 1 or ":" in current or "=" in current
            if letter in "({" or (letter == "[" and nested):
                depth += 1
            elif letter in ")}" or (letter == "]" and depth > 1):
                depth -= 1
            if depth == 0 or (depth == 1 and letter == ","):
                name = re.match(r"[\s\[\]]*\*{0,2}([A-Za-z_]\w*)", current)
                if name is not None and name[1] not in ("self", "cls"):
                    parameters.append((name[1], line_number))
                current = ""
            else:
                current += letter
            if depth == 0:
                yield from parameters
                return
        column = 0
