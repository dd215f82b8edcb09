"""Repair a damaged epoch in place, so that its generations are kept.

Versions with damaged rows or text are dropped if their sources can be read again, a damaged keyword
index is rebuilt beside the old one, and damaged vectors are computed again. Where SQLite cannot
read its file, or documents would be chunked differently by now, only a new epoch helps.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from lookfar.errors import IndexCorrupt, LookfarError
from lookfar.ports import Made, Maker, StoredDocument
from lookfar.store.catalogue import generations
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.erasing import blank_name
from lookfar.store.catalogue.graph import COMMUNITIES_OF
from lookfar.store.catalogue.journal import JOURNAL, describe_journal_damage, is_commit_lost, renew
from lookfar.store.catalogue.seals import TABLES, broken_tables, broken_versions, seal
from lookfar.store.ground import files
from lookfar.store.ground.database import CATALOGUE, commit, connect, typed_errors
from lookfar.store.health.verify import (
    find_catalogue_damage,
    find_form_damage,
    find_keyword_damage,
    find_text_damage,
    find_wrong_rows,
)
from lookfar.store.keywords.keyword_index import KEYWORDS, KeywordIndex
from lookfar.store.keywords.signatures import SIGNATURES, SignatureFile, signed_texts
from lookfar.store.vectors.quality_vectors import open_all
from lookfar.store.vectors.vector_file import VECTORS, VectorFile, checksum

_NEW = "words.new"
_OLD = "words.old"
_TOGETHER = 64
"""Documents embedded per batch."""


def repair(folder: Path, maker: Maker) -> list[str] | None:
    """Repair an epoch, for the holder of the writer lock.

    Returns the URIs of documents that must be read again, or ``None`` if the epoch cannot be
    repaired or has another fingerprint.
    """
    catalogue = folder / CATALOGUE
    with typed_errors(catalogue), closing(connect(catalogue, write=True)) as connection:
        if find_form_damage(connection) or not _has_fingerprint(connection, maker):
            return None
        if not maker.sources and is_commit_lost(folder / JOURNAL, catalogue, connection):
            return None
        dropped: list[str] = []
        if find_catalogue_damage(connection) and maker.sources:
            dropped = _drop_damaged_versions(connection)
        if find_catalogue_damage(connection):
            return None
        vectors = VectorFile(folder / VECTORS, catalog.read_number(connection, "dimensions"))
        if not _repair_vectors(connection, vectors, maker):
            return None
        if not _repair_keywords(connection, folder, maker):
            return None
        _repair_signatures(connection, folder)
        if not maker.sources:
            _repair_journal(connection, folder / JOURNAL)
        return dropped


def _has_fingerprint(connection: sqlite3.Connection, maker: Maker) -> bool:
    row = connection.execute("SELECT value FROM meta WHERE key = 'fingerprint'").fetchone()
    return row is not None and row[0] == maker.fingerprint


# -- versions ------------------------------------------------------------------


def _drop_damaged_versions(connection: sqlite3.Connection) -> list[str]:
    """Drop every damaged version and its rows; return the URIs of those documents."""
    if {"meta", "generations"}.intersection(broken_tables(connection)):
        return []
    numbers = {number for number, _ in broken_versions(connection)}
    numbers.update(number for number, _ in find_text_damage(connection))
    unchecked = "SELECT id FROM documents WHERE id NOT IN (SELECT document FROM checks)"
    numbers.update(number for (number,) in connection.execute(unchecked))
    uris: set[str] = set()
    connection.execute("BEGIN IMMEDIATE")
    for number in sorted(numbers):
        row = connection.execute("SELECT uri FROM documents WHERE id = ?", (number,)).fetchone()
        uris.update(row or ())
        connection.execute("DELETE FROM documents WHERE id = ?", (number,))
        # The next writer removes their entries from the keyword index.
        connection.execute("INSERT OR IGNORE INTO graves VALUES (?)", (number,))
    # A damaged grave may name a live document, whose keywords would then be removed.
    connection.execute("DELETE FROM graves WHERE document IN (SELECT id FROM documents)")
    for table in (
        *("sections", "chunks", "links", "names", "tags", "calls", "properties"),
        "checks",
    ):
        connection.execute(f"DELETE FROM {table} WHERE document NOT IN (SELECT id FROM documents)")
    connection.execute("DELETE FROM texts WHERE sha NOT IN (SELECT text_sha FROM documents)")
    generations.forget_totals(connection)
    # The next pass lists skipped files again; communities are computed when asked for.
    connection.execute("DELETE FROM left_out")
    connection.execute("DELETE FROM communities")
    connection.execute("DELETE FROM meta WHERE key = ?", (COMMUNITIES_OF,))
    seal(connection, *TABLES)
    commit(connection)
    return sorted(uris)


# -- vectors -------------------------------------------------------------------


def _repair_vectors(connection: sqlite3.Connection, vectors: VectorFile, maker: Maker) -> bool:
    try:
        wrong = find_wrong_rows(vectors, connection)
    except IndexCorrupt:
        # The header or the length of the file is wrong.
        wrong = [row for (row,) in connection.execute("SELECT row FROM embeddings ORDER BY row")]
        files.remove(vectors.path)
        vectors.create()
    if not wrong:
        if vectors.coarse.damage(vectors.rows(catalog.vector_rows(connection))):
            vectors.coarse.forget(0)
        return True
    owners: dict[int, list[int]] = defaultdict(list)
    unused = []
    for row in wrong:
        owner = connection.execute(
            "SELECT document FROM chunks WHERE vector = ? LIMIT 1", (row,)
        ).fetchone()
        if owner is not None:
            owners[owner[0]].append(row)
        else:
            unused.append(row)
    connection.execute("BEGIN IMMEDIATE")
    # In batches: there may be millions.
    for documents in catalog.batches(sorted(owners), _TOGETHER):
        contents = catalog.read_contents(
            connection, [row for document in documents for row in owners[document]]
        )
        stored = [_read_document(connection, document) for document in documents]
        vectors_made = maker.make_vectors(stored, set(contents.values()))
        if not vectors_made.keys() >= set(contents.values()):
            connection.execute("ROLLBACK")
            return False
        for row, content in contents.items():
            _write_vector(connection, vectors, row, content, vectors_made[content])
    for row in unused:  # Kept in case their text comes back.
        _write_vector(connection, vectors, row, blank_name(row), bytes(vectors.dimensions * 2))
    vectors.sync()
    # The codes of these rows may be wrong; until they are computed again, every row is scanned.
    vectors.coarse.forget(0)
    commit(connection)
    return True


def repair_quality(folder: Path) -> None:
    """Drop the damaged vectors of second models, for the holder of the lock on these files.

    They are made again in the background.
    """
    catalogue = folder / CATALOGUE
    with typed_errors(catalogue), closing(connect(catalogue, write=False)) as connection:
        for vectors in open_all(folder):
            vectors.drop_damaged(partial(catalog.read_contents, connection))


def _read_document(connection: sqlite3.Connection, document: int) -> StoredDocument:
    uri, metadata, sha = connection.execute(
        "SELECT uri, metadata, text_sha FROM documents WHERE id = ?", (document,)
    ).fetchone()
    return StoredDocument(uri, metadata, catalog.text(connection, sha))


def _write_vector(
    connection: sqlite3.Connection, vectors: VectorFile, row: int, content: bytes, vector: bytes
) -> None:
    vectors.append(row, vector)
    connection.execute(
        "UPDATE embeddings SET content = ?, checksum = ? WHERE row = ?",
        (content, checksum(content, vector), row),
    )


# -- the journal ---------------------------------------------------------------


def _repair_journal(connection: sqlite3.Connection, path: Path) -> None:
    """Rewrite the second copy of the documents if it lacks some of them."""
    if describe_journal_damage(path, connection):
        connection.execute("BEGIN IMMEDIATE")
        renew(path, connection)
        files.sync_folder(path.parent)
        seal(connection)
        commit(connection)


# -- keywords ------------------------------------------------------------------


def _repair_keywords(connection: sqlite3.Connection, folder: Path, maker: Maker) -> bool:
    here, new, old = folder / KEYWORDS, folder / _NEW, folder / _OLD
    if not _has_keyword_damage(connection, here):
        return True
    for leftover in (new, old):
        files.remove(leftover)
    index = KeywordIndex(new, create=True)
    index.open_writer(0)
    try:
        for first_key, document, made in _make_terms(connection, maker):
            if made is None:
                return False
            index.add(first_key, document, *made.streams)
        stamp = index.commit()
    finally:
        index.close_writer()
    # Before the folders are swapped, so that a reader in between accepts either state.
    _record_stamp(connection, 0)
    if here.exists():
        files.rename(here, old)
    files.rename(new, here)
    _record_stamp(connection, stamp)
    with suppress(LookfarError):  # On Windows, another process may still map it.
        files.remove(old)
    return True


def _record_stamp(connection: sqlite3.Connection, stamp: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    catalog.record_keywords(connection, stamp)
    seal(connection)
    commit(connection)


def _has_keyword_damage(connection: sqlite3.Connection, folder: Path) -> bool:
    try:
        view = KeywordIndex(folder).view
    except LookfarError:
        return True
    behind = view.stamp < catalog.keywords_stamp(connection)
    return behind or bool(find_keyword_damage(folder, view, connection))


# -- signatures ----------------------------------------------------------------


def _repair_signatures(connection: sqlite3.Connection, folder: Path) -> None:
    signatures = SignatureFile(folder / SIGNATURES)
    if signatures.damage(connection):
        signatures.rewrite(signed_texts(connection, list(catalog.text_hashes(connection))))


def _make_terms(
    connection: sqlite3.Connection, maker: Maker
) -> Iterator[tuple[int, int, Made | None]]:
    """Yield the first key, number and terms of every version; ``None`` for terms if its chunks
    would differ from the stored ones."""
    versions = connection.execute(
        "SELECT id, uri, metadata, text_sha FROM documents ORDER BY id"
    ).fetchall()
    for document, uri, metadata, text_sha in versions:
        chunks = connection.execute(
            "SELECT key, id FROM chunks WHERE document = ? ORDER BY ordinal", (document,)
        ).fetchall()
        if not chunks:
            continue
        made = maker.make(StoredDocument(uri, metadata, catalog.text(connection, text_sha)))
        fits = made is not None and list(made.ids) == [identifier for _, identifier in chunks]
        yield chunks[0][0], document, made if fits else None
