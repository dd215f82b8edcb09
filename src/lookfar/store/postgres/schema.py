"""The server's tables and their migrations.

Every table that grows has ``collection`` as the first column of its primary key and of every
unique constraint, so that a cluster can distribute rows by it (Citus:
``create_distributed_table``). Row-level security shows one collection at a time: the one that the
session has selected, if it belongs to the role. The catalogue's shared statements do not mention
that column; it is the last in each table, with the selected collection as its default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lookfar.errors import IndexTooNew

if TYPE_CHECKING:
    from psycopg import Connection

SCHEMA: Final = "lookfar"
REGISTRY: Final = "collections"
_LOCK: Final = 0x6C6F6F6B  # Any number that other programs are unlikely to lock.

_COLUMNS: Final[Mapping[str, str]] = {
    # Each table has the columns of the embedded catalogue and, after the bar, its primary key.
    "meta": "key text, value text | key",
    "generations": "number bigint, created_at text, pinned integer default 0, manifest text"
    " | number",
    "documents": "id bigint, uri text, born bigint, died bigint null, lane text, language text,"
    " title text, body integer, raw_sha bytea, text_sha bytea, metadata text, warnings text,"
    " size bigint, mtime_ns bigint, ctime_ns bigint, inode bigint, settled integer | id",
    "texts": "sha bytea, body bytea | sha",
    "sections": "document bigint, ordinal integer, parent integer, level integer, title text,"
    ' start integer, "end" integer, start_line integer, end_line integer, body integer,'
    " kind text, documented integer | document, ordinal",
    "chunks": "key bigint, document bigint, ordinal integer, id bytea, vector bigint null,"
    ' section integer, path text, start integer, "end" integer, start_line integer,'
    " end_line integer, overlap integer, part integer, parts integer, sha bytea | key",
    "embeddings": "row bigint, content bytea, checksum bigint, vector halfvec null | row",
    "links": "document bigint, ordinal integer, kind text, target text, anchor text, text text,"
    ' start integer, "end" integer, name text | document, ordinal',
    "names": "document bigint, name text, way integer, whole text | document, name, way, whole",
    "tags": "document bigint, tag text | document, tag",
    "graves": "document bigint | document",
    "left_out": "uri text, failed integer, code text, message text, size bigint, mtime_ns bigint,"
    " ctime_ns bigint, inode bigint, settled integer | uri",
    "communities": "uri text, community integer | uri",
    # The keyword index: the terms of each chunk and of each document's names, how many entries
    # contain a term, and which ones, in blocks.
    "entries": "key bigint, document bigint, headings text, tags text, body text, code text | key",
    "titles": "document bigint, title text, path text, description text, aliases text,"
    " keywords text | document",
    "terms": "field smallint, term text, entries bigint, small integer | field, term",
    "postings": "field smallint, term text, first bigint, last bigint, entries integer, data bytea"
    " | field, term, first",
}
_LATER: Final[Mapping[str, str]] = {
    "calls": "document bigint, facts bytea | document",
    "properties": "document bigint, ordinal integer, key text, name text, kind text, value text,"
    " folded text, number float8 null | document, ordinal",
}
"""Tables that were added after the first version."""
_INDEXES: Final = (
    "documents (collection, uri, born)",
    "documents (collection, text_sha)",
    "documents (collection, died) WHERE died IS NOT NULL",
    "chunks (collection, document, ordinal)",
    "chunks (collection, vector)",
    "links (collection, name) WHERE name != ''",
    "names (collection, name)",
    "entries (collection, document)",
    "terms (collection, field, entries)",
)

TYPES: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    table: [
        (name.strip('"'), kind)
        for name, kind, *_ in (column.split() for column in columns.partition("|")[0].split(","))
    ]
    for table, columns in {**_COLUMNS, **_LATER}.items()
}
"""Columns and their types, for statements that insert many rows at once."""


def _table(name: str) -> str:
    columns, _, key = {**_COLUMNS, **_LATER}[name].partition("|")
    lines = [
        column if " null" in column else f"{column} NOT NULL"
        for column in (
            column.strip().replace(" text", ' text COLLATE "C"') for column in columns.split(",")
        )
    ]
    own = "(SELECT collection FROM collections WHERE collection = own_collection())"
    unique = ", UNIQUE (collection, content)" if name == "embeddings" else ""
    return f"""
CREATE TABLE {name} ({", ".join(lines)},
    collection bigint NOT NULL DEFAULT own_collection(), PRIMARY KEY (collection, {key}){unique});
ALTER TABLE {name} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {name} FORCE ROW LEVEL SECURITY;
CREATE POLICY one_collection ON {name} USING (collection = {own});
"""


_FIRST = (
    """
CREATE FUNCTION own_collection() RETURNS bigint STABLE PARALLEL SAFE LANGUAGE sql
    RETURN nullif(current_setting('lookfar.collection', true), '')::bigint;
-- What SQLite calls these; the catalogue's statements ask both.
CREATE FUNCTION instr(whole text, part text) RETURNS integer IMMUTABLE PARALLEL SAFE LANGUAGE sql
    RETURN strpos(whole, part);
CREATE FUNCTION json_extract(told text, path text) RETURNS text IMMUTABLE PARALLEL SAFE
    LANGUAGE sql RETURN jsonb_path_query_first(told::jsonb, path::jsonpath) #>> '{}';

-- A collection that is built anew gets another number: which one serves is said here, and here
-- alone. The role that made it is its tenant.
CREATE TABLE collections (
    collection bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant name NOT NULL DEFAULT current_user,
    name text COLLATE "C" NOT NULL,
    serving boolean NOT NULL DEFAULT false,
    fingerprint text NOT NULL,
    dimensions integer NOT NULL,
    model text NOT NULL,
    about text NOT NULL DEFAULT '{}'
);
CREATE UNIQUE INDEX collections_serving ON collections (tenant, name) WHERE serving;
CREATE INDEX collections_named ON collections (tenant, name);
ALTER TABLE collections ENABLE ROW LEVEL SECURITY;
ALTER TABLE collections FORCE ROW LEVEL SECURITY;
CREATE POLICY own_collections ON collections USING (tenant = current_user);

CREATE TABLE damage (
    tenant name NOT NULL DEFAULT current_user, name text COLLATE "C" NOT NULL,
    told text NOT NULL, PRIMARY KEY (tenant, name)
);
ALTER TABLE damage ENABLE ROW LEVEL SECURITY;
ALTER TABLE damage FORCE ROW LEVEL SECURITY;
CREATE POLICY own_damage ON damage USING (tenant = current_user);
"""
    + "".join(map(_table, _COLUMNS))
    + "".join(f"CREATE INDEX ON {index};\n" for index in _INDEXES)
)

_PROPERTY_INDEXES: Final = """
CREATE INDEX ON properties (collection, key, folded);
CREATE INDEX ON properties (collection, key, kind, number) WHERE number IS NOT NULL;
"""
_NARROW_BLOCKS: Final = """
-- Blocks of four to seven bytes an entry, which older programs cannot read. What is dense already
-- is not compressed again.
ALTER TABLE postings ALTER COLUMN data SET STORAGE EXTERNAL;
ALTER TABLE texts ALTER COLUMN body SET STORAGE EXTERNAL;
"""
_STEPS: Final = (
    _FIRST,
    _table("calls"),
    _table("properties") + _PROPERTY_INDEXES,
    _NARROW_BLOCKS,
)
VERSION: Final = len(_STEPS)
"""The version of the tables that this program writes."""
TABLES: Final = (*_COLUMNS, *_LATER)
"""The tables whose rows belong to a collection."""


def read_version(connection: Connection[Any]) -> int:
    """Return the version of the existing tables; 0 if there are none."""
    row = connection.execute("SELECT to_regclass('lookfar.versions')").fetchone()
    if row is None or row[0] is None:
        return 0
    row = connection.execute("SELECT max(version) FROM lookfar.versions").fetchone()
    version = int(row[0]) if row and row[0] is not None else 0
    if version > VERSION:
        raise IndexTooNew(
            "The tables on this server were made by a newer Lookfar.",
            hint="Upgrade Lookfar on this machine.",
            developer=f"tables of version {version}, this program knows {VERSION}",
        )
    return version


def migrate(connection: Connection[Any]) -> None:
    """Bring the tables up to ``VERSION``; several processes may try at once."""
    if read_version(connection) == VERSION:
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        if read_version(connection) == 0:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {SCHEMA}.versions (version integer PRIMARY KEY)"
            )
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        for number, step in enumerate(
            _STEPS[read_version(connection) :], read_version(connection) + 1
        ):
            connection.execute(step)
            connection.execute(f"INSERT INTO {SCHEMA}.versions VALUES (%s)", (number,))
