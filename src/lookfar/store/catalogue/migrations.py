"""The schema of the catalogue, and its migrations.

Each migration and the new format number are written in one transaction.
"""

from __future__ import annotations

import sqlite3
from sqlite3 import Connection

from lookfar.errors import IndexTooNew
from lookfar.store.catalogue.seals import STATE

_FIRST = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- A numbered, immutable state. Rows below say in which one they were born and died.
CREATE TABLE generations (
    number INTEGER PRIMARY KEY,
    created_at TEXT NOT NULL,
    pinned INTEGER NOT NULL DEFAULT 0,
    manifest TEXT NOT NULL
);

-- One version of one file. size..settled describe the disk, not the version.
CREATE TABLE documents (
    id INTEGER PRIMARY KEY,
    uri TEXT NOT NULL,
    born INTEGER NOT NULL,
    died INTEGER,
    lane TEXT NOT NULL,
    language TEXT NOT NULL,
    title TEXT NOT NULL,
    body INTEGER NOT NULL,
    raw_sha BLOB NOT NULL,
    text_sha BLOB NOT NULL,
    metadata TEXT NOT NULL,
    warnings TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    settled INTEGER NOT NULL
);

-- Normalised text, compressed, once per distinct content.
CREATE TABLE texts (id INTEGER PRIMARY KEY, sha BLOB NOT NULL, body BLOB NOT NULL);

CREATE TABLE sections (
    document INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    parent INTEGER NOT NULL,
    level INTEGER NOT NULL,
    title TEXT NOT NULL,
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    body INTEGER NOT NULL,
    PRIMARY KEY (document, ordinal)
) WITHOUT ROWID;

-- key also names the chunk in the keyword index; vector is its row in the segment.
CREATE TABLE chunks (
    key INTEGER PRIMARY KEY,
    document INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    id BLOB NOT NULL,
    vector INTEGER,
    section INTEGER NOT NULL,
    path TEXT NOT NULL,
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    overlap INTEGER NOT NULL,
    part INTEGER NOT NULL,
    parts INTEGER NOT NULL,
    sha BLOB NOT NULL
);

-- The content-addressed cache: what was embedded, and the row that holds it.
CREATE TABLE embeddings (
    row INTEGER PRIMARY KEY,
    content BLOB NOT NULL,
    checksum INTEGER NOT NULL
);

CREATE TABLE links (
    document INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    kind TEXT NOT NULL,
    target TEXT NOT NULL,
    anchor TEXT NOT NULL,
    text TEXT NOT NULL,
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    PRIMARY KEY (document, ordinal)
) WITHOUT ROWID;

CREATE TABLE tags (
    document INTEGER NOT NULL,
    tag TEXT NOT NULL,
    PRIMARY KEY (document, tag)
) WITHOUT ROWID;

-- Documents purged here whose keyword entries the next commit of that index removes.
CREATE TABLE graves (document INTEGER PRIMARY KEY);

-- What the last pass saw and did not store, and how the disk showed it then. Where it failed
-- (it could not be read or parsed), an older version may still serve.
CREATE TABLE left_out (
    uri TEXT PRIMARY KEY,
    failed INTEGER NOT NULL,
    code TEXT NOT NULL,
    message TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    settled INTEGER NOT NULL
) WITHOUT ROWID;
"""

# Links are resolved by name: the name a link looks for, and the names of documents.
_NAMES = """
ALTER TABLE links ADD COLUMN name TEXT NOT NULL DEFAULT '';

CREATE TABLE names (
    document INTEGER NOT NULL,
    name TEXT NOT NULL,
    way INTEGER NOT NULL,
    whole TEXT NOT NULL,
    PRIMARY KEY (document, name, way, whole)
) WITHOUT ROWID;
"""

# The kind of a section of source code, so that ranking need not read the source.
_KINDS = """
ALTER TABLE sections ADD COLUMN kind TEXT NOT NULL DEFAULT '';
ALTER TABLE sections ADD COLUMN documented INTEGER NOT NULL DEFAULT 0;
"""

# The communities of the link graph. For which generation they are valid is in meta: see graph.py.
_COMMUNITIES = """
CREATE TABLE communities (uri TEXT PRIMARY KEY, community INTEGER NOT NULL) WITHOUT ROWID;
"""

# Hashes of the rows: see seals.py. The columns of documents that change while a version lives have
# a sum of their own, which a trigger can update.
_CHECKS = f"""
CREATE TABLE checks (document INTEGER PRIMARY KEY, rows BLOB NOT NULL, state INTEGER NOT NULL);

CREATE TABLE seals (name TEXT PRIMARY KEY, hash BLOB NOT NULL) WITHOUT ROWID;

CREATE TRIGGER document_changed
AFTER UPDATE OF died, size, mtime_ns, ctime_ns, inode, settled ON documents BEGIN
    UPDATE checks SET state = (SELECT {STATE} FROM documents WHERE id = NEW.id)
    WHERE document = NEW.id;
END;

CREATE TRIGGER document_purged AFTER DELETE ON documents BEGIN
    DELETE FROM checks WHERE document = OLD.id;
END;
"""

# What each source file contributes to the call graph: see call_rows.py.
_CALLS = """
CREATE TABLE calls (document INTEGER PRIMARY KEY, facts BLOB NOT NULL);
"""

# Typed properties, inline fields, tags, and the days that notes are about: see property_rows.py.
_PROPERTIES = """
CREATE TABLE properties (
    document INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    key TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    value TEXT NOT NULL,
    folded TEXT NOT NULL,
    number REAL,
    PRIMARY KEY (document, ordinal)
) WITHOUT ROWID;
"""

# Separate from the tables, because a first build is quicker if it creates these at the end.
_INDEXES = """
CREATE INDEX IF NOT EXISTS documents_by_uri ON documents (uri, born);
CREATE INDEX IF NOT EXISTS documents_by_text ON documents (text_sha);
CREATE INDEX IF NOT EXISTS documents_by_death ON documents (died) WHERE died IS NOT NULL;
CREATE UNIQUE INDEX IF NOT EXISTS texts_by_sha ON texts (sha);
CREATE INDEX IF NOT EXISTS chunks_by_document ON chunks (document);
CREATE INDEX IF NOT EXISTS chunks_by_vector ON chunks (vector);
CREATE UNIQUE INDEX IF NOT EXISTS embeddings_by_content ON embeddings (content);
CREATE INDEX IF NOT EXISTS links_by_name ON links (name) WHERE name != '';
CREATE INDEX IF NOT EXISTS names_by_name ON names (name);
CREATE INDEX IF NOT EXISTS properties_by_text ON properties (key, folded, kind);
CREATE INDEX IF NOT EXISTS properties_by_number ON properties (key, kind, number)
    WHERE number IS NOT NULL;
"""

# The keyword index beside the catalogue has other files; the tables are the same.
_SEGMENTS = ""

_STEPS = (_FIRST, _NAMES, _KINDS, _COMMUNITIES, _CHECKS, _CALLS, _PROPERTIES, _SEGMENTS)
FORMAT = len(_STEPS)
"""The format this program writes; part of every epoch's fingerprint."""
FORMAT_WITH_NAMES = 2
"""The first format whose links can be resolved."""
FORMAT_WITH_KINDS = 3
"""The first format with the kinds of code sections."""
FORMAT_WITH_COMMUNITIES = 4
"""The first format with stored communities."""
FORMAT_WITH_CHECKS = 5
"""The first format with hashes of its rows."""
FORMAT_WITH_CALLS = 6
"""The first format with stored calls."""
FORMAT_WITH_PROPERTIES = 7
"""The first format with typed properties."""


FORMAT_RECORD = "format"
"""The key in ``meta`` with a second copy of the format, to detect a damaged file header."""


def check(connection: Connection) -> int:
    """Return the format of a catalogue; raise ``IndexTooNew`` if this program is too old for it."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > FORMAT and recorded_format(connection) != str(FORMAT):
        raise IndexTooNew(
            "This index was made by a newer Lookfar.",
            hint="Upgrade Lookfar, or choose another folder with --index-dir.",
            developer=f"catalogue format {version}, this program knows {FORMAT}",
        )
    return int(version)


def recorded_format(connection: sqlite3.Connection) -> str:
    """Return the format recorded in ``meta``; empty if there is none."""
    try:
        row = connection.execute(
            "SELECT value FROM meta WHERE key = ?", (FORMAT_RECORD,)
        ).fetchone()
    except sqlite3.DatabaseError:
        return ""
    return str(row[0]) if row else ""


def migrate(connection: sqlite3.Connection) -> None:
    version = check(connection)
    for number, step in enumerate(_STEPS[version:], version + 1):
        connection.executescript(f"BEGIN;{step};PRAGMA user_version={number};COMMIT;")


def create_indexes(connection: sqlite3.Connection) -> None:
    for statement in filter(str.strip, _INDEXES.split(";")):
        connection.execute(statement)
