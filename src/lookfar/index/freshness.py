"""Is the index true to the disk right now? And if not, can it be made so at once?

Takes: a build to run and the last walk. Gives: what is stale after doing what is
quick. Refuses: to make a question wait for more than a few files, and to stay
silent about what it left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lookfar.errors import IndexBusy, IOFailed
from lookfar.index.reconcile import Changes, compare
from lookfar.model import Incomplete
from lookfar.sources.walk import Walk, walk

if TYPE_CHECKING:
    from lookfar.ports import Known
    from lookfar.sources.confine import Root
    from lookfar.sources.policy import Policy

_FEW_FILES = 32
_FEW_BYTES = 2_000_000
_MOST_CHECKED = 5_000
_MOST_NAMED = 100


@dataclass(frozen=True, slots=True)
class Freshness:
    """What a check found, and the walk to hand to the next one."""

    stale: tuple[str, ...]
    checked: bool
    walk: Walk | None

    def notes(self) -> list[Incomplete]:
        """What an answer has to admit."""
        found: list[Incomplete] = []
        if not self.checked:
            detail = "this folder is too large to compare with the disk at every question"
            found.append(Incomplete("unchecked", f"{detail}; run: lookfar index"))
        if self.stale:
            count = len(self.stale)
            detail = f"{count:,} file{'s' * (count > 1)} changed since the last indexing"
            found.append(Incomplete("stale", detail, self.stale[:_MOST_NAMED]))
        return found


def differences(walked: Walk, known: Mapping[str, Known]) -> tuple[Changes, tuple[str, ...]]:
    """The changes between disk and store, and the URIs they concern."""
    changes = compare(walked, known)
    moved = [
        request.file.uri
        for request in changes.read
        if request.file.uri not in known
        or known[request.file.uri].fingerprint != request.file.fingerprint
    ]
    return changes, tuple(sorted((*moved, *changes.gone)))


def ensure(
    root: Root,
    policy: Policy,
    known: Mapping[str, Known],
    update: Callable[[Walk], object],
    before: Walk | None,
) -> Freshness:
    """Compare the disk with the store, and bring a few changed files up to date first."""
    if len(known) > _MOST_CHECKED:
        return Freshness((), checked=False, walk=before)
    walked = walk(root, policy, before=before)
    changes, stale = differences(walked, known)
    if not stale:
        return Freshness((), checked=True, walk=walked)
    if len(stale) <= _FEW_FILES and changes.bytes <= _FEW_BYTES:
        try:
            update(walked)
        except (IndexBusy, IOFailed):
            # Someone else is writing, or nobody can: answer from what there is, and say so.
            return Freshness(stale, checked=True, walk=walked)
        return Freshness((), checked=True, walk=walked)
    return Freshness(stale, checked=True, walk=walked)
