"""The views of the page as a new user meets them: filters, history, graph, earlier texts, runs.

Broken once and seen to fail: pushing a history entry per letter, making rows anew under the focus,
dropping ``depth``, one colour less, and runs that are not stored.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

from lookfar.serve.http.web import static_files
from serve.http.asking import Served, serving
from serve.web.chrome import Page
from serve.web.corpus import TEXTS, write_corpus
from waiting import wait_for

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Chromium is driven over POSIX pipes")

SETTLED = "!document.querySelector('main[aria-busy]') && document.querySelector('.summary strong')"
CODE = "def leave(): pass\n\n\ndef enter():\n    leave()\n\n\ndef visit():\n    enter()\n"
NOTES = {
    "projects/alpha.md": "---\nstatus: active\ntags: [project/alpha]\n---\n# Alpha\n\nOf stone.\n",
    "projects/beta.md": "---\nstatus: done\ntags: [project/beta]\n"
    "up: '[[alpha|the first]]'\n---\n# Beta\n\nOf stone.\n",
    "code/port.py": CODE,
}


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Served]:
    """Notes with properties and nested tags, which a test may change."""
    write_corpus(tmp_path / "docs")
    for name, text in NOTES.items():
        path = tmp_path / "docs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "docs" / "chart.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    with serving(tmp_path, "--log-level", "error") as served:
        served.ask("POST", "/api/search", {"query": "harbour"})
        yield served


HELD = """
import pathlib, sys, time
from lookfar.embed.hashed import HashedEmbedder
from lookfar.index import build
from lookfar.serve.entry import main

build._BATCH_FILES = 10
gate = pathlib.Path(sys.argv.pop(1))
embed, batches = HashedEmbedder.embed, []

def hold(self, texts):
    batches.append(len(texts))
    while len(batches) > 3 and not gate.exists():
        time.sleep(0.01)
    return embed(self, texts)

HashedEmbedder.embed = hold
sys.exit(main())
"""
"""A server whose first index stops after a few batches, until there is a gate."""


def test_the_start_page_shows_how_far_the_first_index_is(page: Page, tmp_path: Path) -> None:
    """Nobody searches: the server reads the folder, and the page renews itself."""
    write_corpus(tmp_path / "docs")
    (tmp_path / "docs" / "pages").mkdir()
    for number in range(100):
        text = f"# Page {number}\n\nWords about harbour {number}.\n"
        (tmp_path / "docs" / "pages" / f"page{number}.md").write_text(text, encoding="utf-8")
    gate = tmp_path / "gate"
    with serving(tmp_path, "--log-level", "error", start=("-c", HELD, str(gate))) as served:
        page.open(served.address)
        page.wait(
            "/^Reading your files: [1-9]\\d* of 1\\d\\d$/.test("
            "document.querySelector('.start .lead')?.textContent)"
        )
        gate.touch()
        page.wait("/1\\d\\d documents/.test(document.querySelector('.start .lead').textContent)")
        assert page.count(".start .recent li")


def test_a_filter_is_blamed_for_what_it_hides(page: Page, site: Served) -> None:
    page.open(f"{site.address}/#/search?q=kitchen+oven+flour&path=code/")
    page.wait(SETTLED)
    notes = page.text(".notes")
    assert "found with these filters" in notes
    assert "not in this collection" not in notes
    page.click(".unfilter")
    page.wait("!location.hash.includes('path=')")
    page.wait(SETTLED)
    assert "Kitchen" in titles(page)
    # The note itself stays for a question without filters.
    page.open(f"{site.address}/#/search?q=quarterly+payroll+audit")
    page.wait(SETTLED)
    assert "with these filters" not in page.text(".notes")
    page.open(f"{site.address}/#/search?tag=sea")
    page.wait(SETTLED)
    assert not page.text(".notes")


def test_the_search_field_is_replaced_and_cleared(page: Page, site: Served) -> None:
    page.open(f"{site.address}/#/search?q=harbour")
    page.wait(SETTLED)
    page.click("#q")
    page.type("lamp")
    assert page.eval("document.querySelector('#q').value") == "lamp"
    page.eval("document.querySelector('#q').setSelectionRange(0, 0)")
    page.click("#q")  # A click into the focused field selects nothing.
    assert page.eval("getSelection().toString()") == ""
    page.click("#clear")
    page.wait("document.querySelector('.start .lead') && document.activeElement.id === 'q'")
    assert page.eval("document.querySelector('#q').value") == ""
    assert not page.eval("document.querySelector('#clear').checkVisibility()")


def test_history_speaks_in_dates_and_says_that_files_stay(page: Page, site: Served) -> None:
    page.open(f"{site.address}/#/generations")
    page.wait("document.querySelectorAll('.generations li').length === 2")
    oldest = ".generations li:last-child"
    assert re.match(r"\w+ \d+, 20\d\d.*\sGeneration 1$", page.text(f"{oldest} h2"), re.DOTALL)
    assert "files are not changed" in page.text(f"{oldest} .actions")
    assert not re.search(r"chunk|model", page.text(".generations"))
    page.click(f"{oldest} summary")
    assert re.search(r"chunks?, model", page.text(f"{oldest} details"))
    page.open(f"{site.address}/#/earlier?u=sea/lamp.md")
    page.wait("document.querySelector('.versions ol')")
    assert re.search(
        r"No earlier text of this document is kept; the index keeps texts since \w+ \d+, 20\d\d,"
        r" .*, for 8 days \(index\.retain_days\)\.",
        page.text(".versions"),
    )


def titles(page: Page) -> list[str]:
    shown: list[str] = page.eval(
        "[...document.querySelectorAll('.hit .title')].map((e) => e.innerText)"
    )
    return shown


def test_typing_makes_one_history_entry(page: Page, site: Served) -> None:
    page.open(f"{site.address}/#/health")
    page.wait("document.querySelector('.card')")
    before = page.eval("history.length")
    page.press("/")
    page.type("harbour lamp")
    page.wait(f"{SETTLED} && location.hash.endsWith('q=harbour+lamp')")
    assert page.eval("document.querySelector('#q').value") == "harbour lamp"
    assert page.eval("history.length") == before + 1
    page.click("[data-facet='path:sea/']")
    page.wait(f"{SETTLED} && location.hash.includes('path=')")
    assert page.eval("history.length") == before + 2
    page.eval("history.back()")
    page.wait(f"{SETTLED} && !location.hash.includes('path=')")
    page.eval("history.back()")
    page.wait("document.querySelector('.health')")


def test_a_list_that_is_read_is_not_redrawn(page: Page, vault: Served, pictures: Path) -> None:
    page.open(f"{vault.address}/#/search?q=harbour")
    page.wait(SETTLED)
    page.press("j", "j")
    page.wait("document.activeElement.matches('.hit.chosen .title')")
    page.eval("window.__row = document.activeElement")
    chosen = page.text(".hit.chosen .title")
    generation = len(vault.ask("POST", "/api/generations", {}).json["snapshots"])
    text = "# Harbour harbour\n\nHarbour: the harbour of harbours.\n"
    (vault.root / "new.md").write_text(text, encoding="utf-8")
    page.wait("document.querySelector('.renew')")
    assert len(vault.ask("POST", "/api/generations", {}).json["snapshots"]) > generation
    assert "Harbour harbour" not in titles(page)
    page.screenshot(pictures / "list-offers-new-results.png")
    page.eval("document.querySelector('.renew').click()")
    page.wait("[...document.querySelectorAll('.hit .title')]"
              ".some((e) => e.innerText === 'Harbour harbour')")  # fmt: skip
    # The row moved with its result, and kept the focus as the same element.
    assert page.eval("document.activeElement === window.__row && window.__row.isConnected")
    assert page.text(".hit.chosen .title") == chosen
    places = page.eval(
        "[...document.querySelectorAll('.hit')].map((e) => Number(e.getAttribute('aria-posinset')))"
    )
    assert places == sorted(places)


def test_a_wikilink_in_a_property_leads_to_its_note(page: Page, vault: Served) -> None:
    page.open(f"{vault.address}/#/read?c=docs&u=projects/beta.md")
    page.wait("document.querySelector('.properties dd a')")
    assert page.text(".properties dd a") == "the first"
    page.eval("document.querySelector('.properties dd a').click()")
    page.wait("document.querySelector('.sheet h1')?.textContent === 'Alpha'")


def test_property_filters_count_what_is_found(page: Page, vault: Served) -> None:
    """Fails if they keep the counts of all documents."""
    count = "document.querySelector('.branch:has([data-facet=\"where:has:status\"]) .count')"
    for query, documents in (("stone", "2"), ("Alpha", "1")):
        page.open(f"{vault.address}/#/search?q={query}&mode=keyword")
        page.wait(f"{SETTLED} && {count}?.textContent === '{documents}'")
    page.open(f"{vault.address}/#/search?q=lamp&mode=keyword")
    page.wait(f"{SETTLED} && document.querySelector('.hit .title')")
    assert not page.eval(count)
    assert "Format" in page.eval("document.querySelector('.facets').innerText").title()


def test_open_projects_are_listed_by_a_property(page: Page, vault: Served, pictures: Path) -> None:
    page.open(vault.address)
    page.wait(
        'document.querySelector(\'[data-facet="has:status"], [data-facet^="where:has:status"]\')'
    )
    page.click(".branch:has([data-facet='where:has:status']) > .twist")
    page.click("[data-facet='where:status=active']")
    page.wait(f"{SETTLED} && location.hash.includes('where=')")
    page.wait("document.querySelector('.hit .title')")
    assert titles(page) == ["Alpha"]
    page.screenshot(pictures / "open-projects.png")
    page.open(f"{vault.address}/#/search?q=stone")
    page.wait(SETTLED)
    assert set(titles(page)) >= {"Alpha", "Beta"}
    page.click("[data-facet='tag:project']")
    page.wait(f"{SETTLED} && location.hash.includes('tag=project')")
    page.wait("document.querySelectorAll('.hit .title').length === 2")
    page.click(".branch:has(> .facet [data-facet='tag:project']) > .twist")
    page.click("[data-facet='tag:project/beta']")
    page.wait(f"{SETTLED} && location.hash.includes('beta')")
    page.wait("document.querySelectorAll('.hit .title').length === 1")


def test_snippets_have_no_markup(page: Page, site: Served) -> None:
    page.open(f"{site.address}/#/search?q=lamp+keeper")
    page.wait(SETTLED)
    shown = page.eval(
        "[...document.querySelectorAll('.excerpt')].map((e) => e.innerText).join('|')"
    )
    assert "](" not in shown
    assert "Its keeper reads the tides." in page.eval(
        "[...document.querySelectorAll('.excerpt .answer')].map((e) => e.innerText)"
    )


def test_examples_come_from_the_collection(page: Page, site: Served) -> None:
    page.open(site.address)
    page.wait("document.querySelector('.hints')")
    chips = page.eval("[...document.querySelectorAll('.hints .chip')].map((e) => e.innerText)")
    assert {"Entering the harbour", "#sea", "sea/"} <= set(chips)
    page.eval("[...document.querySelectorAll('.chip')].find((e) => e.innerText === '#sea').click()")
    page.wait(f"{SETTLED} && location.hash.includes('tag=sea')")
    page.wait("document.querySelector('.hit .title')")
    assert set(titles(page)) == {"Harbour", "Lamp"}


def test_the_graph_has_a_neighbourhood_and_can_be_searched(
    page: Page, vault: Served, pictures: Path
) -> None:
    page.open(f"{vault.address}/#/graph?around=land/oven.md&depth=1")
    page.wait("document.querySelector('[data-settled] .node.chosen')")
    assert page.count(".node") == 3
    page.screenshot(pictures / "local-graph.png")
    page.eval(
        "(() => { const e = document.querySelector('#graph-depth'); e.value = '2';"
        " e.dispatchEvent(new Event('change')); })()"
    )
    page.wait("document.querySelectorAll('.node').length === 4")
    page.click("#graph-filter")
    page.type("flour")
    page.press("Enter")
    page.wait("document.querySelector('.detail h2')?.innerText === 'Flour'")
    page.open(f"{vault.address}/#/graph?symbol=enter")
    page.wait("document.querySelector('.calls-picture')")
    assert page.eval("[...document.querySelectorAll('.call text')].map((e) => e.textContent)") == [
        "enter", "visit", "leave"
    ]  # fmt: skip
    page.screenshot(pictures / "calls.png")


def test_what_a_page_said_before_is_shown(page: Page, vault: Served, pictures: Path) -> None:
    lamp = vault.root / "sea" / "lamp.md"
    lamp.write_text(TEXTS["sea/lamp.md"].replace("whale oil", "kerosene"), encoding="utf-8")

    def has_second_generation() -> bool:
        return len(vault.ask("POST", "/api/generations", {}).json["snapshots"]) >= 2

    wait_for(has_second_generation, "a second generation")
    page.open(f"{vault.address}/#/generations")
    page.wait("document.querySelector('.generations li')")
    legend = page.eval("[...document.querySelectorAll('.legend-line li')].map((e) => e.innerText)")
    assert {"added", "changed", "removed", "kept"} <= set(legend)
    page.click("#since")
    page.type("yesterday")
    page.press("Enter")
    page.wait("document.querySelector('.difference .then')")
    page.screenshot(pictures / "since.png")
    page.click(".difference .then")
    page.wait("document.querySelector('.diff .removed')")
    assert "whale oil" in page.text(".diff .removed")
    assert "kerosene" in page.text(".diff .added")
    page.screenshot(pictures / "earlier.png")
    page.click(".sheet .actions button + button")
    page.wait("document.querySelector('.past .text .ln') && !document.querySelector('.diff')")
    assert "whale oil" in page.text(".past .text")
    page.open(f"{vault.address}/#/generations")
    page.wait("document.querySelector('.generations li')")
    page.click("#since")
    page.type("when pigs fly")
    page.press("Enter")
    page.wait("document.querySelector('.difference .problem')")


def test_skipped_files_unfold_by_reason(page: Page, vault: Served, pictures: Path) -> None:
    page.open(f"{vault.address}/#/health")
    page.wait("document.querySelector('.skipped summary')")
    page.click(".skipped summary")
    page.wait("document.querySelector('.skipped .failures li')?.innerText.includes('chart.png')")
    page.screenshot(pictures / "skipped.png")


def test_runs_stay_until_they_are_deleted(page: Page, site: Served, pictures: Path) -> None:
    page.open(f"{site.address}/#/evaluation")
    page.wait("document.querySelector('#eval-count')")
    page.eval("document.querySelector('#eval-count').value = 5")
    page.click(".controls .main")
    page.wait("document.querySelectorAll('.runs tbody tr').length === 3")
    page.wait("!document.querySelector('.main[disabled]')")
    page.open(f"{site.address}/#/evaluation")
    page.wait("document.querySelectorAll('.runs tbody tr').length === 3")
    assert page.count(".key li") == 3
    page.screenshot(pictures / "runs.png")
    page.click(".runs input")
    page.wait("document.querySelectorAll('.key li').length === 2")
    page.click(".runs button")
    page.wait("document.querySelectorAll('.runs tbody tr').length === 2")
    assert len(json.loads(page.eval("localStorage.getItem('lookfar.runs')"))) == 2


# --- colours ------------------------------------------------------------------------------------

BLIND = (
    ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    ((0.1523, 1.0526, -0.2049), (0.1145, 0.7863, 0.0992), (-0.0039, -0.0481, 1.052)),
    ((0.3673, 0.8606, -0.228), (0.2801, 0.6725, 0.0474), (-0.0118, 0.0429, 0.9689)),
    ((1.2555, -0.0767, -0.1788), (-0.0784, 0.9308, 0.1476), (0.0047, 0.6914, 0.3039)),
)
"""What remains of red, green and blue: with all cones, without one for red, green or blue
(Machado et al. 2009)."""
LMS = ((0.4122214708, 0.5363325363, 0.0514459929), (0.2119034982, 0.6806995451, 0.1073969566),
       (0.0883024619, 0.2817188376, 0.6299787005))  # fmt: skip
LAB = ((0.2104542553, 0.793617785, -0.0040720468), (1.9779984951, -2.428592205, 0.4505937099),
       (0.0259040371, 0.7827717662, -0.808675766))  # fmt: skip

Vector = tuple[float, ...]


def times(matrix: tuple[Vector, ...], vector: Vector) -> Vector:
    return tuple(sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix)


def linear(colour: str) -> Vector:
    values = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return tuple(v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values)


def seen_as(colour: str, eyes: tuple[Vector, ...]) -> Vector:
    """The colour in OKLab, as these eyes see it."""
    light = tuple(min(max(v, 0.0), 1.0) for v in times(eyes, linear(colour)))
    return times(LAB, tuple(v ** (1 / 3) for v in times(LMS, light)))


def contrast(one: str, other: str) -> float:
    low, high = sorted(times(((0.2126, 0.7152, 0.0722),), linear(c))[0] for c in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("theme", "paper"), [(0, "#f8f7f3"), (1, "#0e1317")])
def test_twelve_communities_have_colours_that_everybody_can_tell_apart(
    theme: int, paper: str
) -> None:
    css = static_files.page()["/web/page.css"].decode()
    pairs = re.findall(r"\.c(\d+) \{ --tone: light-dark\((#\w{6}), (#\w{6})\)", css)
    assert [int(number) for number, *_ in pairs] == list(range(12))
    graph = static_files.page()["/web/graph.js"].decode()
    assert f"const COLOURS = {len(pairs)};" in graph
    colours = [pair[1 + theme] for pair in pairs]
    for eyes in BLIND:
        points = [seen_as(colour, eyes) for colour in colours]
        nearest = min(
            sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5
            for one, other in combinations(points, 2)
        )
        assert nearest > 0.08
    assert all(contrast(colour, paper) >= 3 for colour in colours)
