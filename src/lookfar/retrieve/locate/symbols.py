"""Resolve the names of definitions in source code.

Names are written as ``getUserById``, ``Context.invoke`` or ``Outer::inner``. If several definitions
match, the error lists them with their lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from lookfar.errors import Ambiguous

if TYPE_CHECKING:
    from lookfar.model import Section
    from lookfar.ports import Snapshot

_BETWEEN = re.compile(r"\s*(?:::|->|[.#>→])\s*")
_NAME = re.compile(r"[\w$~@!?-]+(?:\s*(?:::|->|[.#>→])\s*[\w$~@!?-]+)*")
_SHOWN = 5


class Definition(NamedTuple):
    """A definition in a document."""

    uri: str
    section: Section


def split_name(name: str) -> tuple[str, ...]:
    """Split a name, outermost part first: ``A::b``, ``A.b`` and ``A > b`` are the same."""
    return tuple(part for part in _BETWEEN.split(name) if part)


def match_sections(sections: Sequence[Section], name: str) -> list[Section]:
    """Return the definitions that a name can mean.

    Those in the same case are preferred, then those without an enclosing definition.
    """
    wanted = split_name(name)
    paths = [split_name(".".join(section.path)) for section in sections]
    folded = tuple(part.casefold() for part in wanted)
    found = [
        (path, section)
        for path, section in zip(paths, sections, strict=True)
        if wanted and tuple(part.casefold() for part in path[-len(wanted) :]) == folded
    ]
    found = [each for each in found if each[0][-len(wanted) :] == wanted] or found
    found = [each for each in found if len(each[0]) == len(wanted)] or found
    return [section for _, section in found]


def find_definitions(snapshot: Snapshot, name: str) -> list[Definition]:
    """Return all definitions in the collection that a name can mean, by URI and position."""
    if not _NAME.fullmatch(name.strip()):
        return []
    found = [Definition(*each) for each in snapshot.defining(split_name(name)[-1])]
    meant = match_sections([each.section for each in found], name)
    chosen = {id(section) for section in meant}
    return [each for each in found if id(each.section) in chosen]


def find_only_definition(snapshot: Snapshot, name: str) -> Definition | None:
    """Return the definition that a name means, if any; raise ``Ambiguous`` if there are several."""
    found = find_definitions(snapshot, name)
    if len(found) < 2:
        return found[0] if found else None
    candidates = [describe_place(each) for each in found]
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    raise Ambiguous(
        f"{len(found)} definitions are called {name!r}.",
        hint=f"Name one by its place: {'; '.join(candidates[:_SHOWN])}{more}.",
        details={"candidates": candidates},
    )


def describe_place(found: Definition) -> str:
    """Describe a definition by its URI, lines and full name."""
    span = found.section.span
    return f"{found.uri}:{span.start_line}-{span.end_line} ({'.'.join(found.section.path)})"
