"""Accessibility: axe checks every view, in the light and the dark theme.

Pictures of what it looked at are kept. Without Node or npm the judge is missing, and these tests
are skipped and say why.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from serve.conformance.suite import Unavailable, find_node, installed
from serve.http.asking import Served
from serve.web.chrome import Chrome, Page

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Chromium is driven over POSIX pipes")

GRAVE = {"serious", "critical"}
VIEWS = {
    "start": ("#/search", ".start .lead"),
    "search": ("#/search?q=harbour+lamp", ".inspector .passage"),
    "listed": ("#/search?tag=sea", ".hit .title"),
    "nothing": ("#/search?q=harbour&before=2001-01-01", ".notes .empty"),
    "read": ("#/read?u=sea/harbour.md&s=11&e=13&q=harbour", ".within"),
    "hostile": ("#/read?u=notes/hostile.md", ".ctl"),
    "missing": ("#/read?u=nowhere.md", ".problem"),
    "graph": ("#/graph?around=sea/harbour.md", "[data-settled] .node.chosen"),
    "calls": ("#/graph?symbol=enter_harbour", ".calls h1"),
    "since": ("#/generations?since=yesterday", ".difference h2"),
    "earlier": ("#/earlier?u=sea/harbour.md&show=text", ".past .ln"),
    "generations": ("#/generations", ".generations li + li"),
    "confirm": ("#/generations", ".generations li + li"),
    "health": ("#/health", ".card"),
    "quality": ("#/evaluation", ".controls"),
    "help": ("#/search", ".start .lead"),
}


@pytest.fixture(scope="session")
def axe(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe, which stays in pytest's cache."""
    cache = getattr(pytestconfig, "cache", None)
    kept = cache.mkdir("axe") if cache else tmp_path_factory.mktemp("axe")
    try:
        modules = installed(find_node(), Path(__file__).parent / "package.json", kept)
    except Unavailable as reason:
        pytest.skip(f"axe cannot be had: {reason}")
    return (modules / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def judged(page: Page, axe: str) -> list[str]:
    """What axe finds that keeps people out."""
    page.send("Runtime.evaluate", expression=axe)
    found: dict[str, Any] = page.eval("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']} ({each['impact']}): {[node['html'][:160] for node in each['nodes'][:3]]}"
        for each in found["violations"]
        if each["impact"] in GRAVE
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_accessible(
    browser: Chrome, site: Served, axe: str, pictures: Path, scheme: str
) -> None:
    faults: dict[str, list[str]] = {}
    with browser.page() as page:
        page.prefer(scheme)
        for name, (place, arrived) in VIEWS.items():
            page.open(f"{site.address}/{place}")
            page.wait(f"document.querySelector('{arrived}')")
            page.wait("document.querySelector('#pulse').dataset.state !== 'unknown'")
            if name == "help":
                page.press("?")
            if name == "quality":
                page.eval("document.querySelector('#eval-count').value = 5")
                page.click(".controls .main")
                page.wait("document.querySelectorAll('.key li').length === 3")
            if name == "generations":
                page.click(".generations .actions button")
                page.wait("document.querySelector('.difference h2')")
            if name == "confirm":
                page.click(".generations .danger")
                page.wait("document.querySelector('#confirm[open]')")
            page.screenshot(pictures / f"{name}-{scheme}.png")
            faults[name] = judged(page, axe)
    assert {name: found for name, found in faults.items() if found} == {}
    kept = {path.name for path in pictures.glob(f"*-{scheme}.png")}
    assert kept >= {f"{name}-{scheme}.png" for name in VIEWS}


def test_the_accessibility_check_finds_problems(browser: Chrome, site: Served, axe: str) -> None:
    """A field without a name and grey on grey are what it is there for."""
    with browser.page() as page:
        page.open(f"{site.address}/#/graph")
        page.wait("document.querySelector('[data-settled]')")
        page.eval("document.querySelector('label[for=graph-filter]').remove()")
        page.eval("document.querySelector('#graph-filter').removeAttribute('placeholder')")
        page.eval("document.querySelector('.legend h2').style.color = 'light-dark(#ddd, #333)'")
        found = judged(page, axe)
        assert any(each.startswith("label") for each in found)
        assert any(each.startswith("color-contrast") for each in found)
