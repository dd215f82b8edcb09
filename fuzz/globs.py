"""Globs of users and lines of ignore files, against a path: no pattern is slow.

Takes: lines; the first is the path, the others are patterns. Gives: which glob and which ignore
line matches. Refuses: what ``globs`` refuses, as ``InvalidPattern``.
"""

from __future__ import annotations

import re
from typing import Any

from fuzz.common import Target
from lookfar.errors import InvalidPattern
from lookfar.sources.folder.ignore import IgnoreFile, Ignores
from lookfar.sources.globs import GlobSet

_SPECIAL = re.compile(r"([*?\[\]{}\\!,])")


def _parts(data: bytes) -> tuple[str, list[str], bytes]:
    first, _, rest = data.partition(b"\n")
    lines = rest.decode("utf-8", "replace").split("\n")
    return first[:4096].decode("utf-8", "replace"), lines, rest


def work(data: bytes) -> tuple[Any, ...]:
    path, lines, raw = _parts(data)
    ignores = Ignores("", IgnoreFile(".gitignore", raw), None)
    name = path.rpartition("/")[2]
    ruled = [ignores.rule_for(path, name, folder) for folder in (False, True)]
    found = []
    for line in lines[:50]:
        try:
            found.append(GlobSet((line,)).match(path))
        except InvalidPattern as error:
            found.append(f"refused {error.message}")
    return path, lines, ruled, found


def check(_: bytes, result: tuple[Any, ...]) -> None:
    path, lines, ruled, found = result
    for line, matched in zip(lines, found, strict=False):
        assert matched is None or matched == line or matched.startswith("refused ")
    for rule in ruled:
        assert rule is None or rule.startswith(".gitignore:")
    _check_literal(path)


def _check_literal(path: str) -> None:
    """A path is matched by itself, once every wildcard in it is escaped."""
    if not path or len(path) > 400 or "\0" in path or not all(path.split("/")):
        return
    if path.startswith("./") or {".", ".."} & set(path.split("/")):
        return
    pattern = "/" + _SPECIAL.sub(r"\\\1", path)
    try:
        globs = GlobSet((pattern,))
    except InvalidPattern:
        # A backslash before a letter is taken for a folder's name on Windows.
        assert "\\" in path
        return
    assert globs.match(path) == pattern


TARGET = Target(
    work,
    check,
    words=(
        "*", "**", "/**/", "**/", "?", "[a-z]", "[!a]", "[[:alpha:]]", "[]", "{a,b}", "{", "}",
        ",", "\\", "!", "/", "#", ".md", "docs/", "a/b/c", "\r", "[^]", "*a" * 8, "e\u0301", "é",
        "{a,{b,c}}", " ", "\\ ",
    ),
)  # fmt: skip
