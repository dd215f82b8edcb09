"""Search the keyword index in tables, which :mod:`lookfar.store.postgres.keyword_writer` fills.

It gives the same results as the embedded index: BM25 by field, phrases, proximity, vocabulary. A
query reads the lists of its rarest terms first, and those of common ones only as far as they can
still change the best results.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np

from lookfar.ports import Statistics
from lookfar.store.catalogue import rows as catalog
from lookfar.store.keywords.fields import FIELDS, MOST_PAIRS, NAMES, NUMBERS, PAGE, Named
from lookfar.store.keywords.postings import NONE, Impacts, Postings
from lookfar.store.keywords.searcher import KeywordSearcher, WeightedList
from lookfar.store.postgres.blocks import ENTRIES, join, tokens_key, unpack_block
from lookfar.store.postgres.server import ServerConnection, as_array

if TYPE_CHECKING:
    from lookfar.store.keywords.postings import Keys
    from lookfar.store.postgres.chunk_ranges import ChunkRanges

T = TypeVar("T")

_WHOLE: Final = 2_000_000
"""Entries up to which a list is read whole, and cached."""
_REMEMBERED_BYTES: Final = 256_000_000
"""Bytes of posting lists that are cached: those of common words, at a million passages."""
_AROUND_A_LIST: Final = 500
"""Bytes that a cached list takes besides its entries."""
_REMEMBERED_TERMS: Final = 200_000
_REMEMBERED_CHARS: Final = 16_000_000
"""Characters of texts that are cached, and of the terms of chunks."""
_FIRST_STAGE: Final = 20_000
"""Postings that a query reads before it checks whether more can matter."""


class Memory:
    """Caches what was read of one generation in one commit: posting lists, counts, texts, each up
    to a bound."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._bytes = 0
        self._lists: dict[Named, Postings] = {}
        """The list that was used last is the last."""
        self.counts: dict[Named, int] = {}
        self._results: dict[str, Any] = {}
        self.texts: dict[str, str | None] = {}
        """Texts by URI."""
        self._text_chars = 0

    def cached(self, name: str, read: Callable[[], T]) -> T:
        """Return a small result, which is read once."""
        if name not in self._results:
            self._results[name] = read()
        result: T = self._results[name]
        return result

    def find_lists(self, names: Iterable[Named]) -> dict[Named, Postings]:
        """Return those of these lists that are cached."""
        with self._lock:
            known = {name: self._lists.pop(name) for name in names if name in self._lists}
            self._lists.update(known)
        return known

    def keep_list(self, named: Named, entries: Postings) -> None:
        """Cache a list, and forget those that were not used for the longest time."""
        with self._lock:
            if (replaced := self._lists.pop(named, None)) is not None:
                self._bytes -= replaced.nbytes + _AROUND_A_LIST
            self._lists[named] = entries
            self._bytes += entries.nbytes + _AROUND_A_LIST
            while self._bytes > _REMEMBERED_BYTES and len(self._lists) > 1:
                oldest = self._lists.pop(next(iter(self._lists)))
                self._bytes -= oldest.nbytes + _AROUND_A_LIST

    def count(self, counted: Mapping[Named, int]) -> None:
        if len(self.counts) > _REMEMBERED_TERMS:
            self.counts = {}
        self.counts.update(counted)

    def keep_texts(self, texts: Mapping[str, str | None]) -> None:
        size = sum(len(text or "") + 100 for text in texts.values())
        if self._text_chars + size > _REMEMBERED_CHARS:
            self.texts, self._text_chars = {}, 0
        if size <= _REMEMBERED_CHARS:
            self.texts.update(texts)
            self._text_chars += size


class RecentStreams:
    """Caches the terms of chunks by key, as texts. They never change, whatever is committed."""

    def __init__(self) -> None:
        self._chars = 0
        self._streams: dict[int, tuple[str, ...]] = {}

    def known(self, keys: Sequence[int]) -> dict[int, tuple[str, ...]]:
        streams = self._streams
        return {key: streams[key] for key in keys if key in streams}

    def add(self, streams: Mapping[int, tuple[str, ...]]) -> None:
        size = sum(sum(map(len, fields)) + 300 for fields in streams.values())
        if self._chars + size > _REMEMBERED_CHARS:
            self._streams, self._chars = {}, 0
        if size <= _REMEMBERED_CHARS:
            # A new dictionary: another thread may be reading the old one.
            self._streams = {**self._streams, **streams}
            self._chars += size


class _Dead(NamedTuple):
    """The stored entries that are not part of a generation, and so do not count."""

    documents: Keys
    chunks: Keys
    tokens: Mapping[int, int]
    """The number of their tokens by field."""

    def among(self, field: int) -> Keys:
        """Return their numbers in the lists of a field."""
        return self.chunks if field < len(FIELDS) else self.documents


class PostgresKeywords(KeywordSearcher):
    """The keyword index in a connection's snapshot; see :class:`lookfar.ports.Keywords`."""

    def __init__(
        self,
        connection: ServerConnection,
        generation: int,
        memory: Memory,
        streams: RecentStreams,
        ranges: ChunkRanges,
        shared: Statistics | None = None,
    ) -> None:
        self._connection = connection
        self._generation = generation
        self._memory = memory
        self._streams = streams
        self._ranges = ranges
        super().__init__(shared)

    @property
    def _dead(self) -> _Dead:
        return self._memory.cached("dead", self._read_dead)

    def _read_dead(self) -> _Dead:
        documents = catalog.dead_documents(self._connection, self._generation)
        if not documents:
            return _Dead(NONE.keys, NONE.keys, dict.fromkeys(NUMBERS.values(), 0))
        tokens: list[int] = []
        for table, fields in (("entries", FIELDS), ("titles", NAMES)):
            sums = ", ".join(f"sum(cardinality(string_to_array({name}, ' ')))" for name in fields)
            row = self._connection.ask(
                f"SELECT {sums} FROM {table} WHERE document = ANY(%s::bigint[])",
                (as_array(documents),),
            ).fetchone()
            tokens += (int(number or 0) for number in row or ())
        page = tokens[NUMBERS["body"]] + tokens[NUMBERS["code"]]
        chunks = self._find_chunks(documents)[0]
        return _Dead(np.array(documents), chunks, dict(enumerate((*tokens, page))))

    def _totals(self) -> tuple[int, dict[int, int]]:
        """Return the number of live entries, and of their tokens by field."""
        connection, dead = self._connection, self._dead
        tokens = {
            field: catalog.read_number(connection, tokens_key(field)) - dead.tokens[field]
            for field in NUMBERS.values()
        }
        return catalog.read_number(connection, ENTRIES) - len(dead.chunks), tokens

    def _count_live(self, counted: Mapping[Named, int]) -> dict[Named, int]:
        """Return how many live entries contain each term, given how many entries do."""
        if not len(self._dead.documents):
            return dict(counted)
        lists = [WeightedList(named, count, 0.0, 1.0) for named, count in counted.items() if count]
        live = self._read_postings([term for term in lists if term.entries <= _WHOLE])
        counts = {named: len(entries.keys) for named, entries in live.items()}
        for named, count, *_ in lists:
            if named not in counts:
                dead = self._dead.among(named[0])
                entries = self._read_blocks([named], dead)[named]
                counts[named] = count - len(entries.among(dead).keys)
        return {named: counts.get(named, 0) for named in counted}

    def _counts(self, wanted: Iterable[Named]) -> dict[Named, int]:
        """Return how many live entries contain each term in each field."""
        names = list(dict.fromkeys(wanted))
        known = self._memory.counts
        lacking = [named for named in names if named not in known]
        counts = {named: known[named] for named in names if named in known}
        if lacking:
            # In every field: a question asks for a term in one field and soon in another.
            fields, terms = [*NUMBERS.values()], [*{term for _, term in lacking}]
            rows = self._connection.ask(
                "SELECT field, term, entries FROM terms"
                " WHERE field = ANY(%s::smallint[]) AND term = ANY(%s::text[])",
                (fields, terms),
            )
            counted = dict.fromkeys(((field, term) for field in fields for term in terms), 0)
            counted.update({(field, term): int(count) for field, term, count in rows})
            counted = self._count_live(counted)
            self._memory.count(counted)
            counts.update((named, counted[named]) for named in lacking)
        return counts

    def scored_with(self, shared: Statistics) -> PostgresKeywords:
        return PostgresKeywords(
            self._connection, self._generation, self._memory, self._streams, self._ranges, shared
        )

    def _read(
        self, lists: Sequence[WeightedList], among: Keys | None = None
    ) -> dict[Named, Impacts]:
        read = self._read_postings(lists, among)
        return {term.named: read[term.named].impacts(term.mean) for term in lists}

    def _read_postings(
        self, lists: Sequence[WeightedList], among: Keys | None = None
    ) -> dict[Named, Postings]:
        read = self._memory.find_lists(term.named for term in lists)
        lacking = [term for term in lists if term.named not in read]
        whole = [term.named for term in lacking if among is None or term.entries <= _WHOLE]
        partly = [term.named for term in lacking if term.named not in set(whole)]
        for named, entries in self._read_blocks(whole).items():
            entries = entries.without(self._dead.among(named[0]))
            read[named] = entries = entries.compact()
            if len(entries.keys) <= _WHOLE:
                self._memory.keep_list(named, entries)
        if partly and among is not None:
            read.update(self._read_blocks(partly, among))
        return read

    def _read_blocks(
        self, wanted: Sequence[Named], among: Keys | None = None
    ) -> dict[Named, Postings]:
        if not wanted:
            return {}
        values: list[Any] = [list(column) for column in zip(*wanted, strict=True)]
        where = ""
        if among is not None:
            where = (
                " WHERE EXISTS (SELECT 1 FROM unnest(%s::bigint[]) AS k"
                " WHERE k BETWEEN p.first AND p.last)"
            )
            values.append(as_array(among.tolist()))
        rows = self._connection.ask(
            "SELECT p.field, p.term, p.first, p.entries, p.data FROM postings p"
            " JOIN unnest(%s::smallint[], %s::text[]) AS w (f, t)"
            f" ON p.field = w.f AND p.term = w.t{where}",
            values,
        )
        parts: dict[Named, list[Postings]] = {named: [] for named in wanted}
        for field, term, first, count, data in rows:
            parts[field, term].append(unpack_block(first, count, data))
        return {named: join(blocks) for named, blocks in parts.items()}

    def _find_chunks(self, documents: Sequence[int]) -> tuple[Keys, list[int]]:
        """Return the chunk keys of some documents, in order, and the document of each."""
        last = catalog.last_document(self._connection)
        known = self._ranges.find(self._connection, documents, last)
        if known is not None:
            return known[0], known[1].tolist()
        rows = self._connection.ask(
            "SELECT key, document FROM chunks WHERE document = ANY(%s::bigint[]) ORDER BY key",
            (as_array(documents),),
        ).fetchall()
        return np.array([key for key, _ in rows], dtype=np.int64), [owner for _, owner in rows]

    # -- words beside each other ---------------------------------------------------

    def holding(self, terms: Sequence[str], apart: int = 0, most: int | None = None) -> list[int]:
        together = self._find_together(terms)
        if len(terms) == 1:
            return sorted({key for keys in together.values() for key in keys.tolist()})[:most]
        if not apart:
            return self._find_phrase(together, terms, most)
        matches: set[int] = set()
        for field, keys in together.items():
            for batch in catalog.batches(keys.tolist(), 2000):
                streams = self._read_terms(batch)
                matches.update(
                    key
                    for key, streamed in streams.items()
                    if _in_order(streamed[field].split(), terms, apart)
                )
        return sorted(matches)[:most]

    def _find_together(self, terms: Sequence[str]) -> dict[int, Keys]:
        """Return the chunks that contain all of these terms in one field, by field."""
        fields = range(len(FIELDS))
        counts = self._counts((field, term) for field in fields for term in terms)
        together: dict[int, Keys] = {}
        lists: dict[int, list[WeightedList]] = {}
        for field in fields:
            names = sorted({(field, term) for term in terms}, key=lambda named: counts[named])
            if counts[names[0]]:
                lists[field] = [WeightedList(named, counts[named], 0.0, 1.0) for named in names]
        short = [term for wanted in lists.values() for term in wanted if term.entries <= _WHOLE]
        read = self._read_postings(short)
        for field, wanted in lists.items():
            keys: Keys | None = None
            for term in wanted:
                entries = read.get(term.named) or self._read_postings([term], keys)[term.named]
                keys = entries.keys if keys is None else entries.among(keys).keys
            if keys is not None and len(keys):
                together[field] = keys
        return together

    def _find_phrase(
        self, keys: Mapping[int, Keys], terms: Sequence[str], most: int | None
    ) -> list[int]:
        """Return which of these chunks have the terms beside each other, compared on the server."""
        if not keys:
            return []
        phrase = f" {' '.join(terms)} "
        parts = [
            f"SELECT key FROM entries WHERE key = ANY(%s::bigint[])"
            f" AND strpos(' ' || {FIELDS[field]} || ' ', %s) > 0"
            for field in keys
        ]
        values = [
            value for chosen in keys.values() for value in (as_array(chosen.tolist()), phrase)
        ]
        rows = self._connection.ask(
            f"{' UNION '.join(parts)} ORDER BY key LIMIT %s", (*values, most)
        )
        return [key for (key,) in rows]

    def adjoining(
        self, pairs: Sequence[tuple[str, str, int]], keys: Sequence[int]
    ) -> dict[int, int]:
        pairs = pairs[:MOST_PAIRS]
        matches: dict[int, int] = {}
        for key, fields in self._read_terms(keys).items() if pairs else ():
            bits = 0
            for stream in fields:
                bits |= _match_pairs(f" {stream} ", pairs)
            if bits:
                matches[key] = bits
        return matches

    def wording(
        self, groups: Sequence[Mapping[str, float]], keys: Sequence[int]
    ) -> dict[int, float]:
        sums: dict[int, float] = {}
        padded = [[(f" {term} ", worth) for term, worth in group.items()] for group in groups]
        for key, fields in self._read_terms(keys).items() if groups else ():
            stream = f" {' '.join(fields)} "
            best = [[worth for term, worth in group if term in stream] for group in padded]
            if any(best):
                sums[key] = sum(max(worths) for worths in best if worths)
        return sums

    def _read_terms(self, keys: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """Return the terms of some chunks, in order and separated by spaces, by field."""
        known = self._streams.known(keys)
        lacking = [key for key in keys if key not in known]
        if lacking:
            rows = self._connection.ask(
                "SELECT key, headings, tags, body, code FROM entries WHERE key = ANY(%s::bigint[])",
                (as_array(lacking),),
            )
            read = {key: tuple(streams) for key, *streams in rows}
            self._streams.add(read)
            known |= read
        return {key: known[key] for key in keys if key in known}

    def vocabulary(self, prefix: str = "", most: int | None = None) -> list[tuple[str, int]]:
        dead = self._memory.cached("dead terms", self._count_dead_terms)
        # Each of the dead terms may have been ahead of one that has more live entries.
        enough = None if most is None else most + sum(term.startswith(prefix) for term in dead)
        rows = self._connection.ask(
            "SELECT term, entries FROM terms WHERE field = %s AND term >= %s AND term < %s"
            " ORDER BY entries DESC, term LIMIT %s",
            (PAGE, prefix, f"{prefix}\U0010ffff", enough),
        )
        live = sorted((dead[term] - int(count), term) for term, count in rows)
        return [(term, -count) for count, term in live if count][:most]

    def _count_dead_terms(self) -> Counter[str]:
        """Count the dead documents that contain each term."""
        terms: dict[int, set[str]] = defaultdict(set)
        if documents := self._dead.documents.tolist():
            rows = self._connection.ask(
                "SELECT document, body, code FROM entries WHERE document = ANY(%s::bigint[])",
                (as_array(documents),),
            )
            for document, *streams in rows:
                terms[document].update(*(stream.split() for stream in streams))
        return Counter(chain.from_iterable(terms.values()))


def _match_pairs(stream: str, pairs: Sequence[tuple[str, str, int]]) -> int:
    """Return one bit for each pair whose terms are that many places apart in a padded stream."""
    bits = 0
    for number, (one, other, step) in enumerate(pairs):
        if step == 1:
            matched = f" {one} {other} " in stream
        elif f" {one} " in stream and f" {other} " in stream:
            at = _positions(stream.split(), (one, other))
            matched = bool(at[other] & {place + step for place in at[one]})
        else:
            matched = False
        bits |= matched << number
    return bits


def _positions(words: Sequence[str], wanted: Iterable[str]) -> dict[str, set[int]]:
    positions: dict[str, set[int]] = {}
    for at, word in enumerate(words):
        if word in wanted:
            positions.setdefault(word, set()).add(at)
    return positions


def _in_order(words: Sequence[str], terms: Sequence[str], apart: int) -> bool:
    """Return whether the terms occur in this order with at most ``apart`` others between them."""
    at = {term: sorted(places) for term, places in _positions(words, set(terms)).items()}
    if len(at) < len(set(terms)):
        return False
    for start in at[terms[0]]:
        here = start
        for term in terms[1:]:
            here = next((place for place in at[term] if place > here), -1)
            if here < 0:
                break
        if here >= 0 and here - start - (len(terms) - 1) <= apart:
            return True
    return False
