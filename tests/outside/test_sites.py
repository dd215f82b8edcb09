"""A web site as a source: fetched politely, updated, asked offline; hostile answers are refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import amount
from lookfar.collections.outside import sites
from lookfar.errors import IOFailed, LookfarError
from lookfar.library import Library
from lookfar.model import Filters
from lookfar.sources import site as client_module
from lookfar.sources.addresses import find_addresses
from lookfar.sources.site import (
    Client,
    FetchFailed,
    find_links,
    name_file,
    normalise_url,
    parse_address,
)
from outside.served_site import (
    Site,
    redirect,
    send_bomb,
    send_endless,
    send_slowly,
    send_trailing,
    serve_dribble,
    serve_site,
)

pytestmark = pytest.mark.usefixtures("own_home")

SOURCES = Filters(kinds=("sources",))


@pytest.fixture
def site() -> Iterator[Site]:
    with serve_site() as served:
        yield served


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "own.md").write_text("# Own\n\nText of the project.\n", encoding="utf-8")
    settings = {
        "embed.provider": "hash", "outside.pause_ms": 0, "outside.allow_private": True,
        "outside.max_pages": 3_000,
    }  # fmt: skip
    with Library.open(folder, settings=settings) as opened:
        yield opened


def _urls(library: Library, name: str) -> list[str]:
    shelf = library._outside.shelf
    return sorted(page["url"] for page in shelf.origins(name).values())


def test_a_site_is_fetched_once_updated_and_asked_offline(library: Library, site: Site) -> None:
    """Redirects, errors, slow pages, traps and changed pages on the way."""
    count = amount(60, 2_000)
    for number in range(count):
        following = (f"page{number + 1}.html", "index.html", "?page=2", "../outside/")
        body = f"The lamp with the number {number} turns. Word{number}."
        site.html(f"/docs/page{number}.html", f"Page {number}", body, following)
    site.html("/docs/", "Start", "All lamps.", ("page0.html", "moved", "slow", "broken", "loop"))
    site.html("/docs/index.html", "Start", "All lamps.", ("page0.html", "deep/"))
    site.html("/outside/", "Outside", "Not below the address.")
    site.answers["/docs/moved"] = redirect("/docs/page1.html")
    site.answers["/docs/slow"] = send_slowly
    site.answers["/docs/broken"] = lambda request: request.answer(500, b"")
    site.answers["/docs/loop"] = redirect("/docs/loop")
    site.html("/docs/deep/", "Deep", "A trap.", ("deep/",))
    for depth in range(2, 30):
        site.html("/docs/" + "deep/" * depth, f"Deep {depth}", "A trap.", ("deep/",))

    change = library.outside.add(f"{site.address}/docs/", name="docs")
    stored = _urls(library, "docs@source")
    assert {f"{site.address}/docs/page{number}.html" for number in range(count)} <= set(stored)
    assert f"{site.address}/docs/slow" in stored
    assert not any("/outside/" in url or "?" in url for url in stored)
    assert site.seen["/outside/"] == 0
    notes = "\n".join(change.notes)
    for reason in ("status 500", "5 redirects", "with a query", "too deep"):
        assert reason in notes, reason
    answer = library.search(f"lamp number word{count - 1}", filters=SOURCES)
    hit = answer.hits[0]
    assert hit.origin == f"{site.address}/docs/page{count - 1}.html"
    assert hit.state == "same"

    # Nothing changed: no page is sent again.
    before = site.fresh.copy()
    again = library.outside.update(["docs"])[0]
    assert (again.added, again.changed, again.removed) == ((), (), ())
    assert not site.fresh - before

    site.html("/docs/page3.html", "Page 3", "Now it is a foghorn.", ("page4.html",))
    del site.pages["/docs/page5.html"]
    site.answers["/docs/page7.html"] = lambda request: request.answer(503, b"")
    changed = library.outside.update(["docs"])[0]
    assert changed.changed == ("docs/page3.html",)
    assert "docs/page5.html" in changed.removed
    # What cannot be fetched for the moment stays.
    assert f"{site.address}/docs/page7.html" in _urls(library, "docs@source")
    assert library.search("foghorn", filters=SOURCES).hits[0].uri == "docs/page3.html"


def test_a_list_of_links_and_a_sitemap_are_followed(library: Library, site: Site) -> None:
    site.pages["/llms.txt"] = (
        b"# Docs\n\n- [Keys](/a/keys.md): how\n- [Out](https://example.org/)\n"
    )
    site.pages["/a/keys.md"] = b"# Keys\n\nRotate the signing key.\n"
    site.html("/map/one", "One", "First page.")
    site.pages["/map.xml"] = (
        f"<urlset><url><loc>{site.address}/map/one</loc></url></urlset>".encode()
    )
    assert set(library.outside.add(f"{site.address}/llms.txt", name="list").added) == {
        "llms.md", "a/keys.md",
    }  # fmt: skip
    assert library.outside.add(f"{site.address}/map.xml", name="map").added == ("map/one.html",)
    change = library.outside.add(f"{site.address}/map/one", name="one", options={"only_page": True})
    assert change.added == ("map/one.html",)


def test_robots_are_respected(library: Library, site: Site) -> None:
    site.pages["/robots.txt"] = b"User-agent: *\nDisallow: /docs/private/\n"
    site.html("/docs/", "Start", "Text.", ("private/a", "open"))
    site.html("/docs/open", "Open", "Text for all.")
    site.html("/docs/private/a", "Private", "Not for programs.")
    change = library.outside.add(f"{site.address}/docs/", name="docs")
    assert site.seen["/docs/private/a"] == 0
    assert "robots.txt disallows it" in "\n".join(change.notes)
    assert len(change.added) == 2


def test_hostile_answers_are_refused_with_reasons(library: Library, site: Site) -> None:
    links = ("endless", "bomb", "picture", "away", "file", "login")
    site.html("/docs/", "Start", "Text.", links)
    site.answers["/docs/endless"] = send_endless
    site.answers["/docs/bomb"] = send_bomb
    site.answers["/docs/picture"] = lambda request: request.answer(200, b"\x89PNG", "image/png")
    site.answers["/docs/away"] = redirect("http://169.254.169.254/latest/meta-data/")
    site.answers["/docs/file"] = redirect("file:///etc/passwd")
    site.answers["/docs/login"] = redirect("http://me:secret@127.0.0.1/")
    settings: dict[str, Any] = {}
    change = library.outside.add(f"{site.address}/docs/", name="docs", options=settings)
    assert change.added == ("docs/index.html",)
    notes = "\n".join(change.notes)
    for reason in (
        "larger than 10,000,000 bytes", "type image/png", "not a web address (file)",
        "user or password",
    ):  # fmt: skip
        assert reason in notes, (reason, notes)


OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
DRIBBLES = {
    "silence": ("http", b"", b""),
    "headers": ("http", OK + b"X-Long: ", b"a"),
    "early hints": ("http", b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
    "a chunk extension": ("http", OK + b"Transfer-Encoding: chunked\r\n\r\n5;x=", b"a"),
    "a body": ("http", OK + b"Content-Length: 9999\r\n\r\n", b"a"),
    "a silent handshake": ("https", b"", b""),
    "a slow handshake": ("https", b"\x16\x03\x03\x3f\xff\x02\x00\x3f\xfb", b"\x03"),
}


@pytest.mark.parametrize("name", DRIBBLES)
def test_one_deadline_is_for_everything_that_a_page_needs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_PAGE_SECONDS", 0.5)
    monkeypatch.setattr(client_module, "_STEP_SECONDS", 0.05)
    scheme, start, repeated = DRIBBLES[name]
    with (
        serve_dribble(start, repeated) as (host, _),
        closing(Client(100_000, allow_private=True)) as client,
        pytest.raises(FetchFailed, match="took longer than"),
    ):
        client.get(f"{scheme}://{host}/")


@pytest.mark.parametrize("name", DRIBBLES)
def test_a_fetch_is_stopped_while_it_waits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(Exception):
        pass

    def stop_when_connected() -> None:
        if count():
            raise Stopped

    for limit in ("_PAGE_SECONDS", "_READ_SECONDS"):
        monkeypatch.setattr(client_module, limit, float("inf"))
    scheme, start, repeated = DRIBBLES[name]
    with (
        serve_dribble(start, repeated) as (host, count),
        closing(Client(100_000, allow_private=True, on_wait=stop_when_connected)) as client,
        pytest.raises(Stopped),
    ):
        client.get(f"{scheme}://{host}/")


def test_redirects_do_not_extend_the_deadline(site: Site) -> None:
    def hold(request: Any) -> None:
        client._network.deadline = 0.0
        request.answer(302, b"", Location="/b")

    site.answers["/a"] = hold
    site.html("/b", "B", "Text.")
    with (
        closing(Client(100_000, allow_private=True)) as client,
        pytest.raises(FetchFailed, match="took longer than"),
    ):
        client.get(f"{site.address}/a")


def test_one_bad_page_costs_only_itself(library: Library, site: Site) -> None:
    """Also with bad lines in robots.txt, bad entries of a sitemap and bad links everywhere."""
    digits = "9" * 5_000
    raw = "/docs/größe".encode().decode("latin-1")
    deep = f"/docs/{'d/' * 25}"
    long = "ü" * 100
    site.pages["/robots.txt"] = (
        "User-agent: *\nDisallow: //[\nAllow: http://[::1/x\nCrawl-delay: \u00b2\n"
        f"Crawl-delay: {digits}\nRequest-rate: \u00b2/1\nDisallow: /docs/private\n"
        "Sitemap: http://[x/\n"
    ).encode()
    site.pages["/docs/sitemap.xml"] = (
        f"<urlset><loc>http://[x/</loc><loc>&#{digits};</loc><loc>http://h:x/</loc>"
        f"<loc>{site.address}/docs/mapped</loc></urlset>"
    ).encode()
    links = (
        *("moved", "bracket", "based", "deep", "private", "latin", "plain", "port", "loop"),
        *("http://[::1/x", "//[", f"&#{digits};", "http://h:99999/", "http://h\0/", long),
    )
    site.html("/docs/", "Start", "Text.", links)
    site.html("/docs/gr%C3%B6%C3%9Fe", "Moved", "Text of the page that moved.")
    site.html(deep, "Deep", "Text.")
    site.html(f"/docs/{'%C3%BC' * 100}", "Long", "Text of a long name.")
    for name in ("plain", "mapped", "near", "private"):
        site.html(f"/docs/{name}", name, f"Text of {name}.")
    site.pages["/docs/based"] = b'<base href="http://[x/"><h1>Based</h1><a href="near">near</a>'
    site.answers["/docs/moved"] = redirect(raw)
    site.answers["/docs/bracket"] = redirect("http://[::1/x")
    site.answers["/docs/port"] = redirect("http://127.0.0.1:99999/")
    site.answers["/docs/deep"] = redirect(deep)
    site.answers["/docs/latin"] = lambda request: request.answer(
        200, b"<h1>Latin</h1>", ETag='"\u00e9"'
    )
    change = library.outside.add(f"{site.address}/docs/", name="docs")
    assert {name.removeprefix("docs/") for name in change.added} == {
        "index.html", "größe.html", "based.html", "near.html", "latin.html", "plain.html",
        "mapped.html", f"{long}.html",
    }  # fmt: skip
    notes = "\n".join(change.notes)
    assert f"2 pages skipped: not an address: {site.address}/docs/bracket" in notes
    assert f"1 page skipped: address is too deep or long: {site.address}/docs/deep" in notes
    assert f"1 page skipped: robots.txt disallows it: {site.address}/docs/private" in notes
    (again,) = library.outside.update(["docs"])
    assert (again.added, again.changed, again.removed) == ((), (), ())


def test_bytes_after_the_end_of_a_compressed_page_are_not_read(site: Site) -> None:
    site.answers["/"] = send_trailing
    with closing(Client(100_000, allow_private=True)) as client:
        assert b"whole page" in client.get(f"{site.address}/").body


def test_the_addresses_that_wait_are_limited(
    library: Library, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def list_pages(first: int, last: int) -> bytes:
        rows = (f"<loc>{site.address}/docs/{number}</loc>" for number in range(first, last))
        return f"<urlset>{''.join(rows)}</urlset>".encode()

    monkeypatch.setattr(sites, "_MOST_LINKS", 9)
    monkeypatch.setattr(sites, "_SPARE_ADDRESSES", 15 - 10 * library.settings.outside.max_pages)
    site.html("/docs/", "Start", "Text.")
    site.pages["/robots.txt"] = f"Sitemap: {site.address}/maps.xml".encode()
    maps = "".join(f"<loc>{site.address}/map{number}.xml</loc>" for number in range(60))
    site.pages["/maps.xml"] = f"<sitemapindex>{maps}</sitemapindex>".encode()
    for number in range(60):
        site.pages[f"/map{number}.xml"] = list_pages(100 * number, 100 * number + 50)
    change = library.outside.add(f"{site.address}/docs/", name="docs")
    pages = {path for path in site.seen if path.startswith("/docs/") and path[6:].isdigit()}
    assert pages == {f"/docs/{number}" for number in (*range(9), *range(100, 106))}
    assert "1 page skipped: more addresses than can be fetched" in "\n".join(change.notes)
    assert sum(path.startswith("/map") for path in site.seen) < 60


def test_private_addresses_are_refused_also_after_a_redirect(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Client(1_000)) as client, pytest.raises(FetchFailed, match="not a public address"):
        client.get(f"{site.address}/")
    assert not site.seen
    # A public name that redirects to this machine: only the first address is allowed here.
    from lookfar.sources import site as module

    real = find_addresses

    def find(host: str, port: int, *, allow_private: bool = False) -> list[str]:
        public = host == "docs.example.org"
        return ["127.0.0.1"] if public else real(host, port, allow_private=allow_private)

    monkeypatch.setattr(module, "find_addresses", find)
    port = site.address.rpartition(":")[2]
    site.answers["/"] = redirect(f"{site.address}/secret")
    with closing(Client(1_000)) as client, pytest.raises(FetchFailed, match="not a public address"):
        client.get(f"http://docs.example.org:{port}/")
    assert site.seen == {"/": 1}


def test_an_interrupted_fetch_continues(
    library: Library, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sites, "_SAVE_EVERY", 1)
    for number in range(6):
        site.html(f"/docs/{number}", f"Page {number}", f"Text {number}.", (str(number + 1),))
    real, calls = Client.get, 0

    def get(self: Client, url: str, **given: Any) -> Any:
        nonlocal calls
        calls += "/docs/" in url
        if calls > 4:
            raise KeyboardInterrupt
        return real(self, url, **given)

    monkeypatch.setattr(Client, "get", get)
    with pytest.raises(KeyboardInterrupt):
        library.outside.add(f"{site.address}/docs/0", name="docs")
    assert library.outside.list_all() == ()
    monkeypatch.setattr(Client, "get", real)
    before = site.seen["/docs/0"]
    change = library.outside.add(f"{site.address}/docs/0", name="docs")
    assert len(change.added) == 6
    assert site.seen["/docs/0"] == before


def test_a_site_that_does_not_answer_is_an_error_and_changes_nothing(
    library: Library, site: Site
) -> None:
    site.html("/docs/", "Start", "Text.")
    library.outside.add(f"{site.address}/docs/", name="docs")
    site.answers["/docs/"] = lambda request: request.answer(404, b"")
    with pytest.raises(IOFailed, match="No page"):
        library.outside.update(["docs"])
    assert library.outside.get("docs").files == 1
    with pytest.raises(LookfarError, match=r"no-such-host\.invalid was not found"):
        library.outside.add("http://no-such-host.invalid/", name="none")


def test_a_site_that_moved_to_www_is_followed_there(
    library: Library, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lookfar.sources import site as module

    monkeypatch.setattr(module, "find_addresses", lambda *_, **__: ["127.0.0.1"])
    port = site.address.rpartition(":")[2]
    old, new = (f"http://{host}example.org:{port}" for host in ("", "www."))

    def answer(request: Any) -> None:
        if request.headers["Host"].startswith("www."):
            request.answer(200, site.pages["/docs/"])
        else:
            redirect(f"{new}/docs/")(request)

    site.html("/docs/", "Start", "Text.", (f"{new}/docs/a",))
    site.html("/docs/a", "A", "Text of a.")
    site.html("/docs/b", "B", "No link leads here.")
    site.pages["/docs/sitemap.xml"] = f"<urlset><loc>{new}/docs/b</loc></urlset>".encode()
    site.answers["/docs/"] = answer
    change = library.outside.add(f"{old}/docs/", name="docs")
    assert change.added == ("docs/a.html", "docs/b.html", "docs/index.html")
    assert change.notes == ()
    del site.pages["/docs/sitemap.xml"]
    (change,) = library.outside.update(["docs"])
    assert change.removed == ()


def test_a_page_that_redirects_elsewhere_is_stored_alone_and_says_so(
    library: Library, site: Site
) -> None:
    site.html("/other/", "Start", "Text.", ("a",))
    site.html("/other/a", "A", "Text of a.")
    site.answers["/docs/"] = redirect(f"{site.address}/other/")
    change = library.outside.add(f"{site.address}/docs/", name="docs")
    assert change.added == ("other/index.html",)
    assert f"it redirects to {site.address}/other/" in change.notes[0]
    change = library.outside.add(f"{site.address}/docs/", name="page", options={"only_page": True})
    assert change.notes == ()


def test_a_network_that_fails_during_an_update_loses_no_page(
    library: Library, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lookfar.sources import site as module

    real, is_down = find_addresses, False

    def find(host: str, port: int, *, allow_private: bool = False) -> list[str]:
        host = "no-such-host.invalid" if is_down else "127.0.0.1"
        return real(host, port, allow_private=allow_private)

    def fail_from_now_on(request: Any) -> None:
        nonlocal is_down
        is_down = True
        request.answer(200, b"<h1>Start</h1><p>Other text.</p>", Connection="close")

    monkeypatch.setattr(module, "find_addresses", find)
    site.html("/docs/", "Start", "Text.", ("a", "b"))
    site.html("/docs/a", "A", "Text of a.")
    site.html("/docs/b", "B", "Text of b.")
    port = site.address.rpartition(":")[2]
    library.outside.add(f"http://docs.example.org:{port}/docs/", name="docs")
    site.answers["/docs/"] = fail_from_now_on
    (change,) = library.outside.update(["docs"])
    assert (change.changed, change.removed) == (("docs/index.html",), ())
    assert "was not found; the page of the last fetch stays" in "\n".join(change.notes)


def test_a_page_whose_file_is_lost_is_fetched_again(library: Library, site: Site) -> None:
    site.html("/docs/", "Start", "Text.", ("a",))
    site.html("/docs/a", "A", "Text of a.")
    source = library.outside.add(f"{site.address}/docs/", name="docs").source
    (library._outside.shelf.files_folder(source) / "docs" / "a.html").unlink()
    (change,) = library.outside.update(["docs"])
    assert change.added == ("docs/a.html",)


def test_the_error_says_why_no_page_could_be_fetched(
    library: Library, tmp_path: Path, site: Site
) -> None:
    site.html("/docs/", "Start", "Text.")
    with (
        Library.open(tmp_path, settings={"embed.provider": "hash"}) as careful,
        pytest.raises(IOFailed, match="which is not a public address"),
    ):
        careful.outside.add(f"{site.address}/docs/")
    site.answers["/robots.txt"] = lambda request: request.answer(500, b"")
    with pytest.raises(IOFailed, match=r"robots\.txt cannot be read: status 500"):
        library.outside.add(f"{site.address}/docs/")


def test_at_most_as_many_pages_as_the_settings_allow(tmp_path: Path, site: Site) -> None:
    for number in range(10):
        site.html(f"/docs/{number}", f"Page {number}", f"Text {number}.", (str(number + 1),))
    settings = {
        "embed.provider": "hash", "outside.pause_ms": 0, "outside.allow_private": True,
        "outside.max_pages": 4,
    }  # fmt: skip
    with Library.open(tmp_path, settings=settings) as opened:
        change = opened.outside.add(f"{site.address}/docs/0", name="docs")
    assert len(change.added) == 4
    assert "outside.max_pages" in change.notes[0]


ADDRESSES = st.text() | st.builds(
    "".join,
    st.lists(
        st.sampled_from(
            [
                *("http:", "https:", "//", "h", "[", "]", "::1", "@", ":", "0", "99999", "/", ".."),
                *("?", "#", "%", "%5B", "%00", "%ED%A0%80", "ü", "℀", "\0", "\udc80", " ", "\n"),
                *("&#", "9" * 5_000, ";", "a" * 300, "é" * 200),
            ]
        )
    ),
)


@given(ADDRESSES, ADDRESSES)
def test_no_text_of_a_site_is_an_error(text: str, base: str) -> None:
    """Whatever is written as an address is one that can be asked for and stored, or none."""
    page = f'<base href="{base}"><a href="{text}">'.encode("utf-8", "replace").decode()
    found = [normalise_url(text, base), normalise_url(text, "http://h/a/")]
    for url in (*found, *find_links(page, "http://h/a/")):
        if url:
            assert url.isascii()
            assert parse_address(url).geturl()
            name = name_file(url, "text/html")
            assert all(len(part.encode()) <= 246 for part in name.split("/"))
            Path(name).is_dir()


@pytest.mark.parametrize(
    ("url", "base", "expected"),
    [
        ("http://[::1/x", "", ""),
        ("http://h%5B/", "", ""),
        (
            "//BÜCHER.example/ö?q=ä b",
            "https://h/",
            "https://xn--bcher-kva.example/%C3%B6?q=%C3%A4%20b",
        ),
        ("http://[::1]:8080/", "", "http://[::1]:8080/"),
        ("../b#part", "https://h/a/c/d", "https://h/a/b"),
        ("HTTPS://H:443/x/./y/../z", "", "https://h/x/z"),
        ("/%7Euser/%C3%A4", "http://h/", "http://h/~user/%C3%A4"),
        ("/a b", "http://h/", "http://h/a%20b"),
        ("mailto:a@b", "http://h/", ""),
        ("javascript:alert(1)", "http://h/", ""),
        ("http://user@h/", "", ""),
        ("http://h:99999/", "", ""),
        ("/../../etc", "http://h/", "http://h/etc"),
    ],
)
def test_addresses_have_one_form(url: str, base: str, expected: str) -> None:
    assert normalise_url(url, base) == expected


def test_links_are_found_in_bad_markup_in_linear_time() -> None:
    text = '<a\nhref=\'a\'><A HREF=b>x</A><a class="c" href="c&amp;d"><a href=' + "<a " * 200_000
    assert list(find_links(text, "http://h/"))[:3] == ["http://h/a", "http://h/b", "http://h/c&d"]


@pytest.mark.parametrize(
    ("url", "kind", "expected"),
    [
        ("http://h/", "text/html", "index.html"),
        ("http://h/guide", "text/html", "guide.html"),
        ("http://h/a/b.html", "text/html", "a/b.html"),
        ("http://h/a/b.md", "text/plain", "a/b.md"),
        ("http://h/llms-full.txt", "text/plain", "llms-full.md"),
        ("http://h/a%2F..%2F..%2Fetc", "text/html", "a_.._.._etc.html"),
        ("http://h/CON", "text/plain", "CON.txt"),
    ],
)
def test_pages_are_stored_under_their_own_path(url: str, kind: str, expected: str) -> None:
    assert name_file(url, kind) == expected
