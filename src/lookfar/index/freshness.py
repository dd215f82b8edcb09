"""Is the index true to the disk right now? And if not, can it be made so at once?

Takes: a build to run and the last walk. Gives: what is stale after doing what is
quick. Refuses: to make a question wait for more than a few files, and to stay
silent about what it left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lookfar.errors import IndexBusy, IOFailed, ModelUnavailable, how_many
from lookfar.index.reconcile import Changes, compare, find_stale
from lookfar.model import Incomplete
from lookfar.sources.folder.walk import Walk, walk

if TYPE_CHECKING:
    from lookfar.ports import Known, LeftOut
    from lookfar.sources.confine import Root
    from lookfar.sources.folder.policy import Policy

FEW_FILES = 32
_FEW_BYTES = 2_000_000
_MOST_NAMED = 100

MOST_CHECKED = 5_000
"""Documents above which a question does not wait for a look at the disk."""

UNCHECKED = Incomplete(
    "unchecked",
    "this folder is too large to compare with the disk at every question; run: lookfar index",
)


NOT_THIS_TIME = Incomplete(
    "unchecked",
    "the folder was not compared with the disk for this search; see index.check_every_searches",
)
UNPROVED = Incomplete(
    "unchecked",
    "the folder is followed and nothing is known to wait, but here nobody can tell that every"
    " change was noticed; run: lookfar index",
)
FOLLOWING = Incomplete(
    "stale", "many files changed since the last indexing; they are being compared with the disk"
)


@dataclass(frozen=True, slots=True)
class Freshness:
    """What a check found, and the walk to hand to the next one."""

    stale: tuple[str, ...]
    walk: Walk

    def notes(self) -> list[Incomplete]:
        """What an answer has to admit."""
        return stale_notes(self.stale)


def stale_notes(uris: Sequence[str]) -> list[Incomplete]:
    """The note that names what an answer does not know yet."""
    if not uris:
        return []
    detail = f"{how_many(len(uris), 'file')} changed since the last indexing"
    return [Incomplete("stale", detail, tuple(uris[:_MOST_NAMED]))]


def differences(
    walked: Walk, known: Mapping[str, Known], left_out: Mapping[str, LeftOut]
) -> tuple[Changes, tuple[str, ...]]:
    """The changes between disk and store, and the URIs they concern."""
    changes = compare(walked, known, left_out)
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
    """Compare the disk with the store, and bring a few changed files up to date first."""
    walked = walk(root, policy, before=before)
    changes, moved = differences(walked, known, left_out)
    if moved and len(moved) <= most and changes.bytes <= _FEW_BYTES:
        # Someone else may be writing, or nobody can, or the model is away: answer from what
        # there is, and say so.
        with suppress(IndexBusy, IOFailed, ModelUnavailable):
            update(walked)
            moved = ()
    return Freshness(moved, walked)
