"""The documentation builds as a site, offline: every page is in it, and nothing in it is fetched.

Mutations it was seen to catch: a link to a page that is not there, a page left out of the
navigation, a font that the theme would fetch.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", work / "docs")
    shutil.copy(ROOT / "zensical.toml", work)
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return work / "site"


def _pages(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in _pages(part)]


def test_every_page_is_in_the_navigation_once() -> None:
    nav = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    pages = sorted(
        page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")
    )
    assert sorted(_pages(nav)) == pages


def test_every_page_is_built(site: Path) -> None:
    pages = {page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")}
    assert not [page for page in pages if not (site / page.with_suffix(".html")).is_file()]


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    loaded = re.compile(
        r"<(?:script|img|iframe|source)[^>]*\ssrc=\"?(?:https?:)?//[^\s\">]+|<link[^>]*\srel=\"?(?:stylesheet|preconnect|icon)\"?[^>]*\shref=\"?(?:https?:)?//[^\s\">]+"
    )
    found = {
        page.name: loaded.findall(page.read_text(encoding="utf-8")) for page in site.rglob("*.html")
    }
    assert {name: urls for name, urls in found.items() if urls} == {}
