"""Is what is stored what was written? Every row, text, span, vector and file is checked.

Takes: an epoch, or the folder of a collection. Gives: the problems found, each with the artefact
it is in. Refuses: to repair; whoever asked decides, and rebuilding from the sources always works.

What changes nothing that can be read (unused bytes of a page, a page that is free) is not looked
for. Of everything else there is a hash, a checksum, or a second place that says the same.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from lookfar.errors import IndexCorrupt, LookfarError
from lookfar.model import Damage
from lookfar.store.catalogue import generations, rows, seals
from lookfar.store.catalogue.erasing import UNSETTLED
from lookfar.store.catalogue.journal import describe_journal_damage
from lookfar.store.catalogue.migrations import (
    FORMAT,
    FORMAT_WITH_CHECKS,
    check,
    create_indexes,
    migrate,
    recorded_format,
)
from lookfar.store.ground.database import read_beginning
from lookfar.store.ground.sql import Connection
from lookfar.store.ground.sqlite_log import describe_log_damage, has_log, log_path
from lookfar.store.keywords.signatures import SIGNATURES, SignatureFile
from lookfar.store.keywords.tantivy_files import describe_file_damage, file_version, segment_files
from lookfar.store.keywords.tantivy_index import empty_index_meta

if TYPE_CHECKING:
    from lookfar.store.keywords.keyword_view import KeywordView
    from lookfar.store.vectors.vector_file import VectorFile

_MOST_TOLD = 20
"""Problems of one kind; a damaged page breaks every row in it."""
_FIXED = {
    18: bytes((2, 2, 0, 64, 32, 32)),  # Logged ahead, nothing reserved, how full pages are.
    44: struct.pack(">4I", 4, 0, 0, 1),  # Schema format, cache, no vacuuming, UTF-8.
    64: bytes(8),  # No vacuuming, and no application.
    72: bytes(20),  # Reserved.
}
"""Fields of a catalogue's header that are the same in all of them."""

FROM_DAMAGE = (
    sqlite3.DatabaseError,
    UnicodeDecodeError,
    AttributeError,
    LookupError,
    OverflowError,
    TypeError,
    ValueError,
)
"""What reading a damaged row may end in: SQLite gives whatever the bytes of a page mean."""

OnStep = Callable[[str], None]
"""Told what is checked next."""


def verify(
    connection: sqlite3.Connection,
    vectors: VectorFile,
    folder: Path,
    keywords: KeywordView,
    on_step: OnStep | None = None,
    journal: Path | None = None,
) -> list[Damage]:
    """Check everything that the catalogue names; gives an empty list for a sound epoch."""
    tell = on_step or (lambda _: None)
    tell("catalogue")
    try:
        found = _rows(connection)
        if not found:
            tell("texts")
            found += check_texts(connection)
        tell("vectors")
        found += _vectors(vectors, connection)
        tell("keywords")
        found += keyword_damage(folder, keywords, connection)
        if not found:
            tell("signatures")
            path = folder.parent / SIGNATURES
            damage = SignatureFile(path).damage(connection)
            found += [Damage("signatures", f"{path.name}: {each}") for each in damage[:_MOST_TOLD]]
        if journal is not None:
            tell("journal")
            found += [
                Damage("journal", why) for why in describe_journal_damage(journal, connection)
            ]
        return found
    except FROM_DAMAGE as error:
        return [Damage("catalogue", f"{type(error).__name__}: {error}")]
    except IndexCorrupt as error:
        return [Damage("catalogue", error.developer)]


def unfinished(
    connection: sqlite3.Connection, vectors: VectorFile, folder: Path, keywords: KeywordView
) -> list[Damage]:
    """The same for an epoch that was never finished: no generation yet, and no indexes."""
    return [
        *_catalogue(connection),
        *_vectors(vectors, connection),
        *keyword_damage(folder, keywords, connection),
    ]


def catalogue_damage(connection: sqlite3.Connection) -> list[Damage]:
    """What is damaged of rows and texts, whatever the state of what was derived from them."""
    return _rows(connection) or list(check_texts(connection))


# -- the catalogue -------------------------------------------------------------


def form_damage(connection: sqlite3.Connection) -> list[Damage]:
    """What is damaged of the file as SQLite sees it, whatever its rows say."""
    return [*_file(connection), *_pages(connection), *_schema(connection)]


def catalogue_form(connection: sqlite3.Connection) -> Iterator[Damage]:
    """What SQLite itself finds wrong with pages and indexes, and with what they are called."""
    yield from _pages(connection)
    yield from _schema(connection)


def _rows(connection: sqlite3.Connection) -> list[Damage]:
    found = [*_file(connection), *_catalogue(connection), *_schema(connection)]
    try:
        return [*found, *check_pointer(connection)]
    except LookfarError as error:
        return [*found, Damage("catalogue", error.developer)]


def _file(connection: sqlite3.Connection) -> Iterator[Damage]:
    """What SQLite reads over in its own files: unused fields of the header, and its log.

    It takes a log that is broken for one that ends there, and shows the state before; a last
    commit that a loss of power tore is none (see ``describe_log_damage``).
    """
    path = Path(next(iter(connection.execute("PRAGMA database_list")))[2])
    head = read_beginning(path, 100)
    if len(head) < 100:
        yield Damage("catalogue", f"{path.name}: cut short")
        return
    differs = any(head[at : at + len(fixed)] != fixed for at, fixed in _FIXED.items())
    # Where a log is left, its first page counts: the power may have failed while it was copied.
    if differs and not has_log(path):
        yield Damage("catalogue", f"{path.name}: its header differs from what was written")
    why = describe_log_damage(log_path(path))
    if why:
        yield Damage("catalogue", f"{log_path(path).name}: {why}")


def _pages(connection: sqlite3.Connection) -> Iterator[Damage]:
    for (line,) in connection.execute(f"PRAGMA integrity_check({_MOST_TOLD})"):
        if line != "ok":
            yield Damage("catalogue", line)


def _catalogue(connection: sqlite3.Connection) -> Iterator[Damage]:
    broken = list(_pages(connection))
    yield from broken
    if not broken and check(connection) >= FORMAT_WITH_CHECKS:
        for number, detail in enumerate(seals.broken(connection)):
            if number >= _MOST_TOLD:
                yield Damage("catalogue", "and more of the kind")
                return
            yield Damage("catalogue", detail)


def _schema(connection: sqlite3.Connection) -> Iterator[Damage]:
    """Whether tables, indexes and the format are those of this program."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    said = recorded_format(connection)
    if said and said != str(version):
        yield Damage("catalogue", f"its header says format {version}, and it was made with {said}")
    elif version == FORMAT and _tables(connection) != _expected_tables():
        yield Damage("catalogue", "its tables differ from what was written")


def _tables(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
    ).fetchall()


@cache
def _expected_tables() -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection)
        create_indexes(connection)
        return _tables(connection)


def check_pointer(connection: Connection) -> Iterator[Damage]:
    """The serving generation is kept, a hold is on it, and no URI has two texts at once."""
    number, held = generations.active(connection), generations.held_generation(connection)
    kept = [each.number for each in generations.list_generations(connection)]
    if number not in kept:
        yield Damage("catalogue", f"generation {number} serves and is not among those kept")
    if held not in (None, number):
        yield Damage("catalogue", f"generation {number} serves, and {held} is held")
    doubled = connection.execute(
        "SELECT a.uri FROM documents a JOIN documents b ON b.uri = a.uri AND b.id > a.id"
        " WHERE b.born < coalesce(a.died, 1e18) AND a.born < coalesce(b.died, 1e18)"
    )
    for (uri,) in doubled:
        yield Damage("catalogue", f"{uri}: two versions in one generation")


def check_texts(connection: Connection) -> Iterator[Damage]:
    """Each text against its hash, and each chunk's slice of it against the chunk's."""
    return (damage for _, damage in texts_damage(connection))


def texts_damage(connection: Connection) -> Iterator[tuple[int, Damage]]:
    """The same with the number of the version."""
    documents = connection.execute("SELECT id, uri, text_sha FROM documents ORDER BY id").fetchall()
    for identifier, uri, text_sha in documents:
        try:
            text = rows.text(connection, text_sha)
        except (LookfarError, UnicodeDecodeError) as error:
            yield identifier, Damage("texts", f"{uri}: {getattr(error, 'developer', error)}")
            continue
        spans = connection.execute(
            'SELECT start, "end", sha FROM chunks WHERE document = ?', (identifier,)
        )
        for start, end, sha in spans:
            if sha256(text[start:end].encode("utf-8")).digest() != sha:
                why = f"{uri}: the span {start}-{end} does not fit its text"
                yield identifier, Damage("catalogue", why)


# -- vectors -------------------------------------------------------------------


def _vectors(vectors: VectorFile, connection: sqlite3.Connection) -> Iterator[Damage]:
    try:
        wrong = wrong_rows(vectors, connection)
    except LookfarError as error:
        yield Damage("vectors", error.developer)
        return
    for row in wrong[:_MOST_TOLD]:
        yield Damage("vectors", f"row {row} differs from what was written")
    if len(wrong) > _MOST_TOLD:
        yield Damage("vectors", f"and {len(wrong) - _MOST_TOLD:,} more rows")
    missing = connection.execute(
        "SELECT count(*) FROM chunks c WHERE c.vector IS NOT NULL"
        " AND NOT EXISTS (SELECT 1 FROM embeddings e WHERE e.row = c.vector)"
    ).fetchone()[0]
    if missing:
        yield Damage("vectors", f"{missing} chunks name a row that does not exist")
    # They cost time and no answer, and whoever writes next makes them again.
    for detail in vectors.coarse.damage(vectors.rows(rows.vector_rows(connection))):
        yield Damage("vectors", f"{vectors.coarse.path.name}: {detail}")


def wrong_rows(vectors: VectorFile, connection: sqlite3.Connection) -> list[int]:
    """The rows that differ from their checksum; ``IndexCorrupt`` where the file itself is wrong."""
    found = vectors.rows(rows.vector_rows(connection))
    named = check(connection) >= FORMAT_WITH_CHECKS
    # One at a time: there may be millions.
    recorded = connection.execute("SELECT row, content, checksum FROM embeddings ORDER BY row")
    return [
        row
        for row, content, checksum in recorded
        # What was erased is zeros; until it is, nobody names it and it may be anything.
        if checksum not in (crc32(content if named else b"", crc32(found[row])), UNSETTLED)
    ]


# -- keywords ------------------------------------------------------------------


def keyword_damage(folder: Path, view: KeywordView, connection: sqlite3.Connection) -> list[Damage]:
    """What is wrong with the keyword index of a catalogue."""
    return list(_keywords(folder, view, connection))


def _keywords(folder: Path, view: KeywordView, connection: sqlite3.Connection) -> Iterator[Damage]:
    try:
        yield from keyword_files(folder)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        yield Damage("keywords", f"meta.json: {type(error).__name__}: {error}")
    (chunks,) = connection.execute("SELECT count(*) FROM chunks").fetchone()
    owners = [row[0] for row in connection.execute("SELECT DISTINCT document FROM chunks")]
    try:
        # Of these only: purged documents and those of a writer that died may be there too.
        entries = view.count_entries_of(owners)
        stored, all_of_them = view.count_entries(), view.count_declared()
    except LookfarError as error:
        yield Damage("keywords", error.developer)
        return
    if entries != chunks + len(owners):
        found = f"{entries} entries for {chunks} chunks and {len(owners)} documents"
        yield Damage("keywords", found)
    if stored != all_of_them:
        yield Damage(
            "keywords", f"{stored} entries are there, and meta.json tells of {all_of_them}"
        )


def keyword_files(folder: Path) -> Iterator[Damage]:
    """Each file of the last commit against its checksum, and what is said about all of them."""
    for path in segment_files(folder):
        why = describe_file_damage(path)
        if why and path in segment_files(folder):  # A writer may have merged it away.
            yield Damage("keywords", f"{path.name}: {why}")
    for name, why in _told_wrong(folder):
        if (name, why) in set(_told_wrong(folder)):  # It is written anew with every commit.
            yield Damage("keywords", f"{name}: {why}")


def _told_wrong(folder: Path) -> Iterator[tuple[str, str]]:
    """What the two lists of files say that cannot be: neither of them has a checksum."""
    told = json.loads((folder / "meta.json").read_bytes())
    files = segment_files(folder)
    versions = {path.stem.partition(".")[0]: set[str]() for path in files}
    for path in files:
        if path.suffix != ".del":
            versions[path.stem].add(json.dumps(_footer(path).get("version")))
    for name, seen in versions.items():
        if len(seen) > 1:
            yield name, f"its files say that they are of {len(seen)} versions of tantivy"
    form, version = _expected_meta()
    shape = {"segment_id", "max_doc", "deletes"}
    if all(seen == {version} for seen in versions.values()):
        same = {key: told.get(key) for key in form} == form
        if not same or set(told) - set(form) - {"payload"} != {"segments", "opstamp"}:
            yield "meta.json", "it differs from what was written"
    if any(set(each) != shape for each in told["segments"]) or not isinstance(told["opstamp"], int):
        yield "meta.json", "its list of segments differs from what was written"
    # Which files tantivy may remove. It need not have all: each process writes the list it knows.
    managed = json.loads((folder / ".managed.json").read_bytes())
    if not isinstance(managed, list) or not all(isinstance(each, str) for each in managed):
        yield ".managed.json", "it is not a list of files"


@cache
def _expected_meta() -> tuple[dict[str, Any], str]:
    """What ``meta.json`` says of any index of ours, and the version that files are marked with."""
    told = json.loads(empty_index_meta())
    return {key: told[key] for key in ("index_settings", "schema")}, json.dumps(file_version())


def _footer(path: Path) -> dict[str, Any]:
    """What tantivy wrote at the end of a file; empty where that cannot be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 4096))
            data = file.read()
        length = int.from_bytes(data[-8:-4], "little")
        found = json.loads(data[-8 - length : -8])
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
