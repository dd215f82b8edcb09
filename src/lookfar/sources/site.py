"""Fetch one page. Every redirect is checked like a new address, and sizes and times are limited.

The host is looked up once per connection, and the connection goes to the address that was checked.
One deadline is for everything that a page needs: connections, headers, its text and redirects.
"""

from __future__ import annotations

import html
import posixpath
import re
import selectors
import socket
import ssl
import string
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit, urlunsplit

import httpcore2
import httpx2
import re2

from lookfar.errors import LookfarError, PermissionDenied
from lookfar.sources.addresses import find_addresses

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

USER_AGENT: Final = "lookfar (fetches documentation that a user asked for)"
_MOST_REDIRECTS: Final = 5
_CONNECT_SECONDS: Final = 10.0
_READ_SECONDS: Final = 20.0
_PAGE_SECONDS: Final = 60.0
_STEP_SECONDS: Final = 0.2
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
T = TypeVar("T")


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

    def __init__(
        self,
        max_bytes: int,
        *,
        allow_private: bool = False,
        on_wait: Callable[[], None] = lambda: None,
    ) -> None:
        """``on_wait`` is called several times a second, and may raise to stop a fetch."""
        self._max_bytes = max_bytes
        self._network = _CheckedNetwork(allow_private, on_wait)
        self.pause = self._network.sleep
        self._pool = httpcore2.ConnectionPool(
            ssl_context=httpx2.create_ssl_context(),
            max_connections=4,
            network_backend=self._network,
        )

    def get(self, url: str, *, etag: str = "", modified: str = "") -> Response:
        """Return a page; status 304 if it is still the one with this etag or date."""
        self._network.deadline = time.monotonic() + _PAGE_SECONDS
        conditions = {"if-none-match": etag, "if-modified-since": modified}
        headers = {
            "user-agent": USER_AGENT,
            "accept": "text/html, text/markdown, text/plain, application/xml;q=0.5, */*;q=0.1",
            "accept-encoding": "gzip",
            **{name: value for name, value in conditions.items() if value},
        }
        target = url
        for _ in range(_MOST_REDIRECTS + 1):
            try:
                url = parse_address(target, url).geturl()
            except ValueError as error:
                raise FetchFailed(str(error)) from error
            status, answered, body = self._request(url, headers)
            if status not in _REDIRECTS:
                return _make_response(url, status, answered, body)
            # Many servers send UTF-8 as it is.
            target = answered.get("location", "").encode("latin-1").decode("utf-8", "replace")
            if not target:
                raise FetchFailed("redirect without a target")
        raise FetchFailed(f"more than {_MOST_REDIRECTS} redirects")

    def _request(self, url: str, headers: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
        sent = [(name, value.encode("latin-1")) for name, value in headers.items()]
        try:
            with self._pool.stream("GET", url, headers=sent) as answer:
                names = {
                    name.decode("latin-1").lower(): value.decode("latin-1")
                    for name, value in answer.headers
                }
                if answer.status in _REDIRECTS or answer.status != 200:
                    return answer.status, names, b""
                return answer.status, names, self._read(answer.iter_stream(), names)
        except PermissionDenied as error:
            raise FetchFailed(error.message.rstrip(".")) from error
        except LookfarError as error:  # A name that is not found may be found later.
            raise FetchFailed(error.message.rstrip("."), later=True) from error
        except TimeoutError as error:
            raise FetchFailed("no answer in time", later=True) from error
        except (OSError, httpcore2.ProtocolError) as error:
            raise FetchFailed(f"connection failed: {error}"[:200], later=True) from error
        except ValueError as error:
            raise FetchFailed(f"connection failed: {error}"[:200]) from error

    def _read(self, pieces: Iterable[bytes], names: Mapping[str, str]) -> bytes:
        """Return the decoded body; raise ``FetchFailed`` if it is too large."""
        encoding = names.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity", "gzip"):
            raise FetchFailed(f"compressed as {encoding[:40]}")
        body = bytearray()
        for piece in _gunzip(pieces, self._max_bytes) if encoding == "gzip" else pieces:
            body += piece
            if len(body) > self._max_bytes:
                raise FetchFailed(f"larger than {self._max_bytes:,} bytes")
        return bytes(body)

    def close(self) -> None:
        self._pool.close()


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
            if decoder.eof:  # What follows would be collected, however much it is.
                return
    except zlib.error as error:
        raise FetchFailed("damaged compression") from error


class _CheckedNetwork(httpcore2.NetworkBackend):
    """Connects to public addresses only, unless others are allowed, and limits all waiting."""

    def __init__(self, allow_private: bool, on_wait: Callable[[], None]) -> None:
        self._allow_private = allow_private
        self._on_wait = on_wait
        self.deadline = 0.0

    def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> httpcore2.NetworkStream:
        failure = OSError(f"{host} has no address")
        for address in find_addresses(host, port, allow_private=self._allow_private):
            self.check()
            try:
                connected = socket.create_connection((address, port), _CONNECT_SECONDS)
                return _Connection(connected, self)
            except OSError as error:
                failure = error
        raise failure

    def sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._on_wait()
            time.sleep(min(left, _STEP_SECONDS))

    def check(self) -> None:
        """Raise ``FetchFailed`` if the time is over; the caller may stop the fetch, too."""
        self._on_wait()
        if time.monotonic() > self.deadline:
            raise FetchFailed(f"took longer than {_PAGE_SECONDS:.0f} seconds", later=True)


class _Connection(httpcore2.NetworkStream):
    """A connection that waits in short steps, and asks before each whether to go on."""

    def __init__(self, connected: socket.socket, network: _CheckedNetwork) -> None:
        self._socket = connected
        self._socket.settimeout(_STEP_SECONDS)
        self._network = network

    def _repeat(self, action: Callable[[], T]) -> T:
        """Return what an action returns once it no longer times out."""
        silent_until = time.monotonic() + _READ_SECONDS
        while True:
            self._network.check()
            try:
                return action()
            except TimeoutError:
                if time.monotonic() > silent_until:
                    raise

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, *_: Any, **__: Any
    ) -> httpcore2.NetworkStream:
        self._socket = secure = ssl_context.wrap_socket(
            self._socket, server_hostname=server_hostname, do_handshake_on_connect=False
        )
        try:
            self._repeat(secure.do_handshake)
        except BaseException:
            self.close()
            raise
        return self

    def read(self, max_bytes: int, *_: Any, **__: Any) -> bytes:
        return self._repeat(partial(self._socket.recv, max_bytes))

    def write(self, buffer: bytes, *_: Any, **__: Any) -> None:
        while buffer:
            buffer = buffer[self._repeat(partial(self._socket.send, buffer)) :]

    def close(self) -> None:
        self._socket.close()

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":  # An idle connection is, when the server has closed it.
            with selectors.DefaultSelector() as selector:
                selector.register(self._socket, selectors.EVENT_READ)
                return bool(selector.select(0))
        return None  # Only HTTP/2 would need the protocol that TLS agreed on.


_LINK: Final = re2.compile(
    r"""(?i)<(?:a|area)\s[^>]*?href\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))"""
)
_BASE: Final = re2.compile(r"""(?i)<base\s[^>]*?href\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_LOCATION: Final = re2.compile(r"(?is)<loc>\s*(?:<!\[CDATA\[)?([^<\]]+)")
_MARKDOWN_LINK: Final = re2.compile(r"\]\(<?([^)\s>]+)>?[^)]*\)")
_SAFE_PATH: Final = "/:@!$&'()*+,;=~-._%"
_NOT_NAME: Final = re.compile(r"[^\w.~+@=,!() -]")
_LONGEST_PART: Final = 120
_LONGEST_NAME: Final = 240
"""Bytes in a name. Most file systems allow 255, of which an ending and a hash may need some."""
_HOST: Final = re.compile(r"[\w.-]+|[0-9a-f:.]+", re.ASCII)
_PORTS: Final = {"http": 80, "https": 443}
_ENDINGS: Final = {
    "text/html": ".html", "application/xhtml+xml": ".html", "text/markdown": ".md",
    "text/x-markdown": ".md", "text/plain": ".txt", "application/pdf": ".pdf", "text/x-rst": ".rst",
}  # fmt: skip
MEDIA_TYPES: Final = frozenset(_ENDINGS)
"""The types of pages that can be read."""


def parse_address(url: str, base: str = "") -> SplitResult:
    """Return the parts of a web address, in ASCII and without fragment.

    Whatever else a site writes is a ``ValueError``, whose message is a reason for users.
    """
    try:
        parts = urlsplit(urljoin(base, url.strip()))
        host, port = parts.hostname or "", parts.port
        host = host if host.isascii() else host.encode("idna").decode("ascii")
    except ValueError as error:
        raise ValueError("not an address") from error
    if parts.scheme not in _PORTS or not host:
        raise ValueError(f"not a web address ({parts.scheme[:20] or 'no scheme'})")
    if parts.username is not None or parts.password is not None:
        raise ValueError("the address contains a user or password")
    if port == 0 or not _HOST.fullmatch(host):
        raise ValueError("not an address")
    host = f"[{host}]" if ":" in host else host
    authority = host if port in (None, _PORTS[parts.scheme]) else f"{host}:{port}"
    path, query = (
        quote(part, safe=string.punctuation, errors="replace") for part in (parts.path, parts.query)
    )
    return SplitResult(parts.scheme, authority, path, query, "")


def normalise_url(url: str, base: str = "") -> str:
    """Return an address without fragment, dots and needless escapes; empty if it is not one."""
    try:
        parts = parse_address(url, base)
    except ValueError:
        return ""
    path = posixpath.normpath(parts.path) if parts.path else "/"
    path = f"/{path.lstrip('/')}" if path != "." else "/"
    if parts.path.endswith(("/", "/.", "/..")) and not path.endswith("/"):
        path += "/"
    path = quote(unquote(path, errors="surrogateescape"), safe=_SAFE_PATH, errors="surrogateescape")
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def find_links(text: str, url: str) -> Iterator[str]:
    """Yield the addresses that an HTML page links to."""
    base = _BASE.search(text)
    start = _read_reference(base[1] or base[2] or "", url) or url if base else url
    for match in _LINK.finditer(text):
        target = match[1] or match[2] or match[3] or ""
        if address := _read_reference(target, start):
            yield address


def find_locations(text: str) -> Iterator[str]:
    """Yield the addresses that a sitemap lists."""
    found = (_read_reference(match[1]) for match in _LOCATION.finditer(text))
    return filter(None, found)


def _read_reference(text: str, base: str = "") -> str:
    """Return the address that markup contains; empty if it is not one."""
    try:
        return normalise_url(html.unescape(text), base)
    except ValueError:  # A character reference whose number has thousands of digits.
        return ""


def find_markdown_links(text: str, url: str) -> list[str]:
    """Return the addresses that a Markdown text links to, such as an ``llms.txt``."""
    found = (normalise_url(match[1], url) for match in _MARKDOWN_LINK.finditer(text))
    return [address for address in found if address]


def name_file(url: str, media_type: str) -> str:
    """Return the path under which a page is stored: its own, with an ending that fits its type."""
    parts = urlsplit(url)
    pieces = [
        _NOT_NAME.sub("_", unquote(piece, errors="replace"))[:_LONGEST_PART].strip(" .") or "_"
        for piece in parts.path.split("/")
        if piece
    ]
    if not pieces or parts.path.endswith("/"):
        pieces.append("index")
    if parts.query:
        pieces[-1] += "_" + _NOT_NAME.sub("_", parts.query)[:_LONGEST_PART]
    pieces = [piece.encode()[:_LONGEST_NAME].decode("utf-8", "ignore") for piece in pieces]
    ending = _ENDINGS.get(media_type, ".txt")
    if media_type == "text/plain" and pieces[-1].endswith((".md", ".rst", ".markdown")):
        ending = ""
    elif media_type == "text/plain" and pieces[-1] in ("llms.txt", "llms-full.txt"):
        pieces[-1] = pieces[-1].removesuffix(".txt")  # They are written in Markdown.
        ending = ".md"
    elif pieces[-1].endswith((ending, ".htm") if ending == ".html" else (ending,)):
        ending = ""
    return "/".join([*pieces[:-1], pieces[-1] + ending])


def is_below(url: str, prefix: str) -> bool:
    """Return whether an address begins with a prefix that ends with a slash, or is that folder."""
    return url.startswith(prefix) or f"{url}/" == prefix
