"""Where the next page begins: a short text that belongs to one call and no other.

Takes: what a call was about, and what a client session remembers. Gives: a text, and from it the
place and the arguments again, so that a cursor alone continues a call. Refuses: a cursor of
another call, one that was changed, and one whose call this client session does not remember.

    search-8.5-12-3f9a1c2b77aa      kind, offsets, generation, digest of the call
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from lookfar.errors import InvalidArgument

_DIGITS = 12
_FORM = re.compile(r"([a-z]{1,20})-(\d{1,6}(?:\.\d{1,6}){0,9})-(\d{1,12})-([0-9a-f]{12})")
_MOST_REMEMBERED = 64
"""Calls of one client session that can be continued by a cursor alone."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in the result of a call."""

    offsets: tuple[int, ...] = (0,)
    """One for each question of the call."""
    generation: int = 0
    """The generation that the pages are taken from; 0 where there is none to keep to."""

    @property
    def offset(self) -> int:
        return self.offsets[0]

    def write(self, about: Any, kind: str) -> str:
        """The cursor as a caller gets it."""
        offsets = ".".join(map(str, self.offsets))
        return f"{kind}-{offsets}-{self.generation}-{_digest(about, kind)}"

    @classmethod
    def read(cls, text: str, about: Any, kind: str) -> Cursor:
        """A cursor as a caller sent it; an empty one is the beginning."""
        if not text:
            return cls()
        named, offsets, generation, digest = _parsed(text)
        if named != kind or digest != _digest(about, kind):
            raise InvalidArgument(
                "This cursor belongs to another call, or what it pages through has changed.",
                hint="Begin again without a cursor.",
            )
        return cls(tuple(map(int, offsets.split("."))), int(generation))


def remember_call(
    memory: MutableMapping[str, Any], cursor: str, arguments: Mapping[str, Any]
) -> None:
    """Keep the arguments of a call, so that its cursor alone continues it."""
    calls = memory.setdefault("cursors", {})
    digest = _parsed(cursor)[3]
    calls.pop(digest, None)
    calls[digest] = dict(arguments)
    while len(calls) > _MOST_REMEMBERED:
        calls.pop(next(iter(calls)))


def recall_call(memory: Mapping[str, Any], cursor: str) -> dict[str, Any]:
    """The arguments of the call that a cursor continues."""
    arguments = memory.get("cursors", {}).get(_parsed(cursor)[3])
    if arguments is None:
        raise InvalidArgument(
            "This client session does not remember the call that the cursor continues.",
            hint="Send the arguments of that call together with the cursor.",
        )
    return dict(arguments)


def _parsed(text: str) -> tuple[str, str, str, str]:
    match = _FORM.fullmatch(text)
    if match is None:
        raise InvalidArgument(
            "This is not a cursor of Lookfar.", hint="Pass it exactly as the last page gave it."
        )
    kind, offsets, generation, digest = match.groups()
    return kind, offsets, generation, digest


def _digest(about: Any, kind: str) -> str:
    text = json.dumps([kind, about], sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:_DIGITS]
