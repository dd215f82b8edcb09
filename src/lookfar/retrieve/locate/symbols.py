"""Resolve the names of definitions in source code, such as ``Context.invoke``.

Among definitions with the same name we choose as a reader would. A definition is preferred to a
declaration, a type to its constructor and its implementations, code to data, and the code of a
project to its tests and examples. What remains is grouped into things: the overloads of a function,
the parts of a partial class and the branches of a condition are one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from lookfar.errors import Ambiguous
from lookfar.model import Document, Section, SymbolKind
from lookfar.ports import Snapshot
from lookfar.retrieve.locate.file_names import is_aside
from lookfar.text.parse.languages import detect_language, find_language

_BETWEEN = re.compile(r"\s*(?:::|->|[.#>→])\s*")
_NAME = re.compile(r"[\w$~@!?-]+(?:\s*(?:::|->|[.#>→])\s*[\w$~@!?-]+)*=?")
_SHOWN = 5
_LONGEST_NAME = 200
_PROSE = (".md", ".rst", ".txt", ".markdown", ".mdx", ".adoc", ".org", ".pdf", ".html")
_SETTER = "="
"""Ends the name of a method that assigns, in Ruby."""
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

Kinds = Mapping[int, SymbolKind | Literal[""]]
"""The kind of each section of a document, by its ordinal."""


class Definition(NamedTuple):
    uri: str
    section: Section


def split_name(name: str) -> tuple[str, ...]:
    """Split a name, outermost part first: ``A::b``, ``A.b`` and ``A > b`` are the same."""
    return tuple(part for part in _BETWEEN.split(name) if part)


def match_names(sections: Sequence[Section], name: str) -> list[Section]:
    """Return the definitions whose path ends with a name, preferring the same case."""
    wanted = split_name(name)
    folded = tuple(part.casefold() for part in wanted)
    pairs = [
        (path[-len(wanted) :], section)
        for path, section in ((split_path(section), section) for section in sections)
        if wanted and tuple(part.casefold() for part in path[-len(wanted) :]) == folded
    ]
    pairs = [pair for pair in pairs if pair[0] == wanted] or pairs
    return [section for _, section in pairs]


def split_path(section: Section) -> tuple[str, ...]:
    """Return the names around a definition and its own name; ``Owner.name`` counts as two."""
    return split_name(".".join(section.path))


def find_definitions(snapshot: Snapshot, name: str) -> list[Definition]:
    """Return all definitions in the collection that a name can mean, by URI and position.

    The same case is preferred, and outer definitions.
    """
    definitions = _find_named(snapshot, name)
    sections = match_names([definition.section for definition in definitions], name)
    parts = len(split_name(name))
    outer = [section for section in sections if len(split_path(section)) == parts]
    return _keep(definitions, outer or sections)


def _keep(definitions: Sequence[Definition], matched: Sequence[Section]) -> list[Definition]:
    chosen = {id(section) for section in matched}
    return [definition for definition in definitions if id(definition.section) in chosen]


def is_spelled(definition: Definition, name: str) -> bool:
    """Return whether the path of a definition ends with exactly this name, also in case."""
    wanted = split_name(name)
    return split_path(definition.section)[-len(wanted) :] == wanted


def is_symbol_name(text: str) -> bool:
    """Whether a text can only be a name in source code: not a path, nor a file name."""
    if "/" in text or len(text) > _LONGEST_NAME or _NAME.fullmatch(text.strip()) is None:
        return False
    return detect_language(text) is None and not text.lower().endswith(_PROSE)


def _find_named(snapshot: Snapshot, name: str) -> list[Definition]:
    """Return the definitions whose last name is the last part of a name, in any case."""
    if not _NAME.fullmatch(name.strip()):
        return []
    last = split_name(name)[-1]
    rows = snapshot.defining(last)
    if not rows and last.endswith(_SETTER):
        rows = snapshot.defining(last.removesuffix(_SETTER))
    return [Definition(*row) for row in rows]


def find_only_definition(
    snapshot: Snapshot, name: str
) -> tuple[Definition, tuple[Definition, ...]] | None:
    """Return the definition that a name means and its other parts, or None.

    Raises ``Ambiguous`` if it can mean different things.
    """
    definitions = _find_named(snapshot, name)
    sections = [definition.section for definition in definitions]
    matched = match_names(sections, name) or match_names(sections, name.removesuffix(_SETTER))
    definitions = _keep(definitions, matched)
    if len(definitions) < 2:
        return (definitions[0], ()) if definitions else None
    things = choose(_make_candidates(snapshot, definitions), len(split_name(name)))
    if len(things) == 1:
        main, *others = (Definition(part.uri, part.section) for part in things[0])
        return main, tuple(others)
    choices = [Definition(thing[0].uri, thing[0].section) for thing in things]
    candidates = [describe_place(definition) for definition in choices]
    more = f"; and {len(choices) - _SHOWN} more" if len(choices) > _SHOWN else ""
    raise Ambiguous(
        f"{len(choices)} definitions are called {name!r}.",
        hint=f"Choose one by its lines: {'; '.join(candidates[:_SHOWN])}{more}.",
        details={"candidates": candidates},
    )


def choose_in_document(document: Document, sections: Sequence[Section], name: str) -> list[Section]:
    """Return the sections of one document that a name can mean, as a reader would choose."""
    kinds = {symbol.section: symbol.kind for symbol in document.symbols}
    all_sections = {section.ordinal: section for section in document.sections}
    candidates = [
        _make_candidate(
            document.uri, section, kinds, all_sections, document.language, document.text
        )
        for section in sections
    ]
    return [thing[0].section for thing in choose(candidates, len(split_name(name)))]


def _make_candidates(snapshot: Snapshot, definitions: Sequence[Definition]) -> list[Candidate]:
    candidates: list[Candidate] = []
    by_uri: dict[str, list[Section]] = {}
    for definition in definitions:
        by_uri.setdefault(definition.uri, []).append(definition.section)
    for uri, sections in by_uri.items():
        row, text = snapshot.document(uri), snapshot.text(uri)
        if row is None or text is None:
            continue
        everything = {section.ordinal: section for section in snapshot.sections(uri)}
        at = {
            (known.start, known.name): known.kind
            for known in snapshot.definitions([row["id"]]).get(row["id"], ())
        }
        kinds: Kinds = {
            section.ordinal: at.get((section.span.start, section.title), "")
            for section in everything.values()
        }
        candidates += [
            _make_candidate(uri, section, kinds, everything, row["language"], text)
            for section in sections
        ]
    return candidates


def _make_candidate(
    uri: str,
    section: Section,
    kinds: Kinds,
    sections: Mapping[int, Section],
    language: str,
    text: str,
) -> Candidate:
    local = False
    around = sections.get(section.parent)
    while around is not None and not local:
        local = kinds.get(around.ordinal, "") in ("function", "method")
        around = sections.get(around.parent)
    return Candidate(
        uri=uri,
        section=section,
        path=split_path(section),
        kind=kinds.get(section.ordinal, ""),
        language=language,
        local=local,
        text=text[section.span.start : section.span.end],
    )


def describe_place(definition: Definition) -> str:
    """Describe a definition by its URI, lines and full name."""
    span = definition.section.span
    return (
        f"{definition.uri}:{span.start_line}-{span.end_line} ({'.'.join(definition.section.path)})"
    )


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
        lambda candidate: getattr(find_language(candidate.language), "category", "") == "program",
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
