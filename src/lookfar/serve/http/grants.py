"""What a request may do, whichever kind of token it came with."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lookfar.serve.http.statuses import ScopeTooSmall
from lookfar.serve.http.tokens import Token
from lookfar.serve.tools.tool import REACHABLE


@dataclass(frozen=True, slots=True)
class WriteHelp:
    """How to get a token for a call that makes changes."""

    hint: str
    challenge: str
    """The ``WWW-Authenticate`` header."""


_HELP: Final = WriteHelp(
    "Use a token that may write: lookfar tokens add NAME --write", ScopeTooSmall.challenge
)


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a token. Only the owner who began an MCP session may use it."""

    client_id: str
    issuer: str | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """What the token of a request allows."""

    client: str
    """Names the client in the log and for rate limits."""
    owner: Owner
    may_write: bool = False
    collections: tuple[str, ...] = ()
    """The collections that may be read; empty means all."""
    writable: tuple[str, ...] = ()
    """Of these, the ones that may be changed if ``may_write``; empty means all."""
    expires: float = math.inf
    """When it ends, in seconds since 1970."""
    token: Token | None = None
    """The record of a token that ``lookfar tokens`` manages."""
    explain_write: Callable[[str], WriteHelp] = lambda _: _HELP
    """Returns how to get a token that may change a folder; ``""`` means all that it may read."""

    @property
    def reads_more(self) -> bool:
        """Whether it may read something that it may not change."""
        return not self.may_write or (bool(self.writable) and self.writable != self.collections)

    def limit_reach(self, *, changes: bool) -> None:
        """Limit the current task and those it starts to the collections that this grant allows."""
        REACHABLE.set(self.writable if changes else self.collections)


def grant_for(token: Token) -> Grant:
    """Return what a token of ``lookfar tokens`` allows."""
    # A name may be reused for a token with less access, so the whole record identifies the owner.
    owner = Owner(repr((token.name, token.sha256, token.collections)))
    return Grant(
        token.name, owner, token.may_write, token.collections, token.collections, token=token
    )
