"""Helpers for toolsets whose systems know one folder: a vault or a project.

Their paths cannot name a second folder, so a session over several folders is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lookfar.errors import InvalidArgument
from lookfar.model import Answer
from lookfar.serve.tools.tool import MOST_TOKENS, Json, Session
from lookfar.serve.toolsets.common import (
    count_tokens,
    describe_gaps,
    describe_hidden_characters,
)

if TYPE_CHECKING:
    from lookfar.collections.folder import Folder

WRITER_WAIT_SECONDS = 600.0
"""How long a call that updates the index waits for another writer."""

_REPORTED_REASONS = frozenset(("healed", "held", "no_model", "rebuilding", "stale"))
"""Reasons that can change an answer; the others are only in the status."""


def get_only_folder(session: Session, toolset: str) -> Folder:
    """Return the only folder, after applying settings that were edited."""
    library = session.library
    if len(library.collections) > 1:
        names = ", ".join(library.collections)
        raise InvalidArgument(
            f"The {toolset} tools work on one folder, and this server has several: {names}.",
            hint="Serve each folder on its own, or use the default tools.",
            details={"field": "", "value": None, "reason": "several folders are served"},
        )
    folder = library.folder()
    folder.settle()
    if not folder.building_since:  # A running pass of the watcher must end first.
        folder.following.restart_if_requested()
    return folder


def build_warning(answer: Answer, *reasons: str) -> str:
    """Describe why an answer may be wrong, and which texts contain hidden characters.

    ``reasons`` are reported in addition to the usual ones.
    """
    reported = _REPORTED_REASONS.union(reasons)
    gaps = describe_gaps(note for note in answer.incomplete if note.reason in reported)
    return " ".join(
        [*gaps, *describe_hidden_characters([(hit.uri, hit.text) for hit in answer.hits])]
    )


def format_utc(moment: str) -> str:
    """Return an ISO time in UTC, in whole seconds and ending in Z."""
    parsed = datetime.fromisoformat(moment).astimezone(UTC)
    return parsed.strftime("%Y-%m-%dT%H:%M:%SZ")


def fit_to_budget(
    rows: int, longest: int, render: Callable[[int, int], Json], budget: int = MOST_TOKENS
) -> Json:
    """Return ``render(rows, longest)``, reduced until it has at most ``budget`` tokens.

    First all texts are cut to one length; if that is not enough, the last rows are dropped.
    """
    full = render(rows, longest)
    if count_tokens(full) <= budget:
        return full
    length = _find_largest(longest - 1, lambda chars: render(rows, chars), budget)
    if length:
        return render(rows, length)
    return render(_find_largest(rows, lambda count: render(count, 0), budget), 0)


def _find_largest(high: int, render: Callable[[int], Json], budget: int) -> int:
    """Return the largest number up to ``high`` whose rendering fits, or 0."""
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        fits = count_tokens(render(middle)) <= budget
        low, high = (middle, high) if fits else (low, middle - 1)
    return low
