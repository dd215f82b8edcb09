"""Match paths against ``.gitignore`` and ``.lookfarignore`` files.

As in git, the last matching line decides, and a deeper file overrides an outer one. Nothing below
an ignored folder can be included again, because a walk does not enter it. Of two files in one
folder, ``.lookfarignore`` wins. Lines beyond the limits are skipped and listed in ``problems``.

The matching is our own: pathspec's default matcher can take seconds for one line, its re2 backend
is another native wheel, and both would need a limit that rejects lines git accepts. On top of
``globs.translate``, git's rules need little code, are linear for every pattern, and are tested
against git. One known difference: ``?`` is one character here and one byte in git.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Final
from unicodedata import normalize

from lookfar.errors import LookfarError
from lookfar.sources.confine import Refused, Root
from lookfar.sources.git.repositories import find_repository
from lookfar.sources.globs import Malformed, as_literal, translate

IGNORE_FILES: Final = (".gitignore", ".lookfarignore")
"""The later one takes precedence."""

MAX_BYTES: Final = 1 << 20
MAX_LINES: Final = 5_000
MAX_LINE: Final = 1_000
MAX_WILDCARDS: Final = 32_000
"""Limit for the characters of lines with wildcards in one file, which must be compiled."""


def _trim(line: str) -> str:
    """Remove trailing spaces, except one that is escaped with a backslash."""
    text = line.rstrip(" ")
    backslashes = len(text) - len(text.rstrip("\\"))
    return text + " " if backslashes % 2 and len(text) < len(line) else text


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of an ignore file."""

    number: int
    text: str
    negated: bool
    folders_only: bool
    tail: str = ""
    """The end of the name, for lines like ``*.log``."""
    expression: re.Pattern[str] | None = None
    last_only: bool = False
    """The expression is compared with the last component, not with the path."""


class IgnoreFile:
    """The rules of one ignore file, indexed so that common lines cost one lookup each."""

    __slots__ = ("_names", "_others", "_paths", "_tails", "_wildcards", "digest", "problems", "uri")

    def __init__(self, uri: str, data: bytes) -> None:
        self.uri = uri
        self.digest = sha256(data).hexdigest()
        self._names: dict[str, list[Rule]] = {}
        self._paths: dict[str, list[Rule]] = {}
        self._tails: dict[str, list[Rule]] = {}
        self._others: list[Rule] = []
        self._wildcards = 0
        problems: list[str] = []
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        lines = text.split("\n")
        if len(lines) > MAX_LINES + 1:
            problems.append(f"only the first {MAX_LINES} lines are read")
        for number, line in enumerate(lines[:MAX_LINES], 1):
            try:
                self._add(number, line.removesuffix("\r"))
            except Malformed as error:
                problems.append(f"line {number}: {error}")
        self.problems = tuple(problems)

    def __len__(self) -> int:
        keyed = (self._names, self._paths, self._tails)
        return len(self._others) + sum(len(rules) for d in keyed for rules in d.values())

    def _add(self, number: int, line: str) -> None:
        if line.startswith("#"):
            return
        if len(line) > MAX_LINE:
            raise Malformed(f"longer than {MAX_LINE} characters")
        text = _trim(line)
        body = normalize("NFC", text)
        negated = body.startswith("!")
        body = body.removeprefix("!") if negated else body
        folders_only = body.endswith("/")
        body = body.removesuffix("/")
        if not body:
            return
        last_only = "/" not in body
        body = body.removeprefix("/")
        rule = Rule(number, text, negated, folders_only)
        plain = as_literal(body)
        if plain is not None:
            (self._names if last_only else self._paths).setdefault(plain, []).append(rule)
            return
        tail = as_literal(body[1:]) if last_only and body.startswith("*") else None
        if tail is not None and "." in tail:
            rule = Rule(number, text, negated, folders_only, tail=tail)
            self._tails.setdefault(tail[tail.rindex(".") :], []).append(rule)
            return
        self._wildcards += len(body)
        if self._wildcards > MAX_WILDCARDS:
            raise Malformed("too many wildcards in one file")
        expression = re.compile(translate(body))
        self._others.append(
            Rule(number, text, negated, folders_only, expression=expression, last_only=last_only)
        )

    def decide(self, path: str, name: str, is_dir: bool) -> Rule | None:
        """Return the last line that matches a path relative to this file's folder."""
        best: Rule | None = None
        ending = name[name.rfind(".") :] if "." in name else ""
        for rules in (self._names.get(name), self._paths.get(path), self._tails.get(ending)):
            for rule in reversed(rules or ()):
                if best is not None and rule.number < best.number:
                    break
                if (is_dir or not rule.folders_only) and name.endswith(rule.tail):
                    best = rule
                    break
        for rule in reversed(self._others):
            if best is not None and rule.number < best.number:
                break
            if rule.folders_only and not is_dir:
                continue
            subject = name if rule.last_only else path
            if rule.expression is not None and rule.expression.fullmatch(subject):
                return rule
        return best


@dataclass(frozen=True, slots=True)
class Ignores:
    """The ignore files that apply in one folder: its own, then those of its parents."""

    base: str
    """URI of the folder with a trailing slash; empty for the root."""
    file: IgnoreFile
    outer: Ignores | None
    above: str = ""
    """Path from the file's folder down to the root, with a trailing slash, if it is above it."""

    def rule_for(self, uri: str, name: str, is_dir: bool) -> str | None:
        """Return ``file:line: text`` of the line that ignores an entry, or None."""
        decision = self.find_decision(uri, name, is_dir)
        return decision[1] if decision is not None and decision[0] else None

    def find_decision(self, uri: str, name: str, is_dir: bool) -> tuple[bool, str] | None:
        """Return whether an entry is ignored, and ``file:line: text`` of the line that decides.

        None if no line matches.
        """
        if not uri.isascii():
            uri, name = normalize("NFC", uri), normalize("NFC", name)
        here: Ignores | None = self
        while here is not None:
            rule = here.file.decide(here.above + uri[len(here.base) :], name, is_dir)
            if rule is not None:
                return not rule.negated, f"{here.file.uri}:{rule.number}: {rule.text}"
            here = here.outer
        return None


_EXCLUDE = "info/exclude"


def load_outer_ignores(path: str) -> Ignores | None:
    """Return the rules that apply at a root before its own ignore files, or None."""
    repository = find_repository(path)
    if repository is None or repository.top in (os.path.expanduser("~"), repository.git_dir):
        return None
    git_dir = repository.git_dir
    below = repository.below.split("/") if repository.below else []
    # Rules can only hide files, so they apply even if the history is not read.
    ignores = _read(git_dir, _EXCLUDE, repository.below, None) if git_dir else None
    for depth in range(len(below)):
        if depth and _ignored(ignores, below, depth):
            return None
        folder = "/".join(below[:depth])
        inner = "/".join(below[depth:])
        ignores = _read(os.path.join(repository.top, folder), ".gitignore", inner, ignores)
    return None if below and _ignored(ignores, below, len(below)) else ignores


def _ignored(ignores: Ignores | None, below: list[str], depth: int) -> bool:
    """Whether the root, or the folder above it at ``depth``, is ignored."""
    here = ignores
    while here is not None:
        # The path is relative to the folder of each ignore file.
        inner = here.above.strip("/").split("/") if here.above else []
        passed = len(below) - len(inner)
        path = "/".join(below[passed:depth])
        rule = here.file.decide(path, below[depth - 1], True) if path else None
        if rule is not None:
            return not rule.negated
        here = here.outer
    return False


def _read(folder: str, name: str, below: str, outer: Ignores | None) -> Ignores | None:
    try:
        data, _ = Root.open(folder).read(name, MAX_BYTES)
    except (Refused, LookfarError):
        return outer  # It does not exist or cannot be read.
    return _rules(os.path.join(folder, name), data, f"{below}/" if below else "", outer)


@lru_cache(maxsize=512)
def _rules(uri: str, data: bytes, above: str, outer: Ignores | None) -> Ignores | None:
    rules = IgnoreFile(uri, data)
    return Ignores("", rules, outer, above) if len(rules) else outer
