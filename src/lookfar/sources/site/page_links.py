"""Find the addresses in pages, sitemaps and lists of links, and write them in one form."""

from __future__ import annotations

import html
import posixpath
import re
import string
from collections.abc import Iterator
from typing import Final
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit, urlunsplit

import re2

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
