"""Find what the examples in a document use: imports, keywords of calls, options and files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from warnings import catch_warnings, simplefilter

from lookfar.model import ClaimKind

OPTION: Final = re.compile(r"(?<![\w-])--[a-z][a-z0-9]*(?:[-.][a-z0-9]+)*(?![\w-])")
FILE: Final = re.compile(
    r"(?<![\w@./:~$-])(?:\./|\.\./)*[\w@.-]+(?:/[\w@.-]+)+\.[A-Za-z][A-Za-z0-9]{0,4}(?![\w/-])"
)
_PROMPT: Final = re.compile(r"[ \t]*(?:\$|%|\(\w+\) ?\$)[ \t]+")
_DOCTEST: Final = re.compile(r"[ \t]*(?:>>>|\.\.\.)(?: |$)")
_SEPARATOR: Final = re.compile(r"\|\|?|&&|;")
_STARTER: Final = re.compile(
    r"\w+=\S*|sudo|env|npx|run|exec|uv|uvx|poetry|pipenv|bundle|python[\d.]*|py|-m|--"
)
_COMMENT: Final = re.compile(r"(?:^|\s)#.*")


class Use(NamedTuple):
    """Something that a line of an example uses."""

    kind: ClaimKind
    name: str
    line: int
    """Counted from 0."""
    call: str = ""


def read_python(program: str) -> Iterator[Use]:
    """Yield the imports of a Python example, and the keywords of calls of what it imports."""
    lines = program.split("\n")
    if any(line.lstrip().startswith(">>>") for line in lines):
        # Blank lines in place of the output.
        lines = [_DOCTEST.sub("", line) if _DOCTEST.match(line) else "" for line in lines]
    try:
        with catch_warnings():
            simplefilter("ignore")
            tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                imported[alias.asname or alias.name] = name
                if alias.name != "*":
                    yield Use("import", name, alias.lineno - 1)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                imported[alias.asname or alias.name] = alias.name
                if "." in alias.name:
                    yield Use("import", alias.name, alias.lineno - 1)
    for node in ast.walk(tree):
        called = _called_name(node.func, imported) if isinstance(node, ast.Call) else ""
        if called and isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg:
                    yield Use("parameter", keyword.arg, keyword.lineno - 1, called)


def _called_name(callee: ast.expr, imported: Mapping[str, str]) -> str:
    """Return the full name of what a call calls, if an import of the example binds it."""
    names: list[str] = []
    while isinstance(callee, ast.Attribute):
        names.append(callee.attr)
        callee = callee.value
    if not isinstance(callee, ast.Name) or callee.id not in imported:
        return ""
    return ".".join((imported[callee.id], *reversed(names)))


def read_commands(program: str, *, is_shell: bool) -> Iterator[Use]:
    """Yield the options and files in the commands of a shell example, with the command of each.

    Lines without a prompt are commands only in a shell example that has no prompt at all; otherwise
    they are output.
    """
    lines = program.split("\n")
    has_prompts = any(_PROMPT.match(line) for line in lines)
    command, continued = "", False
    for number, line in enumerate(lines):
        if not (continued or _PROMPT.match(line) or (is_shell and not has_prompts)):
            continue
        text = _COMMENT.sub("", _PROMPT.sub("", line, count=1))
        for part in _SEPARATOR.split(text):
            command = command if continued else find_program(part)
            continued = False
            yield from (Use("option", match[0], number, command) for match in OPTION.finditer(part))
            yield from (Use("file", match[0], number) for match in FILE.finditer(part))
        continued = line.rstrip().endswith("\\")


def find_program(command: str) -> str:
    """Return the program that a command runs, without what starts it such as ``python -m``."""
    words = (word for word in command.split() if not _STARTER.fullmatch(word))
    return next(words, "")
