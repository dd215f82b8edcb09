"""What changed: the disk compared with the store.

Takes: a walk and what the store knows. Gives: which files to read, which
documents are gone, which stay. Refuses: to call a file gone that the walk could
not look at, and to trust a fingerprint taken too soon after a write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lookfar.index.worker import Request
from lookfar.parse.formats import parser_for
from lookfar.ports import Known
from lookfar.sources.fingerprints import unchanged
from lookfar.sources.walk import Walk


@dataclass(frozen=True, slots=True)
class Changes:
    """The work that would make the store true to the disk."""

    read: tuple[Request, ...]
    """New files and files whose fingerprint moved, in URI order."""
    gone: tuple[str, ...]
    same: int
    without_parser: int

    @property
    def any(self) -> bool:
        return bool(self.read or self.gone)

    @property
    def bytes(self) -> int:
        return sum(request.file.fingerprint.size for request in self.read)


def compare(walk: Walk, known: Mapping[str, Known]) -> Changes:
    """Decide by fingerprint alone; nothing is opened."""
    read: list[Request] = []
    present: set[str] = set()
    same = without_parser = 0
    for file in walk.files:
        before = known.get(file.uri)
        if before is None:
            if parser_for(file.uri) is None:
                without_parser += 1
                continue
            read.append(Request(file, None))
        elif before.settled and unchanged(before.fingerprint, file.fingerprint):
            same += 1
        else:
            read.append(Request(file, before.raw_sha))
        present.add(file.uri)
    gone = tuple(uri for uri in known if uri not in present and not walk.unseen(uri))
    return Changes(tuple(read), gone, same, without_parser)
