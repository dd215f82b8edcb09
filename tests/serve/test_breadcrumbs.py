"""Headings are said once and copies are named, in the terminal and to a model."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

from lookfar.model import Alike, Hit, Span
from lookfar.retrieve.answer.pack import pack, tokens
from lookfar.serve.show.breadcrumbs import Breadcrumbs, also_at

Run = Callable[..., Result]
SPAN = Span(0, 10, 1, 2)
HIT = Hit("docs", "a.md", "", ("Guide", "Install", "Linux"), SPAN, "", "docs", 0.5, "text", False,
          "same", "")  # fmt: skip
COPY = Alike("docs", "b.md", Span(0, 10, 3, 9), "ab" * 32, "same", "text")


def test_headings_of_a_document_are_shown_once() -> None:
    said = Breadcrumbs()
    paths = [
        ("a.md", ("Guide", "Install", "Linux"), "Guide > Install > Linux"),
        ("b.md", ("Guide", "Install", "macOS"), "Guide > Install > macOS"),
        ("a.md", ("Guide", "Install", "macOS"), "... > macOS"),
        ("a.md", ("Guide", "Use"), "... > Use"),
        ("a.md", ("Guide", "Use"), "... > Use"),
        ("a.md", ("Other", "Use"), "Other > Use"),
        ("a.md", ("(root)",), "(root)"),
    ]
    for uri, path, shown in paths:
        assert said.format(replace(HIT, uri=uri, heading_path=path)) == shown


def test_documents_of_two_collections_are_two() -> None:
    said = Breadcrumbs()
    said.format(HIT)
    assert said.format(replace(HIT, collection="notes")) == "Guide > Install > Linux"


def test_other_places_of_a_hit_are_named() -> None:
    assert also_at(HIT, several=False) == ""
    hit = replace(HIT, also=(COPY, replace(COPY, uri="c.md", state="gone")))
    assert also_at(hit, several=False) == "also at b.md:3-9, c.md:3-9 (gone on disk)"
    near = replace(HIT, also=(replace(COPY, by="words"),), also_more=3)
    assert also_at(near, several=True) == "alike at docs: b.md:3-9 and 3 more"


def test_copies_cost_their_share_of_the_budget() -> None:
    hits = [replace(HIT, uri=f"{at}.md", text="word " * 80, also=(COPY,) * 5) for at in range(4)]
    plain = [replace(hit, also=()) for hit in hits]
    budget = 4 * (tokens(hits[0].text) + 40)
    assert len(pack(plain, budget)[0]) == 4
    packed, left = pack(hits, budget)
    assert len(packed) + left == 4
    assert left > 0


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    folder = tmp_path / "copies"
    text = "# Guide\n\n## Install\n\n### Linux\n\nzebra {}\n\n### macOS\n\nzebra too {}\n"
    for name in ("a.md", "b.md"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.format("stripes " * 60, "leaves " * 60))
    return folder


SMALL = {"embed.provider": "hash", "index.workers": 1, "chunk.min_tokens": 0,
         "search.merge_gap": 0, "chunk.max_tokens": 120, "chunk.hard_max_tokens": 200}  # fmt: skip


def test_the_terminal_shows_headings_once_and_names_copies(copies: Path, run: Run) -> None:
    options = [f"--set={key}={value}" for key, value in SMALL.items() if not key.startswith("e")]
    lines = run("search", "zebra stripes leaves", copies, *options).stdout.splitlines()
    crumbs = [line.strip() for line in lines if " > " in line]
    assert crumbs[0].startswith("Guide > Install")
    assert crumbs[1:]
    assert all(line.startswith("... > ") for line in crumbs[1:])
    copies_of = [line.strip() for line in lines if "also at" in line]
    place = lines[0].split()[1].removeprefix("a.md:")
    assert copies_of[0] == f"also at b.md:{place}"


def test_json_names_copies(copies: Path, run: Run) -> None:
    shape = json.loads(run("search", "zebra stripes leaves", copies, "--json").stdout)
    (also,) = shape["hits"][0]["also"]
    assert (also["uri"], also["by"], also["state"]) == ("b.md", "text", "same")
    assert also["sha256"] == shape["hits"][0]["sha256"]
    assert shape["hits"][0]["also_more"] == 0
