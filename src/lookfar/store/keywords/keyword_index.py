"""The keyword index of an epoch: a list of segments, replaced at each commit.

Texts are not analysed here: both indexed texts and queries pass through ``analyser`` first.

Like the vectors, the keyword index may be ahead of the catalogue but never behind it. It is
committed first, and the next writer drops documents that the catalogue does not have.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

import numpy as np

from lookfar.common.folders import list_folder
from lookfar.errors import LookfarError
from lookfar.store.ground import files
from lookfar.store.ground.headroom import require_memory
from lookfar.store.keywords.live_keywords import LiveKeywords, Part, reading
from lookfar.store.keywords.segment import Segment
from lookfar.store.keywords.segment_writer import SegmentBuffer, merge_segments

if TYPE_CHECKING:
    from lookfar.ports import Streams
    from lookfar.store.keywords.postings import Keys

KEYWORDS: Final = "words"
"""The folder of the index inside an epoch."""
LISTING: Final = "segments.json"
_SUFFIX: Final = ".words"
_MOST_BUFFERED: Final = 500_000
"""Terms that a writer buffers, at about 80 bytes each while they are sorted."""
_MOST_MERGED: Final = 16_000_000
"""The most terms of a merged segment: about 100,000 passages, which take some seconds."""
_SMALL: Final = 20_000
_TOGETHER: Final = 4
"""So many segments of about one size are merged."""
_MOST_REMOVED: Final = 0.2
"""The share of removed documents from which a segment is written again."""
_HEADROOM: Final = 300_000_000
"""Memory that writing and merging may need at once."""
_CHECKED_BYTES: Final = 1 << 24
"""How many bytes are checked when an index is opened: about 10 ms."""
_ATTEMPTS: Final = 100


class SegmentFile(NamedTuple):
    """A segment as a commit lists it."""

    name: str
    size: int
    checksum: int


class Listing(NamedTuple):
    """What a commit consists of."""

    stamp: int
    """Grows with every commit."""
    next: int
    """The number of the next segment; names are never used again."""
    segments: tuple[SegmentFile, ...]
    removed: tuple[int, ...]
    """Documents whose entries are still in segments, and do not count any more."""

    def encode(self) -> bytes:
        content = json.dumps(self._asdict(), separators=(",", ":"))
        return f'{{"checksum":{crc32(content.encode())},"content":{content}}}\n'.encode()


def read_listing(folder: Path) -> Listing:
    """Return what the last commit consists of; ``ValueError`` if the list is damaged."""
    data = (folder / LISTING).read_bytes()
    stored = json.loads(data)
    content = stored["content"]
    listing = Listing(
        content["stamp"],
        content["next"],
        tuple(SegmentFile(*segment) for segment in content["segments"]),
        tuple(content["removed"]),
    )
    if listing.encode() != data:
        raise ValueError(f"{LISTING}: its checksum differs")
    return listing


class KeywordView(NamedTuple):
    """The state of one commit; later commits and merges do not change it."""

    folder: Path
    stamp: int
    segments: tuple[Segment, ...]
    removed: frozenset[int]

    def live(self, dead: Collection[int], last: int) -> LiveKeywords:
        """Return the entries of documents up to ``last`` that are neither dead nor removed."""
        gone = np.array(sorted({*dead, *self.removed}), dtype=np.int64)
        parts: list[Part] = []
        with reading(self.folder):
            for segment in self.segments:
                counts = (segment.documents <= last) & ~np.isin(segment.documents, gone)
                if counts.all():
                    parts.append(Part.make(segment))
                elif counts.any():
                    rows = np.repeat(counts, segment.chunk_counts)
                    parts.append(Part.make(segment, counts, rows))
        return LiveKeywords(self.folder, parts)

    def read_streams(self, first: int, last: int) -> Iterator[tuple[int, int, Streams]]:
        """Yield number, first chunk and terms of each document from ``first`` to ``last``."""
        with reading(self.folder):
            for segment in self.segments:
                chosen = (segment.documents >= first) & (segment.documents <= last)
                if chosen.any():
                    yield from segment.read_streams(chosen)

    def find_entries(self) -> tuple[Keys, Keys]:
        """Return the number of each stored chunk, and that of its document."""
        with reading(self.folder):
            none = np.empty(0, dtype=np.int64)
            keys = [segment.keys for segment in self.segments]
            owners = [
                np.repeat(segment.documents, segment.chunk_counts) for segment in self.segments
            ]
            return np.concatenate([none, *keys]), np.concatenate([none, *owners])


class KeywordIndex:
    """The segments in one folder."""

    def __init__(self, folder: Path, *, create: bool = False, stamp: int = 0) -> None:
        """``stamp`` is that of a new index, before its first commit."""
        self._folder = folder
        self._reloading = Lock()
        self._segments: dict[str, Segment] = {}
        self._listing = Listing(stamp, 0, (), ())
        """What the writer's next commit will consist of."""
        self._buffer: SegmentBuffer | None = None
        self._flushed = 0
        if create:
            files.make_folder(folder, sync=False)
            files.write_atomic(folder / LISTING, self._listing.encode(), sync=False)
        self.view = self._open_view()
        """The state at the last reload; a reader keeps the view it began with."""

    def _open_view(self) -> KeywordView:
        with reading(self._folder):
            for attempt in range(_ATTEMPTS):
                listing = read_listing(self._folder)
                try:
                    segments = self._open_segments(listing)
                    break
                except FileNotFoundError:
                    # A writer merged it away meanwhile, and lists other segments by now.
                    if read_listing(self._folder) == listing or attempt == _ATTEMPTS - 1:
                        raise
            return KeywordView(self._folder, listing.stamp, segments, frozenset(listing.removed))

    def _open_segments(self, listing: Listing) -> tuple[Segment, ...]:
        opened: dict[str, Segment] = {}
        allowance = _CHECKED_BYTES
        for file in listing.segments:
            segment = self._segments.get(file.name)
            if segment is None:
                allowance -= file.size
                segment = self._open_segment(file, check=allowance >= 0)
            opened[file.name] = segment
        self._segments = opened
        return tuple(opened.values())

    def _open_segment(self, listed: SegmentFile, *, check: bool) -> Segment:
        """Open a segment; small ones are compared with their checksum, which is quick."""
        path = self._folder / listed.name
        if check and (why := describe_damage(path, listed)):
            raise ValueError(f"{listed.name}: {why}")
        segment = Segment(path)
        if segment.size != listed.size:
            raise ValueError(f"{listed.name}: it has {segment.size:,} of {listed.size:,} bytes")
        return segment

    def reload(self) -> None:
        """Make the last commit of any process visible."""
        with self._reloading:
            self.view = self._open_view()

    # --- writing ---

    def open_writer(self, known_documents: int) -> None:
        """Start writing; drop documents that a crashed writer left and the catalogue lacks."""
        require_memory(_HEADROOM)
        self.reload()
        with reading(self._folder):
            self._listing = read_listing(self._folder)
        self.remove_leftovers()
        self._buffer = SegmentBuffer()
        self._flushed = 0
        # Their numbers are given out again.
        beyond = {
            document
            for segment in self.view.segments
            for document in segment.documents[segment.documents > known_documents].tolist()
        }
        self._clear(beyond)

    def add(
        self,
        first_key: int,
        document: int,
        names: Sequence[str],
        entries: Sequence[Sequence[str]],
        sources: Sequence[int] = (),
        stored: int = 0,
        copied: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        """Add the chunks of one document under consecutive keys, and the document as a whole.

        ``sources`` has a hash of what each entry was read from. ``copied`` tells of chunks whose
        entry is empty which chunk of the document ``stored`` has their terms.
        """
        assert self._buffer is not None
        require_memory(_HEADROOM)
        with reading(self._folder):
            place = self._find_rows(stored) if copied else None
            self._buffer.add(first_key, document, names, entries, sources, copied, place)
        if len(self._buffer) >= _MOST_BUFFERED:
            self._flush()

    def list_sources(self, document: int) -> dict[int, int]:
        """Return the number of each chunk of a committed document by what it was read from."""
        place = self._find_rows(document)
        if place is None:
            return {}
        segment, rows = place
        sources = segment.sources[rows.start : rows.stop].tolist()
        return {source: number for number, source in enumerate(sources) if source}

    def _find_rows(self, document: int) -> tuple[Segment, range] | None:
        """Return the segment that has the chunks of a document, and their rows."""
        for segment in self.view.segments:
            if rows := segment.rows_of(document):
                return segment, rows
        return None

    def _flush(self) -> None:
        if self._buffer is not None and not self._buffer.is_empty:
            written = self._write_segment(self._buffer.encode())
            self._listing = self._listing._replace(segments=(*self._listing.segments, written))
            self._buffer = SegmentBuffer()
            self._flushed += 1

    def _write_segment(self, pieces: Iterable[bytes | memoryview]) -> SegmentFile:
        name = f"{self._listing.next}{_SUFFIX}"
        self._listing = self._listing._replace(next=self._listing.next + 1)
        size = checksum = 0

        def measure() -> Iterator[bytes | memoryview]:
            nonlocal size, checksum
            for piece in pieces:
                size, checksum = size + len(piece), crc32(piece, checksum)
                yield piece

        files.write_pieces(self._folder / name, measure())
        return SegmentFile(name, size, checksum)

    def remove_documents(self, documents: Iterable[int]) -> None:
        """Let these documents no longer count; merges leave their entries out."""
        removed = {*self._listing.removed, *documents}
        self._listing = self._listing._replace(removed=tuple(sorted(removed)))

    def commit(self) -> int:
        """Make everything since the last commit durable; return the stamp to record."""
        self._flush()
        self._publish(self._listing._replace(stamp=self._listing.stamp + 1))
        return self._listing.stamp

    def _publish(self, listing: Listing) -> None:
        files.write_atomic(self._folder / LISTING, listing.encode())
        self._listing = listing

    def abandon(self) -> None:
        """Discard everything since the last commit; the next writer removes its files."""
        self._buffer = None

    def close_writer(self) -> None:
        """Merge what is small. If that fails it does no harm: the next writer tries it again."""
        if self._buffer is None:
            return
        self._buffer = None
        with suppress(LookfarError, OSError, MemoryError):
            self.reload()
            self._merge()
            self.remove_leftovers()

    def _merge(self) -> None:
        """Merge the last segments if there are several of about one size, and those of a long pass;
        write a segment again of which much was removed."""
        count = len(self._listing.segments)
        first = self._find_run()
        if self._flushed > 1 or count - first >= _TOGETHER:
            # What one pass has written comes together, whatever the size of its parts.
            first, last = min(first, count - self._flushed), count
            while last > first:
                begin = last - 1
                terms = self.view.segments[begin].token_count
                while begin > first and terms < _MOST_MERGED:
                    terms += self.view.segments[begin - 1].token_count
                    begin -= terms <= _MOST_MERGED
                if begin < last - 1:
                    self._replace(begin, last)
                last = begin
        removed = np.array(self._listing.removed, dtype=np.int64)
        for at, segment in reversed([*enumerate(self.view.segments)]):
            gone = int(np.isin(segment.documents, removed).sum())
            if gone > _MOST_REMOVED * len(segment.documents):
                self._replace(at, at + 1)

    def _find_run(self) -> int:
        """Return where the segments begin of which none is much larger than those behind it."""
        segments, behind = self.view.segments, 0
        for at in range(len(segments) - 1, -1, -1):
            terms = segments[at].token_count
            if behind and terms > max(_SMALL, _TOGETHER * behind):
                return at + 1
            behind += terms
            if behind > _MOST_MERGED:
                return at + 1
        return 0

    def _clear(self, gone: Collection[int]) -> None:
        """Write every segment again that has one of these documents, without them."""
        self._listing = self._listing._replace(
            removed=tuple(sorted({*self._listing.removed, *gone}))
        )
        among = np.array(sorted(gone), dtype=np.int64)
        for at, segment in reversed([*enumerate(self.view.segments)]):
            if np.isin(segment.documents, among).any():
                self._replace(at, at + 1)

    def _replace(self, first: int, last: int) -> None:
        """Put one segment, or none, in the place of those from ``first`` to ``last``."""
        segments, removed = self.view.segments, set(self._listing.removed)
        chosen = segments[first:last]
        empty = all(removed.issuperset(segment.documents.tolist()) for segment in chosen)
        merged = [] if empty else [self._write_segment(merge_segments(chosen, removed))]
        left = {
            document
            for segment in (*segments[:first], *segments[last:])
            for document in removed.intersection(segment.documents.tolist())
        }
        listed = self._listing.segments
        self._publish(
            self._listing._replace(
                segments=(*listed[:first], *merged, *listed[last:]), removed=tuple(sorted(left))
            )
        )
        self.reload()

    def rewrite(self, known_documents: int, gone: Collection[int]) -> int:
        """Write every segment again that has entries of removed documents or of those ``gone``,
        so that none of their terms is left in the files; return the new stamp."""
        self.open_writer(known_documents)
        try:
            self.remove_documents(gone)
            stamp = self.commit()
            self._clear(self._listing.removed)
            self.reload()
            self.remove_leftovers()
            files.sync_folder(self._folder)
        finally:
            self.abandon()
        return stamp

    def remove_leftovers(self) -> None:
        """Remove files that the last commit does not list; the caller holds the lock."""
        with reading(self._folder):
            listed = {file.name for file in read_listing(self._folder).segments}
        for path in list_folder(self._folder):
            if path.name not in listed and path.name != LISTING:
                # On Windows a reader may still map it; the next call tries again.
                with suppress(LookfarError):
                    files.remove(path)


def describe_damage(path: Path, listed: SegmentFile) -> str:
    """Compare a segment with what its commit says of it; describe any difference."""
    size = checksum = 0
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            size, checksum = size + len(piece), crc32(piece, checksum)
    if size != listed.size:
        return f"it has {size:,} of {listed.size:,} bytes"
    return "" if checksum == listed.checksum else "its checksum differs"


def find_file_damage(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the name of each damaged file of the last commit, and what is wrong with it."""
    try:
        listing = read_listing(folder)
        for file in listing.segments:
            try:
                why = describe_damage(folder / file.name, file)
            except OSError as error:
                why = error.strerror or str(error)
            # A writer may have merged it away meanwhile.
            if why and file in read_listing(folder).segments:
                yield file.name, why
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        yield LISTING, f"{type(error).__name__}: {error}"
