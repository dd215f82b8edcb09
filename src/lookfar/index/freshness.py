"""Compare the index with the disk for a query, and update a few changed files first.

A query never waits for more than ``index.max_auto_files`` files, usually a few; what stays stale
becomes a note in the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lookfar.errors import IndexBusy, IOFailed, ModelUnavailable, how_many
from lookfar.index.reconcile import Changes, compare, find_stale
from lookfar.model import Incomplete
from lookfar.ports import Known, LeftOut
from lookfar.sources.confine import Root
from lookfar.sources.folder.policy import Policy
from lookfar.sources.folder.walk import Walk, walk

FEW_FILES = 32
_FEW_BYTES = 2_000_000
_MOST_NAMED = 100

MOST_CHECKED = 5_000
"""Documents above which a query is not delayed by a comparison with the disk."""

_LONGEST_WAIT = 60.0


def most_checked(most: int) -> int:
    """Return how many documents a query compares with the disk at most.

    Who lets a query index ``most`` files, more than usual, also wants them compared.
    """
    return max(MOST_CHECKED, most if most > FEW_FILES else 0)


def patience(seconds: float, most: int) -> float:
    """Return how long a query may wait that may wait for ``most`` files; usually ``seconds``."""
    return min(max(_LONGEST_WAIT, seconds), seconds * max(1.0, most / FEW_FILES))


UNCHECKED = Incomplete(
    "unchecked",
    "this folder is too large to compare with the disk for every query; run: lookfar index",
)


NOT_THIS_TIME = Incomplete(
    "unchecked",
    "the folder was not compared with the disk for this search; see index.check_every_searches",
)
UNPROVED = Incomplete(
    "unchecked",
    "this system cannot confirm that the file watcher saw every change; to be sure, run:"
    " lookfar index",
)
FOLLOWING = Incomplete(
    "stale", "many files changed since the last indexing; they are being compared with the disk"
)


@dataclass(frozen=True, slots=True)
class Freshness:
    """The stale files, and the walk that speeds up the next check."""

    stale: tuple[str, ...]
    walk: Walk

    def notes(self) -> list[Incomplete]:
        return stale_notes(self.stale)


def stale_notes(uris: Sequence[str]) -> list[Incomplete]:
    if not uris:
        return []
    detail = f"{how_many(len(uris), 'file')} changed since the last indexing"
    return [Incomplete("stale", detail, tuple(uris[:_MOST_NAMED]))]


def differences(
    walked: Walk, known: Mapping[str, Known], left_out: Mapping[str, LeftOut], policy: Policy
) -> tuple[Changes, tuple[str, ...]]:
    """Return the changes between disk and store, and the stale URIs."""
    changes = compare(walked, known, left_out, any_text=policy.any_text)
    return changes, tuple(find_stale(changes, walked, known, left_out))


def ensure(
    root: Root,
    policy: Policy,
    known: Mapping[str, Known],
    left_out: Mapping[str, LeftOut],
    update: Callable[[Walk], object],
    before: Walk | None,
    most: int = FEW_FILES,
) -> Freshness:
    """Compare the disk with the store, and index the changes with ``update`` if they are few."""
    walked = walk(root, policy, before=before)
    changes, moved = differences(walked, known, left_out, policy)
    if moved and len(moved) <= most and changes.bytes <= _FEW_BYTES * max(1, most // FEW_FILES):
        # If the index cannot be updated now, answer from it as it is, with a note.
        with suppress(IndexBusy, IOFailed, ModelUnavailable):
            update(walked)
            moved = ()
    return Freshness(moved, walked)
