"""Find the chunks that define what a question names.

If the parser recorded no definition, a line that looks like one counts, provided that few documents
contain the name. A name that occurs in only one document always leads there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from lookfar.model import Filters
from lookfar.ports import Place, Snapshot
from lookfar.retrieve.locate.file_names import is_aside
from lookfar.retrieve.question.names import (
    BETWEEN_NAMES,
    Name,
    compile_definition_pattern,
    find_members,
    find_names,
)
from lookfar.retrieve.ranking import NamedPlace, Plan

_MOST_MEANT: Final = 5
"""Definitions of a common word; if there are more, it is unclear which one is meant."""
_MOST_HEADED: Final = 200
_MOST_HOLDERS: Final = 16
"""Documents read to find a line that looks like a definition."""
_TYPES: Final = frozenset(("class", "interface", "struct", "trait", "enum", "type"))
_FUNCTIONS: Final = frozenset(("function", "method", "macro"))
_RECEIVERS: Final = frozenset(("self", "this", "cls", "super"))
_CONSTRUCTORS: Final = frozenset(("__init__", "constructor", "initialize", "new", "init"))
_HEADER: Final = re.compile(r"\.(?:h|hh|hpp|hxx|inc|pyi|d\.[cm]?ts)$")
_C_LIKE: Final = re.compile(r"\.(?:c|cc|cpp|cxx|m|mm)$")


class _Defined(NamedTuple):
    """A definition, and the chunk that contains its first line."""

    place: Place
    path: tuple[str, ...]
    tier: int


# Tiers: types are 0, functions 1, constants 2. The others rank behind.
_MAYBE_DECLARED: Final = 3
_SECONDARY: Final = 4
_INCIDENTAL: Final = 5
_CALLED: Final = frozenset((0, 1, _MAYBE_DECLARED, _SECONDARY))
"""Tiers of types and functions. That a constant has both names is more often an accident."""
_LOOKS_DEFINED: Final = 6
_LOOKS_NESTED: Final = 7
_ONLY_HOLDER: Final = 8


def find_named_places(
    plan: Plan, snapshot: Snapshot, filters: Filters
) -> tuple[dict[int, Place], dict[int, NamedPlace]]:
    """Return the chunks that the question's names refer to, and the match of each, by key."""
    places: dict[int, Place] = {}
    named: dict[int, NamedPlace] = {}
    names = find_names(plan)
    covered: set[str] = set()
    for number, member in enumerate(find_members(plan), len(names)):
        # Only definitions of the member in exactly the type that the question names.
        definitions = _leave_aside(
            [
                defined
                for defined in _find_recorded(member, snapshot, filters)
                if defined.path[-2:] == member.parts[-2:] and defined.tier in _CALLED
            ]
        )
        for defined in definitions if len(definitions) <= _MOST_MEANT else ():
            covered.update(member.parts[-2:])
            why = f"it defines {'.'.join(member.parts)}"
            places[defined.place.key] = defined.place
            named[defined.place.key] = NamedPlace(number, defined.tier, why, is_member=True)
    for number, name in enumerate(names):
        if name.last in covered:
            continue  # The question is about the member, not about its type.
        recorded = _find_recorded(name, snapshot, filters)
        definitions = _choose_meant(recorded, name) if recorded else []
        # A declaration in a header is not where it is defined.
        if all(d.tier == _SECONDARY and _HEADER.search(d.place.uri) for d in definitions):
            definitions = _find_unrecorded(name, snapshot, filters, definitions)
        for defined in definitions:
            places[defined.place.key] = defined.place
            only = "only this document contains" if defined.tier == _ONLY_HOLDER else "it defines"
            match = NamedPlace(
                number,
                defined.tier,
                f"{only} {'.'.join(name.parts)}",
                namesake=PurePosixPath(defined.place.uri).stem.casefold() == name.last.casefold(),
            )
            named[defined.place.key] = min(named.get(defined.place.key, match), match)
    return places, named


def _leave_aside(definitions: list[_Defined]) -> list[_Defined]:
    """Return the definitions outside of tests and examples; if there are none, all of them."""
    return [defined for defined in definitions if not is_aside(defined.place.uri)] or definitions


def _find_recorded(name: Name, snapshot: Snapshot, filters: Filters) -> list[_Defined]:
    """Return what the parser recorded as definitions of this name."""
    if not snapshot.has_code():
        return []
    headed = snapshot.keyword_search(name.terms, {"headings": 1.0}, _MOST_HEADED, filters)
    uris = {place.document: place.uri for place, _ in headed if place.lane == "code"}
    folded = name.last.casefold()
    recorded: list[_Defined] = []
    for document, definitions in snapshot.definitions(sorted(uris)).items():
        starts = {d.start: d.kind for d in definitions if _last_part(d.name).casefold() == folded}
        if not starts:
            continue
        uri = uris[document]
        chunks = snapshot.admitted(uri, filters)
        for section in snapshot.sections(uri):
            start = section.span.start
            if not (section.level and start in starts):
                continue
            # The chunk with the line that names the definition; long comments may precede it.
            without_body = section.body >= section.span.end
            head = start if without_body else section.body - 1
            chunk = _chunk_at(head, chunks) or _chunk_at(start, chunks)
            if chunk is not None and _last_part(section.title).casefold() == folded:
                parts = (part for title in section.path for part in BETWEEN_NAMES.split(title))
                path = tuple(filter(None, parts))
                tier = _rate_definition(uri, path, starts[start], without_body=without_body)
                recorded.append(_Defined(chunk, path, tier))
    return recorded


def _choose_meant(definitions: list[_Defined], name: Name) -> list[_Defined]:
    """Return the definitions that the question can mean."""
    if name.last == name.last.lower():
        # Written without capitals, it may as well mean a class; but not one of an example.
        definitions = _leave_aside(definitions)
    definitions = [
        defined for defined in definitions if defined.path[-1] == name.last
    ] or definitions
    owner = name.parts[-2].casefold() if len(name.parts) > 1 else ""
    if owner and owner not in _RECEIVERS:
        # Those in the type, module or file that the name mentions.
        owned = [
            defined
            for defined in definitions
            if owner in (defined.place.uri.casefold().replace(".", "/").split("/"))
            or owner in [part.casefold() for part in defined.path[:-1]]
        ]
        # ``Sinatra::Helpers`` is not ``Sinatra::Streaming::Helpers``.
        owned = [
            defined
            for defined in owned
            if len(defined.path) > 1 and defined.path[-2].casefold() == owner
        ] or owned
        # The definition of ``os.path.join`` is not in this collection.
        definitions = owned or (definitions if name.alone and len(definitions) == 1 else [])
    definitions = _leave_aside(definitions)
    if not name.alone:
        # The other words of the question decide which of several it is about.
        definitions = [
            defined for defined in definitions if defined.tier < _MAYBE_DECLARED
        ] or definitions
        return definitions if len(definitions) == 1 and definitions[0].tier < _INCIDENTAL else []
    best = min((defined.tier for defined in definitions), default=0)
    if sum(defined.tier == best for defined in definitions) > _MOST_MEANT and not name.sure:
        return []  # It is a common word, so code with that name is probably not meant.
    return definitions


def _find_unrecorded(
    name: Name, snapshot: Snapshot, filters: Filters, declared: list[_Defined]
) -> list[_Defined]:
    """Find where a name seems to be defined, or the only document that contains it."""
    if not name.alone and len(name.parts) > 1:
        return declared
    weights = {"headings": 1.0, "body": 1.0, "code": 1.0}
    matches = snapshot.keyword_search(name.terms, weights, _MOST_HEADED, filters)
    holders = {place.uri: place.lane for place, _ in matches if place.lane != "commits"}
    code = [uri for uri, kind in holders.items() if kind == "code"]
    defining: list[_Defined] = []
    lines = compile_definition_pattern(name.last, with_body=bool(declared))
    for uri in code if len(code) <= _MOST_HOLDERS else ():
        match = lines.search(snapshot.text(uri) or "")
        chunk = _chunk_at(match.end() - 1, snapshot.admitted(uri, filters)) if match else None
        if match and chunk is not None and not (declared and _HEADER.search(uri)):
            tier = _LOOKS_NESTED if match[0][:1] in " \t" else _LOOKS_DEFINED
            defining.append(_Defined(chunk, (name.last,), tier))
    if defining or declared or len(holders) != 1:
        return _leave_aside(defining) or declared
    (uri,) = holders
    match = re.search(rf"(?<![\w$]){re.escape(name.last)}(?![\w$])", snapshot.text(uri) or "")
    chunk = _chunk_at(match.start(), snapshot.admitted(uri, filters)) if match else None
    return [_Defined(chunk, (name.last,), _ONLY_HOLDER)] if chunk is not None else []


def _rate_definition(uri: str, path: Sequence[str], kind: str, *, without_body: bool) -> int:
    """Return the tier of a definition; if several have the same name, the lowest is meant."""
    name, owner = path[-1], path[-2] if len(path) > 1 else ""
    if kind in _TYPES:
        return 0
    if kind in _FUNCTIONS:
        if name == owner or name in _CONSTRUCTORS or (without_body and _HEADER.search(uri)):
            return _SECONDARY
        # In C, one line may be a declaration or a whole function.
        return _MAYBE_DECLARED if without_body and _C_LIKE.search(uri) else 1
    return 2 if kind == "constant" else _INCIDENTAL


def _last_part(title: str) -> str:
    parts = [part for part in BETWEEN_NAMES.split(title) if part]
    return parts[-1] if parts else title


def _chunk_at(offset: int, chunks: Sequence[Place]) -> Place | None:
    inside = (place for place in chunks if place.start + place.overlap <= offset < place.end)
    return next(inside, None)
