"""The view of sources in a real browser: what is known, and adding, updating and removing it.

Seen to fail when the page did not wait for the confirmation of the reader, and when the list was
not redrawn at the end of a fetch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from outside.served_site import Site, serve_site
from serve.http.asking import Served, serving
from serve.web.chrome import Page
from serve.web.corpus import write_corpus

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Chromium is driven over POSIX pipes")

LOCAL = ("--set", "outside.allow_private=true", "--set", "outside.pause_ms=0")
ROW = "document.querySelector('[data-name=\"lamps@source\"]')"
BUSY = "document.querySelector('#confirm').open"


@pytest.fixture
def pages() -> Iterator[Site]:
    with serve_site() as served:
        served.html("/docs/", "Start", "The lighthouse lamp turns.", ("keys", "missing"))
        served.html("/docs/keys", "Keys", "Rotate the signing key.")
        served.html("/guide/", "Guide", "How to moor.")
        yield served


@pytest.fixture
def project(tmp_path: Path, pages: Site) -> Iterator[Served]:
    write_corpus(tmp_path / "docs")
    entry = f"[outside.named.guide]\norigin = '{pages.address}/guide/'\n"
    (tmp_path / "docs" / "lookfar.toml").write_text(entry, encoding="utf-8")
    with serving(tmp_path, "--log-level", "error", *LOCAL) as served:
        served.ask("POST", "/api/search", {"query": "harbour"})
        yield served


def test_sources_are_added_updated_pinned_and_removed(
    page: Page, project: Served, pages: Site, pictures: Path
) -> None:
    page.open(project.address)
    page.wait("document.querySelector('.start .lead')")
    page.eval("document.activeElement.blur()")
    page.press("g", "o")
    page.wait("document.querySelector('.named li')")
    assert page.hash == "#/sources"
    assert "No sources were added yet." in page.text(".sources-list")
    assert f"{pages.address}/guide/" in page.text(".named")

    # Nothing is requested before the reader confirms, and cancelling leaves it so.
    page.click("#source-origin")
    page.type(f"{pages.address}/docs/")
    page.click("#source-name")
    page.type("lamps")
    page.click(".add-source button")
    page.wait(BUSY)
    assert f"Fetch {pages.address}/docs/?" in page.text("#confirm")
    page.click("#confirm-no")
    page.wait(f"!{BUSY}")
    assert not pages.seen
    page.click(".add-source button")
    page.wait(BUSY)
    page.click("#confirm-yes")
    page.wait(ROW)
    assert "web site" in page.text("[data-name='lamps@source']")
    assert "2 files" in page.text("[data-name='lamps@source']")
    page.wait("document.querySelector('.fetching').textContent.includes('2 added')")
    assert "status 404" in page.text(".fetching")
    page.screenshot(pictures / "sources.png")

    pages.html("/docs/keys", "Keys", "The foghorn sounds.")
    page.click("[data-name='lamps@source'] .actions button:nth-child(1)")
    page.wait("document.querySelector('.fetching').textContent.includes('1 changed')")
    page.click("[data-name='lamps@source'] .actions button:nth-child(2)")
    page.wait(f"{ROW}.textContent.includes('Unpin')")
    assert page.text("[data-name='lamps@source'] .tag") == "pinned"
    page.click("[data-name='lamps@source'] .danger")
    page.wait(BUSY)
    page.click("#confirm-yes")
    page.wait(f"!{ROW}")
    assert project.ask("POST", "/api/sources", {}).json["sources"] == []


def test_a_source_that_the_project_names_is_fetched_after_a_question(
    page: Page, project: Served, pages: Site
) -> None:
    page.open(f"{project.address}/#/sources")
    page.wait("document.querySelector('.named button')")
    page.click(".named button")
    page.wait(BUSY)
    assert "lookfar.toml names" in page.text("#confirm")
    assert not pages.seen
    page.click("#confirm-yes")
    page.wait("document.querySelector('[data-name=\"guide@source\"]')")
    assert page.count(".named li") == 0
    # A refusal is shown with what to do.
    page.click("#source-origin")
    page.type("/etc")
    page.click(".add-source button")
    page.wait(BUSY)
    page.click("#confirm-yes")
    page.wait("document.querySelector('.problem')")
    assert "Only addresses can be added over HTTP." in page.text(".problem")
