"""The keyword index as tables: terms, and blocks of the entries that hold each.

Takes: a connection and analysed term streams. Gives: the same answers as the embedded index:
BM25 by fields, phrases, neighbours, vocabulary. Refuses: to analyse, like that one.

A write adds a block to each of its terms; small blocks of a term are joined when there are many.
What is removed leaves its blocks at once. A question reads the lists of its rarest words
first, and those of common ones only as far as they can still change what is best.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from lookfar.ports import Statistics, Terms
from lookfar.store.catalogue import rows as catalog
from lookfar.store.keywords.fields import FIELDS, MOST_PAIRS, NAMES, PAGE_FIELDS, weigh_terms
from lookfar.store.postgres import postings
from lookfar.store.postgres.postings import NONE, Postings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lookfar.ports import KeywordHits
    from lookfar.store.postgres.server import ServerConnection

_NUMBERS: Final = {field: at for at, field in enumerate((*FIELDS, *PAGE_FIELDS))}
_PAGE: Final = _NUMBERS["page"]
_BODY, _CODE = FIELDS.index("body"), FIELDS.index("code")
_ENTRIES: Final = "keyword_entries"
_PACK: Final = struct.Struct("<qHB")
_BUFFERED: Final = 400_000
"""Postings that a writer holds before it writes them."""
_SMALL: Final = 512
"""Entries below which a block is joined with others."""
_MOST_SMALL: Final = 16
_WHOLE: Final = 200_000
"""Entries up to which a list is read whole, and remembered."""
_REMEMBERED_BYTES: Final = 64_000_000
_REMEMBERED_TERMS: Final = 50_000
_LAST: Final = (1 << 63) - 1
_FIRST_STAGE: Final = 20_000
"""Postings that a question reads before it looks whether more can matter."""

Named = tuple[int, str]
"""A field by its number, and a term."""


def _tokens_key(field: int) -> str:
    return f"keyword_tokens_{field}"


# -- writing -------------------------------------------------------------------


class KeywordWriter:
    """Adds entries inside the transaction of a write session."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self._gathered: dict[Named, bytearray] = defaultdict(bytearray)
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
                self._gather(field, key, stream.split())
            page += entry[_BODY].split()
            page += entry[_CODE].split()
            self._entries.append((key, document, *entry))
        if entries:
            for name, stream in zip(NAMES, names, strict=True):
                self._gather(_NUMBERS[name], document, stream.split())
            self._gather(_PAGE, document, page)
            self._titles.append((document, *names))
            self._added += len(entries) + 1
        if self._count >= _BUFFERED:
            self.flush()

    def _gather(self, field: int, number: int, terms: Sequence[str]) -> None:
        if not terms:
            return
        length = postings.length_byte(len(terms))
        self._tokens[field] += len(terms)
        counted = Counter(terms)
        for term, count in counted.items():
            self._gathered[field, term] += _PACK.pack(number, postings.times_of(count), length)
        self._count += len(counted)

    def flush(self) -> None:
        """Write what was gathered, and join small blocks where they have become many."""
        connection = self._connection
        connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", self._entries)
        connection.executemany("INSERT INTO titles VALUES (?, ?, ?, ?, ?, ?)", self._titles)
        gathered = [(named, postings.gathered(raw)) for named, raw in self._gathered.items()]
        self._write(gathered)
        many = self._count_terms(gathered)
        for some in catalog.batches(many, 2000):
            self._join(some)
        _adjust(connection, self._added, self._tokens)
        self._gathered.clear()
        self._entries.clear()
        self._titles.clear()
        self._tokens.clear()
        self._count = self._added = 0

    def _write(self, lists: Iterable[tuple[Named, Postings]]) -> None:
        rows = [(*named, *block) for named, found in lists for block in postings.blocks(found)]
        for some in catalog.batches(rows, 5000):
            self._connection.executemany("INSERT INTO postings VALUES (?, ?, ?, ?, ?, ?)", some)

    def _count_terms(self, lists: Sequence[tuple[Named, Postings]]) -> list[Named]:
        """Count what was added to each term; gives those with too many small blocks."""
        many: list[Named] = []
        for some in catalog.batches(lists, 5000):
            counted = [
                (*named, len(found.keys), int(0 < len(found.keys) % postings.MOST < _SMALL))
                for named, found in some
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
        taken = self._taken(everything, f" AND p.entries < {_SMALL}")
        self._write(taken.items())
        self._connection.ask(
            "UPDATE terms t SET small = 1 FROM unnest(%s::smallint[], %s::text[]) AS w (f, t)"
            " WHERE t.field = w.f AND t.term = w.t",
            [list(column) for column in zip(*terms, strict=True)],
        )

    def _taken(
        self, terms: Sequence[tuple[int, str, int, int]], besides: str = ""
    ) -> dict[Named, Postings]:
        """Blocks of these terms, out of the table and joined: those that may hold an entry
        between two numbers."""
        rows = self._connection.ask(
            "DELETE FROM postings p USING unnest(%s::smallint[], %s::text[], %s::bigint[],"
            " %s::bigint[]) AS w (f, t, low, high) WHERE p.field = w.f AND p.term = w.t"
            f" AND p.first <= w.high AND p.last >= w.low{besides}"
            " RETURNING p.field, p.term, p.first, p.data",
            [list(column) for column in zip(*terms, strict=True)],
        )
        parts: dict[Named, list[Postings]] = defaultdict(list)
        for field, term, first, data in rows:
            parts[field, term].append(postings.unpacked(first, data))
        return {named: postings.joined(found) for named, found in parts.items()}

    def remove_documents(self, documents: Sequence[int]) -> None:
        """Leave nothing of these documents: no entry, and no word that only they had."""
        if not documents:
            return
        tokens, count, terms = self._forgotten(documents)
        _adjust(self._connection, -count, {field: -number for field, number in tokens.items()})
        for some in catalog.batches(sorted(terms), 2000):
            taken = self._taken(
                [(*named, min(gone), max(gone)) for named in some for gone in (terms[named],)]
            )
            kept = {
                named: found.only(~np.isin(found.keys, list(terms[named])))
                for named, found in taken.items()
            }
            self._write((named, found) for named, found in kept.items() if len(found.keys))
            lost = [(*each, len(taken[each].keys) - len(kept[each].keys)) for each in taken]
            if lost:
                self._connection.ask(
                    "UPDATE terms t SET entries = t.entries - w.n"
                    " FROM unnest(%s::smallint[], %s::text[], %s::bigint[]) AS w (f, t, n)"
                    " WHERE t.field = w.f AND t.term = w.t",
                    [list(column) for column in zip(*lost, strict=True)],
                )
        self._connection.ask(
            "DELETE FROM terms WHERE field = ANY(%s::smallint[]) AND entries <= 0",
            ([*_NUMBERS.values()],),
        )

    def _forgotten(
        self, documents: Sequence[int]
    ) -> tuple[Counter[int], int, dict[Named, set[int]]]:
        """Tokens by field, entries, and which terms named which, of documents that go."""
        tokens: Counter[int] = Counter()
        terms: dict[Named, set[int]] = defaultdict(set)
        count = 0

        def lose(field: int, number: int, words: Sequence[str]) -> None:
            tokens[field] += len(words)
            for word in words:
                terms[field, word].add(number)

        for some in catalog.batches(list(documents)):
            listed = list(some)
            rows = self._connection.ask(
                "DELETE FROM entries WHERE document = ANY(%s::bigint[])"
                " RETURNING key, document, headings, tags, body, code",
                (listed,),
            )
            for key, document, *streams in rows:
                count += 1
                for field, stream in enumerate(streams):
                    lose(field, key, stream.split())
                lose(_PAGE, document, streams[_BODY].split() + streams[_CODE].split())
            rows = self._connection.ask(
                "DELETE FROM titles WHERE document = ANY(%s::bigint[])"
                " RETURNING document, title, path, description, aliases, keywords",
                (listed,),
            )
            for document, *streams in rows:
                count += 1
                for name, stream in zip(NAMES, streams, strict=True):
                    lose(_NUMBERS[name], document, stream.split())
        return tokens, count, terms


def _adjust(connection: ServerConnection, entries: int, tokens: Mapping[int, int]) -> None:
    for key, change in ((_ENTRIES, entries), *((_tokens_key(f), n) for f, n in tokens.items())):
        if change:
            catalog.record(connection, key, catalog.read_number(connection, key) + change)


# -- reading -------------------------------------------------------------------


class Memory:
    """What a front end remembers of one commit: lists and counts, up to some bytes."""

    def __init__(self) -> None:
        self._bytes = 0
        self.lists: dict[Named, Postings] = {}
        self.counts: dict[Named, int] = {}

    def keep(self, named: Named, found: Postings) -> None:
        self._bytes += len(found.keys) * 11 + 200
        if self._bytes > _REMEMBERED_BYTES:
            self.lists.clear()
            self._bytes = 0
        self.lists[named] = found

    def count(self, counted: Mapping[Named, int]) -> None:
        if len(self.counts) > _REMEMBERED_TERMS:
            self.counts.clear()
        self.counts.update(counted)


class _List(NamedTuple):
    """One term in one field, as a question weighs it."""

    named: Named
    entries: int
    weight: float
    mean: float


class PostgresKeywords:
    """The state that a connection's snapshot has; see
    :class:`lookfar.ports.Keywords`."""

    def __init__(
        self, connection: ServerConnection, memory: Memory, shared: Statistics | None = None
    ) -> None:
        self._connection = connection
        self._memory = memory
        self._shared = shared
        self._streams: dict[int, tuple[list[str], ...]] = {}
        self._sizes: tuple[int, dict[int, int]] | None = None

    def _totals(self) -> tuple[int, dict[int, int]]:
        """How many entries there are, and how many tokens by field."""
        if self._sizes is None:
            rows = self._connection.ask("SELECT key, value FROM meta WHERE key LIKE 'keyword\\_%%'")
            told = {key: int(value) for key, value in rows}
            tokens = {field: told.get(_tokens_key(field), 0) for field in _NUMBERS.values()}
            self._sizes = told.get(_ENTRIES, 0), tokens
        return self._sizes

    def _counts(self, wanted: Iterable[Named]) -> dict[Named, int]:
        """Entries that hold each term in each field."""
        asked = list(dict.fromkeys(wanted))
        known = self._memory.counts
        lacking = [named for named in asked if named not in known]
        found = {named: known[named] for named in asked if named in known}
        if lacking:
            rows = self._connection.ask(
                "SELECT t.field, t.term, t.entries FROM terms t"
                " JOIN unnest(%s::smallint[], %s::text[]) AS w (f, t)"
                " ON t.field = w.f AND t.term = w.t",
                [list(column) for column in zip(*lacking, strict=True)],
            )
            counted = dict.fromkeys(lacking, 0)
            counted.update({(field, term): int(count) for field, term, count in rows})
            self._memory.count(counted)
            found.update(counted)
        return found

    def statistics(self, terms: Iterable[str]) -> Statistics:
        """How common these words are here."""
        wanted = [(number, term) for term in terms for number in _NUMBERS.values()]
        names = {number: field for field, number in _NUMBERS.items()}
        counted = self._counts(wanted)
        return Statistics(
            self._totals()[0],
            {(names[field], term): count for (field, term), count in counted.items()},
        )

    def scored_with(self, shared: Statistics) -> PostgresKeywords:
        """The same state, with words weighed by statistics from beyond it."""
        other = PostgresKeywords(self._connection, self._memory, shared)
        other._streams, other._sizes = self._streams, self._sizes
        return other

    # -- the best by words -------------------------------------------------------

    def search(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None = None,
    ) -> KeywordHits:
        """The best ``(chunk key, score)``, best first; only within ``documents`` where given."""
        lists = self._lists(terms, weights, FIELDS)
        if documents is None:
            return self._best(lists, limit)
        return _ranked(*self._scored(lists, self._chunks_of(documents)[0]), limit)

    def best_of_each(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        documents: Sequence[int],
        admits: Callable[[int], bool] | None = None,
    ) -> KeywordHits:
        """The best admitted chunk of each document that has one among the best overall."""
        lists = self._lists(terms, weights, FIELDS)
        keys, owners = self._chunks_of(documents)
        found = _ranked(*self._scored(lists, keys), 6 * len(documents))
        owner = dict(zip(keys.tolist(), owners, strict=True))
        best: dict[int, tuple[int, float]] = {}
        for key, score in found:
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
        """The best ``(document, score)`` by the whole text of each document."""
        lists = self._lists(terms, weights, PAGE_FIELDS)
        if documents is None:
            return self._best(lists, limit)
        wanted = np.unique(np.array(documents, dtype=np.int64))
        return _ranked(*self._scored(lists, wanted), limit)

    def _lists(
        self, terms: Terms, weights: Mapping[str, float], fields: Sequence[str]
    ) -> list[_List]:
        """What to add up, the rarest first."""
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
                there = self._shared.frequency.get((field, named[1]), count)
                rarity = postings.idf(self._shared.entries, there)
            lists.append(_List(named, count, weight * rarity, tokens[named[0]] / entries))
        return sorted(lists, key=lambda each: each.entries)

    def _best(self, lists: Sequence[_List], limit: int) -> KeywordHits:
        """The best of all. Lists are read from the rarest on, until those that are left could
        not bring anything new among the best; of them only what concerns the best is read."""
        left = [*accumulate((postings.bound(each.weight) for each in reversed(lists)), initial=0.0)]
        left.reverse()
        parts: list[tuple[Postings, NDArray[np.float64]]] = []
        at, budget = 0, _FIRST_STAGE
        keys, scores = NONE.keys, np.empty(0)
        while at < len(lists):
            stage = [*_within(lists[at:], budget)]
            parts += self._added(stage)
            at += len(stage)
            budget *= 4
            keys, scores = postings.best(parts)
            if at == len(lists) or len(scores) < limit:
                continue
            least = float(np.partition(scores, len(scores) - limit)[len(scores) - limit])
            if left[at] < least:
                hopeful = scores + left[at] >= least
                keys, scores = keys[hopeful], scores[hopeful]
                rest = self._added(lists[at:], keys)
                chosen = [(Postings(keys, NONE.times, NONE.lengths), scores), *rest]
                keys, scores = postings.best(chosen)
                break
        return _ranked(keys, scores, limit)

    def _scored(
        self, lists: Sequence[_List], keys: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The scores of some entries, by number."""
        return postings.best(self._added(lists, keys) if len(keys) else [])

    def _added(
        self, lists: Sequence[_List], among: NDArray[np.int64] | None = None
    ) -> list[tuple[Postings, NDArray[np.float64]]]:
        """What each list adds, to all it has or to those ``among`` them."""
        found = self._read(lists, among)
        parts: list[tuple[Postings, NDArray[np.float64]]] = []
        for each in lists:
            entries = found[each.named] if among is None else found[each.named].among(among)
            parts.append((entries, entries.scores(each.weight, each.mean)))
        return parts

    def _read(
        self, lists: Sequence[_List], among: NDArray[np.int64] | None = None
    ) -> dict[Named, Postings]:
        known = self._memory.lists
        found = {each.named: known[each.named] for each in lists if each.named in known}
        lacking = [each for each in lists if each.named not in found]
        whole = [each.named for each in lacking if among is None or each.entries <= _WHOLE]
        partly = [each.named for each in lacking if each.named not in set(whole)]
        for named, entries in self._blocks(whole).items():
            found[named] = entries
            if len(entries.keys) <= _WHOLE:
                self._memory.keep(named, entries)
        if partly and among is not None:
            found.update(self._blocks(partly, among))
        return found

    def _blocks(
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
            parts[field, term].append(postings.unpacked(first, data))
        return {named: postings.joined(found) for named, found in parts.items()}

    def _chunks_of(self, documents: Sequence[int]) -> tuple[NDArray[np.int64], list[int]]:
        """The chunks of some documents, by key, and whose each is."""
        rows = self._connection.ask(
            "SELECT key, document FROM chunks WHERE document = ANY(%s::bigint[]) ORDER BY key",
            (list(documents),),
        ).fetchall()
        return np.array([key for key, _ in rows], dtype=np.int64), [owner for _, owner in rows]

    # -- words beside each other ---------------------------------------------------

    def knows(self, term: str) -> bool:
        """Whether any document holds this term, in its text or its names."""
        return any(self._counts((_NUMBERS[field], term) for field in PAGE_FIELDS).values())

    def holding(self, terms: Sequence[str], apart: int = 0, most: int | None = None) -> list[int]:
        """The chunks that hold these terms in this order, at most so many positions apart; with
        ``most`` any so many of them."""
        found: set[int] = set()
        for field in range(len(FIELDS)):
            counts = self._counts((field, term) for term in terms)
            if not all(counts.values()):
                continue
            keys: NDArray[np.int64] | None = None
            for named in sorted(counts, key=lambda each: counts[each]):
                read = self._read([_List(named, counts[named], 0.0, 1.0)], keys)[named]
                keys = read.keys if keys is None else np.intersect1d(keys, read.keys)
            assert keys is not None
            if len(terms) == 1:
                found.update(keys.tolist())
                continue
            for some in catalog.batches(keys.tolist(), 2000):
                streams = self._words_of(some)
                found.update(
                    key
                    for key in some
                    if key in streams and _in_order(streams[key][field], terms, apart)
                )
        return sorted(found)[:most]

    def adjoining(
        self, pairs: Sequence[tuple[str, str, int]], keys: Sequence[int]
    ) -> dict[int, int]:
        """Which of ``pairs``, two terms and how far apart, each of these chunks holds, as bits."""
        asked = pairs[:MOST_PAIRS]
        wanted = {term for one, other, _ in asked for term in (one, other)}
        found: dict[int, int] = {}
        for key, fields in self._words_of(keys).items() if asked else ():
            bits = 0
            for words in fields:
                at = _positions(words, wanted)
                for number, (one, other, step) in enumerate(asked):
                    if one in at and other in at and at[other] & {p + step for p in at[one]}:
                        bits |= 1 << number
            if bits:
                found[key] = bits
        return found

    def wording(
        self, groups: Sequence[Mapping[str, float]], keys: Sequence[int]
    ) -> dict[int, float]:
        """For each chunk the sum, over the groups, of the best term of each that it holds."""
        found: dict[int, float] = {}
        for key, fields in self._words_of(keys).items() if groups else ():
            held = frozenset().union(*fields)
            best = [[worth for term, worth in group.items() if term in held] for group in groups]
            if any(best):
                found[key] = sum(max(each) for each in best if each)
        return found

    def _words_of(self, keys: Sequence[int]) -> dict[int, tuple[list[str], ...]]:
        """The terms of some chunks, in order, by field."""
        lacking = [key for key in keys if key not in self._streams]
        if lacking:
            rows = self._connection.ask(
                "SELECT key, headings, tags, body, code FROM entries WHERE key = ANY(%s::bigint[])",
                (lacking,),
            )
            for key, *streams in rows:
                self._streams[key] = tuple(stream.split() for stream in streams)
        return {key: self._streams[key] for key in keys if key in self._streams}

    def vocabulary(self, prefix: str = "", most: int | None = None) -> list[tuple[str, int]]:
        """Terms of whole texts that begin so and how many documents hold each, the most first."""
        rows = self._connection.ask(
            "SELECT term, entries FROM terms WHERE field = %s AND term >= %s AND term < %s"
            " ORDER BY entries DESC, term LIMIT %s",
            (_PAGE, prefix, f"{prefix}\U0010ffff", most),
        )
        return [(term, int(count)) for term, count in rows]


def _within(lists: Sequence[_List], budget: int) -> Iterator[_List]:
    """The next lists, at least one, as long as they have not too many entries together."""
    for number, each in enumerate(lists):
        budget -= each.entries
        if number and budget < 0:
            return
        yield each


def _ranked(keys: NDArray[np.int64], scores: NDArray[np.float64], limit: int) -> KeywordHits:
    order = np.lexsort((keys, -scores))[:limit]
    return list(zip(keys[order].tolist(), scores[order].tolist(), strict=True))


def _positions(words: Sequence[str], wanted: Iterable[str]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for at, word in enumerate(words):
        if word in wanted:
            found.setdefault(word, set()).add(at)
    return found


def _in_order(words: Sequence[str], terms: Sequence[str], apart: int) -> bool:
    """Whether the terms stand in this order with at most so many others among them."""
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
