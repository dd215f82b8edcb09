"""The page in a real browser: searched, filtered, read, looked at and rolled back by hand.

Every test ends with the fixture's own: nothing failed, and the policy had nothing to refuse.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from serve.http.asking import Served, serving
from serve.web.chrome import Chrome, Page
from serve.web.corpus import MANY, TEXTS, write_corpus
from text.extract.made_pdf import column, make_pdf
from waiting import wait_for

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Chromium is driven over POSIX pipes")

HITS = "document.querySelectorAll('.hit .title').length"
SETTLED = "!document.querySelector('main[aria-busy]') && document.querySelector('.summary strong')"


def search(page: Page, served: Served, query: str, more: str = "") -> None:
    page.open(f"{served.address}/#/search?q={query}{more}")
    page.wait(SETTLED)


def uris(page: Page) -> list[str]:
    found: list[str] = page.eval(
        "[...document.querySelectorAll('.hit .crumbs bdi:first-child')].map((e) => e.textContent)"
    )
    return found


def total(page: Page) -> int:
    return int(re.sub(r"\D", "", page.text(".summary strong")))


def facets(page: Page) -> dict[str, int]:
    """Every filter that is offered, with its count."""
    found: dict[str, int] = page.eval(
        "Object.fromEntries([...document.querySelectorAll('.facet')].map((e) => "
        "[(e.dataset.facet || e.querySelector('[data-facet]').dataset.facet), "
        "Number(e.querySelector('.count')?.textContent ?? -1)]))"
    )
    return found


def choose(page: Page, facet: str) -> None:
    before = page.eval("location.hash")
    # Not with the mouse: a group of filters that arrives later moves those below it.
    page.eval(f"document.querySelector({json.dumps(f'[data-facet={json.dumps(facet)}]')}).click()")
    page.wait(f"location.hash !== {json.dumps(before)}")
    page.wait(SETTLED)


def test_the_first_view_is_here_with_few_bytes(page: Page, site: Served) -> None:
    """As the browser counts them: page, files, and the first answers, heads and all."""
    page.open(site.address)
    page.wait("document.querySelector('.start .lead')")
    sent = page.eval(
        "['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind))"
        ".reduce((sum, each) => sum + each.transferSize, 0)"
    )
    assert 50_000 < sent < 150_000
    assert not page.eval("performance.getEntriesByType('resource')"
                         ".some((each) => each.name.endsWith('graph.js'))")  # fmt: skip


# --- search -------------------------------------------------------------------------------------


def test_results_come_while_typing(page: Page, site: Served) -> None:
    page.open(site.address)
    page.wait("document.querySelector('.start .lead')")
    assert "documents" in page.text(".start .lead")
    page.click("#q")
    page.type("harb")
    page.type("our lamp")
    page.wait(f"{HITS} > 3 && document.querySelector('.inspector h2')")
    page.wait("location.hash.includes('harbour+lamp')")
    page.wait("[...document.querySelectorAll('.hit mark')].some((e) => /lamp/i.test(e.innerText))")
    marked = page.eval("[...document.querySelectorAll('.hit mark')].map((e) => e.textContent)")
    assert {"harbour", "lamp"} <= {word for each in marked for word in each.lower().split()}
    assert page.eval("document.activeElement.id") == "q"
    page.wait("document.querySelector('#live').textContent.endsWith('results')")


def test_every_score_is_explained_by_a_chart(page: Page, site: Served) -> None:
    search(page, site, "harbour")
    answer = site.ask("POST", "/api/search", {"query": "harbour"}).json
    best = answer["hits"][0]
    steps = [each for each in best["explanation"] if each["value"]]
    assert len(steps) >= 2
    page.wait("document.querySelector('.story li')")
    assert not page.eval("document.querySelector('.story').checkVisibility()")
    page.click(".why summary")
    page.wait("document.querySelector('.story').checkVisibility()")
    shown = page.eval(
        "[...document.querySelectorAll('.story li')].map((e) => [e.querySelector('.stage')"
        ".textContent, e.querySelector('.value').textContent, Number(e.querySelector("
        "'rect.plus, rect.minus').getAttribute('width'))])"
    )
    assert [each[0] for each in shown] == [each["stage"] for each in steps]
    values = [float(each[1].replace("−", "-")) for each in shown]
    assert values == [round(each["value"], 3) for each in steps]
    by_size = sorted(zip(values, (each[2] for each in shown), strict=True), key=lambda e: abs(e[0]))
    widths = [each[1] for each in by_size]
    assert widths == sorted(widths)
    sparks = page.eval(
        "[...document.querySelectorAll('.spark')].map((e) => e.getAttribute('aria-label'))"
    )
    assert sparks[0].startswith(f"Score {best['score']:.3f}: {steps[0]['stage']}")


def test_filters_narrow_and_count(page: Page, site: Served) -> None:
    search(page, site, "harbour")
    everything, offered = total(page), facets(page)
    assert offered["lane:code"] == 2
    assert offered["lane:code"] + offered["lane:docs"] == everything
    choose(page, "lane:code")
    assert sorted(uris(page)) == ["code/harbour.py", "code/lamp.js"]
    assert total(page) == offered["lane:code"]
    choose(page, "language:python")
    assert uris(page) == ["code/harbour.py"]
    page.click(".chip")  # lets go of the kind
    page.wait("!location.hash.includes('lane=')")
    page.wait(SETTLED)
    page.click(".chip")
    page.wait("!location.hash.includes('language=')")
    page.wait(SETTLED)
    assert total(page) == everything
    choose(page, "path:sea/")
    assert {uri.partition("/")[0] for uri in uris(page)} == {"sea"}
    assert total(page) == offered["path:sea/"]
    choose(page, "tag:safe")
    assert set(uris(page)) == {"sea/harbour.md"}
    choose(page, "path:")
    choose(page, "age:day")
    assert total(page) > 0
    page.eval("document.querySelector('.chip')")
    search(page, site, "harbour", "&before=2001-01-01")
    assert page.text(".summary strong") == "0 results"
    assert "Nothing found" in page.text(".notes")


def test_filters_come_back_with_the_address(page: Page, site: Served) -> None:
    search(page, site, "harbour", "&lane=code&language=python")
    assert uris(page) == ["code/harbour.py"]
    assert page.eval("document.querySelector('[data-facet=\"lane:code\"]').checked")


# --- the graph ----------------------------------------------------------------------------------


def test_the_graph_is_clicked_through(page: Page, site: Served) -> None:
    page.open(f"{site.address}/#/graph")
    page.wait("document.querySelector('[data-settled]')")
    nodes = site.ask("POST", "/api/graph", {}).json["nodes"]
    assert page.count(".node") == len(nodes) == page.count(".entries button")
    at = next(number for number, each in enumerate(nodes) if each["uri"] == "sea/lamp.md")
    page.click(f".node[data-at='{at}']")
    page.wait("document.querySelector('.detail h2')")
    assert page.text(".detail h2") == "Lamp"
    faint = page.count(".node.faint")
    assert faint == len(nodes) - 1 - nodes[at]["links"]
    page.click(".detail .button.main")
    page.wait("document.querySelector('.sheet h1')")
    assert page.text(".sheet h1") == "Lamp"


def test_the_graph_is_zoomed_moved_and_filtered(page: Page, site: Served) -> None:
    page.open(f"{site.address}/#/graph")
    page.wait("document.querySelector('[data-settled]')")

    def view() -> tuple[float, float, float]:
        told = page.eval("document.querySelector('.scene').getAttribute('transform')")
        x, y, k = map(float, re.findall(r"-?[\d.]+", told))
        return x, y, k

    before = view()
    page.wheel(".canvas", -300)
    page.wait(
        "Number(document.querySelector('.scene').getAttribute('transform')"
        f".match(/scale\\(([\\d.]+)/)[1]) > {before[2]}"
    )
    zoomed = view()
    x, y = 40.0, 400.0
    page.send(
        "Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1
    )
    page.send(
        "Input.dispatchMouseEvent", type="mouseMoved", x=x + 80, y=y, button="left", buttons=1
    )
    page.send(
        "Input.dispatchMouseEvent", type="mouseReleased", x=x + 80, y=y, button="left", clickCount=1
    )
    assert view()[0] > zoomed[0]
    page.click("#graph-filter")
    page.type("oven")
    page.wait("document.querySelectorAll('.entries li').length === 1")
    assert page.count(".node:not(.faint)") == 1
    page.open(f"{site.address}/#/graph?community=1")
    page.wait("document.querySelector('[data-settled]')")
    members = {
        each["community"] for each in site.ask("POST", "/api/graph", {"community": 1}).json["nodes"]
    }
    assert members == {1}
    assert page.count(".node") < len(site.ask("POST", "/api/graph", {}).json["nodes"])


# --- generations --------------------------------------------------------------------------------


@pytest.fixture
def changing(tmp_path: Path) -> Iterator[Served]:
    """A server whose documents a test may change."""
    write_corpus(tmp_path / "docs")
    with serving(tmp_path, "--log-level", "error") as served:
        served.ask("POST", "/api/search", {"query": "harbour"})
        yield served


def newest(served: Served) -> int:
    kept = served.ask("POST", "/api/generations", {}).json["snapshots"]
    return int(kept[-1]["generation"])


def finds(served: Served, word: str) -> bool:
    hits = served.ask("POST", "/api/search", {"query": word}).json["hits"]
    return any(word in hit["text"] for hit in hits)


def test_a_change_is_seen_compared_and_rolled_back(page: Page, changing: Served) -> None:
    page.open(f"{changing.address}/#/generations")
    page.wait("document.querySelectorAll('.generations li').length === 1")
    lamp = changing.root / "sea" / "lamp.md"
    lamp.write_text(
        lamp.read_text(encoding="utf-8").replace("whale oil", "kerosene"), encoding="utf-8"
    )
    (changing.root / "sea" / "fog.md").write_text("# Fog\n\nRing the bell.\n", encoding="utf-8")
    # The page is not reloaded: it gets an event.
    page.wait("document.querySelectorAll('.generations li').length >= 2")
    # One pass or two: a busy machine may stop this thread between the two changes.
    for word in ("kerosene", "bell"):
        wait_for(lambda: finds(changing, word), "both changes are indexed")  # noqa: B023
    last = newest(changing)
    page.wait(
        "document.querySelector('.generations li.active').textContent"
        f".includes('Generation {last}')"
    )
    page.click(".generations li:last-child .actions button")  # compares the first with now
    page.wait("document.querySelector('.difference h2')")
    assert "sea/fog.md" in page.text(".difference .changes.plus")
    assert "sea/lamp.md" in page.text(".difference")
    back = ".generations li:last-child .danger"
    page.click(back)
    page.wait("document.querySelector('#confirm[open]')")
    assert page.eval("document.activeElement.id") == "confirm-no"
    page.eval(
        "(() => { const [ask, asked] = [window.fetch, (window.__asked = [])];"
        " window.fetch = (...all) => (asked.push(all[0]), ask(...all)); })()"
    )
    page.click("#confirm-no")
    page.wait("!document.querySelector('#confirm[open]')")
    assert "/api/rollback" not in page.eval("window.__asked")
    assert changing.ask("POST", "/api/generations", {}).json["held"] is None
    page.click(back)
    page.click("#confirm-yes")
    page.wait("window.__asked.includes('/api/rollback')")
    page.wait("document.querySelector('.generations li:last-child.active')")
    assert "Rolled back to generation 1" in page.text(".banner")
    page.wait("document.querySelector('#pulse').dataset.state === 'held'")
    search(page, changing, "lamp+oil")
    page.wait("document.querySelector('.notes').innerText.includes('held')")
    old = page.eval("[...document.querySelectorAll('.hit')].find((e) => e.innerText.includes("
                    "'sea/lamp.md')).innerText")  # fmt: skip
    assert "changed since indexed" in old
    assert "whale oil" in old
    page.open(f"{changing.address}/#/generations")
    page.wait("document.querySelector('.banner button')")
    page.click(".banner button")
    page.click("#confirm-yes")
    page.wait("document.querySelector('.generations li:first-child.active')")
    assert changing.ask("POST", "/api/generations", {}).json["held"] is None


def test_health_follows_the_index(page: Page, changing: Served) -> None:
    page.open(f"{changing.address}/#/health")
    page.wait("document.querySelector('.big dd')")
    before = len(TEXTS) + 2  # and the two that are hostile
    assert page.text(".big dd") == str(before)
    page.wait("document.querySelector('.verdict').innerText.includes('Up to date')")
    (changing.root / "new.md").write_text("# New\n\nOne more.\n", encoding="utf-8")
    page.wait(f"document.querySelector('.big dd').innerText === '{before + 1}'")
    # Until the pass has ended, it says how far that is.
    wanted = f"{before + 1} documents"
    page.wait(f"document.querySelector('#pulse-text').innerText === '{wanted}'")


def test_a_page_of_a_pdf_and_a_skipped_picture_are_named(page: Page, changing: Served) -> None:
    first = column(50, 700, "Pilots are paid by the fathom.")
    second = column(50, 700, "A quagga may not board a pilot boat.")
    (changing.root / "rules.pdf").write_bytes(make_pdf(first, second))
    (changing.root / "chart.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    search(page, changing, "quagga pilot boat")
    page.wait("document.querySelector('.hit .line').innerText === '#page=2'")
    page.open(f"{changing.address}/#/health")
    page.wait("document.querySelector('.skipped')?.innerText.includes('chart.png (image)')")


# --- documents are hostile ----------------------------------------------------------------------

QUIET = """({
    ran: window.__ran === undefined,
    elements: [...document.querySelectorAll('main script, main iframe, main img, main style, '
        + 'main base, main meta, main form, main object, '
        + 'main embed, main math, main video')].length,
    links: [...document.querySelectorAll('main a')].map((e) => e.getAttribute('href'))
        .filter((e) => !e.startsWith('#/')),
    handlers: [...document.querySelectorAll('main *')].filter((e) => [...e.attributes]
        .some((a) => a.name.startsWith('on') || a.name === 'style' && !e.closest('.list, .canvas')
            || a.name === 'srcdoc' || a.name === 'src')).length,
    requests: performance.getEntriesByType('resource').map((e) => new URL(e.name).origin)
        .filter((e) => e !== location.origin),
})"""


def test_nothing_in_a_document_executes(page: Page, site: Served) -> None:
    """Scripts, handlers, links that are code, markup in names, titles and tags; on every view."""
    views: list[tuple[str, Callable[[], Any]]] = [
        ("#/search?q=harbour+master", lambda: page.wait("document.querySelector('.passage')")),
        ("#/read?u=notes/hostile.md", lambda: page.wait("document.querySelector('.ctl')")),
        ("#/graph", lambda: page.wait("document.querySelector('[data-settled]')")),
        ("#/generations", lambda: page.wait("document.querySelector('.generations li')")),
        ("#/health", lambda: page.wait("document.querySelector('.card')")),
        ("#/search", lambda: page.wait("document.querySelector('.recent')")),
        (
            "#/read?u=<img src=x onerror=window.__ran=40>",
            lambda: page.wait("document.querySelector('.problem')"),
        ),
        (
            "#/search?q=<svg onload=window.__ran=41>&tag=<script>window.__ran=42</script>",
            lambda: page.wait(SETTLED),
        ),
        ("#/constructor?__proto__=1", lambda: page.wait("document.querySelector('.start .lead')")),
    ]  # fmt: skip
    for place, arrived in views:
        page.open(f"{site.address}/{place}")
        arrived()
        # Whatever reacts to being looked at, or to a pointer, gets its chance.
        page.eval("document.querySelectorAll('main a, main button, main bdi').forEach((e) => "
                  "e.dispatchEvent(new MouseEvent('mouseover', {bubbles: true})))")  # fmt: skip
        found = page.eval(QUIET)
        assert found == {"ran": True, "elements": 0, "links": [], "handlers": 0, "requests": []}, (
            place
        )
        assert page.seen() == {"violations": [], "errors": []}, place


def test_the_browser_refuses_what_our_own_code_never_asks_for(
    browser: Chrome, site: Served
) -> None:
    """The policy holds for itself: inline code, handlers and markup from strings do not run."""
    with browser.page() as page:
        page.open(site.address)
        page.wait("document.querySelector('.start .lead')")
        for attempt in (
            ("const s = document.createElement('script'); s.text = 'window.__ran = 1';"
            " document.body.append(s);"),
            "document.body.setAttribute('onclick', 'window.__ran = 2'), document.body.click()",
            "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=window.__ran=3>')",
            "window.setTimeout('window.__ran = 4', 0)",
            ("document.body.append(Object.assign(document.createElement('iframe'),"
            " {src: 'https://example.org'}))"),
        ):  # fmt: skip
            page.eval(f"(() => {{ try {{ {attempt} }} catch (error) {{ }} }})()")
        page.wait("window.__seen.violations.length >= 4")
        # Whatever was not refused has run by then.
        page.eval("new Promise((done) => setTimeout(done, 200))")
        assert page.eval("window.__ran === undefined")


# --- many ---------------------------------------------------------------------------------------


SCROLL = """new Promise((done) => {
    const pane = document.querySelector('.results');
    let count = 0;
    const step = () => {
        pane.scrollTop += 240;
        pane.dispatchEvent(new Event('scroll'));
        void pane.offsetHeight;
        // By timer, because a browser without a screen now and then draws no frame for minutes.
        if (++count < 30) setTimeout(step, 16); else done();
    };
    step();
})"""


def shows(position: int) -> str:
    """Whether the result at this position has loaded."""
    return f"document.querySelector('.hit[aria-posinset=\"{position}\"] .title')"


def test_ten_thousand_results_stay_quick(page: Page, many: Served) -> None:
    search(page, many, "harbour")
    assert page.text(".summary strong") == "100+ results"
    assert page.count(".hit") < 40
    # To the end of what is there: then all of it is ranked.
    page.eval("document.querySelector('.results').scrollTop = 1e9")
    page.wait(f"document.querySelector('.summary strong').innerText.startsWith('{MANY:,}')")
    page.eval("document.querySelector('.results').scrollTop = 1e9")
    page.wait(shows(MANY))
    assert page.count(".hit") < 40
    assert page.eval("document.querySelector('.hit').getAttribute('aria-setsize')") == str(MANY)
    page.eval("document.querySelector('.results').scrollTop = 5000 * 120")
    page.wait(shows(5001))
    # A list of ten thousand nodes would take hundreds of milliseconds for each of thirty frames.
    seconds = page.measure(SCROLL)
    assert seconds < 3
    seen: list[str] = page.eval(
        "[...document.querySelectorAll('.hit .crumbs bdi:first-child')].map((e) => e.textContent)"
    )
    assert len(seen) == len(set(seen))


# --- keyboard -----------------------------------------------------------------------------------


def test_a_late_answer_neither_ends_the_wait_nor_moves_the_reader(page: Page, site: Served) -> None:
    page.open(site.address)
    page.wait("document.querySelector('.start .lead')")
    page.eval(
        "(() => { const ask = window.fetch; window.fetch = (...all) => all[0] !== '/api/search' ?"
        " ask(...all) : new Promise((go) => {"
        " window.__asked = all[1].body; window.__answer = () => go(ask(...all)); }); })()"
    )
    page.press("/")
    page.type("harbou")
    # Whoever types slowly has asked for the first letters alone before.
    page.wait("window.__asked?.includes('\"harbou\"') && document.querySelector('[aria-busy]')")
    # One more letter, whose request is held back, and only then the answer to the first ones.
    page.eval("(() => { window.setTimeout = (later) => { window.__later = later; return 1; }; })()")
    page.press("r")
    page.eval("window.__answer()")
    page.wait(f"{HITS} > 3")
    assert page.count("[aria-busy]") == 1
    page.press("ArrowDown", "j")
    page.wait("document.activeElement.matches('.hit.chosen .title')")
    read = page.text(".hit.chosen .title")
    page.eval("(window.__later(), window.__answer())")
    page.wait("!document.querySelector('[aria-busy]')")
    assert page.eval("document.activeElement.matches('.hit.chosen .title')")
    assert page.text(".hit.chosen .title") == read


def test_everything_can_be_done_with_the_keyboard(page: Page, site: Served) -> None:
    page.open(site.address)
    page.wait("document.querySelector('.start .lead')")
    page.press("/")
    assert page.eval("document.activeElement.id") == "q"
    page.type("harbour")
    # Not the answer to its first letters, whose list goes when the whole word's comes.
    settled = "location.hash.includes('harbour') && !document.querySelector('[aria-busy]')"
    page.wait(f"{settled} && {HITS} > 3 && document.querySelector('.hit.chosen')")
    page.press("ArrowDown")
    page.wait("document.activeElement.matches('.hit.chosen .title')")
    page.press("j", "j")
    place = "document.querySelector('.hit.chosen').getAttribute('aria-posinset')"
    page.wait(f"{place} === '3' && document.activeElement.closest('.hit').matches('.chosen')")
    page.press("k")
    page.wait(f"{place} === '2'")
    chosen = page.eval("document.querySelector('.hit.chosen .crumbs bdi').textContent")
    visible = page.eval("getComputedStyle(document.activeElement).outlineStyle")
    assert visible == "solid"
    page.press("Enter")
    page.wait("document.querySelector('.sheet h1')")
    assert chosen in page.text(".sheet header .crumbs").replace(" / ", "/")
    page.press("Escape")
    page.wait(f"document.querySelector('.hit.chosen') && {place} === '2'")
    page.press("f")
    page.wait("document.activeElement.dataset.facet")
    page.press("Tab", "Tab", "Tab", " ")
    page.press("?")
    page.wait("document.querySelector('#help[open]')")
    page.press("Escape")
    page.wait("!document.querySelector('#help[open]')")
    for key, arrived in {
        "g": ".web", "t": ".history", "h": ".health", "e": ".quality", "s": ".finder",
    }.items():  # fmt: skip
        page.press("g", key)
        page.wait(f"document.querySelector('{arrived}')")
        current = page.eval("document.querySelector('.views [aria-current]').dataset.view")
        assert (
            current
            == {"g": "graph", "t": "generations", "h": "health", "e": "evaluation", "s": "search"}[
                key
            ]
        )
    page.press("g", "g")
    page.wait("document.querySelector('[data-settled]')")
    page.eval("document.querySelector('.entries button').focus()")
    page.press("Enter")
    page.wait("document.querySelector('.detail .button.main')")
    before = page.eval("document.querySelector('.scene').getAttribute('transform')")
    page.press("+")
    page.wait(
        f"document.querySelector('.scene').getAttribute('transform') !== {json.dumps(before)}"
    )


def test_shortcuts_are_off_in_text_fields(page: Page, site: Served) -> None:
    page.open(site.address)
    page.wait("document.querySelector('.start .lead')")
    page.press("/")
    page.type("jk?t/g")
    assert page.eval("document.querySelector('#q').value") == "jk?t/g"
    assert page.eval("document.documentElement.dataset.theme") == "auto"
    page.press("Escape")
    page.wait("document.activeElement.id !== 'q'")
    assert page.eval("document.querySelector('#q').value") == "jk?t/g"
    page.press("Escape")
    page.wait("document.activeElement.id === 'q'")
    assert "q=jk" in page.eval("location.hash")


# --- colours, sizes -----------------------------------------------------------------------------

PAPER = "getComputedStyle(document.body).backgroundColor"


def brightness(colour: str) -> float:
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 765


def test_the_theme_follows_the_system_until_one_is_chosen(page: Page, site: Served) -> None:
    page.open(site.address)
    assert brightness(page.eval(PAPER)) > 0.9
    page.prefer("dark")
    assert brightness(page.eval(PAPER)) < 0.15
    page.wait("document.querySelector('.start .lead')")
    page.press("t")
    assert page.eval("document.documentElement.dataset.theme") == "light"
    assert brightness(page.eval(PAPER)) > 0.9
    page.open(site.address)
    page.wait("document.querySelector('.start .lead')")
    assert brightness(page.eval(PAPER)) > 0.9
    page.click("#theme")
    assert brightness(page.eval(PAPER)) < 0.15


def test_a_small_screen_needs_no_sideways_scrolling(page: Page, site: Served) -> None:
    page.resize(360, 640)
    for place, arrived in (
        ("#/search?q=harbour", ".hit .title"), ("#/read?u=notes/hostile.md", ".ctl"),
        ("#/graph", "[data-settled]"), ("#/generations", ".generations"), ("#/health", ".card"),
    ):  # fmt: skip
        page.open(f"{site.address}/{place}")
        page.wait(f"document.querySelector('{arrived}')")
        assert page.eval("document.documentElement.scrollWidth") <= 360, place


def test_a_small_screen_says_that_nothing_was_found(page: Page, site: Served) -> None:
    page.resize(360, 640)
    search(page, site, "harbour", "&before=2001-01-01")
    assert "Nothing found" in page.text("main")


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1000, 700), (360, 640)])
def test_search_fills_the_window_and_no_more(
    page: Page, site: Served, width: int, height: int
) -> None:
    page.resize(width, height)
    search(page, site, "harbour")
    assert page.eval("document.documentElement.scrollHeight") <= height


def test_results_of_several_folders_say_which(page: Page, tmp_path: Path) -> None:
    write_corpus(tmp_path / "docs")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "lamp.md").write_text("# Lamp\n\nThe harbour lamp is lit.\n")
    with serving(tmp_path, str(tmp_path / "notes"), "--log-level", "error") as served:
        search(page, served, "harbour+lamp")
        page.wait(f"{HITS} > 1")
        told = page.eval(
            "[...document.querySelectorAll('.hit')].map((e) => "
            "[e.querySelector('.crumbs bdi').textContent, e.querySelector('.tag').textContent])"
        )
    assert ["lamp.md", "notes"] in told
    assert {folder for _, folder in told} == {"docs", "notes"}


# --- quality ------------------------------------------------------------------------------------


def test_quality_is_measured_and_saved_results_are_drawn(
    page: Page, site: Served, tmp_path: Path
) -> None:
    page.open(f"{site.address}/#/evaluation")
    page.wait("document.querySelector('#eval-count')")
    page.eval("document.querySelector('#eval-count').value = 8")
    page.click(".controls .main")
    page.wait(
        "document.querySelectorAll('.key li').length === 3"
        " && !document.querySelector('.main[disabled]')"
    )
    assert page.count(".plot .whisker") == 12
    saved = site.ask("POST", "/api/evaluate", {"count": 8}).json
    shown = page.eval("document.querySelector('.plot .figure').textContent")
    assert shown == f"{saved['metrics']['ndcg']['mean']:.3f}"
    saved["label"] = "<img src=x onerror=window.__ran=50>"
    file = tmp_path / "saved.json"
    file.write_text(json.dumps(saved), encoding="utf-8")
    node = page.send("Runtime.evaluate", expression="document.querySelector('#eval-file')")
    page.send("DOM.setFileInputFiles", files=[str(file)], objectId=node["result"]["objectId"])
    page.wait("document.querySelectorAll('.key li').length === 4")
    assert "<img src=x onerror=window.__ran=50>" in page.text(".key")
    assert page.eval("window.__ran === undefined")
    page.wait("document.querySelector('#eval-file').files.length === 0")
    file.write_text('{"kind": "something else"}', encoding="utf-8")
    page.send("DOM.setFileInputFiles", files=[str(file)], objectId=node["result"]["objectId"])
    page.wait("document.querySelector('.problem')")


# --- tokens -------------------------------------------------------------------------------------


def test_a_token_is_asked_for_once_and_kept_in_the_tab(browser: Chrome, tmp_path: Path) -> None:
    read, write = "r" * 24, "w" * 24
    write_corpus(tmp_path / "docs")
    env = {"LOOKFAR_TOKENS": f"{read},write:{write}"}
    with serving(tmp_path, "--log-level", "error", env=env) as served, browser.page() as page:
        served.ask("POST", "/api/search", {"query": "harbour"}, token=read)
        (served.root / "index.md").write_text("# Pilot book, again\n", encoding="utf-8")
        page.open(f"{served.address}/#/search?q=harbour")
        page.wait("document.querySelector('#token[open]')")
        page.type("wrong-wrong-wrong")
        page.press("Enter")
        page.wait(
            "document.querySelector('#token[open]')"
            " && document.querySelector('#token-why').innerText.includes('not accepted')"
        )
        page.type(read)
        page.press("Enter")
        page.wait(f"{HITS} > 3")
        kept = page.eval(
            "JSON.stringify([Object.values(sessionStorage), Object.values(localStorage),"
            " document.cookie, location.href])"
        )
        assert json.loads(kept)[0] == [read]
        assert kept.count(read) == 1
        page.press("g", "t")
        page.press("Escape")
        page.eval("location.hash = '#/generations'")
        page.wait("document.querySelectorAll('.generations li').length >= 2")
        assert not page.eval("document.querySelector('#token[open]')")
        page.click(".generations li:last-child .danger")
        page.click("#confirm-yes")
        page.wait("document.querySelector('.banner .problem')")
        assert "read-only" in page.text(".banner")
        assert page.seen()["violations"] == []
        with browser.page() as other:  # Another tab knows nothing of it.
            other.open(served.address)
            other.wait("document.querySelector('#token[open]')")
