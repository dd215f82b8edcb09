"""Resolve the names of definitions in source code, such as ``Context.invoke``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from lookfar.errors import Ambiguous
from lookfar.model import Document, Section, SymbolKind
from lookfar.ports import Snapshot
from lookfar.retrieve.locate.preferred import Candidate, choose
from lookfar.text.parse.languages import detect_language

_BETWEEN = re.compile(r"\s*(?:::|->|[.#>→])\s*")
_NAME = re.compile(r"[\w$~@!?-]+(?:\s*(?:::|->|[.#>→])\s*[\w$~@!?-]+)*=?")
_SHOWN = 5
_LONGEST_NAME = 200
_PROSE = (".md", ".rst", ".txt", ".markdown", ".mdx", ".adoc", ".org", ".pdf", ".html")
_SETTER = "="
"""Ends the name of a method that assigns, in Ruby."""

Kinds = Mapping[int, SymbolKind | Literal[""]]
"""The kind of each section of a document, by its ordinal."""


class Definition(NamedTuple):
    uri: str
    section: Section


def split_name(name: str) -> tuple[str, ...]:
    """Split a name, outermost part first: ``A::b``, ``A.b`` and ``A > b`` are the same."""
    return tuple(part for part in _BETWEEN.split(name) if part)


def match_sections(sections: Sequence[Section], name: str) -> list[Section]:
    """Return the definitions that a name can mean, preferring the same case and outer ones."""
    wanted = split_name(name)
    sections = match_names(sections, name)
    outer = [section for section in sections if len(split_path(section)) == len(wanted)]
    return outer or sections


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
    """Return all definitions in the collection that a name can mean, by URI and position."""
    definitions = _find_named(snapshot, name)
    sections = match_sections([definition.section for definition in definitions], name)
    chosen = {id(section) for section in sections}
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
    matched = {
        id(section)
        for section in match_names([definition.section for definition in definitions], name)
        or match_names(
            [definition.section for definition in definitions], name.removesuffix(_SETTER)
        )
    }
    definitions = [definition for definition in definitions if id(definition.section) in matched]
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
