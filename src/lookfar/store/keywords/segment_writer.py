"""Make segments of the keyword index: from new documents, or from other segments."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from lookfar.store.keywords.fields import FIELDS, NAMES, NUMBERS, PAGE
from lookfar.store.keywords.postings import clip_times, length_bytes
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
_PAGE_FIELDS: Final = len(NUMBERS) - CHUNK_FIELDS
_AT_ONCE: Final = 1_000_000
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
    ) -> None:
        """Add the chunks of one document under consecutive keys; without chunks it has no entry."""
        if not entries:
            return
        assert not self._documents or document > self._documents[-1], "documents come in order"
        for streams, (terms, ends) in (
            ((stream for entry in entries for stream in entry), self._chunks),
            (names, self._names),
        ):
            for stream in streams:
                terms.extend(map(self._numbers.__getitem__, stream.split()))
                ends.append(len(terms))
        self._keys.extend(range(first_key, first_key + len(entries)))
        self._documents.append(document)
        self._chunk_starts.append(len(self._keys))

    def encode(self) -> Iterator[bytes]:
        """Yield the bytes of a segment with these documents."""
        terms = sorted(self._numbers)
        ranks = np.empty(len(terms), dtype=np.uint32)
        ranks[np.fromiter(map(self._numbers.__getitem__, terms), np.int64, len(terms))] = np.arange(
            len(terms)
        )
        chunks = _Runs(ranks[np.array(self._chunks[0], dtype=np.uint32)], np.array(self._chunks[1]))
        names = _Runs(ranks[np.array(self._names[0], dtype=np.uint32)], np.array(self._names[1]))
        chunk_starts = np.array(self._chunk_starts, dtype=np.int64)
        owners = np.repeat(np.arange(len(self._documents)), sizes(chunk_starts))
        rows, fields = chunks.place(CHUNK_FIELDS)
        paged = np.isin(fields, _IN_PAGE)
        name_rows, name_fields = names.place(len(NAMES))
        postings = np.concatenate(
            [
                _pack(chunks.terms, fields, rows),
                _pack(names.terms, name_fields + CHUNK_FIELDS, name_rows),
                _pack(chunks.terms[paged], np.int64(PAGE), owners[rows[paged]]),
            ]
        )
        unique, times = np.unique(postings, return_counts=True)
        lists = _Lists()
        lists.add(unique, times)
        yield from _encode(
            [term.encode("utf-8", "surrogatepass") for term in terms],
            lists,
            np.array(self._keys),
            np.array(self._documents),
            chunk_starts,
            chunks,
            names,
        )


class _Runs(NamedTuple):
    """Runs of terms, by number, and where each begins; the last start is the end."""

    terms: NDArray[np.uint32]
    starts: NDArray[Any]

    def place(self, fields: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the row and the field of each term."""
        counts = sizes(self.starts)
        runs = np.repeat(np.arange(len(counts)), counts)
        return runs // fields, runs % fields

    def lengths(self, fields: int) -> NDArray[np.int64]:
        """Return the length of each run, by field and row."""
        counts = sizes(self.starts)
        return np.ascontiguousarray(counts.reshape(-1, fields).T)


def _pack(
    terms: NDArray[Any], fields: NDArray[np.int64] | np.int64, rows: NDArray[Any]
) -> NDArray[np.uint64]:
    """Return one number for each posting, by which they sort as in a segment."""
    packed: NDArray[np.uint64] = terms.astype(np.uint64) << np.uint64(FIELD_BITS + _ROW_BITS)
    packed |= np.asarray(fields, dtype=np.uint64) << np.uint64(_ROW_BITS)
    packed |= rows.astype(np.uint64)
    return packed


class _Lists:
    """The lists of a segment, made in the order of their terms."""

    def __init__(self) -> None:
        self._parts: dict[str, list[NDArray[Any]]] = defaultdict(list)
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
            ("frequent_times", np.fromiter(map(clip_times, times[frequent].tolist()), np.uint16)),
        ):
            self._parts[name].append(part)
        self._count += len(postings)

    def arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        arrays["list_starts"] = np.append(arrays["list_starts"], self._count)
        return arrays


def _encode(
    terms: Sequence[bytes],
    lists: _Lists,
    keys: NDArray[Any],
    documents: NDArray[Any],
    chunk_starts: NDArray[np.int64],
    chunks: _Runs,
    names: _Runs,
) -> Iterator[bytes]:
    lengths, name_lengths = chunks.lengths(CHUNK_FIELDS), names.lengths(len(NAMES))
    in_page = lengths[list(_IN_PAGE)].sum(axis=0)
    total = np.append(0, np.cumsum(in_page))
    page_lengths = total[chunk_starts[1:]] - total[chunk_starts[:-1]]
    pages = np.concatenate([name_lengths, page_lengths[None]])
    arrays = {
        **lists.arrays(),
        "terms": np.frombuffer(b"".join(terms), dtype=np.uint8),
        "term_starts": np.cumsum([0, *map(len, terms)]),
        "keys": keys,
        "documents": documents,
        "chunk_starts": chunk_starts,
        "lengths": length_bytes(lengths).ravel(),
        "page_lengths": length_bytes(pages).ravel(),
    }
    wide = len(terms) > 1 << 16
    for name, runs in (("tokens", chunks), ("name_tokens", names)):
        arrays[name] = runs.terms.astype(np.uint16)
        arrays[f"{name}_high"] = (runs.terms >> 16)[: len(runs.terms) if wide else 0]
    arrays["token_starts"] = chunks.starts
    arrays["name_token_starts"] = names.starts
    yield from encode_segment(arrays, [int(field.sum()) for field in (*lengths, *pages)])


class _Kept(NamedTuple):
    """What of a segment goes into another one."""

    segment: Segment
    documents: NDArray[np.bool_]
    rows: NDArray[np.bool_]
    everything: bool

    def select(self, runs: TokenRuns, rows: NDArray[np.bool_]) -> _Runs:
        """Return the terms of the rows that are kept."""
        counts = sizes(runs.starts)
        if self.everything:
            return _Runs(runs.take(slice(None)), counts)
        which = np.repeat(rows, runs.fields)
        return _Runs(runs.take(np.repeat(which, counts)), counts[which])


def merge_segments(segments: Sequence[Segment], gone: Collection[int]) -> Iterator[bytes]:
    """Yield the bytes of one segment with what these contain, in order, but for the documents
    ``gone`` and the terms that only they contain."""
    removed = np.array(sorted(gone), dtype=np.int64)
    kept: list[_Kept] = []
    for segment in segments:
        documents = ~np.isin(segment.documents, removed)
        rows = np.repeat(documents, segment.chunk_counts)
        kept.append(_Kept(segment, documents, rows, bool(documents.all())))
    chunk_runs = [some.select(some.segment.chunks, some.rows) for some in kept]
    name_runs = [some.select(some.segment.names, some.documents) for some in kept]
    terms, numbers = _join_terms(kept, chunk_runs, name_runs)
    lists = _Lists()
    for packed, times in _merge_lists(kept, numbers, len(terms)):
        lists.add(packed, times)
    yield from _encode(
        terms,
        lists,
        np.concatenate([some.segment.keys[some.rows] for some in kept]),
        np.concatenate([some.segment.documents[some.documents] for some in kept]),
        _ends([some.segment.chunk_counts[some.documents] for some in kept]),
        _join_runs(chunk_runs, numbers),
        _join_runs(name_runs, numbers),
    )


def _join_terms(
    kept: Sequence[_Kept], *runs: Sequence[_Runs]
) -> tuple[list[bytes], list[NDArray[np.uint32]]]:
    """Return the terms that occur, and for each segment the new number of each of its terms."""
    used: list[NDArray[np.bool_]] = []
    for at, some in enumerate(kept):
        occurs = np.full(some.segment.term_count, some.everything)
        if not some.everything:
            for each in runs:
                occurs[each[at].terms] = True
        used.append(occurs)
    together: set[bytes] = set()
    written = [list(some.segment.terms()) for some in kept]
    for terms, occurs in zip(written, used, strict=True):
        together.update(terms[number] for number in np.flatnonzero(occurs).tolist())
    joined = sorted(together)
    index = {term: number for number, term in enumerate(joined)}
    # A term that is gone gets the number of the next one, so that numbers stay in order.
    numbers: list[NDArray[np.uint32]] = []
    for terms, occurs in zip(written, used, strict=True):
        mapped = np.zeros(len(terms), dtype=np.uint32)
        which = np.flatnonzero(occurs)
        mapped[which] = [index[terms[number]] for number in which.tolist()]
        numbers.append(np.maximum.accumulate(mapped))
    return joined, numbers


def _join_runs(runs: Sequence[_Runs], numbers: Sequence[NDArray[np.uint32]]) -> _Runs:
    return _Runs(
        np.concatenate([mapped[some.terms] for some, mapped in zip(runs, numbers, strict=True)]),
        _ends([some.starts for some in runs]),
    )


def _ends(counts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.append(0, np.cumsum(np.concatenate(counts)))


def _merge_lists(
    kept: Sequence[_Kept], numbers: Sequence[NDArray[np.uint32]], term_count: int
) -> Iterator[tuple[NDArray[np.uint64], NDArray[Any]]]:
    """Yield packed postings and their times, some terms at a time."""
    counts = np.zeros(term_count + 1, dtype=np.int64)
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
    total = np.cumsum(counts)
    first = 0
    while first < max(1, term_count):
        before = int(total[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(total, before + _AT_ONCE, "right")))
        parts = [
            _read_lists(some, owner, mapped, first, min(last, term_count))
            for some, owner, mapped in zip(kept, sections, moved, strict=True)
        ]
        packed = np.concatenate([part for part, _ in parts])
        times = np.concatenate([part for _, part in parts])
        order = np.argsort(packed, kind="stable")
        yield packed[order], times[order]
        first = last


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
