"""Write the keyword index: terms, and for each the entries that contain it, in blocks.

A write adds a block to each of its terms; small blocks of a term are joined when there are many.
Removed documents leave their blocks at once.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lookfar.store.catalogue import rows as catalog
from lookfar.store.keywords import postings
from lookfar.store.keywords.fields import FIELDS, NAMES, NUMBERS, PAGE, Named
from lookfar.store.keywords.postings import Postings
from lookfar.store.postgres import blocks, schema
from lookfar.store.postgres.blocks import ENTRIES, tokens_key

if TYPE_CHECKING:
    from lookfar.store.postgres.server import ServerConnection

_BODY, _CODE = FIELDS.index("body"), FIELDS.index("code")
_BUFFERED: Final = 2_000_000
"""Postings that a writer buffers, at about 60 bytes each while they are sorted."""
_SMALL: Final = 512
"""Entries below which a block is joined with others."""
_MOST_SMALL: Final = 16
_LAST: Final = (1 << 63) - 1


class _Buffer:
    """Postings in the order in which they came, in arrays."""

    def __init__(self) -> None:
        number = count().__next__
        self._numbers: dict[int, defaultdict[str, int]] = {
            field: defaultdict(number) for field in NUMBERS.values()
        }
        """A number for each term of each field."""
        self._terms = array("I")
        self._times = array("H")
        self._owners = array("q")
        self._lengths = array("B")
        self._counts = array("I")
        """The last three have one value for each entry and field: the entry's number, its length,
        and how many terms it has."""

    def __len__(self) -> int:
        return len(self._terms)

    def add(self, field: int, owner: int, terms: Sequence[str]) -> None:
        counted = Counter(terms)
        self._terms.extend(map(self._numbers[field].__getitem__, counted))
        self._times.extend(map(postings.clip_times, counted.values()))
        self._owners.append(owner)
        self._lengths.append(postings.length_byte(len(terms)))
        self._counts.append(len(counted))

    def lists(self) -> Iterator[tuple[Named, Postings]]:
        """Yield the list of each term, by field and term: neighbours in an index."""
        terms = np.array(self._terms, dtype=np.int64)
        order = np.argsort(terms, kind="stable")
        ends = np.cumsum(np.bincount(terms)).tolist()
        counts = np.array(self._counts, dtype=np.int64)
        keys = np.repeat(np.array(self._owners, dtype=np.int64), counts)[order]
        lengths = np.repeat(np.array(self._lengths, dtype=np.uint8), counts)[order]
        times = np.array(self._times, dtype=np.uint16)[order]
        for field, numbers in self._numbers.items():
            for term in sorted(numbers):
                number = numbers[term]
                which = slice(ends[number - 1] if number else 0, ends[number])
                yield (field, term), Postings(keys[which], times[which], lengths[which])


class KeywordWriter:
    """Adds entries inside the transaction of a write session."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self._buffer = _Buffer()
        self._tokens: Counter[int] = Counter()
        self._added = 0
        self._entries: list[tuple[Any, ...]] = []
        self._titles: list[tuple[Any, ...]] = []

    def add(
        self,
        first_key: int,
        document: int,
        names: Sequence[str],
        entries: Sequence[Sequence[str]],
    ) -> None:
        """Index the chunks of one document under consecutive keys, and the document as a whole."""
        page: list[str] = []
        for key, entry in enumerate(entries, first_key):
            for field, stream in enumerate(entry):
                terms = stream.split()
                self._buffer_terms(field, key, terms)
                if field in (_BODY, _CODE):
                    page += terms
            self._entries.append((key, document, *entry))
        if entries:
            for name, stream in zip(NAMES, names, strict=True):
                self._buffer_terms(NUMBERS[name], document, stream.split())
            self._buffer_terms(PAGE, document, page)
            self._titles.append((document, *names))
            self._added += len(entries)
        if len(self._buffer) >= _BUFFERED:
            self.flush()

    def _buffer_terms(self, field: int, number: int, terms: Sequence[str]) -> None:
        if terms:
            self._tokens[field] += len(terms)
            self._buffer.add(field, number, terms)

    def flush(self) -> None:
        """Write what is buffered, and join the small blocks of terms that have many."""
        connection = self._connection
        connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", self._entries)
        connection.executemany("INSERT INTO titles VALUES (?, ?, ?, ?, ?, ?)", self._titles)
        lists = list(self._buffer.lists()) if len(self._buffer) else []
        self._write(lists)
        for batch in catalog.batches(self._count_terms(lists), 2000):
            self._join(batch)
        _adjust(connection, self._added, self._tokens)
        self._buffer = _Buffer()
        self._entries.clear()
        self._titles.clear()
        self._tokens.clear()
        self._added = 0

    def _write(self, lists: Iterable[tuple[Named, Postings]]) -> None:
        rows = [
            (*named, *block) for named, entries in lists for block in blocks.pack_blocks(entries)
        ]
        self._connection.executemany("INSERT INTO postings VALUES (?, ?, ?, ?, ?, ?)", rows)

    def _count_terms(self, lists: Sequence[tuple[Named, Postings]]) -> list[Named]:
        """Add to the counts of each term; return the terms with too many small blocks."""
        if not lists:
            return []
        counted = [
            (*named, len(entries.keys), int(0 < len(entries.keys) % blocks.MOST < _SMALL))
            for named, entries in lists
        ]
        columns = schema.TYPES["terms"]
        with self._connection.offering("terms", columns, counted) as (offered, values):
            rows = self._connection.ask(
                "WITH counted AS (INSERT INTO terms AS t (field, term, entries, small)"
                f" SELECT field, term, entries, small FROM {offered}"
                " ON CONFLICT (collection, field, term) DO UPDATE SET"
                " entries = t.entries + excluded.entries, small = t.small + excluded.small"
                " RETURNING field, term, small)"
                f" SELECT field, term FROM counted WHERE small > {_MOST_SMALL}",
                values,
            ).fetchall()
        return [(field, term) for field, term in rows]

    def _join(self, terms: Sequence[Named]) -> None:
        everything = [(*named, 0, _LAST) for named in terms]
        self._write(self._remove_blocks(everything, f" AND p.entries < {_SMALL}").items())
        self._connection.ask(
            "UPDATE terms t SET small = 1 FROM unnest(%s::smallint[], %s::text[]) AS w (f, t)"
            " WHERE t.field = w.f AND t.term = w.t",
            [list(column) for column in zip(*terms, strict=True)],
        )

    def _remove_blocks(
        self, terms: Sequence[tuple[int, str, int, int]], condition: str = ""
    ) -> dict[Named, Postings]:
        """Remove and return the blocks of these terms that may contain an entry between two
        numbers."""
        rows = self._connection.ask(
            "DELETE FROM postings p USING unnest(%s::smallint[], %s::text[], %s::bigint[],"
            " %s::bigint[]) AS w (f, t, low, high) WHERE p.field = w.f AND p.term = w.t"
            f" AND p.first <= w.high AND p.last >= w.low{condition}"
            " RETURNING p.field, p.term, p.first, p.entries, p.data",
            [list(column) for column in zip(*terms, strict=True)],
        )
        parts: dict[Named, list[Postings]] = defaultdict(list)
        for field, term, first, number, data in rows:
            parts[field, term].append(blocks.unpack_block(first, number, data))
        return {named: blocks.join(packed) for named, packed in parts.items()}

    def remove_documents(self, documents: Sequence[int]) -> None:
        """Remove all entries of these documents, and the terms that only they contain."""
        if not documents:
            return
        tokens, count, terms = self._remove_entries(documents)
        _adjust(self._connection, -count, {field: -number for field, number in tokens.items()})
        for batch in catalog.batches(sorted(terms), 2000):
            before = self._remove_blocks(
                [(*named, min(terms[named]), max(terms[named])) for named in batch]
            )
            after = {
                named: entries.only(~np.isin(entries.keys, list(terms[named])))
                for named, entries in before.items()
            }
            self._write((named, entries) for named, entries in after.items() if len(entries.keys))
            removed = [
                (*named, len(entries.keys) - len(after[named].keys))
                for named, entries in before.items()
            ]
            if removed:
                self._connection.ask(
                    "UPDATE terms t SET entries = t.entries - w.n"
                    " FROM unnest(%s::smallint[], %s::text[], %s::bigint[]) AS w (f, t, n)"
                    " WHERE t.field = w.f AND t.term = w.t",
                    [list(column) for column in zip(*removed, strict=True)],
                )
        self._connection.ask(
            "DELETE FROM terms WHERE field = ANY(%s::smallint[]) AND entries <= 0",
            ([*NUMBERS.values()],),
        )

    def _remove_entries(
        self, documents: Sequence[int]
    ) -> tuple[Counter[int], int, dict[Named, set[int]]]:
        """Remove the stored terms of documents; return their tokens by field, their number of
        entries, and for each term the entries that contained it."""
        tokens: Counter[int] = Counter()
        terms: dict[Named, set[int]] = defaultdict(set)
        count = 0

        def count_out(field: int, number: int, words: Sequence[str]) -> None:
            tokens[field] += len(words)
            for word in words:
                terms[field, word].add(number)

        for batch in catalog.batches(list(documents)):
            numbers = list(batch)
            rows = self._connection.ask(
                "DELETE FROM entries WHERE document = ANY(%s::bigint[])"
                " RETURNING key, document, headings, tags, body, code",
                (numbers,),
            )
            for key, document, *streams in rows:
                count += 1
                for field, stream in enumerate(streams):
                    count_out(field, key, stream.split())
                count_out(PAGE, document, streams[_BODY].split() + streams[_CODE].split())
            rows = self._connection.ask(
                "DELETE FROM titles WHERE document = ANY(%s::bigint[])"
                " RETURNING document, title, path, description, aliases, keywords",
                (numbers,),
            )
            for document, *streams in rows:
                for name, stream in zip(NAMES, streams, strict=True):
                    count_out(NUMBERS[name], document, stream.split())
        return tokens, count, terms


def _adjust(connection: ServerConnection, entries: int, tokens: Mapping[int, int]) -> None:
    for key, change in ((ENTRIES, entries), *((tokens_key(f), n) for f, n in tokens.items())):
        if change:
            catalog.record(connection, key, catalog.read_number(connection, key) + change)
