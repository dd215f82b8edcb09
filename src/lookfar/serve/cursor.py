"""Where the next page begins: an opaque text that belongs to one call and no other.

Takes: what the call was about. Gives: a text, and from it the place again. Refuses: a
cursor of another call, or one that was tampered with.
"""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from lookfar.errors import InvalidArgument

_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Cursor:
    offset: int = 0
    generation: int = 0
    """The state that the pages are taken from; 0 where there is none to keep to."""

    def write(self, about: Any, kind: str) -> str:
        """The cursor as a caller gets it."""
        shape = [kind, self.offset, self.generation, _digest(about, kind)]
        text = json.dumps(shape, separators=(",", ":"))
        return urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def read(cls, text: str, about: Any, kind: str) -> Cursor:
        """A cursor as a caller sent it; an empty one is the beginning."""
        if not text:
            return cls()
        try:
            shape = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            named, offset, generation, digest = shape
            valid = named == kind and type(offset) is type(generation) is int
        except (binascii.Error, ValueError, TypeError, RecursionError):
            valid = False
        if not valid or offset < 0 or generation < 0:
            raise InvalidArgument(
                "This is not a cursor of Lookfar.", hint="Pass it exactly as the last page gave it."
            )
        if digest != _digest(about, kind):
            raise InvalidArgument(
                "This cursor belongs to another call, or what it pages through has changed.",
                hint="Begin again without a cursor.",
            )
        return cls(offset, generation)


def _digest(about: Any, kind: str) -> str:
    text = json.dumps([kind, about], sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:_DIGITS]
