"""Cursors: short texts that continue a call on its next page, alone or with its arguments.

search-8.5-12-3f9a1c2b77aa      kind, offsets, generation, digest of the call
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from lookfar.errors import InvalidArgument
from lookfar.model import Incomplete
from lookfar.serve.show.printable import safe_name
from lookfar.serve.tools.tool import Input, Json, Session

_DIGITS = 12
_FORM = re.compile(r"([a-z]{1,20})-(\d{1,6}(?:\.\d{1,6}){0,19})-(\d{1,12})-([0-9a-f]{12})")
_MOST_REMEMBERED = 64
"""How many calls a client session remembers, so that a cursor alone continues them."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in the result of a call."""

    offsets: tuple[int, ...] = (0,)
    """One offset for each question of the call."""
    generation: int = 0
    """The generation that all pages come from, or 0."""

    @property
    def offset(self) -> int:
        return self.offsets[0]

    def write(self, about: Any, kind: str) -> str:
        """Format the cursor for the caller."""
        offsets = ".".join(map(str, self.offsets))
        return f"{kind}-{offsets}-{self.generation}-{_digest(about, kind)}"

    @classmethod
    def read(cls, text: str, about: Any, kind: str) -> Cursor:
        """Parse a cursor from the caller; an empty text is the first page."""
        if not text:
            return cls()
        named, offsets, generation, digest = _parse(text)
        if named != kind or digest != _digest(about, kind):
            raise InvalidArgument(
                "This cursor is from another call, or the document has changed.",
                hint="Start again without a cursor.",
            )
        return cls(tuple(map(int, offsets.split("."))), int(generation))


def remember_call(
    memory: MutableMapping[str, Any], cursor: str, arguments: Mapping[str, Any]
) -> None:
    """Keep the arguments of a call, so that its cursor alone continues it."""
    _remember(memory, _parse(cursor)[3], arguments)


def _remember(memory: MutableMapping[str, Any], digest: str, arguments: Mapping[str, Any]) -> None:
    calls = memory.setdefault("cursors", {})
    calls.pop(digest, None)
    calls[digest] = dict(arguments)
    while len(calls) > _MOST_REMEMBERED:
        calls.pop(next(iter(calls)))


def take_calls(memory: MutableMapping[str, Any]) -> dict[str, Json]:
    """Return the remembered calls, and forget them: another process will remember them."""
    calls: dict[str, Json] = memory.pop("cursors", {})
    return calls


def merge_calls(memory: MutableMapping[str, Any], calls: Mapping[str, Json]) -> None:
    """Remember calls that a reader process answered."""
    for digest, arguments in calls.items():
        _remember(memory, digest, arguments)


def recall_call(memory: Mapping[str, Any], cursor: str) -> dict[str, Any]:
    """Return the arguments of the call that a cursor continues."""
    arguments = memory.get("cursors", {}).get(_parse(cursor)[3])
    if arguments is None:
        raise InvalidArgument(
            "This client session does not remember the call of this cursor.",
            hint="Send the arguments of that call together with the cursor.",
        )
    return dict(arguments)


def _parse(text: str) -> tuple[str, str, str, str]:
    match = _FORM.fullmatch(text)
    if match is None:
        raise InvalidArgument(
            "This is not a cursor of Lookfar.", hint="Pass it exactly as the last page returned it."
        )
    kind, offsets, generation, digest = match.groups()
    return kind, offsets, generation, digest


def _digest(about: Any, kind: str) -> str:
    text = json.dumps([kind, about], sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:_DIGITS]


SEARCH_CURSOR = "search"
"""The kind of cursor that continues a search."""


def next_page(
    session: Session, given: Input, about: Json, reached: tuple[int, ...], states: Mapping[str, int]
) -> str:
    """Return a cursor that continues a search after this page, and remember the call.

    ``states`` are the generations that answered. If there is only one, it answers all pages.
    """
    generation = next(iter(states.values())) if len(states) == 1 else 0
    cursor = Cursor(reached, generation).write(about, SEARCH_CURSOR)
    arguments = given.model_dump(exclude={"cursor", "budget"}, exclude_unset=True)
    remember_call(session.memory, cursor, arguments)
    return cursor


def missing_lines(notes: Iterable[Incomplete]) -> list[str]:
    """Format notes on what may be missing from an answer, without duplicates."""
    return [safe_name(str(note)) for note in dict.fromkeys(notes)]
