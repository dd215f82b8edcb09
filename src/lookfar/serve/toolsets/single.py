"""What the toolsets of other systems share: one folder, and results of a bearable size.

Takes: a session and rows of a result. Gives: its only folder, and the rows cut to what a
reader can bear. Refuses: a session over several folders, since the systems whose tools
these are know one vault or one project and their paths name no other.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lookfar.errors import InvalidArgument
from lookfar.model import Answer
from lookfar.serve.tools.tool import MOST_TOKENS, Json, Session
from lookfar.serve.toolsets.common import admitted, cost, flagged

if TYPE_CHECKING:
    from lookfar.collections.folder import Folder

PATIENCE = 600.0
"""Seconds that a call which was told to wait waits for another writer."""

_TELLING = frozenset(("healed", "held", "no_model", "rebuilding", "stale"))
"""What makes an answer another one than was asked for; the rest is in the status."""


def only_folder(session: Session, toolset: str) -> Folder:
    """The folder that a session is about."""
    library = session.library
    if len(library.collections) > 1:
        names = ", ".join(library.collections)
        raise InvalidArgument(
            f"The tools of {toolset} are about one folder, and this server has several: {names}.",
            hint="Serve each folder on its own, or use the default tools.",
            details={"field": "", "value": None, "reason": "several folders are served"},
        )
    return library.folder()


def worth_saying(answer: Answer) -> str:
    """What a reader must know of an answer: why it may be wrong, and texts that may mislead."""
    told = admitted(each for each in answer.incomplete if each.reason in _TELLING)
    return " ".join([*told, *flagged([(hit.uri, hit.text) for hit in answer.hits])])


def utc(moment: str) -> str:
    """An ISO moment as these systems write it: whole seconds and a Z."""
    then = datetime.fromisoformat(moment).astimezone(UTC)
    return then.strftime("%Y-%m-%dT%H:%M:%SZ")


def fitting(rows: int, longest: int, render: Callable[[int, int], Json]) -> Json:
    """``render(rows, longest)``, bearable: its texts cut to a common length where they have to
    be, and where even that does not do, rows left out at the end.
    """
    whole = render(rows, longest)
    if cost(whole) <= MOST_TOKENS:
        return whole
    length = _most(longest - 1, lambda chars: render(rows, chars))
    if length:
        return render(rows, length)
    return render(_most(rows, lambda some: render(some, 0)), 0)


def _most(high: int, render: Callable[[int], Json]) -> int:
    """The largest number up to ``high`` whose rendering is bearable; 0 if none is."""
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        bearable = cost(render(middle)) <= MOST_TOKENS
        low, high = (middle, high) if bearable else (low, middle - 1)
    return low
