"""Find the addresses in pages, sitemaps and lists of links, and write them in one form."""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

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
_ENDINGS: Final = {
    "text/html": ".html", "application/xhtml+xml": ".html", "text/markdown": ".md",
    "text/x-markdown": ".md", "text/plain": ".txt", "application/pdf": ".pdf", "text/x-rst": ".rst",
}  # fmt: skip
MEDIA_TYPES: Final = frozenset(_ENDINGS)
"""The types of pages that can be read."""


def normalise_url(url: str, base: str = "") -> str:
    """Return an address without fragment, dots and needless escapes; empty if it is not one."""
    try:
        parts = urlsplit(urljoin(base, url.strip()))
        port = parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    usual = {"http": 80, "https": 443}[parts.scheme]
    authority = host if port in (None, usual) else f"{host}:{port}"
    path = posixpath.normpath(parts.path) if parts.path else "/"
    path = f"/{path.lstrip('/')}" if path != "." else "/"
    if parts.path.endswith(("/", "/.", "/..")) and not path.endswith("/"):
        path += "/"
    path = quote(unquote(path, errors="surrogateescape"), safe=_SAFE_PATH, errors="surrogateescape")
    return urlunsplit((parts.scheme, authority, path, parts.query, ""))


def find_links(text: str, url: str) -> Iterator[str]:
    """Yield the addresses that an HTML page links to."""
    base = _BASE.search(text)
    start = urljoin(url, html.unescape(base[1] or base[2] or "")) if base else url
    for match in _LINK.finditer(text):
        target = match[1] or match[2] or match[3] or ""
        if address := normalise_url(html.unescape(target), start):
            yield address


def find_locations(text: str) -> list[str]:
    """Return the addresses that a sitemap lists."""
    found = (normalise_url(html.unescape(match[1])) for match in _LOCATION.finditer(text))
    return [address for address in found if address]


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
