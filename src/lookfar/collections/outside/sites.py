"""A web site as a source: a page, what a list names, or all pages below an address.

Pages are fetched one after the other with a pause between them, as robots.txt asks. An update asks
only for pages that changed; a page that cannot be fetched for the moment stays as it was.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from urllib.robotparser import RobotFileParser

from lookfar.collections.outside.fetching import Fetched
from lookfar.collections.outside.shelf import write_incoming
from lookfar.errors import InvalidArgument, IOFailed, how_many
from lookfar.sources.confine import path_problem
from lookfar.sources.site import (
    MEDIA_TYPES,
    USER_AGENT,
    Client,
    FetchFailed,
    Response,
    find_links,
    find_locations,
    find_markdown_links,
    is_below,
    name_file,
    normalise_url,
)
from lookfar.store.ground import files
from lookfar.store.ground.records import pack_record, unpack_record

if TYPE_CHECKING:
    from pathlib import Path

    from lookfar.collections.outside.fetching import Request

_PAGE_BYTES: Final = 10_000_000
_LONGEST_WAIT: Final = 30.0
_MOST_WAITS: Final = 5
_MOST_SITEMAPS: Final = 50
_MOST_LINKS: Final = 50_000
"""Addresses that are read from one page or sitemap: as many as a sitemap may have."""
_SPARE_ADDRESSES: Final = 10_000
_MOST_NOTES: Final = 20
_ROBOTS_BYTES: Final = 512_000
"""How much of a ``robots.txt`` is read, as RFC 9309 asks."""
_DEEPEST_PATH: Final = 20
"""Folders in an address; more are a trap that links ever deeper into itself."""
_TRAP: Final = "address is too deep or long"
_SAVE_EVERY: Final = 50
_RESUME_SECONDS: Final = 86_400.0
_PROGRESS: Final = "fetched.json"


@dataclass
class _Site:
    """What is known while a site is fetched."""

    prefix: str
    follows: bool
    """Whether links are followed; otherwise only the addresses that were named are fetched."""
    pages: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What is stored, by URI: ``url``, ``aliases``, ``etag``, ``modified``,
    ``sha256``."""
    problems: dict[str, list[str]] = field(default_factory=dict)
    """Addresses that were refused, by reason."""
    moved: str = ""
    """Where the first page redirects to, if its links are not followed for that reason."""

    def refuse(self, url: str, reason: str) -> None:
        self.problems.setdefault(reason, []).append(url)

    def notes(self) -> tuple[str, ...]:
        lines = [
            f"{how_many(len(urls), 'page')} skipped: {reason}: {', '.join(urls[:3])}"
            + (" …" if len(urls) > 3 else "")
            for reason, urls in sorted(self.problems.items())
        ]
        if self.moved:
            lines.insert(
                0, f"only this page: it redirects to {self.moved}; to fetch more, add that"
            )
        return tuple(lines[:_MOST_NOTES])


def fetch_site(request: Request) -> Fetched:
    """Fetch the pages of a site, at most ``outside.max_pages``."""
    start = normalise_url(request.source.origin)
    if not start:
        raise InvalidArgument(
            f"{request.source.origin!r} is not a web address.", hint="Use https://HOST/PATH."
        )
    crawl = _Crawl(request, start)
    with closing(crawl.client):
        crawl.run()
    if not crawl.site.pages:
        reason = next(iter(crawl.site.problems), "nothing is there")
        raise IOFailed(
            f"No page of {start} could be fetched: {reason}.",
            hint="Check the address. For a server in your own network, set outside.allow_private.",
            details={"notes": list(crawl.site.notes())},
        )
    files.remove(request.incoming.parent / _PROGRESS)
    return Fetched(origins=crawl.site.pages, notes=crawl.site.notes())


class _Crawl:
    """One visit to a site."""

    def __init__(self, request: Request, start: str) -> None:
        self._request = request
        self._start = self._visited = start
        outside = request.settings.outside
        self.client = Client(_PAGE_BYTES, allow_private=outside.allow_private, on_wait=self._report)
        self._most = outside.max_pages
        self._bytes_left = outside.max_bytes
        self._pause = outside.pause_ms / 1000
        self._robots: dict[str, RobotFileParser] = {}
        self._robots_failures: dict[str, str] = {}
        """Why the rules of a host are unknown, so that nothing there may be fetched."""
        self._before = {
            url: (uri, page)
            for uri, page in request.origins.items()
            for url in (page["url"], *page.get("aliases", ()))
        }
        self._waits = 0
        path = urlsplit(start).path
        self._is_sitemap = path.endswith(".xml")
        self._is_list = path.endswith("/llms.txt")
        only = bool(request.source.options.get("only_page"))
        listing = self._is_sitemap or self._is_list
        folder = start if start.endswith("/") else start.rpartition("/")[0] + "/"
        self.site = _Site(
            _find_host(start) if listing else folder, follows=not only and not listing
        )
        self._waiting: deque[str] = deque()
        self._seen: set[str] = set()
        self._contents: dict[str, str] = {}
        """Hashes of the stored pages, to recognise copies under another address."""

    def run(self) -> None:
        self._resume()
        if not self._is_sitemap:
            self._enqueue(self._start)
            if self._waiting:  # First: a redirect may change the prefix of all other pages.
                self._visit(self._waiting.popleft())
        if self.site.follows or self._is_sitemap:
            for url in self._find_sitemap_pages():
                self._enqueue(url)
        for url in self._before:  # Pages stay while they are there, even if no link leads to them.
            self._enqueue(url)
        while self._waiting:
            if len(self.site.pages) >= self._most:
                self.site.refuse(self._waiting[0], f"more than {self._most:,} (outside.max_pages)")
                break
            self._visit(self._waiting.popleft())
        self._save()

    def _report(self) -> None:
        self._request.on_fetch(self._visited, len(self.site.pages), 0)

    def _enqueue(self, url: str) -> None:
        if url in self._seen or not is_below(url, self.site.prefix):
            return
        if len(self._seen) > 10 * self._most + _SPARE_ADDRESSES and url not in self._before:
            self.site.problems.setdefault("more addresses than can be fetched", [url])
            return
        self._seen.add(url)
        if urlsplit(url).query and url != self._start:
            self.site.refuse(url, "address with a query")
        elif _is_trap(url):
            self.site.refuse(url, _TRAP)
        else:
            self._waiting.append(url)

    # -- one page ----------------------------------------------------------------

    def _visit(self, url: str) -> None:
        self._visited = url
        self._report()
        if not self._is_allowed(url):
            failure = self._robots_failures.get(_find_host(url))
            reason = f"robots.txt cannot be read: {failure}" if failure else ""
            self.site.refuse(url, reason or "robots.txt disallows it")
            return
        uri, known = self._before.get(url, ("", {}))
        if not (self._request.files / uri).is_file():
            uri, known = "", {}  # Without its file, the whole page is needed again.
        try:
            response = self._get(url, known)
        except FetchFailed as error:
            if error.later and uri:
                self._adopt_prefix(url, known["url"])
                self._keep(uri, known)
                self.site.refuse(url, f"{error.reason}; the page of the last fetch stays")
            else:
                self.site.refuse(url, error.reason)
            return
        self._adopt_prefix(url, normalise_url(response.url))
        if response.status == 304 and uri:
            self._keep(uri, known)
        elif response.status != 200:
            self.site.refuse(url, f"status {response.status}")
        else:
            self._store(url, response)
        if len(self.site.pages) % _SAVE_EVERY == 0:
            self._save()

    def _adopt_prefix(self, url: str, final: str) -> None:
        """Follow links where the first page redirects to, if that is the same place of the site.

        That is the same folder with https, or with or without www. Anything else was not asked for.
        """
        if url != self._start or is_below(final, self.site.prefix):
            return
        before, after = urlsplit(self.site.prefix), urlsplit(final)
        same_host = _strip_www(before.netloc) == _strip_www(after.netloc)
        prefix = f"{_find_host(final).rstrip('/')}{before.path}"
        if same_host and before.scheme in ("http", after.scheme) and is_below(final, prefix):
            self.site.prefix = prefix
        elif self.site.follows:
            self.site.moved = final

    def _get(self, url: str, known: Mapping[str, Any]) -> Response:
        """Fetch a page; wait and try again where the server asks for it."""
        while True:
            if self._pause:
                self.client.pause(self._pause)
            try:
                return self.client.get(
                    url, etag=known.get("etag", ""), modified=known.get("modified", "")
                )
            except FetchFailed as error:
                wait = error.wait_seconds
                if not 0 < wait <= _LONGEST_WAIT or self._waits >= _MOST_WAITS:
                    raise
                self._waits += 1
                self.client.pause(wait)

    def _keep(self, uri: str, page: Mapping[str, Any]) -> None:
        """Take a page over from the state before."""
        if uri in self.site.pages:
            return
        data = (self._request.files / uri).read_bytes()
        self._write(uri, data, page)

    def _store(self, url: str, response: Response) -> None:
        final = normalise_url(response.url)
        if not is_below(final, self.site.prefix) and url != self._start:
            self.site.refuse(url, f"redirects to {urlsplit(final).netloc or 'elsewhere'}")
            return
        if _is_trap(final):
            self.site.refuse(url, _TRAP)
            return
        if response.media_type not in MEDIA_TYPES:
            self.site.refuse(url, f"type {response.media_type or 'unknown'}"[:80])
            return
        page: dict[str, Any] = {
            "url": final,
            "etag": response.etag[:500],
            "modified": response.modified[:100],
            "sha256": sha256(response.body).hexdigest(),
        }
        if page["sha256"] in self._contents:
            # A copy under another address, such as index.html.
            self.site.pages[self._contents[page["sha256"]]].setdefault("aliases", []).append(url)
            return
        if url != final:
            page["aliases"] = [url]
        self._seen.add(final)
        uri = self._choose_uri(final, response.media_type)
        if problem := path_problem(uri):
            self.site.refuse(url, f"cannot be stored: {problem}")
        else:
            self._write(uri, response.body, page)

    def _choose_uri(self, url: str, media_type: str) -> str:
        uri = name_file(url, media_type)
        if uri in self.site.pages or self._is_folder_taken(uri):
            stem, dot, ending = uri.rpartition(".")
            uri = f"{stem}-{sha256(url.encode()).hexdigest()[:8]}{dot}{ending}"
        return uri

    def _is_folder_taken(self, uri: str) -> bool:
        """Return whether a file would have to be where a folder is, or the other way round."""
        path = self._request.incoming / uri
        return path.is_dir() or any(
            parent.is_file() for parent in path.parents if parent != self._request.incoming
        )

    def _write(self, uri: str, data: bytes, page: Mapping[str, Any]) -> None:
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise InvalidArgument(
                f"{self._start} is larger than outside.max_bytes allows.",
                hint="Raise outside.max_bytes, or add a part of the site.",
            )
        write_incoming(self._request.incoming, uri, data)
        self.site.pages[uri] = dict(page)
        self._contents[page["sha256"]] = uri
        self._follow(uri, data, page["url"])

    def _follow(self, uri: str, data: bytes, url: str) -> None:
        text = data.decode("utf-8", "replace")
        if url == self._start and self._is_list:
            for link in find_markdown_links(text, url):
                self._enqueue(link)
        elif self.site.follows and uri.endswith((".html", ".htm")):
            for link in islice(find_links(text, url), _MOST_LINKS):
                self._enqueue(link)

    # -- what a site says about itself -------------------------------------------

    def _is_allowed(self, url: str) -> bool:
        return self._read_robots(url).can_fetch(USER_AGENT, url)

    def _read_robots(self, url: str) -> RobotFileParser:
        host = _find_host(url)
        if host not in self._robots:
            robots = RobotFileParser()
            lines: list[str] = []
            everything = ["User-agent: *", "Disallow: /"]
            try:
                response = self.client.get(f"{host}robots.txt")
                if response.status in (401, 403):
                    lines = everything
                elif response.status == 200:
                    text = response.body[:_ROBOTS_BYTES].decode("utf-8", "replace")
                    lines = [line for line in text.splitlines() if _is_readable_rule(line)]
            except FetchFailed as error:
                # As RFC 9309 asks: a server that fails may have rules.
                if error.later:
                    lines = everything
                    self._robots_failures[host] = error.reason
            robots.parse(lines)
            self._robots[host] = robots
            delay = robots.crawl_delay(USER_AGENT)
            if delay:
                self._pause = max(self._pause, float(min(int(delay), _LONGEST_WAIT)))
        return self._robots[host]

    def _find_sitemap_pages(self) -> Iterator[str]:
        """Yield the pages that the site's own sitemaps list."""
        host = _find_host(self.site.prefix)
        named = self._read_robots(host).site_maps() or []
        usual = [f"{self.site.prefix}sitemap.xml", *named]
        maps = deque([self._start] if self._is_sitemap else map(normalise_url, usual))
        visited: set[str] = set()
        while maps and len(visited) < _MOST_SITEMAPS:
            url = maps.popleft()
            if not url or url in visited or not url.startswith(host):
                continue
            visited.add(url)
            with suppress(FetchFailed):  # A site need not have one.
                response = self.client.get(url)
                text = response.body.decode("utf-8", "replace")
                locations = find_locations(text) if response.status == 200 else ()
                if "<sitemapindex" in text:
                    maps.extend(islice(locations, _MOST_SITEMAPS))
                else:
                    yield from islice(locations, _MOST_LINKS)

    # -- interrupted fetches -----------------------------------------------------

    @property
    def _progress_file(self) -> Path:
        return self._request.incoming.parent / _PROGRESS

    def _save(self) -> None:
        """Record which pages were fetched, for a fetch that continues this one."""
        record = {"start": self._start, "pages": self.site.pages, "time": time.time()}
        files.write_atomic(self._progress_file, pack_record(record), sync=False)

    def _resume(self) -> None:
        """Take over the pages of a fetch that was interrupted less than a day ago."""
        try:
            record = unpack_record(self._progress_file.read_bytes())
        except (OSError, ValueError, RecursionError):
            record = {}
        recent = time.time() - record.get("time", 0.0) < _RESUME_SECONDS
        if record.get("start") != self._start or not recent:
            files.remove(self._request.incoming)
            return
        for uri, page in record["pages"].items():
            try:
                data = (self._request.incoming / uri).read_bytes()
            except OSError:
                continue
            if sha256(data).hexdigest() == page["sha256"]:
                self._seen.add(page["url"])
                self.site.pages[uri] = page
                self._contents[page["sha256"]] = uri
                self._follow(uri, data, page["url"])


def _is_trap(url: str) -> bool:
    return urlsplit(url).path.count("/") > _DEEPEST_PATH or len(url) > 1_000


def _is_readable_rule(line: str) -> bool:
    """Return whether Python's parser reads a line of ``robots.txt``: some end it with an error."""
    try:
        RobotFileParser().parse(["User-agent: *", line])
    except ValueError:
        return False
    return True


def _strip_www(host: str) -> str:
    return host.removeprefix("www.")


def _find_host(url: str) -> str:
    """Return the beginning of an address, up to the slash after the host."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/"
