"""Search the live entries of one generation in the segments of the keyword index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from lookfar.common.recent import RecentValues
from lookfar.errors import IndexCorrupt, from_os_error
from lookfar.ports import Statistics
from lookfar.store.keywords.fields import FIELDS, MOST_PAIRS, NAMES, NUMBERS, PAGE, Named
from lookfar.store.keywords.postings import NONE, Impacts, Postings
from lookfar.store.keywords.searcher import KeywordSearcher, WeightedList
from lookfar.store.keywords.segment import (
    CHUNK_FIELDS,
    FIELD_BITS,
    SECTION_BITS,
    Segment,
    list_key,
    sizes,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lookfar.ports import Streams
    from lookfar.store.keywords.postings import Keys

_CACHED_BYTES: Final = 64_000_000
_CACHED_TERMS: Final = 20_000
_AT_ONCE: Final = 2_000
"""Rows whose terms are compared with a phrase at once."""
_BODY, _CODE = FIELDS.index("body"), FIELDS.index("code")


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Report what damaged files of the keyword index raise."""
    try:
        yield
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            raise from_os_error(error, "reading the keyword index") from error
        raise _corrupt_error(folder, error) from error
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise _corrupt_error(folder, error) from error


def _corrupt_error(folder: Path, error: Exception) -> IndexCorrupt:
    return IndexCorrupt(
        "The keyword index is damaged.",
        hint="Rebuild it from the sources: lookfar index PATH --rebuild.",
        developer=f"{folder.name}: {type(error).__name__}: {error}",
        details={"path": str(folder)},
    )


class Part(NamedTuple):
    """A segment, and by field what is said of the rows in the lists of that field."""

    segment: Segment
    live: Sequence[NDArray[np.bool_] | None]
    """Which of them count; ``None`` if all of them do."""
    numbers: Sequence[NDArray[np.uint32 | np.int64]]
    """The number of each."""

    @classmethod
    def make(
        cls,
        segment: Segment,
        documents: NDArray[np.bool_] | None = None,
        chunks: NDArray[np.bool_] | None = None,
    ) -> Part:
        pages = len(NUMBERS) - CHUNK_FIELDS
        return cls(
            segment,
            [*[chunks] * CHUNK_FIELDS, *[documents] * pages],
            [*[segment.keys] * CHUNK_FIELDS, *[segment.documents] * pages],
        )


class LiveKeywords(KeywordSearcher):
    """The live entries of one generation, in the segments of one commit."""

    def __init__(self, folder: Path, parts: Sequence[Part]) -> None:
        super().__init__()
        self._folder = folder
        self._parts = parts
        self._found: dict[str, list[Mapping[int, range]]] = {}
        self._counted: dict[Named, int] = {}
        self._lists_read: RecentValues[Named, Impacts] = RecentValues(_CACHED_BYTES)

    def scored_with(self, shared: Statistics) -> LiveKeywords:
        """Return the same state with words weighted by other statistics."""
        keywords = copy(self)
        KeywordSearcher.__init__(keywords, shared)
        return keywords

    @cached_property
    def _all_totals(self) -> tuple[int, Mapping[int, int]]:
        entries, tokens = 0, np.zeros(len(NUMBERS), dtype=np.int64)
        for segment, live, _ in self._parts:
            chunks, documents = live[_BODY], live[PAGE]
            entries += len(segment.keys)
            tokens += segment.tokens
            if documents is not None and chunks is not None:
                entries -= int((~chunks).sum())
                dead = segment.chunks.count_terms(~chunks)
                tokens[:CHUNK_FIELDS] -= dead
                tokens[CHUNK_FIELDS:PAGE] -= segment.names.count_terms(~documents)
                tokens[PAGE] -= dead[_BODY] + dead[_CODE]
        return entries, dict(enumerate(tokens.tolist()))

    def _totals(self) -> tuple[int, Mapping[int, int]]:
        with reading(self._folder):
            return self._all_totals

    def _find(self, term: str) -> list[Mapping[int, range]]:
        """Return where the lists of a term are in each segment, by field; cached."""
        found = self._found.get(term)
        if found is None:
            if len(self._found) >= _CACHED_TERMS:
                self._found = {}
            found = [part.segment.find_lists(term) for part in self._parts]
            self._found[term] = found
        return found

    def _counts(self, wanted: Iterable[Named]) -> dict[Named, int]:
        known = self._counted
        if len(known) >= _CACHED_TERMS * len(NUMBERS):
            known = self._counted = {}
        counts: dict[Named, int] = {}
        with reading(self._folder):
            for named in wanted:
                count = known.get(named)
                if count is None:
                    field, term = named
                    count = 0
                    for (segment, live, _), found in zip(
                        self._parts, self._find(term), strict=True
                    ):
                        if field in found:
                            rows, counting = segment.read_rows(found[field]), live[field]
                            count += len(rows) if counting is None else int(counting[rows].sum())
                    known[named] = count
                counts[named] = count
        return counts

    def _read(
        self,
        lists: Sequence[WeightedList],
        among: Keys | None = None,  # noqa: ARG002  # Whole lists are read quickly, and cached.
    ) -> dict[Named, Impacts]:
        read: dict[Named, Impacts] = {}
        for term in lists:
            entries = self._lists_read.get(term.named)
            if entries is None:
                with reading(self._folder):
                    entries = self._read_list(*term.named).impacts(term.mean)
                size = entries.keys.nbytes + entries.values.nbytes
                self._lists_read.add(term.named, entries, size)
            read[term.named] = entries
        return read

    def _read_list(self, field: int, term: str) -> Postings:
        lists: list[Postings] = []
        for part, found in zip(self._parts, self._find(term), strict=True):
            if field not in found:
                continue
            rows = part.segment.read_rows(found[field])
            times = part.segment.read_times(found[field])
            live = part.live[field]
            if live is not None:
                rows, times = rows[live[rows]], times[live[rows]]
            lists.append(
                Postings(part.numbers[field][rows], times, part.segment.lengths[field][rows])
            )
        if len(lists) == 1:
            return lists[0]
        # Segments follow each other, so their numbers do.
        return Postings(*map(np.concatenate, zip(*lists, strict=True))) if lists else NONE

    def _find_chunks(self, documents: Sequence[int]) -> tuple[Keys, list[int]]:
        wanted = np.array(sorted(set(documents)), dtype=np.int64)
        keys: list[Keys] = [NONE.keys]
        owners: list[Keys] = [NONE.keys]
        with reading(self._folder):
            for segment, living, _ in self._parts:
                live = living[PAGE]
                which = np.isin(segment.documents, wanted, assume_unique=True)
                if live is not None:
                    which &= live
                rows = np.repeat(which, segment.chunk_counts)
                keys.append(segment.keys[rows])
                owners.append(np.repeat(segment.documents[which], segment.chunk_counts[which]))
        return np.concatenate(keys), np.concatenate(owners).tolist()

    def read_streams(self, document: int) -> Streams:
        """Return the terms of a document; none if it has no chunks."""
        with reading(self._folder):
            for segment, _, _ in self._parts:
                for _, _, streams in segment.read_streams(segment.documents == document):
                    return streams
        return ("",) * len(NAMES), []

    # -- words beside each other ---------------------------------------------------

    def holding(self, terms: Sequence[str], apart: int = 0, most: int | None = None) -> list[int]:
        """Return chunks with these terms in order, with at most ``apart`` others in between."""
        keys: list[int] = []
        with reading(self._folder):
            for at, part in enumerate(self._parts):
                for row in self._find_phrase(at, part, terms, apart):
                    keys.append(int(part.segment.keys[row]))
                    if len(keys) == most:
                        return keys
        return keys

    def _find_phrase(self, at: int, part: Part, terms: Sequence[str], apart: int) -> Iterator[int]:
        """Yield the rows of a segment that have these terms in order, in any one field."""
        segment, live = part.segment, part.live[_BODY]
        found = [self._find(term)[at] for term in terms]
        together = np.zeros((len(segment.keys), CHUNK_FIELDS), dtype=np.bool_)
        for field in range(CHUNK_FIELDS):
            sections = [lists.get(field) for lists in found]
            if all(some is not None for some in sections):
                rows = _intersect([segment.read_rows(some) for some in sections if some])
                together[rows if live is None else rows[live[rows]], field] = True
        runs = np.flatnonzero(together)
        if not len(runs):
            return
        if len(terms) == 1:
            yield from sorted(set((runs // CHUNK_FIELDS).tolist()))
            return
        known = _number_terms(segment, terms)
        numbers = [known[term] for term in terms]
        last = -1
        for first in range(0, len(runs), _AT_ONCE):
            some = runs[first : first + _AT_ONCE]
            if apart:
                matching = some[_match_in_order(*segment.chunks.read(some), numbers, apart)]
            else:
                matching = segment.chunks.find_phrase(some, numbers)
            for row in (matching // CHUNK_FIELDS).tolist():
                if row != last:  # A row may have it several times, and in several fields.
                    last = row
                    yield row

    def adjoining(
        self, pairs: Sequence[tuple[str, str, int]], keys: Sequence[int]
    ) -> dict[int, int]:
        pairs = pairs[:MOST_PAIRS]
        matches: dict[int, int] = {}
        if not pairs:
            return matches
        for segment, rows, read, ends in self._read_terms(keys):
            numbers = _number_terms(segment, [word for pair in pairs for word in pair[:2]])
            bits = np.zeros(len(rows), dtype=np.int64)
            for at, (left, right, step) in enumerate(pairs):
                if left not in numbers or right not in numbers or step >= len(read):
                    continue
                here = np.flatnonzero(read[:-step] == numbers[left])
                here = here[read[here + step] == numbers[right]]
                runs = ends.searchsorted(here, "right")
                bits[runs[here + step < ends[runs]] // CHUNK_FIELDS] |= 1 << at
            having = np.flatnonzero(bits)
            matches.update(
                zip(segment.keys[rows[having]].tolist(), bits[having].tolist(), strict=True)
            )
        return matches

    def wording(
        self, groups: Sequence[Mapping[str, float]], keys: Sequence[int]
    ) -> dict[int, float]:
        sums: dict[int, float] = {}
        if not groups:
            return sums
        for segment, rows, read, ends in self._read_terms(keys):
            numbers = _number_terms(segment, [term for group in groups for term in group])
            total = np.zeros(len(rows))
            for group in groups:
                best = np.zeros(len(rows))
                for term, worth in group.items():
                    if term in numbers:
                        here = np.flatnonzero(read == numbers[term])
                        having = ends.searchsorted(here, "right") // CHUNK_FIELDS
                        best[having] = np.maximum(best[having], worth)
                total += best
            having = np.flatnonzero(total)
            sums.update(
                zip(segment.keys[rows[having]].tolist(), total[having].tolist(), strict=True)
            )
        return sums

    def _read_terms(
        self, keys: Sequence[int]
    ) -> Iterator[tuple[Segment, NDArray[Any], NDArray[np.uint32 | np.uint16], NDArray[np.int64]]]:
        """Yield for each segment with some of these chunks: their rows, their terms, and where
        the run of each row and field ends among them."""
        wanted = np.array(sorted(set(keys)), dtype=np.int64)
        with reading(self._folder):
            for segment, living, _ in self._parts:
                live = living[_BODY]
                some = wanted[(wanted >= segment.keys[0]) & (wanted <= segment.keys[-1])]
                rows = segment.keys.searchsorted(some.astype(segment.keys.dtype))
                rows = rows[segment.keys[rows] == some]
                if live is not None:
                    rows = rows[live[rows]]
                if len(rows):
                    yield segment, rows, *segment.chunks.read(rows * CHUNK_FIELDS, CHUNK_FIELDS)

    def vocabulary(self, prefix: str = "", most: int | None = None) -> list[tuple[str, int]]:
        together: dict[bytes, int] = {}
        with reading(self._folder):
            counted = [_count_pages(part, prefix) for part in self._parts]
            if len(counted) == 1 and most is not None and len(counted[0][1]) > most:
                # Only the terms that can be among the most frequent are read.
                first, counts = counted[0]
                least = np.partition(counts, len(counts) - most)[len(counts) - most]
                counts[counts < least] = 0
            for part, (first, counts) in zip(self._parts, counted, strict=True):
                for at in np.flatnonzero(counts).tolist():
                    term = part.segment.term(first + at)
                    together[term] = together.get(term, 0) + int(counts[at])
        best = sorted(together.items(), key=lambda entry: (-entry[1], entry[0]))[:most]
        return [(term.decode("utf-8", "surrogatepass"), count) for term, count in best]


def _number_terms(segment: Segment, terms: Sequence[str]) -> dict[str, int]:
    """Return the numbers of those of the terms that a segment has."""
    numbers = {term: segment.number_of(term) for term in dict.fromkeys(terms)}
    return {term: number for term, number in numbers.items() if number is not None}


def _count_pages(part: Part, prefix: str) -> tuple[int, NDArray[np.int64]]:
    """Return the first term with this prefix, and for it and those behind it how many live
    documents have it in their text."""
    segment = part.segment
    written = prefix.encode("utf-8", "surrogatepass")
    first = segment.find_term(written) if prefix else 0
    last = segment.find_term(written + b"\xff") if prefix else segment.term_count
    begin, end = segment.lists.searchsorted(
        np.array((list_key(first), list_key(last)), dtype=np.uint64)
    ).tolist()
    keys = segment.lists[begin:end] >> np.uint64(SECTION_BITS)
    pages = (keys & np.uint64((1 << FIELD_BITS) - 1)) == PAGE
    owners = (keys >> np.uint64(FIELD_BITS)).astype(np.int64) - first
    counted = sizes(segment.list_starts[begin : end + 1])
    live = part.live[PAGE]
    if live is not None:
        rows = segment.read_rows(range(begin, end))
        which = np.repeat(pages, counted)
        counting = live[rows[which]]
        totals = np.bincount(np.repeat(owners, counted)[which][counting], minlength=last - first)
    else:
        totals = np.bincount(owners[pages], weights=counted[pages], minlength=last - first)
    return first, totals.astype(np.int64)


def _intersect(lists: list[NDArray[np.uint32]]) -> NDArray[np.uint32]:
    """Return the rows that are in all of these ascending lists."""
    shortest, *others = sorted(lists, key=len)
    for other in others:
        if not len(shortest):
            break
        at = other.searchsorted(shortest)
        at[at == len(other)] = 0
        shortest = shortest[other[at] == shortest]
    return shortest


def _match_in_order(
    read: NDArray[np.uint32 | np.uint16], ends: NDArray[np.int64], terms: Sequence[int], apart: int
) -> NDArray[np.int64]:
    """Return which runs have these terms in order, with at most ``apart`` others between."""
    here = starts = np.flatnonzero(read == terms[0])
    for step, term in enumerate(terms[1:], 1):
        # The next place of the term.
        places = np.flatnonzero(read == term)
        at = places.searchsorted(here, "right")
        inside = at < len(places)
        starts, here = starts[inside], places[at[inside]]
        fits = here - starts - step <= apart
        starts, here = starts[fits], here[fits]
    runs = ends.searchsorted(starts, "right")
    found: NDArray[np.int64] = runs[here < ends[runs]]
    return found
