"""The keyword index as tables: terms, and for each the entries that contain it, in blocks.

It gives the same results as the embedded index: BM25 by field, phrases, proximity, vocabulary.

A write adds a block to each of its terms; small blocks of a term are joined when there are many.
Removed documents leave their blocks at once. A query reads the lists of its rarest terms first,
and those of common ones only as far as they can still change the best results.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from lookfar.ports import KeywordHits, Statistics, Terms
from lookfar.store.catalogue import rows as catalog
from lookfar.store.keywords.fields import FIELDS, MOST_PAIRS, NAMES, PAGE_FIELDS, weigh_terms
from lookfar.store.postgres import postings
from lookfar.store.postgres.postings import NONE, Postings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lookfar.store.postgres.server import ServerConnection

_NUMBERS: Final = {field: at for at, field in enumerate((*FIELDS, *PAGE_FIELDS))}
_PAGE: Final = _NUMBERS["page"]
_BODY, _CODE = FIELDS.index("body"), FIELDS.index("code")
_ENTRIES: Final = "keyword_entries"
_PACK: Final = struct.Struct("<qHB")
_BUFFERED: Final = 400_000
"""Postings that a writer buffers."""
_SMALL: Final = 512
"""Entries below which a block is joined with others."""
_MOST_SMALL: Final = 16
_WHOLE: Final = 200_000
"""Entries up to which a list is read whole, and cached."""
_REMEMBERED_BYTES: Final = 64_000_000
_REMEMBERED_TERMS: Final = 200_000
_REMEMBERED_CHARS: Final = 16_000_000
"""Characters of texts that are cached, and of the terms of chunks."""
_LAST: Final = (1 << 63) - 1
_FIRST_STAGE: Final = 20_000
"""Postings that a query reads before it checks whether more can matter."""

Named = tuple[int, str]
"""A field by its number, and a term."""


def _tokens_key(field: int) -> str:
    return f"keyword_tokens_{field}"


# -- writing -------------------------------------------------------------------


class KeywordWriter:
    """Adds entries inside the transaction of a write session."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self._buffer: dict[Named, bytearray] = defaultdict(bytearray)
        self._count = 0
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
                self._buffer_terms(field, key, stream.split())
            page += entry[_BODY].split()
            page += entry[_CODE].split()
            self._entries.append((key, document, *entry))
        if entries:
            for name, stream in zip(NAMES, names, strict=True):
                self._buffer_terms(_NUMBERS[name], document, stream.split())
            self._buffer_terms(_PAGE, document, page)
            self._titles.append((document, *names))
            self._added += len(entries) + 1
        if self._count >= _BUFFERED:
            self.flush()

    def _buffer_terms(self, field: int, number: int, terms: Sequence[str]) -> None:
        if not terms:
            return
        length = postings.length_byte(len(terms))
        self._tokens[field] += len(terms)
        counted = Counter(terms)
        for term, count in counted.items():
            self._buffer[field, term] += _PACK.pack(number, postings.clip_times(count), length)
        self._count += len(counted)

    def flush(self) -> None:
        """Write what is buffered, and join the small blocks of terms that have many."""
        connection = self._connection
        connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", self._entries)
        connection.executemany("INSERT INTO titles VALUES (?, ?, ?, ?, ?, ?)", self._titles)
        lists = [(named, postings.read_buffer(raw)) for named, raw in self._buffer.items()]
        self._write(lists)
        for batch in catalog.batches(self._count_terms(lists), 2000):
            self._join(batch)
        _adjust(connection, self._added, self._tokens)
        self._buffer.clear()
        self._entries.clear()
        self._titles.clear()
        self._tokens.clear()
        self._count = self._added = 0

    def _write(self, lists: Iterable[tuple[Named, Postings]]) -> None:
        rows = [
            (*named, *block) for named, entries in lists for block in postings.pack_blocks(entries)
        ]
        for batch in catalog.batches(rows, 5000):
            self._connection.executemany("INSERT INTO postings VALUES (?, ?, ?, ?, ?, ?)", batch)

    def _count_terms(self, lists: Sequence[tuple[Named, Postings]]) -> list[Named]:
        """Add to the counts of each term; return the terms with too many small blocks."""
        many: list[Named] = []
        for batch in catalog.batches(lists, 5000):
            counted = [
                (*named, len(entries.keys), int(0 < len(entries.keys) % postings.MOST < _SMALL))
                for named, entries in batch
            ]
            rows = self._connection.ask(
                "INSERT INTO terms AS t (field, term, entries, small) SELECT * FROM unnest("
                "%s::smallint[], %s::text[], %s::bigint[], %s::integer[])"
                " ON CONFLICT (collection, field, term) DO UPDATE SET"
                " entries = t.entries + excluded.entries, small = t.small + excluded.small"
                " RETURNING field, term, small",
                [list(column) for column in zip(*counted, strict=True)],
            )
            many += [(field, term) for field, term, small in rows if small > _MOST_SMALL]
        return many

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
            " RETURNING p.field, p.term, p.first, p.data",
            [list(column) for column in zip(*terms, strict=True)],
        )
        parts: dict[Named, list[Postings]] = defaultdict(list)
        for field, term, first, data in rows:
            parts[field, term].append(postings.unpack_block(first, data))
        return {named: postings.join(blocks) for named, blocks in parts.items()}

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
            ([*_NUMBERS.values()],),
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
                count_out(_PAGE, document, streams[_BODY].split() + streams[_CODE].split())
            rows = self._connection.ask(
                "DELETE FROM titles WHERE document = ANY(%s::bigint[])"
                " RETURNING document, title, path, description, aliases, keywords",
                (numbers,),
            )
            for document, *streams in rows:
                count += 1
                for name, stream in zip(NAMES, streams, strict=True):
                    count_out(_NUMBERS[name], document, stream.split())
        return tokens, count, terms


def _adjust(connection: ServerConnection, entries: int, tokens: Mapping[int, int]) -> None:
    for key, change in ((_ENTRIES, entries), *((_tokens_key(f), n) for f, n in tokens.items())):
        if change:
            catalog.record(connection, key, catalog.read_number(connection, key) + change)


# -- reading -------------------------------------------------------------------


class Memory:
    """Caches what was read of one commit: posting lists, counts, texts, each up to a bound."""

    def __init__(self) -> None:
        self._bytes = 0
        self.lists: dict[Named, Postings] = {}
        self.counts: dict[Named, int] = {}
        self.results: dict[tuple[str, int], Any] = {}
        """Small results by name and generation."""
        self.texts: dict[tuple[int, str], str | None] = {}
        """Texts by generation and URI."""
        self._text_chars = 0

    def keep(self, named: Named, entries: Postings) -> None:
        self._bytes += len(entries.keys) * 11 + 200
        if self._bytes > _REMEMBERED_BYTES:
            self.lists.clear()
            self._bytes = 0
        self.lists[named] = entries

    def count(self, counted: Mapping[Named, int]) -> None:
        if len(self.counts) > _REMEMBERED_TERMS:
            self.counts = {}
        self.counts.update(counted)

    def keep_texts(self, texts: Mapping[tuple[int, str], str | None]) -> None:
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


class _List(NamedTuple):
    """One term in one field, with its weight in a query."""

    named: Named
    entries: int
    weight: float
    mean: float


class PostgresKeywords:
    """The keyword index in a connection's snapshot; see :class:`lookfar.ports.Keywords`."""

    def __init__(
        self,
        connection: ServerConnection,
        memory: Memory,
        streams: RecentStreams,
        shared: Statistics | None = None,
    ) -> None:
        self._connection = connection
        self._memory = memory
        self._streams = streams
        self._shared = shared

    def _totals(self) -> tuple[int, dict[int, int]]:
        """Return the number of entries, and of tokens by field."""
        connection = self._connection
        tokens = {
            field: catalog.read_number(connection, _tokens_key(field))
            for field in _NUMBERS.values()
        }
        return catalog.read_number(connection, _ENTRIES), tokens

    def _counts(self, wanted: Iterable[Named]) -> dict[Named, int]:
        """Return how many entries contain each term in each field."""
        names = list(dict.fromkeys(wanted))
        known = self._memory.counts
        lacking = [named for named in names if named not in known]
        counts = {named: known[named] for named in names if named in known}
        if lacking:
            # In every field: a question asks for a term in one field and soon in another.
            fields, terms = [*_NUMBERS.values()], [*{term for _, term in lacking}]
            rows = self._connection.ask(
                "SELECT field, term, entries FROM terms"
                " WHERE field = ANY(%s::smallint[]) AND term = ANY(%s::text[])",
                (fields, terms),
            )
            counted = dict.fromkeys(((field, term) for field in fields for term in terms), 0)
            counted.update({(field, term): int(count) for field, term, count in rows})
            self._memory.count(counted)
            counts.update((named, counted[named]) for named in lacking)
        return counts

    def statistics(self, terms: Iterable[str]) -> Statistics:
        wanted = [(number, term) for term in terms for number in _NUMBERS.values()]
        names = {number: field for field, number in _NUMBERS.items()}
        counted = self._counts(wanted)
        return Statistics(
            self._totals()[0],
            {(names[field], term): count for (field, term), count in counted.items()},
        )

    def scored_with(self, shared: Statistics) -> PostgresKeywords:
        return PostgresKeywords(self._connection, self._memory, self._streams, shared)

    # -- the best by words -------------------------------------------------------

    def search(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None = None,
    ) -> KeywordHits:
        lists = self._lists(terms, weights, FIELDS)
        if documents is None:
            return self._best(lists, limit)
        return _rank(*self._score(lists, self._find_chunks(documents)[0]), limit)

    def best_of_each(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        documents: Sequence[int],
        admits: Callable[[int], bool] | None = None,
    ) -> KeywordHits:
        lists = self._lists(terms, weights, FIELDS)
        keys, owners = self._find_chunks(documents)
        hits = _rank(*self._score(lists, keys), 6 * len(documents))
        owner = dict(zip(keys.tolist(), owners, strict=True))
        best: dict[int, tuple[int, float]] = {}
        for key, score in hits:
            if admits is None or admits(key):
                best.setdefault(owner[key], (key, score))
        return list(best.values())

    def search_pages(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None = None,
    ) -> KeywordHits:
        lists = self._lists(terms, weights, PAGE_FIELDS)
        if documents is None:
            return self._best(lists, limit)
        wanted = np.unique(np.array(documents, dtype=np.int64))
        return _rank(*self._score(lists, wanted), limit)

    def _lists(
        self, terms: Terms, weights: Mapping[str, float], fields: Sequence[str]
    ) -> list[_List]:
        """Return the weighted lists of a query, the rarest term first."""
        wanted = [
            ((_NUMBERS[field], term), field, weight * importance)
            for term, importance in weigh_terms(terms)
            for field, weight in weights.items()
            if weight > 0 and field in fields
        ]
        counts = self._counts(named for named, _, _ in wanted)
        entries, tokens = self._totals()
        lists: list[_List] = []
        for named, field, weight in wanted:
            count = counts[named]
            if not count or not entries:
                continue
            if self._shared is None:
                rarity = postings.idf(entries, count)
            else:
                frequency = self._shared.frequency.get((field, named[1]), count)
                rarity = postings.idf(self._shared.entries, frequency)
            lists.append(_List(named, count, weight * rarity, tokens[named[0]] / entries))
        return sorted(lists, key=lambda term: term.entries)

    def _best(self, lists: Sequence[_List], limit: int) -> KeywordHits:
        """Return the best entries.

        Lists are read from the rarest on, until the rest cannot bring another entry among the best;
        of the rest only what concerns the candidates is read.
        """
        left = [*accumulate((postings.bound(term.weight) for term in reversed(lists)), initial=0.0)]
        left.reverse()
        parts: list[tuple[Postings, NDArray[np.float64]]] = []
        at, budget = 0, _FIRST_STAGE
        keys, scores = NONE.keys, np.empty(0)
        while at < len(lists):
            stage = [*_take_within(lists[at:], budget)]
            parts += self._contributions(stage)
            at += len(stage)
            budget *= 4
            keys, scores = postings.sum_scores(parts)
            if at == len(lists) or len(scores) < limit:
                continue
            least = float(np.partition(scores, len(scores) - limit)[len(scores) - limit])
            if left[at] < least:
                hopeful = scores + left[at] >= least
                keys, scores = keys[hopeful], scores[hopeful]
                rest = self._contributions(lists[at:], keys)
                chosen = [(Postings(keys, NONE.times, NONE.lengths), scores), *rest]
                keys, scores = postings.sum_scores(chosen)
                break
        return _rank(keys, scores, limit)

    def _score(
        self, lists: Sequence[_List], keys: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return postings.sum_scores(self._contributions(lists, keys) if len(keys) else [])

    def _contributions(
        self, lists: Sequence[_List], among: NDArray[np.int64] | None = None
    ) -> list[tuple[Postings, NDArray[np.float64]]]:
        """Return what each list adds to its entries, all of them or those in ``among``."""
        read = self._read(lists, among)
        parts: list[tuple[Postings, NDArray[np.float64]]] = []
        for term in lists:
            entries = read[term.named] if among is None else read[term.named].among(among)
            parts.append((entries, entries.scores(term.weight, term.mean)))
        return parts

    def _read(
        self, lists: Sequence[_List], among: NDArray[np.int64] | None = None
    ) -> dict[Named, Postings]:
        known = self._memory.lists
        read = {term.named: known[term.named] for term in lists if term.named in known}
        lacking = [term for term in lists if term.named not in read]
        whole = [term.named for term in lacking if among is None or term.entries <= _WHOLE]
        partly = [term.named for term in lacking if term.named not in set(whole)]
        for named, entries in self._read_blocks(whole).items():
            read[named] = entries
            if len(entries.keys) <= _WHOLE:
                self._memory.keep(named, entries)
        if partly and among is not None:
            read.update(self._read_blocks(partly, among))
        return read

    def _read_blocks(
        self, wanted: Sequence[Named], among: NDArray[np.int64] | None = None
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
            values.append(among.tolist())
        rows = self._connection.ask(
            "SELECT p.field, p.term, p.first, p.data FROM postings p"
            " JOIN unnest(%s::smallint[], %s::text[]) AS w (f, t)"
            f" ON p.field = w.f AND p.term = w.t{where}",
            values,
        )
        parts: dict[Named, list[Postings]] = {named: [] for named in wanted}
        for field, term, first, data in rows:
            parts[field, term].append(postings.unpack_block(first, data))
        return {named: postings.join(blocks) for named, blocks in parts.items()}

    def _find_chunks(self, documents: Sequence[int]) -> tuple[NDArray[np.int64], list[int]]:
        """Return the chunk keys of some documents, in order, and the document of each."""
        rows = self._connection.ask(
            "SELECT key, document FROM chunks WHERE document = ANY(%s::bigint[]) ORDER BY key",
            (list(documents),),
        ).fetchall()
        return np.array([key for key, _ in rows], dtype=np.int64), [owner for _, owner in rows]

    # -- words beside each other ---------------------------------------------------

    def known_terms(self, terms: Collection[str]) -> set[str]:
        fields = [_NUMBERS[field] for field in (*PAGE_FIELDS, "tags")]
        counts = self._counts((field, term) for term in terms for field in fields)
        return {term for (_, term), count in counts.items() if count}

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

    def _find_together(self, terms: Sequence[str]) -> dict[int, NDArray[np.int64]]:
        """Return the chunks that contain all of these terms in one field, by field."""
        fields = range(len(FIELDS))
        counts = self._counts((field, term) for field in fields for term in terms)
        together: dict[int, NDArray[np.int64]] = {}
        lists: dict[int, list[_List]] = {}
        for field in fields:
            names = sorted({(field, term) for term in terms}, key=lambda named: counts[named])
            if counts[names[0]]:
                lists[field] = [_List(named, counts[named], 0.0, 1.0) for named in names]
        short = [term for wanted in lists.values() for term in wanted if term.entries <= _WHOLE]
        read = self._read(short)
        for field, wanted in lists.items():
            keys: NDArray[np.int64] | None = None
            for term in wanted:
                entries = read.get(term.named) or self._read([term], keys)[term.named]
                keys = entries.keys if keys is None else entries.among(keys).keys
            if keys is not None and len(keys):
                together[field] = keys
        return together

    def _find_phrase(
        self, keys: Mapping[int, NDArray[np.int64]], terms: Sequence[str], most: int | None
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
        values = [value for chosen in keys.values() for value in (chosen.tolist(), phrase)]
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
                (lacking,),
            )
            read = {key: tuple(streams) for key, *streams in rows}
            self._streams.add(read)
            known |= read
        return {key: known[key] for key in keys if key in known}

    def vocabulary(self, prefix: str = "", most: int | None = None) -> list[tuple[str, int]]:
        rows = self._connection.ask(
            "SELECT term, entries FROM terms WHERE field = %s AND term >= %s AND term < %s"
            " ORDER BY entries DESC, term LIMIT %s",
            (_PAGE, prefix, f"{prefix}\U0010ffff", most),
        )
        return [(term, int(count)) for term, count in rows]


def _take_within(lists: Sequence[_List], budget: int) -> Iterator[_List]:
    """Yield the next lists, at least one, until their entries exceed the budget."""
    for number, term in enumerate(lists):
        budget -= term.entries
        if number and budget < 0:
            return
        yield term


def _rank(keys: NDArray[np.int64], scores: NDArray[np.float64], limit: int) -> KeywordHits:
    order = np.lexsort((keys, -scores))[:limit]
    return list(zip(keys[order].tolist(), scores[order].tolist(), strict=True))


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
