"""Compare the index with the disk for a query, and update a few changed files first.

A query never waits for more than ``index.max_auto_files`` files, usually a few; what stays stale
becomes a note in the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lookfar.errors import IndexBusy, IOFailed, ModelUnavailable, how_many
from lookfar.freshness.inventory import Inventory
from lookfar.freshness.look import look
from lookfar.index.reconcile import Changes, compare, find_stale
from lookfar.model import Incomplete
from lookfar.ports import CollectionSnapshot, Known, LeftOut
from lookfar.sources.confine import Root
from lookfar.sources.folder.ignore import Ignores
from lookfar.sources.folder.policy import Policy
from lookfar.sources.folder.walk import Walk, walk

FEW_FILES = 32
_FEW_BYTES = 2_000_000
_MOST_NAMED = 100

MOST_CHECKED = 5_000
"""Documents above which the comparison with the disk is limited in time."""
BUDGET_SECONDS = 1.0
"""How long a query compares a larger folder with the disk."""

_LONGEST_WAIT = 60.0


def patience(seconds: float, most: int) -> float:
    """Return how long a query may wait for ``most`` files to be indexed; usually ``seconds``."""
    return min(max(_LONGEST_WAIT, seconds), seconds * max(1.0, most / FEW_FILES))


UNCHECKED = Incomplete(
    "unchecked",
    "this folder is too large to compare with the disk in the time of a query; run: lookfar index",
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
    indexed: bool = False
    """Whether a pass has indexed what was stale."""

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


def is_few(stale: Sequence[str], size: int, most: int) -> bool:
    """Whether a query may wait until these files are indexed, ``size`` bytes in all."""
    return 0 < len(stale) <= most and size <= _FEW_BYTES * max(1, most // FEW_FILES)


def ensure(
    root: Root,
    policy: Policy,
    known: Mapping[str, Known],
    left_out: Mapping[str, LeftOut],
    update: Callable[[Walk], object],
    before: Walk | None,
    most: int = FEW_FILES,
    deadline: float = math.inf,
) -> Freshness:
    """Compare the disk with the store, and index the changes with ``update`` if they are few.

    ``OutOfTime`` if the walk does not end before the deadline.
    """
    walked = walk(root, policy, before=before, deadline=deadline)
    changes, moved = differences(walked, known, left_out, policy)
    if is_few(moved, changes.bytes, most):
        # If the index cannot be updated now, answer from it as it is, with a note.
        with suppress(IndexBusy, IOFailed, ModelUnavailable):
            update(walked)
            return Freshness((), walked, indexed=True)
    return Freshness(moved, walked)


# -- by inventory ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the disk differs from the store."""

    stale: tuple[str, ...]
    size: int
    """Bytes of the changed files."""
    unexamined: int
    """Folders and files that were not compared in time."""


def look_for_changes(
    root: Root,
    policy: Policy,
    inventory: Inventory,
    outer: Ignores | None,
    changed: Collection[str],
    snapshot: CollectionSnapshot,
    deadline: float = math.inf,
) -> Outcome | None:
    """Compare the disk with a store that agrees with an inventory, except for ``changed``.

    ``outer`` are the ignore rules from above the root. None where only a walk can tell.
    """
    differing = look(root, policy, inventory, outer, besides=changed, deadline=deadline)
    if differing is None:
        return None
    seen = differing.walk
    if not differing.names and not seen.unreadable:
        return Outcome((), 0, differing.unexamined)
    examined = differing.names.union(uri or "." for uri in seen.unreadable)
    known, left_out = snapshot.known(differing.names), snapshot.left_out(examined)
    changes, stale = differences(seen, known, left_out, policy)
    return Outcome(stale, changes.bytes, differing.unexamined)
