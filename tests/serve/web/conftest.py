"""A browser and a server with a page, for the tests that look at it.

Without Chromium these tests are skipped, unless ``BROWSER_REQUIRED`` is set, as the build does.
Pictures of every view go to the folder that ``BROWSER_PICTURES`` names, or to pytest's own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# The server of the tests over HTTP, and the Node of the conformance suite.
sys.path += [str(HERE.parent / "http"), str(HERE.parent / "conformance")]

from serve.http.asking import Served, environment, serving  # noqa: E402
from serve.web import chrome  # noqa: E402
from serve.web.corpus import FOG, write_corpus, write_many  # noqa: E402
from waiting import wait_for  # noqa: E402

REQUIRED = "BROWSER_REQUIRED"
PICTURES = "BROWSER_PICTURES"


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chrome.Chrome]:
    program = chrome.find()
    if program is None:
        missing = f"no Chromium here (looked for {', '.join(chrome.NAMES)})"
        if os.environ.get(REQUIRED):
            pytest.fail(f"{missing}, and {REQUIRED} is set")
        pytest.skip(f"{missing}; on Debian: apt-get install chromium")
    with chrome.running(program, tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures of the page are kept."""
    named = os.environ.get(PICTURES)
    return Path(named) if named else tmp_path_factory.mktemp("pictures")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Documents of several kinds: linked, tagged and hostile. Tests do not change them."""
    folder = tmp_path_factory.mktemp("site")
    write_corpus(folder / "docs")
    with serving(folder, "--log-level", "error") as served:
        assert served.ask("POST", "/api/search", {"query": "harbour"}).status == 200
        (served.root / "sea" / "fog.md").write_text(FOG, encoding="utf-8")

        def has_second_generation() -> bool:
            return len(served.ask("POST", "/api/generations", {}).json["snapshots"]) == 2

        wait_for(has_second_generation, "a second generation")
        yield served


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Ten thousand documents that all answer to one word."""
    folder = tmp_path_factory.mktemp("many")
    write_many(folder / "docs")
    (folder / "home").mkdir()
    # In advance, because on a busy machine a request would time out.
    subprocess.run(
        [sys.executable, "-m", "lookfar", "index", str(folder / "docs")],
        env=environment(folder / "home"),
        capture_output=True,
        timeout=300,
        check=True,
    )
    with serving(folder, "--log-level", "error", "--set", "watch.enabled=false") as served:
        assert served.ask("POST", "/api/search", {"query": "harbour"}).status == 200
        yield served


@pytest.fixture
def page(browser: chrome.Chrome) -> Iterator[chrome.Page]:
    """A fresh tab; whatever a test did there, nothing may have failed or been refused."""
    with browser.page() as opened:
        opened.prefer("light")
        browser.events.clear()
        yield opened
        seen = opened.seen()
        assert seen == {"violations": [], "errors": []}
        thrown = [each for each in browser.events if each["method"] == "Runtime.exceptionThrown"]
        assert not thrown
