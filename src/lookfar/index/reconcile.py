"""What changed: the disk compared with the store.

Takes: a walk and what the store knows. Gives: which files to read, which
documents are gone, which stay. Refuses: to call a file gone that the walk could
not look at, and to trust a fingerprint taken too soon after a write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lookfar.model import SourceFile
from lookfar.ports import Known, LeftOut
from lookfar.sources.fingerprints import unchanged
from lookfar.sources.folder.walk import Walk
from lookfar.text.parse.formats import format_of


@dataclass(frozen=True, slots=True)
class Request:
    """One file to look at, and the hash it had when it was last stored."""

    file: SourceFile
    raw_sha: bytes | None


@dataclass(frozen=True, slots=True)
class Changes:
    """The work that would make the store true to the disk."""

    read: tuple[Request, ...]
    """New files and files whose fingerprint moved, in URI order."""
    gone: tuple[str, ...]
    left: tuple[LeftOut, ...]
    """Files that were nothing to store before and have not changed since."""
    same: int
    without_parser: int

    @property
    def any(self) -> bool:
        return bool(self.read or self.gone)

    @property
    def bytes(self) -> int:
        return sum(request.file.fingerprint.size for request in self.read)


def compare(
    walk: Walk, known: Mapping[str, Known], left_out: Mapping[str, LeftOut] | None = None
) -> Changes:
    """Decide by fingerprint alone; nothing is opened. What failed before is tried again."""
    left_out = left_out or {}
    read: list[Request] = []
    left: list[LeftOut] = []
    present: set[str] = set()
    same = without_parser = 0
    for file in walk.files:
        before = known.get(file.uri)
        out = left_out.get(file.uri)
        if before is None and format_of(file.uri) is None:
            without_parser += 1
            continue
        present.add(file.uri)
        if before is None and out and not out.failed and _still(out, file):
            left.append(out)
        elif before is not None and _still(before, file):
            same += 1
        else:
            read.append(Request(file, before.raw_sha if before else None))
    gone = tuple(uri for uri in known if uri not in present and not walk.unseen(uri))
    return Changes(tuple(read), gone, tuple(left), same, without_parser)


def stale(
    changes: Changes,
    walk: Walk,
    known: Mapping[str, Known],
    left_out: Mapping[str, LeftOut],
) -> list[str]:
    """The URIs of which the store's picture is certainly not the disk's, sorted.

    A file that was written just before it was read is only suspected, and a failure
    that was recorded is known: neither is stale while its fingerprint stays.
    """
    moved = {
        request.file.uri
        for request in changes.read
        if all(
            each is None or not unchanged(each.fingerprint, request.file.fingerprint)
            for each in (known.get(request.file.uri), left_out.get(request.file.uri))
        )
    }
    failed = {uri for uri, each in left_out.items() if each.failed}
    seen = {file.uri for file in walk.files}
    unlisted = {uri or "." for uri in walk.unreadable}
    healed = {uri for uri in failed - seen - unlisted if not walk.unseen(uri)}
    return sorted(moved | set(changes.gone) | healed | (unlisted - failed))


def _still(before: Known | LeftOut, file: SourceFile) -> bool:
    return before.settled and unchanged(before.fingerprint, file.fingerprint)
