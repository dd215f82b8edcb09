"""Compare the disk with the store: which files to read, which documents are gone.

A file is never called gone if the walk could not look at it, and a fingerprint taken too soon
after a write is not trusted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from lookfar.common.skip_reasons import PARTLY
from lookfar.model import Fingerprint, Skipped, SourceFile
from lookfar.ports import Known, LeftOut, Store
from lookfar.sources.fingerprints import is_unchanged
from lookfar.sources.folder.policy import read_extension
from lookfar.sources.folder.walk import Walk
from lookfar.text.extract.formats import extractor_for, version_of
from lookfar.text.parse.formats import find_searched_end, is_readable

NO_FINGERPRINT = Fingerprint(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Request:
    """One file to read, and the hash it had when it was last stored."""

    file: SourceFile
    raw_sha: bytes | None


@dataclass(frozen=True, slots=True)
class Changes:
    """The work that brings the store up to date with the disk."""

    read: tuple[Request, ...]
    """New files and files with another fingerprint, in URI order."""
    gone: tuple[str, ...]
    left: tuple[LeftOut, ...]
    """Files that are too large, or were skipped before and have not changed since."""
    same: int
    without_parser: int

    @property
    def any(self) -> bool:
        return bool(self.read or self.gone)

    @property
    def bytes(self) -> int:
        return sum(request.file.fingerprint.size for request in self.read)


def choose_first(requests: Sequence[Request], most_bytes: int) -> tuple[Request, ...]:
    """Return the files that a first index reads first, of about so many bytes, in URI order.

    README files come first, then those near the top of the folder, the newest of each level first.
    A file that takes a large share of the room waits.
    """

    def rank(request: Request) -> tuple[bool, int, int]:
        uri, fingerprint = request.file.uri, request.file.fingerprint
        is_readme = uri.rpartition("/")[2].casefold().startswith("readme")
        return not is_readme, uri.count("/"), -fingerprint.mtime_ns

    chosen: list[Request] = []
    room = most_bytes
    for request in sorted(requests, key=rank):
        size = request.file.fingerprint.size
        if size <= min(room, most_bytes // 8):
            chosen.append(request)
            room -= size
    return tuple(sorted(chosen, key=lambda request: request.file.uri))


def name_extractor(uri: str) -> str:
    """Return name and version of the extractor for a file; empty if it has none.

    Documents store this, so that a new version of one extractor reads only its own files again.
    """
    row = extractor_for(uri)
    return f"{row.extensions[0][1:]} {version_of(row)}" if row is not None else ""


def compare(
    walk: Walk,
    known: Mapping[str, Known],
    left_out: Mapping[str, LeftOut] | None = None,
    *,
    any_text: bool = False,
) -> Changes:
    """Compare by fingerprint alone, without opening a file. Files that failed are tried again.

    Without ``any_text``, only files of known formats count.
    """
    left_out = left_out or {}
    read: list[Request] = []
    left: list[LeftOut] = []
    present: set[str] = set()
    size_limit = walk.memory.policy.size_limit
    same = without_parser = 0
    for file in walk.files:
        before = known.get(file.uri)
        skipped = left_out.get(file.uri)
        if not is_readable(file.uri, any_text):
            without_parser += 1
            continue
        if file.fingerprint.size > (limit := size_limit(file.uri)):
            detail = f"{file.fingerprint.size} bytes, limit {limit}"
            # Without its fingerprint, so that it is read as soon as the limit admits it.
            left.append(LeftOut(file.uri, False, "too_large", detail, NO_FINGERPRINT, False))
            continue
        if (end := find_searched_end(file.uri, file.fingerprint.size)) < file.fingerprint.size:
            detail = f"questions search its first {end} characters"
            left.append(LeftOut(file.uri, False, PARTLY, detail, NO_FINGERPRINT, False))
        present.add(file.uri)
        if before is None and skipped and not skipped.failed and _is_same(skipped, file):
            left.append(skipped)
        elif before is not None and not _is_extractor_current(before, file.uri):
            read.append(Request(file, None))  # Another version extracts another text.
        elif before is not None and _is_same(before, file):
            same += 1
        else:
            read.append(Request(file, before.raw_sha if before else None))
    gone = tuple(uri for uri in known if uri not in present and not walk.unseen(uri))
    return Changes(tuple(read), gone, tuple(left), same, without_parser)


def find_stale(
    changes: Changes,
    walk: Walk,
    known: Mapping[str, Known],
    left_out: Mapping[str, LeftOut],
) -> list[str]:
    """Return the URIs whose stored state certainly differs from the disk, sorted.

    A file that was written just before it was read is only suspect, and a recorded failure is
    known. Neither is stale while its fingerprint stays the same.
    """
    moved = {
        request.file.uri
        for request in changes.read
        if all(
            entry is None
            or not is_unchanged(entry.fingerprint, request.file.fingerprint)
            or not _is_extractor_current(entry, request.file.uri)
            for entry in (known.get(request.file.uri), left_out.get(request.file.uri))
        )
    }
    failed = {uri for uri, entry in left_out.items() if entry.failed}
    seen = {file.uri for file in walk.files}
    unlisted = {uri or "." for uri in walk.unreadable}
    healed = {uri for uri in failed - seen - unlisted if not walk.unseen(uri)}
    return sorted(moved | set(changes.gone) | healed | (unlisted - failed))


def _is_same(before: Known | LeftOut, file: SourceFile) -> bool:
    return (
        before.settled
        and is_unchanged(before.fingerprint, file.fingerprint)
        and _is_extractor_current(before, file.uri)
    )


def _is_extractor_current(before: Known | LeftOut, uri: str) -> bool:
    """Whether the extractor that read a file, or refused it, is the one that would do so now."""
    return before.extractor == name_extractor(uri)


MOST_EXAMPLES: Final = 5


class SkippedFiles(NamedTuple):
    """Skipped files by reason."""

    counts: dict[str, int]
    examples: dict[str, tuple[str, ...]]


def summarise_skipped(
    seen: Walk | None, left: Collection[LeftOut], without_parser: int = 0
) -> SkippedFiles:
    """Summarise what a walk skipped by name and what was skipped for its content."""
    counts = Counter(seen.skipped_counts if seen is not None else {})
    counts.update(entry.code for entry in left if not entry.failed)
    if without_parser:
        counts["no_parser"] += without_parser
    uris: dict[str, list[str]] = {}
    for skipped in list_skipped(seen, left):
        uris.setdefault(skipped.reason, []).append(skipped.uri)
    examples = {reason: _choose_examples(names) for reason, names in sorted(uris.items())}
    return SkippedFiles(dict(sorted(counts.items())), examples)


def summarise_stored(store: Store, seen: Walk | None) -> SkippedFiles:
    """Summarise what a walk skipped, and what the last pass into this store skipped."""
    return summarise_skipped(seen, load_left_out(store))


def load_left_out(store: Store) -> tuple[LeftOut, ...]:
    """Return the files that the last pass into this store did not index."""
    if not store.exists:
        return ()
    with store.snapshot() as snapshot:
        return tuple(snapshot.left_out().values())


def list_skipped(seen: Walk | None, left: Collection[LeftOut]) -> list[Skipped]:
    """Return every skipped file that is known by name, sorted by URI, but not files that failed."""
    entries = list(seen.skipped) if seen is not None else []
    entries += (Skipped(entry.uri, entry.code, entry.message) for entry in left if not entry.failed)
    return sorted(entries, key=lambda entry: entry.uri)


def _choose_examples(uris: Sequence[str]) -> tuple[str, ...]:
    """Return a few files, of different types as far as possible."""
    seen: Counter[str] = Counter()
    ranked: list[tuple[int, str]] = []
    for uri in uris:
        extension = read_extension(uri)
        ranked.append((seen[extension], uri))
        seen[extension] += 1
    return tuple(uri for _, uri in sorted(ranked)[:MOST_EXAMPLES])
