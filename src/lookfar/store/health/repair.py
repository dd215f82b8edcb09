"""A damaged epoch is mended where it is, so that its generations stay.

Takes: the folder of an epoch, and how documents are cut, analysed and embedded. Gives: an epoch
that is sound, and the documents that it had to let go of. Refuses: where SQLite cannot read its
file, where it is not known which generation serves, and where documents are made into something
else by now; then only a new epoch helps.

Versions whose rows or text are damaged are dropped, if their sources can be read again. Keywords
are written beside the old ones and take their place. Of vectors, those rows alone are made again
that differ from their checksum.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from lookfar.errors import IndexCorrupt, LookfarError
from lookfar.ports import Streams
from lookfar.store.catalogue import generations
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.erasing import StoredDocument, blank_name
from lookfar.store.catalogue.graph import COMMUNITIES_OF
from lookfar.store.catalogue.journal import JOURNAL, describe_journal_damage, renew
from lookfar.store.catalogue.seals import TABLES, broken_tables, broken_versions, seal
from lookfar.store.ground import files
from lookfar.store.ground.database import CATALOGUE, commit, connect, typed_errors
from lookfar.store.health.verify import (
    catalogue_damage,
    form_damage,
    keyword_damage,
    texts_damage,
    wrong_rows,
)
from lookfar.store.keywords.signatures import SIGNATURES, SignatureFile, signed_texts
from lookfar.store.keywords.tantivy_index import KEYWORDS, KeywordIndex
from lookfar.store.vectors.vector_file import VECTORS, VectorFile, checksum

_NEW = "keywords.new"
_OLD = "keywords.old"
_TOGETHER = 64
"""Documents that are embedded at once."""


class Made(NamedTuple):
    """What a document is stored as, besides its rows."""

    ids: Sequence[bytes]
    """Of its chunks, in order."""
    streams: Streams


class Maker(NamedTuple):
    """How stored texts become what is derived from them."""

    fingerprint: str
    """Of the epochs that hold what it makes."""
    sources: bool
    """Whether documents can be read again from where they came from."""
    made: Callable[[StoredDocument], Made | None]
    vectors: Callable[[Sequence[StoredDocument], Collection[bytes]], Mapping[bytes, bytes]]
    """Of some documents, the float16 rows of the contents that are named."""


def repair(folder: Path, maker: Maker) -> list[str] | None:
    """Mend an epoch, for the holder of the writer lock; gives the URIs of documents that have to
    be read again, or ``None`` where it cannot be mended or is not of this maker."""
    catalogue = folder / CATALOGUE
    with typed_errors(catalogue), closing(connect(catalogue, write=True)) as connection:
        if form_damage(connection) or not _is_of(connection, maker):
            return None
        gone = _versions(connection) if catalogue_damage(connection) and maker.sources else []
        if catalogue_damage(connection):
            return None
        vectors = VectorFile(folder / VECTORS, catalog.read_number(connection, "dimensions"))
        if not _vectors(connection, vectors, maker) or not _keywords(connection, folder, maker):
            return None
        _signatures(connection, folder)
        if not maker.sources:
            _journal(connection, folder / JOURNAL)
        return gone


def _is_of(connection: sqlite3.Connection, maker: Maker) -> bool:
    row = connection.execute("SELECT value FROM meta WHERE key = 'fingerprint'").fetchone()
    return row is not None and row[0] == maker.fingerprint


# -- versions ------------------------------------------------------------------


def _versions(connection: sqlite3.Connection) -> list[str]:
    """Drop every version that is damaged, and all that was derived from all of them together."""
    if {"meta", "generations"}.intersection(broken_tables(connection)):
        return []
    numbers = {number for number, _ in broken_versions(connection)}
    numbers.update(number for number, _ in texts_damage(connection))
    unchecked = "SELECT id FROM documents WHERE id NOT IN (SELECT document FROM checks)"
    numbers.update(number for (number,) in connection.execute(unchecked))
    gone: set[str] = set()
    connection.execute("BEGIN IMMEDIATE")
    for number in sorted(numbers):
        found = connection.execute("SELECT uri FROM documents WHERE id = ?", (number,)).fetchone()
        gone.update(found or ())
        connection.execute("DELETE FROM documents WHERE id = ?", (number,))
        # Their entries are removed from the keyword index by whoever writes next.
        connection.execute("INSERT OR IGNORE INTO graves VALUES (?)", (number,))
    # A damaged grave may name what lives: its entries would go, and it would not be found.
    connection.execute("DELETE FROM graves WHERE document IN (SELECT id FROM documents)")
    for table in ("sections", "chunks", "links", "names", "tags", "checks"):
        connection.execute(f"DELETE FROM {table} WHERE document NOT IN (SELECT id FROM documents)")
    connection.execute("DELETE FROM texts WHERE sha NOT IN (SELECT text_sha FROM documents)")
    generations.forget_totals(connection)
    # What a pass sees and leaves out, it sees again; communities are made when they are asked for.
    connection.execute("DELETE FROM left_out")
    connection.execute("DELETE FROM communities")
    connection.execute("DELETE FROM meta WHERE key = ?", (COMMUNITIES_OF,))
    seal(connection, *TABLES)
    commit(connection)
    return sorted(gone)


# -- vectors -------------------------------------------------------------------


def _vectors(connection: sqlite3.Connection, vectors: VectorFile, maker: Maker) -> bool:
    try:
        wrong = wrong_rows(vectors, connection)
    except IndexCorrupt:
        # Not even its beginning or its length is right.
        wrong = [row for (row,) in connection.execute("SELECT row FROM embeddings ORDER BY row")]
        files.remove(vectors.path)
        vectors.create()
    if not wrong:
        if vectors.coarse.damage(vectors.rows(catalog.vector_rows(connection))):
            vectors.coarse.forget(0)
        return True
    owners: dict[int, list[int]] = defaultdict(list)
    unnamed = []
    for row in wrong:
        owner = connection.execute(
            "SELECT document FROM chunks WHERE vector = ? LIMIT 1", (row,)
        ).fetchone()
        if owner is not None:
            owners[owner[0]].append(row)
        else:
            unnamed.append(row)
    connection.execute("BEGIN IMMEDIATE")
    # Some at a time: there may be millions.
    for documents in catalog.batches(sorted(owners), _TOGETHER):
        contents = _contents(connection, [row for each in documents for row in owners[each]])
        stored = [_stored(connection, each) for each in documents]
        made = maker.vectors(stored, set(contents.values()))
        if not made.keys() >= set(contents.values()):
            connection.execute("ROLLBACK")
            return False
        for row, content in contents.items():
            _write(connection, vectors, row, content, made[content])
    for row in unnamed:  # They were kept should their text come back.
        _write(connection, vectors, row, blank_name(row), bytes(vectors.dimensions * 2))
    vectors.sync()
    # The bits of these rows may be wrong; until they are made anew every row is scanned.
    vectors.coarse.forget(0)
    commit(connection)
    return True


def _contents(connection: sqlite3.Connection, rows: Sequence[int]) -> dict[int, bytes]:
    """What the text of some rows is called."""
    return {
        row: content
        for some in catalog.batches(rows)
        for row, content in connection.execute(
            f"SELECT row, content FROM embeddings WHERE row IN ({catalog.placeholders(some)})", some
        )
    }


def _stored(connection: sqlite3.Connection, document: int) -> StoredDocument:
    uri, told, sha = connection.execute(
        "SELECT uri, metadata, text_sha FROM documents WHERE id = ?", (document,)
    ).fetchone()
    return StoredDocument(uri, told, catalog.text(connection, sha))


def _write(
    connection: sqlite3.Connection, vectors: VectorFile, row: int, content: bytes, vector: bytes
) -> None:
    vectors.append(row, vector)
    connection.execute(
        "UPDATE embeddings SET content = ?, checksum = ? WHERE row = ?",
        (content, checksum(content, vector), row),
    )


# -- the journal ---------------------------------------------------------------


def _journal(connection: sqlite3.Connection, path: Path) -> None:
    """Write the second copy of documents anew where it lacks some of them."""
    if describe_journal_damage(path, connection):
        connection.execute("BEGIN IMMEDIATE")
        renew(path, connection)
        files.sync_folder(path.parent)
        seal(connection)
        commit(connection)


# -- keywords ------------------------------------------------------------------


def _keywords(connection: sqlite3.Connection, folder: Path, maker: Maker) -> bool:
    here, new, old = folder / KEYWORDS, folder / _NEW, folder / _OLD
    if not _damaged_keywords(connection, here):
        return True
    for left in (new, old):
        files.remove(left)
    index = KeywordIndex(new, create=True)
    index.open_writer(0)
    try:
        for first_key, document, made in _documents(connection, maker):
            if made is None:
                return False
            index.add(first_key, document, *made.streams)
        stamp = index.commit()
    finally:
        index.close_writer()
    # Before they change places: a reader in between takes any state for new enough.
    _record(connection, 0)
    if here.exists():
        files.rename(here, old)
    files.rename(new, here)
    _record(connection, stamp)
    with suppress(LookfarError):  # A reader elsewhere may still map it (Windows).
        files.remove(old)
    return True


def _record(connection: sqlite3.Connection, stamp: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    catalog.record_keywords(connection, stamp)
    seal(connection)
    commit(connection)


def _damaged_keywords(connection: sqlite3.Connection, folder: Path) -> bool:
    try:
        view = KeywordIndex(folder).view
    except LookfarError:
        return True
    behind = view.stamp < catalog.keywords_stamp(connection)
    return behind or bool(keyword_damage(folder, view, connection))


# -- signatures ----------------------------------------------------------------


def _signatures(connection: sqlite3.Connection, folder: Path) -> None:
    signatures = SignatureFile(folder / SIGNATURES)
    if signatures.damage(connection):
        signatures.rewrite(signed_texts(connection, list(catalog.text_hashes(connection))))


def _documents(
    connection: sqlite3.Connection, maker: Maker
) -> Iterator[tuple[int, int, Made | None]]:
    """First key, number and entries of every version; None where they are not what is stored."""
    versions = connection.execute(
        "SELECT id, uri, metadata, text_sha FROM documents ORDER BY id"
    ).fetchall()
    for document, uri, told, text_sha in versions:
        chunks = connection.execute(
            "SELECT key, id FROM chunks WHERE document = ? ORDER BY ordinal", (document,)
        ).fetchall()
        if not chunks:
            continue
        made = maker.made(StoredDocument(uri, told, catalog.text(connection, text_sha)))
        fits = made is not None and list(made.ids) == [identifier for _, identifier in chunks]
        yield chunks[0][0], document, made if fits else None
