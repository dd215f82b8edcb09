"""A segment: one immutable file of the keyword index, mapped into memory.

It has the sorted terms, for each term and field the rows that contain it, and the terms of each row
in their order, from which phrases are matched and segments are merged. The rows of chunk fields are
chunks, those of page fields are documents. Like a roaring bitmap, a list is kept in sections of
65,536 rows, so that a row takes two bytes.
"""

from __future__ import annotations

import json
import mmap
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from lookfar.store.keywords.fields import FIELDS, NAMES, NUMBERS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lookfar.ports import Streams

MAGIC: Final = b"LFWORDS1"
_ALIGNED: Final = 8
FIELD_BITS: Final = 4
SECTION_BITS: Final = 16
MOST_TIMES: Final = 255
"""How often a term may occur in a row until the number is kept in a table of its own."""
_SAMPLED: Final = 4_096
CHUNK_FIELDS: Final = len(FIELDS)
TYPES: Final = {
    "terms": "u1",
    "term_starts": "u4",
    "lists": "u8",
    "list_starts": "u4",
    "rows": "u2",
    "times": "u1",
    "frequent": "u4",
    "frequent_times": "u2",
    "keys": "u8",
    "documents": "u8",
    "chunk_starts": "u4",
    "lengths": "u1",
    "page_lengths": "u1",
    "tokens": "u2",
    "tokens_high": "u1",
    "token_starts": "u4",
    "name_tokens": "u2",
    "name_tokens_high": "u1",
    "name_token_starts": "u4",
    "sources": "u8",
}
"""The arrays of a segment, in the order of the file, and the type of their values."""


def list_key(term: int, field: int = 0) -> int:
    """Return the first key that a list of this term and field may have."""
    return (term << FIELD_BITS | field) << SECTION_BITS


def sizes(starts: NDArray[Any]) -> NDArray[np.int64]:
    """Return the lengths of parts that follow each other, given where each begins and the end."""
    lengths: NDArray[np.int64] = starts[1:].astype(np.int64) - starts[:-1].astype(np.int64)
    return lengths


class TokenRuns(NamedTuple):
    """Runs of terms: one for each row and each of its fields."""

    low: NDArray[np.uint16]
    high: NDArray[np.uint8]
    """Empty if there are at most 65,536 terms; a segment has fewer than 16 million."""
    starts: NDArray[np.uint32]
    fields: int

    def read(
        self, runs: NDArray[np.int64], together: int = 1
    ) -> tuple[NDArray[np.uint32 | np.uint16], NDArray[np.int64]]:
        """Return the terms of some runs, and of those that follow each of them if ``together``
        says so, and where each run ends among these terms."""
        starts = self.starts[runs[:, None] + np.arange(together + 1)].astype(np.int64)
        ends = np.cumsum(starts[:, 1:] - starts[:, :-1])
        parts = [slice(*part) for part in starts[:, [0, -1]].tolist()]
        terms = np.concatenate([self.low[:0], *[self.low[part] for part in parts]])
        if len(self.high):
            high = np.concatenate([self.high[:0], *[self.high[part] for part in parts]])
            return terms | high.astype(np.uint32) << 16, ends
        return terms, ends

    def find_phrase(self, runs: NDArray[np.int64], terms: Sequence[int]) -> NDArray[np.int64]:
        """Return those of the runs that have these terms beside each other, as often as they do.

        The one that is rarest in a first part of the text is looked for, and then its neighbours;
        upper halves of numbers are only compared where the lower ones match.
        """
        starts, stops = self.starts[runs].astype(np.int64), self.starts[runs + 1].astype(np.int64)
        parts = [slice(*part) for part in zip(starts.tolist(), stops.tolist(), strict=True)]
        low = np.concatenate([self.low[:0], *[self.low[part] for part in parts]])
        lower = [term & 0xFFFF for term in terms]
        sample = low[:_SAMPLED]
        rarest = min(range(len(terms)), key=lambda at: int((sample == lower[at]).sum()))
        here = np.flatnonzero(low == lower[rarest]) - rarest
        here = here[(here >= 0) & (here + len(terms) <= len(low))]
        for step, term in enumerate(lower):
            here = here[low[here + step] == term]
        ends = np.cumsum(stops - starts)
        which = ends.searchsorted(here, "right")
        inside = here + len(terms) <= ends[which]
        here, which = here[inside], which[inside]
        if len(self.high):
            here += stops[which] - ends[which]
            for step, term in enumerate(terms):
                same = self.high[here + step] == term >> 16
                here, which = here[same], which[same]
        return runs[which]

    def take(self, which: NDArray[Any] | slice) -> NDArray[np.uint32]:
        terms = self.low[which].astype(np.uint32)
        if len(self.high):
            terms |= self.high[which].astype(np.uint32) << 16
        return terms

    def count_terms(self, rows: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the number of terms in some rows, by field."""
        counts = sizes(self.starts).reshape(-1, self.fields)
        total: NDArray[np.int64] = counts[rows].sum(axis=0)
        return total


class Segment:
    def __init__(self, path: Path) -> None:
        """Map a file; ``ValueError`` if it is not a segment."""
        self.path = path
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        start = len(MAGIC) + 8
        if data[: len(MAGIC)] != MAGIC:
            raise ValueError(f"{path.name}: it is not a segment")
        end = start + int.from_bytes(data[len(MAGIC) : start], "little")
        header = json.loads(data[start:end])
        self.size = len(data)
        self.tokens: list[int] = header["tokens"]
        """The number of terms by field, counted as often as they occur."""
        arrays: dict[str, NDArray[Any]] = {}
        for name, kind in TYPES.items():
            end = -(-end // _ALIGNED) * _ALIGNED
            count = header["counts"].get(name, 0)
            arrays[name] = np.frombuffer(data, f"<{kind}", count, end)
            end += arrays[name].nbytes
        self.keys = _narrow(arrays["keys"])
        """The number of each row of the chunk fields."""
        self.documents = _narrow(arrays["documents"])
        """The number of each row of the page fields."""
        self.chunk_starts: NDArray[np.uint32] = arrays["chunk_starts"]
        self.lists: NDArray[np.uint64] = arrays["lists"]
        self.list_starts: NDArray[np.uint32] = arrays["list_starts"]
        self._rows: NDArray[np.uint16] = arrays["rows"]
        self._times: NDArray[np.uint8] = arrays["times"]
        self._frequent: NDArray[np.uint32] = arrays["frequent"]
        self._frequent_times: NDArray[np.uint16] = arrays["frequent_times"]
        self._terms = memoryview(arrays["terms"].data)
        self._term_starts = memoryview(arrays["term_starts"].data)
        self.term_count = len(self._term_starts) - 1
        self._sources: NDArray[np.uint64] = arrays["sources"]
        self.lengths = [
            *arrays["lengths"].reshape(CHUNK_FIELDS, -1),
            *arrays["page_lengths"].reshape(len(NUMBERS) - CHUNK_FIELDS, -1),
        ]
        """The length of each row, as one byte, by field."""
        self.chunks = TokenRuns(
            arrays["tokens"], arrays["tokens_high"], arrays["token_starts"], CHUNK_FIELDS
        )
        self.names = TokenRuns(
            arrays["name_tokens"],
            arrays["name_tokens_high"],
            arrays["name_token_starts"],
            len(NAMES),
        )

    @property
    def token_count(self) -> int:
        return len(self.chunks.low)

    @cached_property
    def chunk_counts(self) -> NDArray[np.int64]:
        """The number of chunks of each document."""
        return sizes(self.chunk_starts)

    @cached_property
    def sources(self) -> NDArray[np.uint64]:
        """A hash of what the terms of each chunk were read from; 0 if it is unknown."""
        if len(self._sources):
            return self._sources
        return np.zeros(len(self.keys), dtype=np.uint64)  # Written by an earlier version.

    def rows_of(self, document: int) -> range:
        """Return the rows of the chunks of a document; none if it is not here."""
        at = int(self.documents.searchsorted(document))
        if at == len(self.documents) or self.documents[at] != document:
            return range(0)
        return range(int(self.chunk_starts[at]), int(self.chunk_starts[at + 1]))

    def term(self, number: int) -> bytes:
        return bytes(self._terms[self._term_starts[number] : self._term_starts[number + 1]])

    def terms(self) -> Iterator[bytes]:
        """Yield all terms, in order."""
        written = bytes(self._terms)
        return (written[start:end] for start, end in pairwise(self._term_starts.tolist()))

    def read_streams(self, chosen: NDArray[np.bool_]) -> Iterator[tuple[int, int, Streams]]:
        """Yield the number, the first chunk and the terms of each of these documents, as they were
        added."""
        documents = np.flatnonzero(chosen)
        rows = np.flatnonzero(np.repeat(chosen, self.chunk_counts))
        entries = iter(self._read_texts(self.chunks, rows))
        names = self._read_texts(self.names, documents)
        for at, own in zip(documents.tolist(), names, strict=True):
            count = int(self.chunk_counts[at])
            first = int(self.keys[int(self.chunk_starts[at])])
            yield int(self.documents[at]), first, (own, [*islice(entries, count)])

    def _read_texts(self, runs: TokenRuns, rows: NDArray[np.intp]) -> list[list[str]]:
        """Return the terms of these rows, as one text for each field."""
        numbers, ends = runs.read(rows * runs.fields, runs.fields)
        known, places = np.unique(numbers, return_inverse=True)
        terms = [self.term(number).decode("utf-8", "surrogatepass") for number in known.tolist()]
        words = [terms[place] for place in places.tolist()]
        texts = [" ".join(words[start:end]) for start, end in pairwise((0, *ends.tolist()))]
        return [texts[at : at + runs.fields] for at in range(0, len(texts), runs.fields)]

    def find_term(self, term: bytes) -> int:
        """Return the number of the first term that is not less than ``term``."""
        return bisect_left(range(self.term_count), term, key=self.term)

    def number_of(self, term: str) -> int | None:
        """Return the number of a term; ``None`` if no row contains it."""
        written = term.encode("utf-8", "surrogatepass")
        number = self.find_term(written)
        known = number < self.term_count and self.term(number) == written
        return number if known else None

    def find_lists(self, term: str) -> Mapping[int, range]:
        """Return the sections of the lists of a term, by field."""
        number = self.number_of(term)
        if number is None:
            return {}
        first, last = self.lists.searchsorted(
            np.array((list_key(number), list_key(number + 1)), dtype=np.uint64)
        ).tolist()
        found: dict[int, range] = {}
        for at, key in enumerate(self.lists[first:last].tolist(), first):
            field = key >> SECTION_BITS & ((1 << FIELD_BITS) - 1)
            found[field] = range(found[field].start if field in found else at, at + 1)
        return found

    def read_rows(self, sections: range) -> NDArray[np.uint32]:
        """Return the rows in these sections of a list."""
        starts = self.list_starts[sections.start : sections.stop + 1]
        rows = self._rows[int(starts[0]) : int(starts[-1])].astype(np.uint32)
        high = self.lists[sections.start : sections.stop].astype(np.uint32) & np.uint32(
            (1 << SECTION_BITS) - 1
        )
        if high.any():
            rows |= np.repeat(high << SECTION_BITS, sizes(starts))
        return rows

    def read_times(self, sections: range) -> NDArray[np.uint8 | np.uint16]:
        """Return how often the term occurs in each of these rows."""
        start = int(self.list_starts[sections.start])
        end = int(self.list_starts[sections.stop])
        times = self._times[start:end]
        first, last = self._frequent.searchsorted(np.array((start, end), dtype=np.uint32)).tolist()
        if first == last:
            return times
        exact = times.astype(np.uint16)
        exact[self._frequent[first:last] - np.uint32(start)] = self._frequent_times[first:last]
        return exact


def _narrow(numbers: NDArray[np.uint64]) -> NDArray[np.uint32 | np.int64]:
    """Return ascending numbers in half of the memory, if they fit."""
    small = not len(numbers) or int(numbers[-1]) < 1 << 32
    return numbers.astype(np.uint32) if small else numbers.astype(np.int64)


def encode_segment(
    arrays: Mapping[str, Sequence[NDArray[Any]]], tokens: Sequence[int]
) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a segment's file, from the parts of each array."""
    counts = {name: sum(map(len, arrays[name])) for name in TYPES}
    header = json.dumps({"tokens": tokens, "counts": counts}, separators=(",", ":")).encode()
    yield MAGIC + len(header).to_bytes(8, "little") + header
    at = len(MAGIC) + 8 + len(header)
    for name, kind in TYPES.items():
        yield bytes(-at % _ALIGNED)
        at += -at % _ALIGNED
        for part in filter(len, arrays[name]):
            data = np.ascontiguousarray(part, dtype=f"<{kind}").data.cast("B")
            yield data
            at += data.nbytes
