"""Scopes of an issuer's tokens, and the collections that they open.

With the prefix ``lookfar:``, these are the scopes:

    lookfar:read         read all collections
    lookfar:read:NAME    read one collection
    lookfar:write        change and read all collections
    lookfar:write:NAME   change and read one collection

Scopes add up. A character of a name that a scope may not contain is percent-encoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

_SAFE: Final = "!#$&'()*+,/:;=?@[]^`{|}~"
"""What a scope may contain besides letters, digits and ``_.-`` (RFC 6749, section 3.3)."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What scopes allow."""

    collections: tuple[str, ...]
    """The collections that may be read; empty means all."""
    may_write: bool
    writable: tuple[str, ...]
    """The collections that may be changed if ``may_write``; empty means all."""


def read_scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return the scopes of a token: of ``scope`` (RFC 9068) and ``scp``, as a text or a list."""
    found: set[str] = set()
    for name in ("scope", "scp"):
        value = claims.get(name)
        if isinstance(value, str):
            found.update(value.split(" "))
        elif isinstance(value, list):
            found.update(scope for scope in value if isinstance(scope, str))
    return frozenset(found - {""})


def resolve_reach(scopes: Iterable[str], prefix: str) -> Reach | None:
    """Return what scopes allow; ``None`` if that is nothing."""
    scopes = frozenset(scopes)
    writes_all = f"{prefix}write" in scopes
    reads_all = writes_all or f"{prefix}read" in scopes
    writable = _read_names(scopes, f"{prefix}write:")
    readable = writable | _read_names(scopes, f"{prefix}read:")
    if not reads_all and not readable:
        return None
    return Reach(
        () if reads_all else tuple(sorted(readable)),
        writes_all or bool(writable),
        () if writes_all else tuple(sorted(writable)),
    )


def name_write_scopes(collections: Sequence[str], prefix: str) -> str:
    """Return the scopes that allow changing these collections; none means all of them."""
    if not collections:
        return f"{prefix}write"
    return " ".join(f"{prefix}write:{quote(name, safe=_SAFE)}" for name in collections)


def _read_names(scopes: Iterable[str], start: str) -> frozenset[str]:
    names = (unquote(scope.removeprefix(start)) for scope in scopes if scope.startswith(start))
    return frozenset(name for name in names if name)
