"""Make segments of the keyword index: from new documents, or from other segments."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, count, groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from lookfar.store.keywords.fields import FIELDS, NAMES, PAGE
from lookfar.store.keywords.postings import MOST_COUNTED, length_bytes
from lookfar.store.keywords.segment import (
    CHUNK_FIELDS,
    FIELD_BITS,
    MOST_TIMES,
    SECTION_BITS,
    Segment,
    TokenRuns,
    encode_segment,
    sizes,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROW_BITS: Final = 32
_IN_PAGE: Final = tuple(FIELDS.index(name) for name in ("body", "code"))
_AT_ONCE: Final = 700_000
"""Postings that are sorted at once, at about 40 bytes each."""


class SegmentBuffer:
    """New documents, in the order of their numbers."""

    def __init__(self) -> None:
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        """A number for each term."""
        self._chunks = array("I"), array("I", [0])
        self._names = array("I"), array("I", [0])
        """Terms, and where each run of them ends."""
        self._keys = array("Q")
        self._sources = array("Q")
        self._documents = array("Q")
        self._chunk_starts = array("I", [0])

    def __len__(self) -> int:
        """Return the number of terms."""
        return len(self._chunks[0])

    @property
    def is_empty(self) -> bool:
        return not self._documents

    def add(
        self,
        first_key: int,
        document: int,
        names: Sequence[str],
        entries: Sequence[Sequence[str]],
        sources: Sequence[int],
        copied: Mapping[int, int],
        stored: tuple[Segment, range] | None,
    ) -> None:
        """Add the chunks of one document under consecutive keys; without chunks it has no entry.

        ``copied`` names the row of ``stored`` with the terms of each chunk that is copied.
        """
        if not entries:
            return
        assert not self._documents or document > self._documents[-1], "documents come in order"
        terms, ends = self._chunks
        source = _Source.make(*stored, [*copied.values()], self._numbers) if stored else None
        for distance, run in groupby(
            range(len(entries)), lambda at: copied[at] - at if at in copied else None
        ):
            chunks = [*run]
            if source is not None and distance is not None:
                source.copy(terms, ends, chunks[0] + distance, chunks[-1] + distance + 1)
            else:
                self._add_streams(terms, ends, chain.from_iterable(entries[at] for at in chunks))
        self._add_streams(*self._names, names)
        self._keys.extend(range(first_key, first_key + len(entries)))
        self._sources.extend(sources or [0] * len(entries))
        self._documents.append(document)
        self._chunk_starts.append(len(self._keys))

    def _add_streams(self, terms: array[int], ends: array[int], streams: Iterable[str]) -> None:
        for stream in streams:
            if stream:
                terms.extend(map(self._numbers.__getitem__, stream.split()))
            ends.append(len(terms))

    def encode(self) -> Iterator[bytes | memoryview]:
        """Yield the bytes of a segment with these documents."""
        terms = sorted(self._numbers)
        ranks = np.empty(len(terms), dtype=np.uint32)
        ranks[np.fromiter(map(self._numbers.__getitem__, terms), np.int64, len(terms))] = np.arange(
            len(terms)
        )
        read, named = (
            ranks[np.array(tokens, dtype=np.uint32)] for tokens, _ in (self._chunks, self._names)
        )
        chunks = _Runs.make(read, sizes(np.array(self._chunks[1])))
        names = _Runs.make(named, sizes(np.array(self._names[1])))
        chunk_starts = np.array(self._chunk_starts, dtype=np.int64)
        owners = np.repeat(np.arange(len(self._documents)), sizes(chunk_starts))
        lists = _Lists()
        for first, last in _divide(np.bincount(read, minlength=len(terms))):
            those, rows, fields = chunks.place(read, first, last, CHUNK_FIELDS)
            named_those, named_rows, name_fields = names.place(named, first, last, len(NAMES))
            paged = fields >= _IN_PAGE[0]
            postings = [
                _pack(those, fields, rows),
                _pack(named_those, name_fields + np.uint32(CHUNK_FIELDS), named_rows),
                _pack(those[paged], np.uint32(PAGE), owners[rows[paged]]),
            ]
            lists.add(*_count_equal(_sort_packed(np.concatenate(postings))))
        yield from _encode(
            [term.encode("utf-8", "surrogatepass") for term in terms],
            lists,
            [np.array(self._keys)],
            [np.array(self._documents)],
            chunk_starts,
            [chunks],
            [names],
            [np.array(self._sources)],
        )


class _Source(NamedTuple):
    """The terms of a stored document, by their numbers in a new segment."""

    terms: NDArray[np.uint32]
    starts: NDArray[np.int64]
    """Where the terms of each row and field begin, and the end."""

    @classmethod
    def make(
        cls, segment: Segment, rows: range, copied: Sequence[int], numbers: Mapping[str, int]
    ) -> _Source:
        """``numbers`` gets the terms of the rows that are ``copied``."""
        runs = slice(rows.start * CHUNK_FIELDS, rows.stop * CHUNK_FIELDS + 1)
        starts = segment.chunks.starts[runs].astype(np.int64)
        terms = segment.chunks.take(slice(int(starts[0]), int(starts[-1])))
        wanted = np.zeros(len(rows), dtype=np.bool_)
        wanted[copied] = True
        occurs = np.zeros(segment.term_count, dtype=np.bool_)
        occurs[terms[np.repeat(np.repeat(wanted, CHUNK_FIELDS), sizes(starts))]] = True
        occurring = np.flatnonzero(occurs)
        table = np.zeros(segment.term_count, dtype=np.uint32)
        table[occurring] = [
            numbers[segment.term(number).decode("utf-8", "surrogatepass")]
            for number in occurring.tolist()
        ]
        return cls(table[terms], starts - starts[0])

    def copy(self, terms: array[int], ends: array[int], first: int, last: int) -> None:
        """Append the terms of the rows from ``first`` to ``last``, and where each run ends."""
        starts = self.starts[first * CHUNK_FIELDS : last * CHUNK_FIELDS + 1]
        added = starts[1:] - starts[0] + len(terms)
        terms.frombytes(self.terms[starts[0] : starts[-1]].tobytes())
        ends.frombytes(added.astype(np.uint32).tobytes())


class _Runs(NamedTuple):
    """Runs of terms, by the lower two bytes and the third of their numbers, and the length of each
    run."""

    low: NDArray[np.uint16]
    high: NDArray[np.uint8]
    counts: NDArray[np.int64]

    @classmethod
    def make(cls, terms: NDArray[np.uint32], counts: NDArray[np.int64]) -> _Runs:
        return cls(terms.astype(np.uint16), (terms >> 16).astype(np.uint8), counts)

    def place(
        self, terms: NDArray[np.uint32], first: int, last: int, fields: int
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
        """Return the terms from ``first`` to ``last`` in their order, with the row and the field
        of each."""
        runs = np.repeat(np.arange(len(self.counts), dtype=np.uint32), self.counts)
        inside = (terms >= first) & (terms < last)
        if not inside.all():
            terms, runs = terms[inside], runs[inside]
        return terms, runs // np.uint32(fields), runs % np.uint32(fields)


def _divide(counts: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ranges of terms, at least one, with not too many postings each."""
    total, first = np.cumsum(counts), 0
    while first < max(1, len(counts)):
        before = int(total[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(total, before + _AT_ONCE, "right")))
        yield first, last
        first = last


def _pack(
    terms: NDArray[Any], fields: NDArray[Any] | np.uint32, rows: NDArray[Any]
) -> NDArray[np.uint64]:
    """Return one number for each posting, by which they sort as in a segment."""
    packed: NDArray[np.uint64] = terms.astype(np.uint64) << np.uint64(FIELD_BITS + _ROW_BITS)
    packed |= np.asarray(fields, dtype=np.uint64) << np.uint64(_ROW_BITS)
    packed |= rows.astype(np.uint64)
    return packed


def _sort_packed(postings: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sort by term and field; the rows of each are in order already.

    Numbers of 16 bits are sorted several times as fast as those of 64.
    """
    for shift in (_ROW_BITS, _ROW_BITS + FIELD_BITS):
        keys = postings >> np.uint64(shift)
        if shift == _ROW_BITS:
            keys &= np.uint64((1 << FIELD_BITS) - 1)
        small = keys.astype(np.uint16 if int(keys.max(initial=0)) < 1 << 16 else np.uint32)
        postings = postings[np.argsort(small, kind="stable")]
    return postings


def _count_equal(
    postings: NDArray[np.uint64],
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return each of these sorted postings once, and how often it occurs."""
    first = np.ones(len(postings), dtype=np.bool_)
    first[1:] = postings[1:] != postings[:-1]
    starts = np.flatnonzero(first)
    return postings[starts], np.diff(np.append(starts, len(postings)))


class _Lists:
    """The lists of a segment, made in the order of their terms."""

    def __init__(self) -> None:
        self.parts: dict[str, list[NDArray[Any]]] = defaultdict(list)
        self._count = 0

    def add(self, postings: NDArray[np.uint64], times: NDArray[Any]) -> None:
        """Add the next packed postings, sorted; a term comes with all of its postings."""
        sections = postings >> np.uint64(SECTION_BITS)
        first = np.ones(len(sections), dtype=np.bool_)
        first[1:] = sections[1:] != sections[:-1]
        starts = np.flatnonzero(first)
        # A section's key has the upper half of its rows: a list has few, but for large segments.
        keys = sections[starts]
        term_and_field = keys >> np.uint64(_ROW_BITS - SECTION_BITS)
        section = keys & np.uint64((1 << SECTION_BITS) - 1)
        frequent = np.flatnonzero(times > MOST_TIMES)
        for name, part in (
            ("lists", term_and_field << np.uint64(SECTION_BITS) | section),
            ("list_starts", starts + self._count),
            ("rows", postings.astype(np.uint16)),
            ("times", np.minimum(times, MOST_TIMES).astype(np.uint8)),
            ("frequent", frequent + self._count),
            ("frequent_times", np.minimum(times[frequent].astype(np.int64), MOST_COUNTED)),
        ):
            self.parts[name].append(part)
        self._count += len(postings)

    def finish(self) -> Mapping[str, Sequence[NDArray[Any]]]:
        self.parts["list_starts"].append(np.array([self._count]))
        return self.parts


def _encode(
    terms: Sequence[bytes],
    lists: _Lists,
    keys: Sequence[NDArray[Any]],
    documents: Sequence[NDArray[Any]],
    chunk_starts: NDArray[np.int64],
    chunks: Sequence[_Runs],
    names: Sequence[_Runs],
    sources: Sequence[NDArray[np.uint64]],
) -> Iterator[bytes | memoryview]:
    arrays: dict[str, Sequence[NDArray[Any]]] = {
        **lists.finish(),
        "terms": [np.frombuffer(b"".join(terms), dtype=np.uint8)],
        "term_starts": [np.cumsum([0, *map(len, terms)])],
        "keys": keys,
        "documents": documents,
        "chunk_starts": [chunk_starts],
        "sources": sources,
    }
    counted: list[NDArray[np.int64]] = []
    for name, parts, fields in (
        ("tokens", chunks, CHUNK_FIELDS),
        ("name_tokens", names, len(NAMES)),
    ):
        counts = np.concatenate([part.counts for part in parts])
        arrays[name] = [part.low for part in parts]
        arrays[f"{name}_high"] = [part.high for part in parts] if len(terms) > 1 << 16 else []
        arrays[f"{name[:-1]}_starts"] = [np.append(0, np.cumsum(counts))]
        counted.append(np.ascontiguousarray(counts.reshape(-1, fields).T))
    lengths, pages = counted
    total = np.append(0, np.cumsum(lengths[list(_IN_PAGE)].sum(axis=0)))
    pages = np.concatenate([pages, (total[chunk_starts[1:]] - total[chunk_starts[:-1]])[None]])
    arrays["lengths"] = [length_bytes(lengths).ravel()]
    arrays["page_lengths"] = [length_bytes(pages).ravel()]
    yield from encode_segment(arrays, [int(field.sum()) for field in (*lengths, *pages)])


class _Kept(NamedTuple):
    """What of a segment goes into another one."""

    segment: Segment
    documents: NDArray[np.bool_]
    rows: NDArray[np.bool_]
    everything: bool

    def find_terms(self) -> NDArray[np.bool_]:
        """Return which terms occur in what is kept."""
        occurs = np.full(self.segment.term_count, self.everything)
        if not self.everything:
            occurs[self.segment.chunks.take(self._choose(self.segment.chunks, self.rows))] = True
            occurs[self.segment.names.take(self._choose(self.segment.names, self.documents))] = True
        return occurs

    def move(self, runs: TokenRuns, rows: NDArray[np.bool_], numbers: NDArray[np.uint32]) -> _Runs:
        """Return the runs of the rows that are kept, with new numbers of their terms."""
        kept = sizes(runs.starts)[np.repeat(rows, runs.fields)]
        return _Runs.make(numbers[runs.take(self._choose(runs, rows))], kept)

    def _choose(self, runs: TokenRuns, rows: NDArray[np.bool_]) -> NDArray[np.bool_] | slice:
        if self.everything:
            return slice(None)
        return np.repeat(np.repeat(rows, runs.fields), sizes(runs.starts))


def merge_segments(
    segments: Sequence[Segment], gone: Collection[int]
) -> Iterator[bytes | memoryview]:
    """Yield the bytes of one segment with what these contain, in order, but for the documents
    ``gone`` and the terms that only they contain."""
    removed = np.array(sorted(gone), dtype=np.int64)
    kept: list[_Kept] = []
    for segment in segments:
        documents = ~np.isin(segment.documents, removed)
        rows = np.repeat(documents, segment.chunk_counts)
        kept.append(_Kept(segment, documents, rows, bool(documents.all())))
    terms, numbers = _join_terms(kept)
    lists = _Lists()
    for packed, times in _merge_lists(kept, numbers, len(terms)):
        lists.add(packed, times)
    together = [*zip(kept, numbers, strict=True)]
    counts = np.concatenate([some.segment.chunk_counts[some.documents] for some in kept])
    yield from _encode(
        terms,
        lists,
        [some.segment.keys[some.rows] for some in kept],
        [some.segment.documents[some.documents] for some in kept],
        np.append(0, np.cumsum(counts)),
        [some.move(some.segment.chunks, some.rows, mapped) for some, mapped in together],
        [some.move(some.segment.names, some.documents, mapped) for some, mapped in together],
        [some.segment.sources[some.rows] for some in kept],
    )


def _join_terms(kept: Sequence[_Kept]) -> tuple[list[bytes], list[NDArray[np.uint32]]]:
    """Return the terms that occur, and for each segment the new number of each of its terms."""
    met: defaultdict[bytes, int] = defaultdict(count().__next__)
    """The terms in the order in which they were first met."""
    occurring: list[NDArray[np.bool_]] = []
    places: list[NDArray[np.uint32]] = []
    for some in kept:
        occurs = some.find_terms()
        terms = compress(some.segment.terms(), occurs.tolist())
        places.append(np.fromiter(map(met.__getitem__, terms), np.uint32, int(occurs.sum())))
        occurring.append(occurs)
    joined = sorted(met)
    ranks = np.empty(len(joined), dtype=np.uint32)
    ranks[np.fromiter(map(met.__getitem__, joined), np.int64, len(joined))] = np.arange(len(joined))
    numbers: list[NDArray[np.uint32]] = []
    for occurs, place in zip(occurring, places, strict=True):
        mapped = np.zeros(len(occurs), dtype=np.uint32)
        mapped[occurs] = ranks[place]
        # A term that is gone gets the number of the one before it, so that they stay in order.
        numbers.append(np.maximum.accumulate(mapped))
    return joined, numbers


def _merge_lists(
    kept: Sequence[_Kept], numbers: Sequence[NDArray[np.uint32]], term_count: int
) -> Iterator[tuple[NDArray[np.uint64], NDArray[Any]]]:
    """Yield packed postings and their times, some terms at a time."""
    counts = np.zeros(max(1, term_count), dtype=np.int64)
    sections: list[NDArray[np.int64]] = []
    for some, mapped in zip(kept, numbers, strict=True):
        segment = some.segment
        owner = mapped[(segment.lists >> np.uint64(FIELD_BITS + SECTION_BITS)).astype(np.int64)]
        sections.append(owner.astype(np.int64))
        counted = sizes(segment.list_starts)
        counts += np.bincount(owner, weights=counted, minlength=len(counts)).astype(np.int64)
    moved = [
        (
            np.cumsum(some.rows) - 1 + sum(int(other.rows.sum()) for other in kept[:at]),
            np.cumsum(some.documents) - 1 + sum(int(other.documents.sum()) for other in kept[:at]),
        )
        for at, some in enumerate(kept)
    ]
    for first, last in _divide(counts):
        parts = [
            _read_lists(some, owner, mapped, first, last)
            for some, owner, mapped in zip(kept, sections, moved, strict=True)
        ]
        packed = np.concatenate([part for part, _ in parts])
        times = np.concatenate([part for _, part in parts])
        order = np.argsort(packed, kind="stable")
        yield packed[order], times[order]


def _read_lists(
    some: _Kept,
    owner: NDArray[np.int64],
    moved: tuple[NDArray[np.int64], NDArray[np.int64]],
    first: int,
    last: int,
) -> tuple[NDArray[np.uint64], NDArray[Any]]:
    """Return what is kept of the lists of the terms from ``first`` to ``last``, packed."""
    segment = some.segment
    begin, end = np.searchsorted(owner, (first, last)).tolist()
    sections = range(begin, end)
    rows, times = segment.read_rows(sections), segment.read_times(sections)
    counted = sizes(segment.list_starts[begin : end + 1])
    terms = np.repeat(owner[begin:end], counted)
    keys = segment.lists[begin:end] >> np.uint64(SECTION_BITS)
    fields = np.repeat((keys & np.uint64((1 << FIELD_BITS) - 1)).astype(np.int64), counted)
    packed = np.empty(len(rows), dtype=np.uint64)
    wanted = np.empty(len(rows), dtype=np.bool_)
    for which, numbers, mask in (
        (fields < CHUNK_FIELDS, moved[0], some.rows),
        (fields >= CHUNK_FIELDS, moved[1], some.documents),
    ):
        packed[which] = _pack(terms[which], fields[which], numbers[rows[which]])
        wanted[which] = mask[rows[which]]
    return (packed, times) if some.everything else (packed[wanted], times[wanted])
