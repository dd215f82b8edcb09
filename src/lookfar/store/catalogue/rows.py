"""Every SQL statement that reads or writes the rows of a document.

Rows are returned as the records of :mod:`lookfar.ports`. What changed is decided in ``index``, and
which generation serves in :mod:`lookfar.store.catalogue.generations`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from sqlite3 import Connection
from string import ascii_lowercase, ascii_uppercase
from sys import intern
from typing import Any, ClassVar, NamedTuple, TypeVar

from lookfar.errors import IndexCorrupt
from lookfar.model import Counts, Failure, Fingerprint, PageInfo, Section, Span
from lookfar.ports import PATH_SEPARATOR, Definition, Facts, Known, LeftOut, Place, Version
from lookfar.store.catalogue.migrations import FORMAT_WITH_KINDS, check
from lookfar.store.catalogue.seals import STATE, hash_version, seal

ALIVE = "d.born <= :g AND (d.died IS NULL OR d.died > :g)"
_PLACE = """
    SELECT c.key, c.id, c.document, c.vector, d.uri, d.title, d.lane, c.path, c.ordinal, c.part,
           c.parts, c.start, c.end, c.start_line, c.end_line, c.overlap, c.sha
    FROM chunks c JOIN documents d ON d.id = c.document
"""
_SECTIONS = (
    "SELECT s.document, s.ordinal, s.parent, s.level, s.title, s.start, s.end, s.start_line,"
    " s.end_line, s.body FROM sections s"
)
_READ_META = "SELECT value FROM meta WHERE key = ?"
MODEL = "model"
_LAST_DOCUMENT = "last_document"
_MOVES = "moves"
"""The key in ``meta`` that counts changes of document times within a generation."""
_UNIT = "\x1f"
"""Separates two values of one column."""
END = 1 << 62
"""A position beyond the last character of any text."""
_MOST_VARIABLES = 500
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)

T = TypeVar("T")


def batches(items: Sequence[T], size: int = _MOST_VARIABLES) -> Iterator[Sequence[T]]:
    """Split items into slices that fit into one statement as parameters."""
    return (items[at : at + size] for at in range(0, len(items), size))


def placeholders(items: Sequence[Any]) -> str:
    return ",".join("?" * len(items))


# --- writing --------------------------------------------------------------------------------------


class Inserts:
    """Buffer the rows of many versions and insert them with one statement per table."""

    BUFFERED: ClassVar[int] = 128
    """Documents after which the rows are inserted."""

    _STATEMENTS: ClassVar[Mapping[str, str]] = {
        "texts": "INSERT INTO texts (sha, body) VALUES (?, ?)",
        "documents": "INSERT INTO documents VALUES"
        " (?, ?, ?, NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        "sections": "INSERT INTO sections VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        "chunks": "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        "embeddings": "INSERT INTO embeddings VALUES (?, ?, ?)",
        "links": "INSERT INTO links VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        "names": "INSERT INTO names VALUES (?, ?, ?, ?)",
        "tags": "INSERT INTO tags VALUES (?, ?)",
        "calls": "INSERT INTO calls VALUES (?, ?)",
        "properties": "INSERT INTO properties VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        # After the documents, because it reads their rows.
        "checks": f"INSERT INTO checks SELECT id, ?, {STATE} FROM documents WHERE id = ?",
    }

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in self._STATEMENTS}

    def text(self, sha: bytes, body: bytes) -> None:
        self._rows["texts"].append((sha, body))

    def embedding(self, row: int, content: bytes, checksum: int) -> None:
        self._rows["embeddings"].append((row, content, checksum))

    def version(
        self,
        document: int,
        version: Version,
        generation: int,
        first_key: int,
        vectors: Mapping[bytes, int],
    ) -> None:
        """Add all rows of one version except its text and vectors, whose rows are given."""
        rows, disk = self._rows, version.fingerprint
        row = (
            document, version.uri, generation, version.lane, version.language, version.title,
            version.body, version.raw_sha, version.text_sha, version.metadata,
            json.dumps(version.warnings, ensure_ascii=False), disk.size, disk.mtime_ns,
            disk.ctime_ns, disk.inode, version.settled,
        )  # fmt: skip
        sections = [(document, *row) for row in version.sections]
        chunks = [
            (first_key + ordinal, document, ordinal, row[0], vectors.get(row[1]), *row[2:])
            for ordinal, row in enumerate(version.chunks)
        ]
        links = [(document, ordinal, *row) for ordinal, row in enumerate(version.links)]
        names = [(document, *row) for row in version.names]
        tags = [(document, tag) for tag in version.tags]
        rows["documents"].append(row)
        rows["sections"] += sections
        rows["chunks"] += chunks
        rows["links"] += links
        rows["names"] += names
        rows["tags"] += tags
        calls = [(document, version.calls)] if version.calls else []
        rows["calls"] += calls
        properties = [(document, at, *row) for at, row in enumerate(version.properties)]
        rows["properties"] += properties
        hashed = hash_version(row, sections, chunks, links, names, tags, calls, properties)
        rows["checks"].append((hashed, document))
        if len(rows["documents"]) >= self.BUFFERED:
            self.flush()

    def flush(self) -> None:
        for table, rows in self._rows.items():
            if rows:
                self._connection.executemany(self._STATEMENTS[table], rows)
                rows.clear()


def mark_dead(connection: Connection, uri: str, generation: int) -> None:
    """End the life of the current version of ``uri`` with ``generation``.

    Call this in a write session only: there, later generations have been dropped, so the live
    versions are those that have not died.
    """
    connection.execute(
        "UPDATE documents SET died = ? WHERE uri = ? AND died IS NULL", (generation, uri)
    )


def find_live(connection: Connection, uri: str) -> int | None:
    """Return the number of the current version of ``uri``; call this in a write session only."""
    row = connection.execute(
        "SELECT id FROM documents WHERE uri = ? AND died IS NULL", (uri,)
    ).fetchone()
    return None if row is None else int(row[0])


def touch(connection: Connection, document: int, disk: Fingerprint, settled: bool) -> None:
    connection.execute(
        "UPDATE documents SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, settled = ?"
        " WHERE id = ?",
        (disk.size, disk.mtime_ns, disk.ctime_ns, disk.inode, settled, document),
    )


def record_move(connection: Connection) -> None:
    """Record that document times changed, so that results cached from them are dropped."""
    record(connection, _MOVES, moves(connection) + 1)


def replace_left_out(connection: Connection, files: Sequence[LeftOut]) -> None:
    connection.execute("DELETE FROM left_out")
    connection.executemany(
        "INSERT INTO left_out VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (file.uri, file.failed, file.code, _join_message(file), disk.size, disk.mtime_ns,
             disk.ctime_ns, disk.inode, file.settled)
            for file in {file.uri: file for file in files}.values()
            for disk in (file.fingerprint,)
        ],
    )  # fmt: skip
    seal(connection, "left_out")


def _join_message(file: LeftOut) -> str:
    """Return what the column ``message`` holds: the message, then the extractor if there is one."""
    return f"{file.message}{_UNIT}{file.extractor}" if file.extractor else file.message


def record_keywords(connection: Connection, stamp: int) -> None:
    """Record the keyword commit that contains every document of this catalogue."""
    record(connection, "keywords_stamp", stamp)


def record_marks(connection: Connection, document: int, key: int) -> None:
    """Record the highest numbers ever assigned; a purged number is never used again."""
    record(connection, _LAST_DOCUMENT, document)
    record(connection, "last_key", key)


class Recall(NamedTuple):
    """How many of the true nearest vectors the coarse pass lets through, measured on a sample."""

    rows: int
    """Rows in the file at the time."""
    wanted: int
    """The ten nearest of each sampled row, not counting the row itself."""
    found: int


def record_recall(connection: Connection, measured: Recall) -> None:
    for key, value in measured._asdict().items():
        record(connection, f"coarse_{key}", value)


def recall(connection: Connection) -> Recall | None:
    """Return the last measured recall of the coarse pass; None if it was never measured."""
    measured = Recall(*(read_number(connection, f"coarse_{key}") for key in Recall._fields))
    return measured if measured.wanted else None


def record(connection: Connection, key: str, value: int) -> None:
    """Store a number in ``meta``, replacing the previous one."""
    connection.execute("DELETE FROM meta WHERE key = ?", (key,))
    connection.execute("INSERT INTO meta VALUES (?, ?)", (key, str(value)))


# --- reading --------------------------------------------------------------------------------------


class Marks(NamedTuple):
    """The highest numbers assigned so far."""

    document: int
    key: int
    row: int


def highest_numbers(connection: Connection) -> Marks:
    return Marks(
        last_document(connection),
        read_number(connection, "last_key"),
        vector_rows(connection) - 1,
    )


def last_document(connection: Connection) -> int:
    """Return the highest document number ever assigned."""
    return read_number(connection, _LAST_DOCUMENT)


def moves(connection: Connection) -> int:
    return read_number(connection, _MOVES)


def keywords_stamp(connection: Connection) -> int:
    """Return the oldest keyword commit that a reader can use."""
    return read_number(connection, "keywords_stamp")


def vector_rows(connection: Connection) -> int:
    """Return how many rows of the vector file this catalogue refers to."""
    (last,) = connection.execute("SELECT max(row) FROM embeddings").fetchone()
    return 0 if last is None else int(last) + 1


def read_number(connection: Connection, key: str) -> int:
    """Read a number from ``meta``; 0 if it was never recorded."""
    row = connection.execute(_READ_META, (key,)).fetchone()
    try:
        return int(row[0]) if row else 0
    except (TypeError, ValueError) as error:
        raise corrupt_row_error(connection, f"meta {key}: {error}") from error


def known(
    connection: Connection, generation: int, uris: Collection[str] | None = None
) -> dict[str, Known]:
    """Return the fingerprint of every document of ``generation``, or of those in ``uris``."""
    if uris is not None:
        return {
            uri: entry
            for some in batches(sorted(uris))
            for uri, entry in _known(
                connection, generation, f" AND uri IN ({placeholders(some)})", some
            )
        }
    return dict(_known(connection, generation, "", ()))


def _known(
    connection: Connection, generation: int, where: str, values: Sequence[str]
) -> Iterator[tuple[str, Known]]:
    rows = connection.execute(
        "SELECT uri, id, size, mtime_ns, ctime_ns, inode, settled, raw_sha,"
        # To parse the metadata of every document would take most of the time of this query.
        " CASE WHEN instr(metadata, '\"extractor\"') > 0"
        " THEN json_extract(metadata, '$.extractor') END"
        f" FROM documents WHERE born <= ? AND (died IS NULL OR died > ?){where}",
        (generation, generation, *values),
    )
    for uri, identifier, size, mtime, ctime, inode, settled, raw, extractor in rows:
        disk = Fingerprint(size, mtime, ctime, inode)
        yield uri, Known(identifier, disk, bool(settled), raw, extractor or "")


def _make_place(row: tuple[Any, ...]) -> Place:
    # Places are cached by the thousand, and the chunks of a document share their strings.
    names = intern(row[4]), intern(row[5]), row[6], _split_path(row[7])
    return tuple.__new__(Place, (*row[:4], *names, *row[8:]))


@lru_cache(maxsize=4096)
def _split_path(path: str) -> tuple[str, ...]:
    return tuple(path.split(PATH_SEPARATOR)) if path else ()


def places_by_key(connection: Connection, keys: Sequence[int], generation: int) -> dict[int, Place]:
    return {place.key: place for place in _places(connection, "c.key", keys, generation)}


def first_places(
    connection: Connection, documents: Sequence[int], generation: int
) -> Iterator[Place]:
    return _places(connection, "c.ordinal = 0 AND c.document", documents, generation)


def places_by_vector(
    connection: Connection, rows: Sequence[int], generation: int
) -> dict[int, list[Place]]:
    """Return live chunks by vector row; equal texts share a row."""
    places: dict[int, list[Place]] = {}
    for place in _places(connection, "c.vector", rows, generation):
        assert place.vector is not None
        places.setdefault(place.vector, []).append(place)
    return places


def _places(
    connection: Connection, column: str, values: Sequence[int], generation: int
) -> Iterator[Place]:
    for some in batches(values):
        listed = ",".join(map(str, some))  # Our own integers: nothing to escape.
        statement = f"{_PLACE} WHERE {column} IN ({listed}) AND {ALIVE}"
        yield from map(_make_place, connection.execute(statement, {"g": generation}))


def filter_live(
    connection: Connection, documents: Sequence[int], generation: int
) -> frozenset[int]:
    live: set[int] = set()
    for some in batches(documents):
        rows = connection.execute(
            f"SELECT d.id FROM documents d WHERE d.id IN ({','.join(map(str, some))}) AND {ALIVE}",
            {"g": generation},
        )
        live.update(identifier for (identifier,) in rows)
    return frozenset(live)


def dead_documents(connection: Connection, generation: int) -> list[int]:
    """Return the stored documents that are not part of a generation, in order."""
    # Nothing was born later than the newest generation, so its documents need not be listed.
    rows = connection.execute(
        "SELECT id FROM documents WHERE died <= :g UNION SELECT id FROM documents WHERE born > :g"
        " AND EXISTS (SELECT 1 FROM generations WHERE number > :g) ORDER BY id",
        {"g": generation},
    )
    return [identifier for (identifier,) in rows]


def facts(
    connection: Connection, generation: int, documents: Sequence[int] | None = None
) -> list[Facts]:
    """Return names, kinds, times and tags of these live documents, or of all."""
    some = None if documents is None else ",".join(map(str, documents))
    among = "" if some is None else f" AND d.id IN ({some})"  # Our own integers.
    tags: dict[int, list[str]] = {}
    for document, tag in connection.execute(
        "SELECT t.document, t.tag FROM tags t JOIN documents d ON d.id = t.document"
        f" WHERE {ALIVE}{among} ORDER BY t.document, t.tag",
        {"g": generation},
    ):
        tags.setdefault(document, []).append(tag)
    rows = connection.execute(
        "SELECT d.id, d.uri, d.title, d.lane, d.language, d.mtime_ns, d.size"
        f" FROM documents d WHERE {ALIVE}{among}",
        {"g": generation},
    )
    return [
        Facts(document, uri, title, lane, language, modified, tuple(tags.get(document, ())), size)
        for document, uri, title, lane, language, modified, size in rows
    ]


def line_counts(connection: Connection, documents: Sequence[int]) -> dict[int, int]:
    """Return the last line of each document; its chunks cover all of it."""
    last_lines: dict[int, int] = {}
    for some in batches(documents):
        last_lines.update(
            connection.execute(
                "SELECT document, max(end_line) FROM chunks"
                f" WHERE document IN ({placeholders(some)}) GROUP BY document",
                some,
            )
        )
    return last_lines


def without_links(connection: Connection, documents: Sequence[int]) -> set[int]:
    """Return those of these documents that have no link."""
    bare: set[int] = set()
    for some in batches(documents):
        rows = connection.execute(
            f"SELECT d.id FROM documents d WHERE d.id IN ({placeholders(some)})"
            " AND NOT EXISTS (SELECT 1 FROM links l WHERE l.document = d.id)",
            some,
        )
        bare.update(document for (document,) in rows.fetchall())
    return bare


def modified_times(connection: Connection, documents: Sequence[int]) -> dict[int, int]:
    """Return the modification time of each document, in nanoseconds since 1970."""
    times: dict[int, int] = {}
    for some in batches(documents):
        times.update(
            connection.execute(
                f"SELECT id, mtime_ns FROM documents WHERE id IN ({placeholders(some)})", some
            ).fetchall()
        )
    return times


def neighbours(connection: Connection, document: int, first: int, last: int) -> list[Place]:
    statement = f"{_PLACE} WHERE c.document = ? AND c.ordinal BETWEEN ? AND ? ORDER BY c.ordinal"
    return [_make_place(row) for row in connection.execute(statement, (document, first, last))]


def live_document(connection: Connection, uri: str, generation: int) -> dict[str, Any] | None:
    cursor = connection.execute(
        f"SELECT d.* FROM documents d WHERE d.uri = :uri AND {ALIVE}",
        {"uri": uri, "g": generation},
    )
    row = cursor.fetchone()
    if row is None:
        return None
    document = dict(zip((column[0] for column in cursor.description), row, strict=True))
    try:
        document.update(json.loads(document.pop("metadata")))
        document["warnings"] = json.loads(document["warnings"])
    except (TypeError, ValueError) as error:
        raise corrupt_row_error(connection, f"document {uri}: {error}") from error
    document["tags"] = [
        tag
        for (tag,) in connection.execute(
            "SELECT tag FROM tags WHERE document = ? ORDER BY tag", (document["id"],)
        )
    ]
    return document


def live_text(
    connection: Connection, uri: str, generation: int
) -> tuple[int, bytes, bytes | None] | None:
    """Return the number, text hash and compressed text of a live document, in one statement."""
    row: tuple[int, bytes, bytes | None] | None = connection.execute(
        "SELECT d.id, d.text_sha, t.body FROM documents d LEFT JOIN texts t ON t.sha = d.text_sha"
        f" WHERE d.uri = :uri AND {ALIVE}",
        {"uri": uri, "g": generation},
    ).fetchone()
    return row


def live_text_hash(connection: Connection, uri: str, generation: int) -> bytes | None:
    row = connection.execute(
        f"SELECT d.text_sha FROM documents d WHERE d.uri = :uri AND {ALIVE}",
        {"uri": uri, "g": generation},
    ).fetchone()
    return row[0] if row else None


def live_texts(
    connection: Connection, some: Sequence[str], generation: int
) -> Iterator[tuple[str, str]]:
    """Yield the URI and the text of live documents, each text checked against its hash."""
    listed = ",".join(f":uri{at}" for at in range(len(some)))
    rows = connection.execute(
        "SELECT d.uri, d.text_sha, t.body FROM documents d LEFT JOIN texts t ON t.sha = d.text_sha"
        f" WHERE d.uri IN ({listed}) AND {ALIVE}",
        {"g": generation, **{f"uri{at}": uri for at, uri in enumerate(some)}},
    )
    for uri, text_sha, body in rows:
        yield uri, decode_text(connection, text_sha, body)


def uris(connection: Connection, generation: int, prefix: str = "") -> list[str]:
    return [uri for uri, _ in titles(connection, generation, prefix)]


def titles(connection: Connection, generation: int, prefix: str = "") -> list[tuple[str, str]]:
    """Return URI and title of the live documents whose URI starts with ``prefix``, by URI."""
    rows = connection.execute(
        f"SELECT d.uri, d.title FROM documents d WHERE {ALIVE}"
        " AND substr(d.uri, 1, :n) = :prefix ORDER BY d.uri",
        {"g": generation, "prefix": prefix, "n": len(prefix)},
    )
    return rows.fetchall()


def pages(connection: Connection, generation: int) -> list[PageInfo]:
    """Return every live document that has text, sorted by URI."""
    alive = {"g": generation}
    headings: dict[int, list[tuple[int, tuple[str, ...]]]] = {}
    outer: dict[tuple[int, int], str] = {}
    rows = connection.execute(
        "SELECT s.document, s.ordinal, s.parent, s.level, s.title FROM sections s"
        f" JOIN documents d ON d.id = s.document WHERE {ALIVE} AND s.level BETWEEN 1 AND 2"
        " ORDER BY s.document, s.ordinal",
        alive,
    )
    for document, ordinal, parent, level, title in rows:
        above = outer.get((document, parent))
        path = (title,) if above is None else (above, title)
        outer[document, ordinal] = title
        headings.setdefault(document, []).append((level, path))
    listed = []
    for document, uri, language, modified, chunks, chars in connection.execute(
        "SELECT d.id, d.uri, d.language, d.mtime_ns, count(*), sum(c.end - c.start - c.overlap)"
        f" FROM documents d JOIN chunks c ON c.document = d.id WHERE {ALIVE}"
        " GROUP BY d.id, d.uri, d.language, d.mtime_ns ORDER BY d.uri",
        alive,
    ):
        own_headings = headings.get(document, [])
        first = next((path[-1] for level, path in own_headings if level == 1), "")
        paths = tuple(path for _, path in own_headings)
        listed.append(PageInfo(uri, language, modified, chunks, chars, first, paths))
    return listed


def sections(connection: Connection, document: int) -> list[Section]:
    rows = connection.execute(f"{_SECTIONS} WHERE s.document = ? ORDER BY s.ordinal", (document,))
    return _make_sections(connection, rows)[1]


def live_sections(
    connection: Connection, uri: str, generation: int
) -> tuple[int | None, list[Section]]:
    """Return the number and the sections of a live document; no number if it has no sections."""
    rows = connection.execute(
        f"{_SECTIONS} JOIN documents d ON d.id = s.document"
        f" WHERE d.uri = :uri AND {ALIVE} ORDER BY s.ordinal",
        {"uri": uri, "g": generation},
    )
    return _make_sections(connection, rows)


def _make_sections(
    connection: Connection, rows: Iterable[tuple[Any, ...]]
) -> tuple[int | None, list[Section]]:
    result: list[Section] = []
    document: int | None = None
    for document, ordinal, parent, level, title, start, end, start_line, end_line, body in rows:
        if parent >= len(result):
            raise corrupt_row_error(
                connection, f"document {document}: section {ordinal} has parent {parent}"
            )
        above = result[parent].path if parent >= 0 else ()
        path = (*above, title) if level else ()
        span = Span(start, end, start_line, end_line)
        result.append(Section(ordinal, parent, level, title, path, span, body))
    return document, result


def has_code(connection: Connection, generation: int) -> bool:
    row = connection.execute(
        f"SELECT 1 FROM documents d WHERE d.lane = 'code' AND {ALIVE} LIMIT 1", {"g": generation}
    ).fetchone()
    return row is not None


def has_code_in(connection: Connection, generation: int, language: str) -> bool:
    row = connection.execute(
        f"SELECT 1 FROM documents d WHERE d.language = :language AND d.lane = 'code' AND {ALIVE}"
        " LIMIT 1",
        {"g": generation, "language": language},
    ).fetchone()
    return row is not None


def find_definitions(
    connection: Connection, generation: int, name: str
) -> list[tuple[str, Section]]:
    """Return URI and section of code that defines ``name``, in any case, or ``Owner.name``."""
    rows = connection.execute(
        "SELECT d.id, d.uri, s.ordinal FROM sections s JOIN documents d ON d.id = s.document"
        f" WHERE d.lane = 'code' AND {ALIVE} AND s.level > 0"
        " AND (lower(s.title) = :name OR (length(s.title) > length(:name)"
        " AND lower(substr(s.title, length(s.title) - length(:name))) = '.' || :name))"
        " ORDER BY d.uri, s.start",
        {"g": generation, "name": _lower_ascii(name)},
    ).fetchall()
    sections_by_document: dict[int, list[Section]] = {}
    for document, _, _ in rows:
        if document not in sections_by_document:
            sections_by_document[document] = sections(connection, document)
    return [(uri, sections_by_document[document][ordinal]) for document, uri, ordinal in rows]


def definitions(connection: Connection, documents: Sequence[int]) -> dict[int, list[Definition]]:
    """Return the sections of each document as definitions, in order."""
    # An index in an older format serves while a new one is built.
    columns = "kind, documented" if check(connection) >= FORMAT_WITH_KINDS else "'', 0"
    result: dict[int, list[Definition]] = {}
    for some in batches(documents):
        rows = connection.execute(
            f"SELECT document, start, title, {columns} FROM sections"
            f" WHERE document IN ({placeholders(some)}) AND level > 0",
            some,
        )
        for document, start, title, kind, documented in rows:
            result.setdefault(document, []).append(Definition(start, title, kind, documented != 0))
    return result


def text(connection: Connection, text_sha: bytes) -> str:
    """Return the stored text, checked against its hash."""
    row = connection.execute("SELECT body FROM texts WHERE sha = ?", (text_sha,)).fetchone()
    return decode_text(connection, text_sha, row[0] if row else None)


def decode_text(connection: Connection, text_sha: bytes, body: bytes | None) -> str:
    """Decompress a stored text and check it against its hash."""
    return _decompress(connection, text_sha, body).decode("utf-8")


def _decompress(connection: Connection, text_sha: bytes, body: bytes | None) -> bytes:
    try:
        return decompress_text(text_sha, body)
    except ValueError as error:
        raise corrupt_row_error(connection, f"text {text_sha.hex()}: {error}") from error


def decompress_text(text_sha: bytes, body: bytes | None) -> bytes:
    """Decompress a text; raise ``ValueError`` if it does not match its hash."""
    if body is None:
        raise ValueError("missing")
    try:
        raw = zlib.decompress(body)
    except (zlib.error, TypeError) as error:
        raise ValueError(str(error)) from error
    if sha256(raw).digest() != text_sha:
        raise ValueError("hash differs")
    return raw


def text_hashes(connection: Connection, generation: int | None = None) -> dict[int, bytes]:
    """Return the text hash of every document, or of those of a generation, by number."""
    alive = "" if generation is None else f" WHERE {ALIVE}"
    values = {} if generation is None else {"g": generation}
    rows = connection.execute(
        f"SELECT d.id, d.text_sha FROM documents d{alive} ORDER BY d.id", values
    )
    return dict(rows.fetchall())


def texts(connection: Connection, documents: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Yield the texts of these documents as UTF-8, checked against their hashes."""
    for some in batches(documents):
        rows = connection.execute(
            "SELECT d.id, d.text_sha, t.body FROM documents d LEFT JOIN texts t"
            f" ON t.sha = d.text_sha WHERE d.id IN ({','.join(map(str, some))})"
        )
        for document, text_sha, body in rows.fetchall():
            yield document, _decompress(connection, text_sha, body)


def vectors_between(
    connection: Connection, document: int, start: int, end: int | None
) -> list[int]:
    """Return the vector rows of the chunks that overlap this part of a document, in order."""
    rows = connection.execute(
        "SELECT vector FROM chunks WHERE document = ? AND vector IS NOT NULL"
        ' AND "end" > ? AND start < ? ORDER BY ordinal',
        (document, start, END if end is None else end),
    )
    return [row for (row,) in rows]


def read_contents(connection: Connection, rows: Sequence[int]) -> dict[int, bytes]:
    """Return the content names of these vector rows."""
    return {
        row: bytes(content)
        for some in batches(rows)
        for row, content in connection.execute(
            f"SELECT row, content FROM embeddings WHERE row IN ({placeholders(some)})", some
        )
    }


def list_contents(connection: Connection) -> dict[bytes, int]:
    """Return the vector row of every content name."""
    rows = connection.execute("SELECT content, row FROM embeddings")
    return {bytes(content): row for content, row in rows}


class VectorRow(NamedTuple):
    """The vector of a live chunk, and its document."""

    document: int
    uri: str
    vector: int
    content: bytes


def list_vector_rows(connection: Connection, generation: int) -> list[VectorRow]:
    """Return each live chunk with a vector, those of the newest documents first."""
    rows = connection.execute(
        "SELECT d.id, d.uri, c.vector, e.content FROM chunks c"
        " JOIN documents d ON d.id = c.document JOIN embeddings e ON e.row = c.vector"
        f" WHERE {ALIVE} ORDER BY d.mtime_ns DESC, d.id DESC, c.ordinal",
        {"g": generation},
    )
    return list(map(VectorRow._make, rows))


def read_model(connection: Connection) -> str:
    """Return the fingerprint of the model that made the vectors, or an empty text."""
    row = connection.execute(_READ_META, (MODEL,)).fetchone()
    return str(row[0]) if row else ""


def documents_ending_in(
    connection: Connection, generation: int, path: str, most: int = 5
) -> list[int]:
    """Return live documents whose URI ends in ``path``, in any case; none if there are many."""
    rows = connection.execute(
        f"SELECT d.id FROM documents d WHERE {ALIVE} AND"
        " (instr(lower('/' || d.uri || '\n'), '/' || :path || '\n') > 0"
        "  OR instr(lower('/' || d.uri), '/' || :path || '.') > 0) LIMIT :most",
        {"g": generation, "path": _lower_ascii(path), "most": most + 1},
    ).fetchall()
    return [identifier for (identifier,) in rows] if len(rows) <= most else []


def _lower_ascii(text: str) -> str:
    """Lower ASCII letters only, as SQLite's ``lower`` does."""
    return text.translate(_LOWER)


def has_text(connection: Connection, text_sha: bytes) -> bool:
    row = connection.execute("SELECT 1 FROM texts WHERE sha = ?", (text_sha,)).fetchone()
    return row is not None


def corrupt_row_error(connection: Connection, developer: str) -> IndexCorrupt:
    path = next(iter(connection.execute("PRAGMA database_list")))[2]
    return corrupt_place_error(str(path), developer)


def corrupt_place_error(place: str, developer: str) -> IndexCorrupt:
    return IndexCorrupt(
        "A stored document does not match its checksum.",
        hint="Rebuild the index from the sources: lookfar index PATH --rebuild.",
        developer=developer,
        details={"path": place},
    )


def count_documents(connection: Connection, generation: int) -> int:
    row = connection.execute(
        f"SELECT count(*) FROM documents d WHERE {ALIVE}", {"g": generation}
    ).fetchone()
    return int(row[0])


def count_all_documents(connection: Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM documents").fetchone()[0])


def highest_document(connection: Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(id), 0) FROM documents").fetchone()[0])


def link_targets(connection: Connection, document: int | None = None) -> list[str]:
    """Return the distinct link targets of a document, in order, or of all documents."""
    if document is None:
        rows = connection.execute("SELECT DISTINCT target FROM links")
    else:
        statement = "SELECT target FROM links WHERE document = ? ORDER BY ordinal"
        rows = connection.execute(statement, (document,))
    return list(dict.fromkeys(target for (target,) in rows))


def find_linking(
    connection: Connection, generation: int, wanted: Sequence[str], text: str = ""
) -> list[tuple[str, str, int]]:
    """Return URI, title and time of live documents with such a link target, latest first."""
    documents: set[int] = set()
    for some in batches(wanted):
        rows = connection.execute(
            f"SELECT DISTINCT document FROM links WHERE target IN ({placeholders(some)})"
            f"{' AND text = ?' if text else ''}",
            (*some, *([text] if text else [])),
        )
        documents.update(document for (document,) in rows)
    result: list[tuple[str, str, int]] = []
    for numbers in batches(sorted(documents)):
        result += connection.execute(
            "SELECT d.uri, d.title, d.mtime_ns FROM documents d"
            f" WHERE d.id IN ({','.join(map(str, numbers))}) AND {ALIVE}",
            {"g": generation},
        )
    return sorted(result, key=lambda row: (-row[2], row[0]))


def count_rows(connection: Connection, generation: int) -> Counts:
    def count(table: str) -> int:
        joined = (
            "documents d"
            if table == "documents"
            else (f"{table} t JOIN documents d ON d.id = t.document")
        )
        row = connection.execute(
            f"SELECT count(*) FROM {joined} WHERE {ALIVE}", {"g": generation}
        ).fetchone()
        return int(row[0])

    return Counts(count("documents"), count("sections"), count("chunks"), count("links"))


def left_out(connection: Connection, uris: Collection[str] | None = None) -> dict[str, LeftOut]:
    """Return the files that the last pass saw and did not store, or those of them in ``uris``."""
    if uris is None:
        return dict(_left_out(connection, "", ()))
    return {
        uri: entry
        for some in batches(sorted(uris))
        for uri, entry in _left_out(connection, f" WHERE uri IN ({placeholders(some)})", some)
    }


def _left_out(
    connection: Connection, where: str, values: Sequence[str]
) -> Iterator[tuple[str, LeftOut]]:
    rows = connection.execute(
        "SELECT uri, failed, code, message, settled, size, mtime_ns, ctime_ns, inode"
        f" FROM left_out{where} ORDER BY uri",
        values,
    )
    for uri, failed, code, joined, settled, *disk in rows:
        message, _, extractor = joined.partition(_UNIT)
        fingerprint = Fingerprint(*disk)
        yield uri, LeftOut(uri, bool(failed), code, message, fingerprint, bool(settled), extractor)


def unsettled(connection: Connection, generation: int) -> list[str]:
    """Return the documents of files that were read so soon after a write that they may differ."""
    rows = connection.execute(
        "SELECT uri FROM documents WHERE born <= ? AND (died IS NULL OR died > ?) AND settled = 0",
        (generation, generation),
    )
    return [uri for (uri,) in rows]


def failures(connection: Connection) -> list[Failure]:
    rows = connection.execute(
        "SELECT uri, code, message FROM left_out WHERE failed != 0 ORDER BY uri"
    )
    return [Failure(uri, code, joined.partition(_UNIT)[0]) for uri, code, joined in rows]


def find_unembedded(connection: Connection, contents: Iterable[bytes]) -> set[bytes]:
    wanted = set(contents)
    return wanted - find_vectors(connection, wanted).keys()


def find_vectors(connection: Connection, contents: Collection[bytes]) -> dict[bytes, int]:
    """Return the vector rows of those of these contents that have one."""
    return {
        bytes(content): row
        for some in batches(list(contents))
        for content, row in connection.execute(
            f"SELECT content, row FROM embeddings WHERE content IN ({placeholders(some)})", some
        )
    }
