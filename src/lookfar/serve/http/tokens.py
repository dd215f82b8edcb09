"""Access tokens of the HTTP server: read-only or read-write, for all or some collections.

Tokens come from a file, which is read again whenever it changes, and from the environment
(``LOOKFAR_TOKENS``: read-only, or with the prefix ``write:``). The file holds hashes. A token has
256 random bits, so a plain hash cannot be reversed and needs no salt.
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
"""Minimum length of a token given in the environment."""
_PREFIX: Final = "lf_"
"""Lets scanners for leaked secrets recognise our tokens."""


@dataclass(frozen=True, slots=True)
class Token:
    """The record of a token, without the token itself."""

    name: str
    scope: Scope
    sha256: str
    created: str = ""
    collections: tuple[str, ...] = ()
    """The collections it gives access to; empty means all."""

    @property
    def may_write(self) -> bool:
        return self.scope == "write"


class Tokens:
    """The valid tokens of a server, from its file and environment."""

    def __init__(self, path: Path | None = None, given: Sequence[str] = ()) -> None:
        self._path = path
        self._given = tuple(_parse_given(number, text) for number, text in enumerate(given, 1))
        self._lock = threading.Lock()
        self._file_state: tuple[int, ...] | None = None
        self._from_file: tuple[Token, ...] = ()
        if path is not None:
            # In this order, a change in between is read again instead of missed.
            self._file_state = _state(path)
            self._from_file = read(path)
        self.needed = bool(self._given or self._from_file)
        """Whether requests need a token. Stays true when the last token is removed."""

    def current(self) -> tuple[Token, ...]:
        """Return the tokens that are valid now."""
        if self._path is not None:
            state = _state(self._path)
            if state != self._file_state:
                with self._lock:
                    self._reload(self._path, state)
        return (*self._given, *self._from_file)

    def _reload(self, path: Path, state: tuple[int, ...] | None) -> None:
        try:
            self._from_file = read(path)
        except LookfarError as error:
            # Without a readable file no request is authorized.
            self._from_file = ()
            self.needed = True
            _log.error(
                "the token file cannot be read, so none of its tokens is valid: %s", error.message
            )
        self._file_state = state
        self.needed = self.needed or bool(self._from_file)

    def owner(self, presented: str) -> Token | None:
        """Return the record of a token, compared in constant time; ``None`` for a wrong token."""
        hashed = _hash(presented)
        match: Token | None = None
        for token in self.current():
            if hmac.compare_digest(token.sha256, hashed):
                match = token
        return match


def add(path: Path, name: str, scope: Scope, collections: Sequence[str] = ()) -> str:
    """Create a token, store its hash, and return the token, which cannot be read again later."""
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"{name[:80]!r} is not a valid token name.",
            hint="Use up to 64 letters, digits, dots, hyphens and underscores.",
        )
    with _lock_file(path):
        tokens = read(path)
        if any(token.name == name for token in tokens):
            raise InvalidArgument(
                f"There already is a token named {name!r}.",
                hint="Choose another name, or remove the existing token first.",
            )
        secret = _PREFIX + secrets.token_urlsafe(32)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        _write(path, (*tokens, Token(name, scope, _hash(secret), now, tuple(collections))))
    return secret


def remove(path: Path, name: str) -> None:
    """Remove a token; running servers stop accepting it, too."""
    with _lock_file(path):
        tokens = read(path)
        remaining = tuple(token for token in tokens if token.name != name)
        if len(remaining) == len(tokens):
            raise NotFound(
                f"There is no token named {name!r}.",
                hint="List them with: lookfar tokens list",
                details={"candidates": [token.name for token in tokens]},
            )
        _write(path, remaining)


def read(path: Path) -> tuple[Token, ...]:
    """Read the tokens of a file; a missing file has none."""
    with translate_errors(f"reading {path}"):
        try:
            with path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                content = file.read()
        except FileNotFoundError:
            return ()
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise PermissionDenied(
            f"Other users can read or change the tokens in {path}.", hint=f"Run: chmod 600 {path}"
        )
    try:
        shapes = json.loads(content)["tokens"]
        tokens = tuple(
            Token(**{**shape, "collections": tuple(shape.get("collections", ()))})
            for shape in shapes
        )
        valid = all(
            token.scope in SCOPES
            and _HASH.fullmatch(token.sha256)
            and _NAME.fullmatch(token.name)
            and all(name and str(name) == name for name in token.collections)
            for token in tokens
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _malformed(path, repr(error)) from error
    if not valid:
        raise _malformed(path, "a name, scope, hash or collection is invalid")
    return tokens


def _malformed(path: Path, why: str) -> InvalidConfig:
    return InvalidConfig(
        f"The token file {path} is malformed.",
        hint="Remove it and create new tokens: lookfar tokens add NAME",
        developer=why,
        details={"file": str(path)},
    )


def _write(path: Path, tokens: Sequence[Token]) -> None:
    shape = {"tokens": [asdict(token) for token in tokens]}
    before = os.umask(0o077)
    try:
        write_atomic(path, json.dumps(shape, indent=1).encode() + b"\n")
    finally:
        os.umask(before)


@contextmanager
def _lock_file(path: Path) -> Iterator[None]:
    """Hold the lock of a token file while it is changed."""
    make_folder(path.parent)
    lock = WriterLock(path.with_name(f".{path.name}.lock"))
    lock.acquire(_LOCK_SECONDS)
    with lock:
        yield


def _parse_given(number: int, text: str) -> Token:
    scope, colon, token = text.partition(":")
    if not colon or scope not in SCOPES:
        scope, token = "read", text
    if len(token) < _SHORTEST:
        raise InvalidConfig(
            f"Token {number} in LOOKFAR_TOKENS has fewer than {_SHORTEST} characters.",
            hint="Use a long random one, such as lookfar tokens add NAME creates.",
        )
    return Token(f"environment-{number}", "write" if scope == "write" else "read", _hash(token))


def _hash(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _state(path: Path) -> tuple[int, ...] | None:
    """Return a value that changes with the file, which every change replaces."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (
        status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_mode
    )  # fmt: skip
