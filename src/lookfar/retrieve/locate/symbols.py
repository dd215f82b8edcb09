"""Resolve the names of definitions in source code, such as ``Context.invoke``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from lookfar.errors import Ambiguous
from lookfar.model import Section
from lookfar.ports import Snapshot
from lookfar.text.parse.languages import detect_language

_BETWEEN = re.compile(r"\s*(?:::|->|[.#>→])\s*")
_NAME = re.compile(r"[\w$~@!?-]+(?:\s*(?:::|->|[.#>→])\s*[\w$~@!?-]+)*")
_SHOWN = 5
_LONGEST_NAME = 200
_PROSE = (".md", ".rst", ".txt", ".markdown", ".mdx", ".adoc", ".org", ".pdf", ".html")


class Definition(NamedTuple):
    uri: str
    section: Section


def split_name(name: str) -> tuple[str, ...]:
    """Split a name, outermost part first: ``A::b``, ``A.b`` and ``A > b`` are the same."""
    return tuple(part for part in _BETWEEN.split(name) if part)


def match_sections(sections: Sequence[Section], name: str) -> list[Section]:
    """Return the definitions that a name can mean, preferring the same case and outer ones."""
    wanted = split_name(name)
    paths = [split_name(".".join(section.path)) for section in sections]
    folded = tuple(part.casefold() for part in wanted)
    pairs = [
        (path, section)
        for path, section in zip(paths, sections, strict=True)
        if wanted and tuple(part.casefold() for part in path[-len(wanted) :]) == folded
    ]
    pairs = [pair for pair in pairs if pair[0][-len(wanted) :] == wanted] or pairs
    pairs = [pair for pair in pairs if len(pair[0]) == len(wanted)] or pairs
    return [section for _, section in pairs]


def find_definitions(snapshot: Snapshot, name: str) -> list[Definition]:
    """Return all definitions in the collection that a name can mean, by URI and position."""
    if not _NAME.fullmatch(name.strip()):
        return []
    definitions = [Definition(*row) for row in snapshot.defining(split_name(name)[-1])]
    sections = match_sections([definition.section for definition in definitions], name)
    chosen = {id(section) for section in sections}
    return [definition for definition in definitions if id(definition.section) in chosen]


def is_symbol_name(text: str) -> bool:
    """Whether a text can only be a name in source code: not a path, nor a file name."""
    if "/" in text or len(text) > _LONGEST_NAME or _NAME.fullmatch(text.strip()) is None:
        return False
    return detect_language(text) is None and not text.lower().endswith(_PROSE)


def find_only_definition(snapshot: Snapshot, name: str) -> Definition | None:
    """Return the definition that a name means, if any; raise ``Ambiguous`` if there are several."""
    definitions = find_definitions(snapshot, name)
    if len(definitions) < 2:
        return definitions[0] if definitions else None
    candidates = [describe_place(definition) for definition in definitions]
    more = f"; and {len(definitions) - _SHOWN} more" if len(definitions) > _SHOWN else ""
    raise Ambiguous(
        f"{len(definitions)} definitions are called {name!r}.",
        hint=f"Choose one by its lines: {'; '.join(candidates[:_SHOWN])}{more}.",
        details={"candidates": candidates},
    )


def describe_place(definition: Definition) -> str:
    """Describe a definition by its URI, lines and full name."""
    span = definition.section.span
    return (
        f"{definition.uri}:{span.start_line}-{span.end_line} ({'.'.join(definition.section.path)})"
    )
