"""Choose among definitions with the same name as a reader would.

A definition is preferred to a declaration, a type to its constructor and its implementations, code
to data, and the code of a project to its tests and examples. What remains is grouped into things:
the overloads of a function, the parts of a partial class and the branches of a condition are one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from lookfar.model import Section, SymbolKind
from lookfar.retrieve.locate.file_names import is_aside
from lookfar.text.parse.languages import find_language

TYPES = frozenset(("class", "interface", "struct", "trait", "enum", "type", "module"))
_FUNCTIONS = frozenset(("function", "method"))
_SPREAD: dict[str, frozenset[str]] = {
    "csharp": frozenset(("class", "struct", "interface", "module")),
    "ruby": frozenset(("class", "module")),
    "cpp": frozenset(("module",)),
    "php": frozenset(("module",)),
    "typescript": frozenset(("interface", "module")),
    "rust": frozenset(("impl",)),
    "swift": frozenset(("impl",)),
}
"""Kinds of definitions that a language allows in parts, also in several files."""
_WITHOUT_OVERLOADS = frozenset(("javascript", "typescript", "tsx"))
"""In these, functions with the same path are often local to different callbacks."""
_ALWAYS_WHOLE = frozenset(("python", "ruby", "lua", "bash", "haskell", "elixir", "zig"))
"""Languages without declarations that have the form of a definition."""
_OVERLOAD = re.compile(r"@(?:\w+\.)?overload\b")
_DELEGATED = re.compile(r"\s*(?:delegate|def_(?:instance_)?delegators?|alias|alias_method)\b")
_PURE = re.compile(r"=\s*0\s*;\s*$")
_PARTIAL = re.compile(r"\bpartial\b")
_LAST_COMMENT = re.compile(r"\s*(?://[^\n]*|/\*[^*]*\*/)\s*$")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A definition that a name can mean."""

    uri: str
    section: Section
    path: tuple[str, ...]
    """The names around it and its own name; ``Owner.name`` counts as two."""
    kind: SymbolKind | Literal[""]
    language: str
    local: bool
    """Whether it is inside a function."""
    text: str
    """Its text, with comments and decorators above."""

    @property
    def is_declaration(self) -> bool:
        """Whether a function, or a module of Rust, is declared here and defined elsewhere."""
        if self.language == "rust" and self.kind == "module":
            return "{" not in self.text
        if self.kind not in _FUNCTIONS:
            return False
        if self.language == "python":
            return _OVERLOAD.search(self.text) is not None
        if self.language == "ruby":
            return _DELEGATED.match(self.text) is not None
        if self.language in _ALWAYS_WHOLE:
            return False
        text = _LAST_COMMENT.sub("", self.text)
        if "{" in text or "=>" in text:
            return False
        tail = text.rpartition(")")[2]
        return "=" not in tail or _PURE.search(tail) is not None

    @property
    def belongs_to_type(self) -> bool:
        """Whether it is a constructor or an implementation, and not the type itself."""
        return self.kind == "impl" or (len(self.path) > 1 and self.path[-2] == self.path[-1])


def choose(candidates: Sequence[Candidate], parts: int) -> list[list[Candidate]]:
    """Return the things that a name of so many parts can mean; the main part of each is first."""
    remaining = list(candidates)
    has_type = any(candidate.kind in TYPES for candidate in remaining)
    preferences: tuple[Callable[[Candidate], bool], ...] = (
        lambda candidate: _is_program(candidate.language),
        lambda candidate: not is_aside(candidate.uri),
        lambda candidate: not candidate.is_declaration,
        lambda candidate: not (has_type and candidate.belongs_to_type),
        lambda candidate: not candidate.local,
        lambda candidate: len(candidate.path) == parts,
    )
    for prefer in preferences:
        remaining = [candidate for candidate in remaining if prefer(candidate)] or remaining
    things: list[list[Candidate]] = []
    for candidate in remaining:
        thing = next((thing for thing in things if _is_same(thing[0], candidate)), None)
        if thing is None:
            things.append([candidate])
        else:
            thing.append(candidate)
    return [_put_main_first(thing) for thing in things]


def _is_program(name: str) -> bool:
    language = find_language(name)
    return language is not None and language.category == "program"


def _is_same(one: Candidate, other: Candidate) -> bool:
    """Return whether two definitions are parts of one thing."""
    if one.path != other.path or one.language != other.language:
        return False
    spread = _SPREAD.get(one.language, frozenset())
    if {one.kind, other.kind} <= spread:
        is_partial = _PARTIAL.search(one.text[:400]) and _PARTIAL.search(other.text[:400])
        if one.language != "csharp" or one.kind == "module" or is_partial:
            return True
    if one.uri != other.uri:
        return False
    return one.language not in _WITHOUT_OVERLOADS or one.kind != other.kind


def _put_main_first(thing: list[Candidate]) -> list[Candidate]:
    """Put the part first that a reader would open: the file with its name, or the largest."""
    if thing[0].kind not in TYPES and thing[0].kind != "impl":
        return thing

    def rank(candidate: Candidate) -> tuple[bool, int]:
        stem = candidate.uri.rpartition("/")[2].partition(".")[0]
        span = candidate.section.span
        return stem.casefold() != candidate.path[-1].casefold(), span.start - span.end

    return sorted(thing, key=rank)
