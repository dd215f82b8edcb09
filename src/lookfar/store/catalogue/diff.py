"""What changed from one generation to another: documents, and the sections inside them.

Takes: a connection and two kept generations. Gives: what the second has and the first
has not, down to heading paths. Refuses: to read what both show; a version alive in both
is never opened.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from hashlib import sha256

from lookfar.model import DocumentChange, GenerationDiff
from lookfar.store.catalogue import rows as catalog
from lookfar.store.ground.sql import Connection

_ALIVE = "d.born <= :{0} AND (d.died IS NULL OR d.died > :{0})"
Path = tuple[str, ...]
_Version = tuple[int, bytes]


def diff(connection: Connection, older: int, newer: int) -> GenerationDiff:
    """Documents and sections that came, went or changed; equal texts are no change."""
    before = _only_in(connection, older, newer)
    after = _only_in(connection, newer, older)
    return GenerationDiff(
        older,
        newer,
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed=tuple(
            _changed(connection, uri, before[uri], after[uri])
            for uri in sorted(before.keys() & after.keys())
            if before[uri][1] != after[uri][1]
        ),
    )


def _only_in(connection: Connection, this: int, other: int) -> dict[str, _Version]:
    """The versions alive in ``this`` and not in ``other``, by URI."""
    rows = connection.execute(
        "SELECT d.uri, d.id, d.text_sha FROM documents d"
        f" WHERE {_ALIVE.format('this')} AND NOT ({_ALIVE.format('other')})",
        {"this": this, "other": other},
    )
    return {uri: (identifier, text_sha) for uri, identifier, text_sha in rows}


def _changed(connection: Connection, uri: str, before: _Version, after: _Version) -> DocumentChange:
    """Sections of one name are paired by their text first, and then in order."""
    old, new = _sections(connection, before), _sections(connection, after)
    added: list[Path] = []
    removed: list[Path] = []
    changed: list[Path] = []
    for path in dict.fromkeys((*new, *old)):
        gone = (old[path] - new[path]).total()
        come = (new[path] - old[path]).total()
        changed += [path] * min(gone, come)
        added += [path] * (come - gone)
        removed += [path] * (gone - come)
    return DocumentChange(uri, tuple(added), tuple(removed), tuple(changed))


def _sections(connection: Connection, version: _Version) -> defaultdict[Path, Counter[bytes]]:
    """Hashes of the sections' own texts by heading path; several may share one path."""
    found: defaultdict[Path, Counter[bytes]] = defaultdict(Counter)
    for path, text in _own_texts(connection, version):
        if text.strip():
            found[path][sha256(text.strip().encode("utf-8")).digest()] += 1
    return found


def _own_texts(connection: Connection, version: _Version) -> Iterator[tuple[Path, str]]:
    """The whole text, cut at every heading: what one section gains no other one loses."""
    identifier, text_sha = version
    text = catalog.text(connection, text_sha)
    headed = [each for each in catalog.sections(connection, identifier) if each.level]
    starts = [each.span.start for each in headed]
    yield (), text[: starts[0] if starts else len(text)]
    for section, end in zip(headed, [*starts[1:], len(text)][: len(headed)], strict=True):
        yield section.path, text[section.span.start : end]
