"""Decide what a target means. This is the only place with the order of precedence:

1. ``[[Note]]``, ``![[Note#Heading]]`` and ``((block id))`` are links and can only mean a note.
2. A path below the folder, with ``#Heading``, ``#^block`` or ``:10-20`` after it.
3. A definition of source code that is spelled exactly like this.
4. A note by its name: the path or the end of it without the extension, then an alias, then the
   title, in any case.
5. A definition of source code in another case.

Before these, the library takes addresses (``lookfar://...``) and hashes of commits. A name that
several notes have on the best of these levels is ambiguous and is never guessed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import IntEnum
from typing import NoReturn
from unicodedata import normalize

from lookfar.errors import Ambiguous, NotFound
from lookfar.model import Target
from lookfar.ports import Snapshot
from lookfar.retrieve.locate.nearest import describe_document, unknown_document
from lookfar.retrieve.locate.symbols import (
    describe_place,
    find_definitions,
    find_only_definition,
    is_spelled,
)
from lookfar.retrieve.locate.target import parse_target

_LINK = re.compile(r"\s*!?\[\[([^\[\]|]*)(?:\|[^\[\]]*)?\]\]\s*")
_BLOCK_REFERENCE = re.compile(r"\s*\(\(([0-9a-fA-F-]{36})\)\)\s*")
_SHOWN = 5
_MOST_LISTED = 50


class Meaning(IntEnum):
    """What a target can mean; lower values take precedence."""

    PATH = 0
    DEFINITION = 1
    NOTE = 2
    DEFINITION_IN_ANY_CASE = 3


def is_link(text: str) -> bool:
    """Return whether a text is a ``[[link]]`` or a ``((block reference))`` and nothing else."""
    return bool(_LINK.fullmatch(text) or _BLOCK_REFERENCE.fullmatch(text))


def resolve_target(snapshot: Snapshot, target: str | Target) -> Target:
    """Return the document and the part that a target means; an unknown one stays as written."""
    if isinstance(target, Target):
        # A citation names the path of a document.
        if target.chars is not None or snapshot.document(target.uri) is not None:
            return target
        return resolve_note(snapshot, target) or target
    if is_link(target):
        return resolve_note(snapshot, target) or _refuse_link(snapshot, target)
    wanted = parse_path(snapshot, target)
    if snapshot.document(wanted.uri) is not None:
        return wanted
    if _is_defined(snapshot, target):
        return _resolve_definition(snapshot, target) or wanted
    return (
        _resolve_name(snapshot, target, wanted) or _resolve_definition(snapshot, target) or wanted
    )


def find_meaning(snapshot: Snapshot, target: str) -> Meaning | None:
    """Return what a target means here; None if it means nothing. Ambiguous names count, too."""
    try:
        if is_link(target):
            return None if resolve_note(snapshot, target) is None else Meaning.NOTE
        if is_path(snapshot, target):
            return Meaning.PATH
        if _is_defined(snapshot, target):
            return Meaning.DEFINITION
        if _resolve_name(snapshot, target, parse_path(snapshot, target)) is not None:
            return Meaning.NOTE
    except Ambiguous:
        return Meaning.NOTE
    return Meaning.DEFINITION_IN_ANY_CASE if find_definitions(snapshot, target) else None


def is_path(snapshot: Snapshot, target: str) -> bool:
    """Return whether a target is the path of a document, perhaps with a part of it."""
    return snapshot.document(parse_path(snapshot, target).uri) is not None


def parse_path(snapshot: Snapshot, target: str) -> Target:
    """Parse a target as a path; all of it is the path if there is such a document."""
    spelled = indexed_spelling(snapshot, target)
    wanted = parse_target(
        spelled,
        snapshot.document(spelled) is not None,
        lambda uri: snapshot.document(indexed_spelling(snapshot, uri)) is not None,
    )
    return replace(wanted, uri=indexed_spelling(snapshot, wanted.uri))


def resolve_note(snapshot: Snapshot, target: str | Target) -> Target | None:
    """Return the note that a name or a link means; None if there is none.

    Raises ``Ambiguous`` if several notes have the name.
    """
    if isinstance(target, Target):
        uri = find_note(snapshot, target.uri)
        return replace(target, uri=uri) if uri else None
    reference = _BLOCK_REFERENCE.fullmatch(target)
    if reference is not None:
        # Logseq declares the id of a block with ``id:: ...``.
        asked = (reference[1].lower(), "label", reference[1].lower())
        resolved = snapshot.resolve_links([asked]).get(asked)
        return Target(resolved[0], f"^{asked[0]}") if resolved else None
    link = _LINK.fullmatch(target)
    # In a table the pipe of a link is escaped.
    text = link[1].removesuffix("\\").strip() if link else target.strip()
    name, _, heading = text.partition("#")
    wanted = Target(name.strip(), heading.strip()) if link else parse_target(text, exists=False)
    return _resolve_name(snapshot, text, wanted)


def find_note(snapshot: Snapshot, name: str) -> str:
    """Return the URI of the only note with this name, or an empty string."""
    notes = snapshot.find_notes(name) if name else []
    if len(notes) > 1:
        candidates = [describe_document(uri, title) for uri, title in notes[:_MOST_LISTED]]
        more = f"; and {len(notes) - _SHOWN} more" if len(notes) > _SHOWN else ""
        raise Ambiguous(
            f"{len(notes)} documents are called {name!r}.",
            hint=f"Give the path of one: {'; '.join(candidates[:_SHOWN])}{more}.",
            details={
                "candidates": candidates,
                "documents": [{"uri": uri, "title": title} for uri, title in notes[:_MOST_LISTED]],
            },
        )
    return notes[0][0] if notes else ""


def indexed_spelling(snapshot: Snapshot, uri: str) -> str:
    """Return a URI in the Unicode form of the index: macOS stores names differently."""
    if uri.isascii() or snapshot.document(uri) is not None:
        return uri
    composed = normalize("NFC", uri)
    matches = [known for known in snapshot.uris() if normalize("NFC", known) == composed]
    return matches[0] if len(matches) == 1 else uri


def _refuse_link(snapshot: Snapshot, text: str) -> NoReturn:
    link = _LINK.fullmatch(text)
    name = link[1].partition("#")[0].strip() if link else text.strip()
    if not name:
        raise NotFound(
            f"{text.strip()!r} is a place in the note that contains it.",
            hint="Name the note, too: [[Note#Heading]].",
            details={"candidates": []},
        )
    raise unknown_document(snapshot, name)


def _resolve_name(snapshot: Snapshot, text: str, wanted: Target) -> Target | None:
    """Resolve a name: all of the text, or else the part before a heading or lines."""
    whole = find_note(snapshot, text)
    if whole:
        return Target(whole)
    uri = find_note(snapshot, wanted.uri) if wanted.uri != text else ""
    return replace(wanted, uri=uri) if uri else None


def _is_defined(snapshot: Snapshot, name: str) -> bool:
    return any(is_spelled(found, name) for found in find_definitions(snapshot, name))


def _resolve_definition(snapshot: Snapshot, name: str) -> Target | None:
    try:
        definition = find_only_definition(snapshot, name)
    except Ambiguous as error:
        if not snapshot.find_notes(name):
            raise
        hint = f"{error.hint} The note is [[{name}]]."
        raise Ambiguous(error.message, hint=hint, details=error.details) from error
    if definition is None:
        return None
    main, others = definition
    also = tuple(describe_place(other) for other in others)
    return Target(main.uri, " > ".join(main.section.path), also=also)
