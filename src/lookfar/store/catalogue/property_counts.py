"""Count the properties and tags of one generation in the database.

A row of properties is not read for that: an index has the keys, values and types, and only the
spelling of values that are shown is looked up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from sqlite3 import Connection
from typing import Final, NamedTuple

from lookfar.common.properties import OWN_KEYS, TAGS_KEY
from lookfar.ports import PropertyCount, TaggedDocuments, ValueCount
from lookfar.store.catalogue import rows as catalog

_LIVE: Final = f"document NOT IN (SELECT d.id FROM documents d WHERE NOT ({catalog.ALIVE}))"
"""The dead are listed because they are few."""
_NOT_OWN: Final = f"(key < '{OWN_KEYS}' OR key >= '{OWN_KEYS[:-1]}/')"
"""The slash is the character after the dot."""


class _Value(NamedTuple):
    folded: str
    documents: int
    first: int
    """The first document that has it, whose spelling is shown."""


def count_properties(
    connection: Connection,
    generation: int,
    most_values: int,
    documents: Sequence[int] | None = None,
) -> list[PropertyCount]:
    """Return the properties, of these documents or all, with their most frequent values."""
    some = ",".join(map(str, documents or [-1]))  # Our own integers.
    among = _LIVE if documents is None else f"document IN ({some})"
    kinds: dict[str, set[str]] = defaultdict(set)
    values: dict[str, dict[str, _Value]] = defaultdict(dict)
    for key, folded, kind, count, first in connection.execute(
        "SELECT key, folded, kind, COUNT(DISTINCT document), MIN(document) FROM properties"
        f" WHERE {_NOT_OWN} AND {among} GROUP BY key, folded, kind",
        {"g": generation},
    ):
        kinds[key].add(kind)
        known = values[key].get(folded, _Value(folded, 0, first))
        values[key][folded] = _Value(folded, known.documents + count, min(known.first, first))
    having = connection.execute(
        "SELECT key, COUNT(DISTINCT document) FROM properties"
        f" WHERE {_NOT_OWN} AND {among} GROUP BY key",
        {"g": generation},
    )
    frequent = {
        key: sorted(found.values(), key=lambda value: (-value.documents, value.folded))
        for key, found in values.items()
    }
    shown = {key: found[:most_values] for key, found in frequent.items()}
    spellings = _read_spellings(connection, shown)
    return [
        PropertyCount(
            key=key,
            name=_choose_name(key, shown[key], spellings),
            kinds=frozenset(kinds[key]),
            documents=documents,
            distinct=len(frequent[key]),
            values=tuple(
                ValueCount(value.folded, spellings[key, value.folded][1], value.documents)
                for value in shown[key]
            ),
        )
        for key, documents in having
    ]


def list_tagged(connection: Connection, generation: int) -> list[TaggedDocuments]:
    """Return every tag with the documents that have exactly this tag."""
    documents: dict[str, set[int]] = defaultdict(set)
    for folded, document in connection.execute(
        f"SELECT folded, document FROM properties WHERE key = :key AND {_LIVE}",
        {"g": generation, "key": TAGS_KEY},
    ):
        documents[folded].add(document)
    tags = [_Value(folded, len(some), min(some)) for folded, some in documents.items()]
    spellings = _read_spellings(connection, {TAGS_KEY: tags})
    return [
        TaggedDocuments(folded, spellings[TAGS_KEY, folded][1], frozenset(some))
        for folded, some in documents.items()
    ]


def read_kinds(connection: Connection, generation: int) -> dict[str, frozenset[str]]:
    """Return the types of the values of every property, by key."""
    kinds: dict[str, set[str]] = defaultdict(set)
    for key, kind in connection.execute(
        f"SELECT DISTINCT key, kind FROM properties WHERE {_LIVE}", {"g": generation}
    ):
        kinds[key].add(kind)
    return {key: frozenset(some) for key, some in kinds.items()}


def _read_spellings(
    connection: Connection, values: Mapping[str, Iterable[_Value]]
) -> dict[tuple[str, str], tuple[str, str]]:
    """Return name and value of each property as its first document has written them."""
    first = {(key, value.folded): value.first for key, some in values.items() for value in some}
    spellings: dict[tuple[str, str], tuple[str, str]] = {}
    for batch in catalog.batches(sorted(set(first.values()))):
        for document, key, folded, name, value in connection.execute(
            "SELECT document, key, folded, name, value FROM properties"
            f" WHERE document IN ({catalog.placeholders(batch)}) ORDER BY document, ordinal",
            batch,
        ):
            if first.get((key, folded)) == document:
                spellings.setdefault((key, folded), (name, value))
    return spellings


def _choose_name(
    key: str, values: Iterable[_Value], spellings: Mapping[tuple[str, str], tuple[str, str]]
) -> str:
    """Return the name of a property as most of its values were first written with."""
    names: Counter[str] = Counter()
    for value in values:
        names[spellings[key, value.folded][0]] += value.documents
    return max(names, key=lambda name: (names[name], name))
