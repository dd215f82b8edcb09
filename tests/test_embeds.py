"""Embedded notes are shown in place, each with its own citation; cycles and limits are named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from lookfar.library import Library
from lookfar.serve.cli.main import cli
from sample_files import write_files

NOTES = {
    "host.md": (
        "# Host\n\nBefore.\n\n![[Part#Section]]\n\n![[deep/Part#^id]] and ![[picture.png]]\n\n"
        "![[Nowhere]] ![[Part#Gone]] ![[loop]] ![[#Own]]\n\n## Own\n\nMine.\n"
    ),
    "deep/Part.md": "# Part\n\nIntro. ^id\n\n## Section\n\nText of the section.\n\n![[leaf]]\n",
    "leaf.md": "Leaf.\n",
    "loop.md": "Loop ![[host]] ![[loop]]\n",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("embeds") / "notes", NOTES)


@pytest.fixture
def library(root: Path) -> Iterator[Library]:
    settings = {"embed.provider": "hash", "index.workers": 1}
    with Library.open(root, index_dir=root.parent / "index", settings=settings) as library:
        library.index()
        yield library


def test_embeds_are_read_with_their_own_place(library: Library) -> None:
    """The host stays the text on disk; each part is exactly a part of its own file."""
    host = library.read("host")
    assert host.text == NOTES["host.md"]
    embeds = library.embeds(host)
    assert [(embed.written, embed.problem) for embed in embeds] == [
        ("![[Part#Section]]", ""),
        ("![[deep/Part#^id]]", ""),
        ("![[picture.png]]", "not_indexed"),
        ("![[Nowhere]]", "not_indexed"),
        ("![[Part#Gone]]", "not_found"),
        ("![[loop]]", ""),
        ("![[#Own]]", "cycle"),
    ]
    for embed in embeds:
        assert host.text[embed.start : embed.end] == embed.written
        if embed.reading is not None:
            part = embed.reading
            assert NOTES[part.uri][part.span.start : part.span.end] == part.text
    section, block, *_, loop, _ = embeds
    assert section.reading is not None
    assert block.reading is not None
    assert block.reading.text == "Intro. ^id\n"
    assert [inner.reading and inner.reading.text for inner in section.embeds] == ["Leaf.\n"]
    assert [inner.problem for inner in loop.embeds] == ["cycle", "cycle"]


def test_depth_and_size_are_bounded(tmp_path: Path) -> None:
    """Fails if a chain of notes, or one large note, is shown without end."""
    notes = {f"n{at}.md": f"Note {at} ![[n{at + 1}]]\n" for at in range(9)}
    notes["large.md"] = "word " * 20_000
    notes["n8.md"] = "![[large]]\n"
    root = write_files(tmp_path / "notes", notes)
    settings = {"embed.provider": "hash", "index.workers": 1}
    with Library.open(root, index_dir=tmp_path / "index", settings=settings) as library:
        library.index()
        depth, embeds = 0, library.embeds(library.read("n0"))
        while embeds[0].reading is not None:
            depth, embeds = depth + 1, embeds[0].embeds
        assert (depth, embeds[0].problem) == (3, "too_deep")
        assert library.embeds(library.read("n8"))[0].problem == "too_large"


def test_command_shows_embeds_below_their_line(library: Library, root: Path) -> None:
    index = ("--index-dir", str(root.parent / "index"), "--set", "embed.provider=hash")
    shown = CliRunner().invoke(cli, ["read", "host", str(root), "--embeds", *index])
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    at = lines.index("![[Part#Section]]")
    assert lines[at + 1].startswith("  | ![[Part#Section]]: deep/Part.md:5-9  sha256 ")
    assert lines[at + 2 : at + 5] == ["  | ## Section", "  | ", "  | Text of the section."]
    assert "  |   | Leaf." in lines
    assert "  | ![[picture.png]]: not a note" in lines
    shape = json.loads(
        CliRunner().invoke(cli, ["read", "host", str(root), "--embeds", "--json", *index]).stdout
    )
    assert shape["text"] == NOTES["host.md"]
    cite = shape["embeds"][0]["cite"]
    assert library.read(cite).state == "same"
    assert library.read(cite).text == shape["embeds"][0]["reading"]["text"]


def test_callouts_and_footnotes_are_passages_and_block_ids_are_not_words(tmp_path: Path) -> None:
    """Fails if the id of a block is a search term, or a callout loses its title."""
    notes = {
        "callout.md": "# A\n\n> [!warning] Zebra title\n> Kangaroo body. ^quokka-id\n",
        "footnote.md": "# B\n\nA claim.[^1]\n\n[^1]: The wombat source.\n",
        "power.md": "# C\n\nThe energy is m c ^2\n",
    }
    root = write_files(tmp_path / "notes", notes)
    settings = {"embed.provider": "hash", "index.workers": 1}
    with Library.open(root, index_dir=tmp_path / "index", settings=settings) as library:
        library.index()

        def find(word: str) -> list[str]:
            hits = library.search(word, mode="keyword").hits
            for hit in hits:
                assert notes[hit.uri][hit.span.start : hit.span.end] == hit.text
            return [hit.uri for hit in hits]

        assert find("zebra") == find("kangaroo") == ["callout.md"]
        assert find("wombat") == ["footnote.md"]
        assert find("quokka") == []
        assert [match.uri for match in library.grep("quokka-id").files] == ["callout.md"]
