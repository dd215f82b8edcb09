"""Hostile paths over HTTP: in the address, and in every text argument of every tool.

Seen to fail with a ``confine.components`` that let ``..`` through, and with arguments that held
half of a character, which were a 500.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from harness import amount, report
from hostile import ALWAYS, SECRET, arguments, outside_of, paths, places, plant
from lookfar.serve.toolsets import load_tools
from serve.http.asking import Answer, Served, serving

ANY_NUMBER = ("--set", "serve.requests_per_second=0")
STARTS = ("/", "/tools/", "/mcp/", "/openapi.json/")[: amount(2, 4)]
ALL = amount(0, 1)
"""Whether every argument is given every path, or only the worst."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    plant(tmp_path / "place")
    with serving(tmp_path / "place", "--toolset", "all", "--write", *ANY_NUMBER) as served:
        yield served


def leaks(answer: Answer) -> bool:
    return SECRET.encode() in answer.body or b"root:x:0" in answer.body


def answers(served: Served) -> None:
    """A good path is answered: nothing is proved by a server that refuses all."""
    said = served.tool("read", target="a/guide.md")
    assert said.status == 200
    assert b"The harbour keeps boats." in said.body
    assert served.ask("GET", "/openapi.json").status == 200


def test_no_path_leads_out_over_http(served: Served, tmp_path: Path) -> None:
    before = outside_of(tmp_path / "place", served.root, served.home)
    hostile = paths(served.root)
    served.tool("create_index", confirm=True)
    answers(served)
    given = hostile if ALL else ALWAYS
    tried, bad = 0, []
    for tool in load_tools(("all",)):
        for place in places(tool):
            for value in given:
                tried += 1
                answer = served.tool(tool.name, **arguments(tool, place, value, tried))
                if answer.status >= 500 or leaks(answer):
                    bad.append((tool.name, place, value, answer.status, answer.body[:200]))
    report("hostile paths (HTTP)", trials=tried, faults=len(given), failures=len(bad))
    assert bad == []
    answers(served)
    assert outside_of(tmp_path / "place", served.root, served.home) == before
    assert {path.name for path in tmp_path.iterdir()} <= {"home", "place"}


def test_no_address_leads_out(served: Served) -> None:
    """As it is written, and with every character escaped."""
    answers(served)
    tried, bad = 0, []
    for value in paths(served.root):
        if not value.isascii() or not value.isprintable() or len(value) > 2_000:
            continue
        for written in {quote(value, safe=""), quote(value, safe="/."), quote(value, safe="/.%\\")}:
            for start in STARTS:
                tried += 1
                answer = served.ask("GET", start + written)
                if answer.status >= 500 or leaks(answer):
                    bad.append((start + written, answer.status, answer.body[:200]))
    report("hostile addresses (HTTP)", trials=tried, faults=tried, failures=len(bad))
    assert bad == []
    answers(served)
