"""Compare two generations: which documents and sections were added, removed or changed.

A version that is live in both generations is not read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from hashlib import sha256
from sqlite3 import Connection

from lookfar.model import DocumentChange, GenerationDiff
from lookfar.store.catalogue import rows as catalog

_ALIVE = "d.born <= :{0} AND (d.died IS NULL OR d.died > :{0})"
Path = tuple[str, ...]
_Version = tuple[int, bytes]


def diff(connection: Connection, older: int, newer: int) -> GenerationDiff:
    """Return the added, removed and changed documents; equal texts are not a change."""
    before = _only_in(connection, older, newer)
    after = _only_in(connection, newer, older)
    return GenerationDiff(
        older,
        newer,
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed=tuple(
            _compare_sections(connection, uri, before[uri], after[uri])
            for uri in sorted(before.keys() & after.keys())
            if before[uri][1] != after[uri][1]
        ),
    )


def _only_in(connection: Connection, this: int, other: int) -> dict[str, _Version]:
    """Return the versions that are live in ``this`` and not in ``other``, by URI."""
    rows = connection.execute(
        "SELECT d.uri, d.id, d.text_sha FROM documents d"
        f" WHERE {_ALIVE.format('this')} AND NOT ({_ALIVE.format('other')})",
        {"this": this, "other": other},
    )
    return {uri: (identifier, text_sha) for uri, identifier, text_sha in rows}


def _compare_sections(
    connection: Connection, uri: str, before: _Version, after: _Version
) -> DocumentChange:
    """Pair sections of the same path by text first, and then in order."""
    old, new = _sections(connection, before), _sections(connection, after)
    added: list[Path] = []
    removed: list[Path] = []
    changed: list[Path] = []
    for path in dict.fromkeys((*new, *old)):
        missing = (old[path] - new[path]).total()
        new_texts = (new[path] - old[path]).total()
        changed += [path] * min(missing, new_texts)
        added += [path] * (new_texts - missing)
        removed += [path] * (missing - new_texts)
    return DocumentChange(uri, tuple(added), tuple(removed), tuple(changed))


def _sections(connection: Connection, version: _Version) -> defaultdict[Path, Counter[bytes]]:
    """Count the hashes of section texts by heading path; several sections may share a path."""
    hashes: defaultdict[Path, Counter[bytes]] = defaultdict(Counter)
    for path, text in _own_texts(connection, version):
        if text.strip():
            hashes[path][sha256(text.strip().encode("utf-8")).digest()] += 1
    return hashes


def _own_texts(connection: Connection, version: _Version) -> Iterator[tuple[Path, str]]:
    """Split the whole text at every heading, so that each part belongs to one section."""
    identifier, text_sha = version
    text = catalog.text(connection, text_sha)
    headed = [section for section in catalog.sections(connection, identifier) if section.level]
    starts = [section.span.start for section in headed]
    yield (), text[: starts[0] if starts else len(text)]
    for section, end in zip(headed, [*starts[1:], len(text)][: len(headed)], strict=True):
        yield section.path, text[section.span.start : end]
