"""The server's tables and their migrations.

They have the columns of the embedded catalogue, with the vectors and the analysed terms beside
them, and are only written and copied: nothing searches them.

Every table that grows has ``collection`` as the first column of its primary key and of every
unique constraint, so that a cluster can distribute rows by it (Citus:
``create_distributed_table``). Row-level security shows one collection at a time: the one that the
transaction has selected, if it belongs to the role. That column is the last in each table, with the
selected collection as its default.
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
    # The vector as float16, the high byte first; null once it is erased.
    "embeddings": "row bigint, content bytea, checksum bigint, vector bytea null | row",
    "links": "document bigint, ordinal integer, kind text, target text, anchor text, text text,"
    ' start integer, "end" integer, name text | document, ordinal',
    "names": "document bigint, name text, way integer, whole text | document, name, way, whole",
    "tags": "document bigint, tag text | document, tag",
    "left_out": "uri text, failed integer, code text, message text, size bigint, mtime_ns bigint,"
    " ctime_ns bigint, inode bigint, settled integer | uri",
    "communities": "uri text, community integer | uri",
    # The terms of each chunk and of each document's names.
    "entries": "key bigint, document bigint, headings text, tags text, body text, code text | key",
    "titles": "document bigint, title text, path text, description text, aliases text,"
    " keywords text | document",
}
_SECOND: Final[Mapping[str, str]] = {"calls": "document bigint, facts bytea | document"}
_THIRD: Final[Mapping[str, str]] = {
    "properties": "document bigint, ordinal integer, key text, name text, kind text, value text,"
    " folded text, number float8 null | document, ordinal",
}
_FIFTH: Final[Mapping[str, str]] = {
    # What each of the last commits changed beside adding rows with higher numbers, and the mark of
    # the commit before it.
    "revisions": "number bigint, base text, documents bigint[], vectors bigint[] | number",
    # The vectors of the second model, in the order in which they were made.
    "quality": "number bigint, model text, dimensions integer, row bigint, content bytea,"
    " vector bytea null | number",
}
_ALL: Final = {**_COLUMNS, **_SECOND, **_THIRD, **_FIFTH}
OF_DOCUMENTS: Final = ("sections", "chunks", "links", "names", "tags", "calls", "properties")
"""The tables whose rows belong to a document, by their column ``document``."""
_INDEXES: Final = (
    "documents (collection, text_sha)",
    "chunks (collection, document)",
    "entries (collection, document)",
)

TYPES: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    table: [
        (name.strip('"'), kind)
        for name, kind, *_ in (column.split() for column in columns.partition("|")[0].split(","))
    ]
    for table, columns in _ALL.items()
}
"""Columns and their types, for statements that insert many rows at once."""


def _table(name: str) -> str:
    columns, _, key = _ALL[name].partition("|")
    lines = [
        column if " null" in column else f"{column} NOT NULL"
        for column in (
            column.strip().replace(" text", ' text COLLATE "C"') for column in columns.split(",")
        )
    ]
    own = "(SELECT collection FROM collections WHERE collection = own_collection())"
    return f"""
CREATE TABLE {name} ({", ".join(lines)},
    collection bigint NOT NULL DEFAULT own_collection(), PRIMARY KEY (collection, {key}));
ALTER TABLE {name} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {name} FORCE ROW LEVEL SECURITY;
CREATE POLICY one_collection ON {name} USING (collection = {own});
"""


_TABLES: Final = (
    """
CREATE FUNCTION own_collection() RETURNS bigint STABLE PARALLEL SAFE LANGUAGE sql
    RETURN nullif(current_setting('lookfar.collection', true), '')::bigint;

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
    # What is dense already is not compressed again.
    + "ALTER TABLE texts ALTER COLUMN body SET STORAGE EXTERNAL;\n"
)
_REVISIONS: Final = (
    """
-- How often it was written since, and a mark of the last time that no other state has.
ALTER TABLE collections ADD COLUMN revision bigint NOT NULL DEFAULT 0;
ALTER TABLE collections ADD COLUMN mark text NOT NULL DEFAULT gen_random_uuid()::text;
ALTER TABLE collections ADD COLUMN quality bigint NOT NULL DEFAULT 0;
ALTER TABLE embeddings ALTER COLUMN vector SET STORAGE EXTERNAL;
"""
    + "".join(map(_table, _FIFTH))
    + "CREATE INDEX ON quality (collection, row);\n"
)
_WITHOUT_SEARCH: Final = """
-- Posting lists and vector indexes were for servers that searched. The vectors stay, as bytes.
DROP TABLE terms, postings, graves;
ALTER TABLE embeddings DROP CONSTRAINT embeddings_collection_content_key;
ALTER TABLE embeddings ALTER COLUMN vector TYPE bytea USING substr(halfvec_send(vector), 5);
ALTER TABLE texts ALTER COLUMN body SET STORAGE EXTERNAL;
DROP FUNCTION instr(text, text), json_extract(text, text);
DROP INDEX IF EXISTS documents_collection_uri_born_idx, documents_collection_died_idx,
    chunks_collection_vector_idx, links_collection_name_idx, names_collection_name_idx,
    properties_collection_key_folded_idx, properties_collection_key_kind_number_idx;
"""
_FIRST: Final = _TABLES + "".join(map(_table, (*_SECOND, *_THIRD))) + _REVISIONS
"""All tables of the newest version, for a server that has none."""
_STEPS: Final = (
    "",
    "".join(map(_table, _SECOND)),
    "".join(map(_table, _THIRD)),
    "",
    _WITHOUT_SEARCH + _REVISIONS,
)
VERSION: Final = len(_STEPS)
"""The version of the tables that this program writes."""
_WITH_VECTOR_INDEXES: Final = 4
"""The last version whose servers searched."""
TABLES: Final = tuple(_ALL)
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
        version = read_version(connection)
        if version == 0:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {SCHEMA}.versions (version integer PRIMARY KEY)"
            )
            connection.execute(_FIRST)
        elif version < _WITH_VECTOR_INDEXES + 1:
            for (index,) in connection.execute(
                "SELECT indexname FROM pg_indexes WHERE schemaname = %s AND tablename = %s"
                " AND indexdef LIKE '%%USING hnsw%%'",
                (SCHEMA, "embeddings"),
            ).fetchall():
                connection.execute(f"DROP INDEX {SCHEMA}.{index}")
        for number, step in enumerate(_STEPS[version:], version + 1):
            if version and step:
                connection.execute(step)
            connection.execute(f"INSERT INTO {SCHEMA}.versions VALUES (%s)", (number,))
