"""Fetch one page. Every redirect is checked like a new address, and sizes and times are limited.

The host is looked up once per connection, and the connection goes to the address that was checked.
"""

from __future__ import annotations

import ssl
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

import httpcore2
import httpx2

from lookfar.errors import LookfarError, PermissionDenied
from lookfar.sources.addresses import find_addresses

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

USER_AGENT: Final = "lookfar (fetches documentation that a user asked for)"
_MOST_REDIRECTS: Final = 5
_CONNECT_SECONDS: Final = 10.0
_READ_SECONDS: Final = 20.0
_PAGE_SECONDS: Final = 60.0
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_PORTS: Final = {"http": 80, "https": 443}


class FetchFailed(Exception):
    """Raised for a page that cannot be fetched now or may not be fetched at all.

    ``reason`` is a few words for a list of problems; ``later`` says that it may work later.
    """

    def __init__(self, reason: str, *, later: bool = False, wait_seconds: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.later = later
        self.wait_seconds = wait_seconds
        """How long the server asks to wait; 0 if it does not say."""


@dataclass(frozen=True, slots=True)
class Response:
    """A page as the server sent it."""

    url: str
    """Where it was found, after redirects."""
    status: int
    media_type: str
    body: bytes
    etag: str = ""
    modified: str = ""


class Client:
    """Fetches pages one after the other, over connections that are kept open."""

    def __init__(self, max_bytes: int, *, allow_private: bool = False) -> None:
        self._max_bytes = max_bytes
        self._pool = httpcore2.ConnectionPool(
            ssl_context=httpx2.create_ssl_context(),
            max_connections=4,
            network_backend=_CheckedNetwork(allow_private),
        )

    def get(self, url: str, *, etag: str = "", modified: str = "") -> Response:
        """Return a page; status 304 if it is still the one with this etag or date."""
        deadline = time.monotonic() + _PAGE_SECONDS
        for _ in range(_MOST_REDIRECTS + 1):
            check_url(url)
            conditions = {"if-none-match": etag, "if-modified-since": modified}
            headers = {
                "user-agent": USER_AGENT,
                "accept": "text/html, text/markdown, text/plain, application/xml;q=0.5, */*;q=0.1",
                "accept-encoding": "gzip",
                **{name: value for name, value in conditions.items() if value},
            }
            status, answered, body = self._request(url, headers, deadline)
            if status not in _REDIRECTS:
                return _make_response(url, status, answered, body)
            target = answered.get("location", "")
            if not target:
                raise FetchFailed("redirect without a target")
            url = urljoin(url, target)
        raise FetchFailed(f"more than {_MOST_REDIRECTS} redirects")

    def _request(
        self, url: str, headers: Mapping[str, str], deadline: float
    ) -> tuple[int, dict[str, str], bytes]:
        timeouts = {"connect": _CONNECT_SECONDS, "read": _READ_SECONDS, "write": _READ_SECONDS}
        try:
            with self._pool.stream(
                "GET", url, headers=list(headers.items()), extensions={"timeout": timeouts}
            ) as answer:
                names = {
                    name.decode("latin-1").lower(): value.decode("latin-1")
                    for name, value in answer.headers
                }
                if answer.status in _REDIRECTS or answer.status != 200:
                    return answer.status, names, b""
                return answer.status, names, self._read(answer.iter_stream(), names, deadline)
        except PermissionDenied as error:
            raise FetchFailed(error.message.rstrip(".")) from error
        except LookfarError as error:  # A name that is not found may be found later.
            raise FetchFailed(error.message.rstrip("."), later=True) from error
        except httpcore2.TimeoutException as error:
            raise FetchFailed("no answer in time", later=True) from error
        except (
            httpcore2.NetworkError,
            httpcore2.ProtocolError,
            httpcore2.UnsupportedProtocol,
        ) as error:
            raise FetchFailed(f"connection failed: {error}"[:200], later=True) from error
        except (ssl.SSLError, UnicodeError, ValueError) as error:
            raise FetchFailed(f"connection failed: {error}"[:200]) from error

    def _read(self, pieces: Iterable[bytes], names: Mapping[str, str], deadline: float) -> bytes:
        """Return the decoded body; raise ``FetchFailed`` if it is too large or takes too long."""
        encoding = names.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity", "gzip"):
            raise FetchFailed(f"compressed as {encoding[:40]}")
        body = bytearray()
        for piece in _gunzip(pieces, self._max_bytes) if encoding == "gzip" else pieces:
            body += piece
            if len(body) > self._max_bytes:
                raise FetchFailed(f"larger than {self._max_bytes:,} bytes")
            if time.monotonic() > deadline:
                raise FetchFailed(f"took longer than {_PAGE_SECONDS:.0f} seconds", later=True)
        return bytes(body)

    def close(self) -> None:
        self._pool.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def check_url(url: str) -> None:
    """Raise ``FetchFailed`` for an address that is not a plain web address."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise FetchFailed("not an address") from error
    if parts.scheme not in _PORTS or not parts.hostname:
        raise FetchFailed(f"not a web address ({parts.scheme or 'no scheme'})")
    if parts.username is not None or parts.password is not None:
        raise FetchFailed("the address contains a user or password")
    if port == 0:
        raise FetchFailed("not an address")


def _make_response(url: str, status: int, names: Mapping[str, str], body: bytes) -> Response:
    if status in (429, 503):
        wait = names.get("retry-after", "")
        seconds = float(wait) if wait.isdecimal() else 0.0
        raise FetchFailed(f"the server is busy (status {status})", later=True, wait_seconds=seconds)
    if status >= 500:
        raise FetchFailed(f"status {status}", later=True)
    media_type = names.get("content-type", "").partition(";")[0].strip().lower()
    return Response(
        url, status, media_type, body, names.get("etag", ""), names.get("last-modified", "")
    )


def _gunzip(pieces: Iterable[bytes], limit: int) -> Iterator[bytes]:
    """Yield decompressed bytes, never many more than ``limit``, whatever the stream says."""
    decoder = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        for piece in pieces:
            yield decoder.decompress(piece, limit + 1)
            if decoder.unconsumed_tail:
                raise FetchFailed(f"larger than {limit:,} bytes")
    except zlib.error as error:
        raise FetchFailed("damaged compression") from error


class _CheckedNetwork(httpcore2.NetworkBackend):
    """Connects to public addresses only, unless others are allowed."""

    def __init__(self, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._inner = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore2.NetworkStream:
        addresses = find_addresses(host, port, allow_private=self._allow_private)
        failure: Exception | None = None
        for address in addresses:
            try:
                return self._inner.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore2.ConnectError(f"{host} has no address")

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)
