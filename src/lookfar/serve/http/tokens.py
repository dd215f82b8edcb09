"""Who may ask a server over HTTP: tokens that may read, or read and write, all or some.

Takes: a file of tokens, and those that the environment gives (``LOOKFAR_TOKENS``: each may
read, or write too with ``write:`` before it). Gives: whose a presented token is. Refuses: a
file that others may read or change, and one that it cannot understand.

The file holds hashes. A token is 256 random bits, so a plain hash cannot be turned back and
needs no salt. It is read again whenever it changes: several tokens hold at once, so that a
new one can be handed out before the old one goes.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import re
import secrets
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal

from lookfar.errors import InvalidArgument, InvalidConfig, LookfarError, NotFound, PermissionDenied
from lookfar.store.ground.files import WriterLock, make_folder, translate_errors, write_atomic

Scope = Literal["read", "write"]
SCOPES: Final = ("read", "write")

_log = logging.getLogger(__name__)
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}", re.A)
_HASH: Final = re.compile(r"[0-9a-f]{64}", re.A)
_LOCK_SECONDS: Final = 5.0
_SHORTEST: Final = 16
"""Characters of a token that somebody made up."""
_BEGIN: Final = "lf_"
"""Tokens of ours begin so, that scanners for leaked secrets can know them."""


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token; not the token."""

    name: str
    scope: Scope
    sha256: str
    created: str = ""
    collections: tuple[str, ...] = ()
    """Those that it lets its owner reach; none means all."""

    @property
    def may_write(self) -> bool:
        return self.scope == "write"


class Tokens:
    """The tokens of a server, as the file and the environment have them now."""

    def __init__(self, path: Path | None = None, given: Sequence[str] = ()) -> None:
        self._path = path
        self._given = tuple(_given(number, each) for number, each in enumerate(given, 1))
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] | None = None
        self._kept: tuple[Token, ...] = ()
        if path is not None:
            # In this order: what is written meanwhile is read again, not missed.
            self._seen = _state(path)
            self._kept = read(path)
        self.needed = bool(self._given or self._kept)
        """Whether requests have to show one. Stays true when the last token goes."""

    def current(self) -> tuple[Token, ...]:
        """Those that hold now."""
        if self._path is not None:
            state = _state(self._path)
            if state != self._seen:
                with self._lock:
                    self._read_again(self._path, state)
        return (*self._given, *self._kept)

    def _read_again(self, path: Path, state: tuple[int, ...] | None) -> None:
        try:
            self._kept = read(path)
        except LookfarError as error:
            # What cannot be read lets nobody in.
            self._kept = ()
            self.needed = True
            _log.error("no token of the file holds: %s", error.message)
        self._seen = state
        self.needed = self.needed or bool(self._kept)

    def owner(self, presented: str) -> Token | None:
        """Whose token this is; takes as long for a wrong one as for a right one."""
        hashed = _hashed(presented)
        found: Token | None = None
        for each in self.current():
            if hmac.compare_digest(each.sha256, hashed):
                found = each
        return found


def add(path: Path, name: str, scope: Scope, collections: Sequence[str] = ()) -> str:
    """Make a token and keep its hash; the token itself is given here and nowhere else."""
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"{name[:80]!r} cannot name a token.",
            hint="Use up to 64 letters, digits, dots, hyphens and underscores.",
        )
    with _changing(path):
        kept = read(path)
        if any(each.name == name for each in kept):
            raise InvalidArgument(
                f"There is a token {name!r} already.",
                hint="Choose another name, or remove that one first.",
            )
        token = _BEGIN + secrets.token_urlsafe(32)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        _write(path, (*kept, Token(name, scope, _hashed(token), now, tuple(collections))))
    return token


def remove(path: Path, name: str) -> None:
    """Let a token hold no longer, in servers that run, too."""
    with _changing(path):
        kept = read(path)
        left = tuple(each for each in kept if each.name != name)
        if len(left) == len(kept):
            raise NotFound(
                f"There is no token {name!r}.",
                hint="See which there are: lookfar tokens list",
                details={"candidates": [each.name for each in kept]},
            )
        _write(path, left)


def read(path: Path) -> tuple[Token, ...]:
    """The tokens of a file; none where there is no file."""
    with translate_errors(f"reading {path}"):
        try:
            with path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                content = file.read()
        except FileNotFoundError:
            return ()
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise PermissionDenied(
            f"Others may read or change the tokens in {path}.", hint=f"Run: chmod 600 {path}"
        )
    try:
        shapes = json.loads(content)["tokens"]
        kept = tuple(
            Token(**{**each, "collections": tuple(each.get("collections", ()))}) for each in shapes
        )
        sound = all(
            each.scope in SCOPES
            and _HASH.fullmatch(each.sha256)
            and _NAME.fullmatch(each.name)
            and all(name and str(name) == name for name in each.collections)
            for each in kept
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _unsound(path, repr(error)) from error
    if not sound:
        raise _unsound(path, "a name, a scope or a hash is none")
    return kept


def _unsound(path: Path, why: str) -> InvalidConfig:
    return InvalidConfig(
        f"{path} holds no tokens that can be understood.",
        hint="Remove the file and make new tokens: lookfar tokens add NAME",
        developer=why,
        details={"file": str(path)},
    )


def _write(path: Path, tokens: Sequence[Token]) -> None:
    shape = {"tokens": [asdict(each) for each in tokens]}
    before = os.umask(0o077)
    try:
        write_atomic(path, json.dumps(shape, indent=1).encode() + b"\n")
    finally:
        os.umask(before)


@contextmanager
def _changing(path: Path) -> Iterator[None]:
    """One change after the other."""
    make_folder(path.parent)
    lock = WriterLock(path.with_name(f".{path.name}.lock"))
    lock.acquire(_LOCK_SECONDS)
    try:
        yield
    finally:
        lock.release()


def _given(number: int, text: str) -> Token:
    scope, colon, token = text.partition(":")
    if not colon or scope not in SCOPES:
        scope, token = "read", text
    if len(token) < _SHORTEST:
        raise InvalidConfig(
            f"Token {number} in LOOKFAR_TOKENS has fewer than {_SHORTEST} characters.",
            hint="Use a long random one: lookfar tokens add NAME makes such.",
        )
    return Token(f"environment-{number}", "write" if scope == "write" else "read", _hashed(token))


def _hashed(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _state(path: Path) -> tuple[int, ...] | None:
    """Changes when the file does: each writing replaces it."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_mode
