"""One folder and clients with different presets: each has its own index, and nothing is lost.

Seen to fail with one place for all presets (each search rebuilt the other's index), with edits that
were kept per preset (an edit made under one could not be undone under the other), and with an index
deleted although a generation of it was pinned.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lookfar import Edit
from lookfar.collections.variants import ASKED_FILE, place_index
from lookfar.config import load
from lookfar.library import Library

pytestmark = pytest.mark.usefixtures("own_home")

HASH = {"embed.provider": "hash", "index.workers": 1}
MSRL = {**HASH, "serve.toolset": ["msrl"]}
LONG_AGO = 8 * 86_400


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    sections = "\n".join(f"## Part {n}\n\nThe heron number {n} waits.\n" for n in range(9))
    (folder / "birds.md").write_text(f"# Birds\n\n{sections}", encoding="utf-8")
    return folder


def open_with(notes: Path, settings: dict[str, object]) -> Library:
    return Library.open(notes, index_dir=notes.parent / "index", settings=settings)


def ask(notes: Path, settings: dict[str, object]) -> tuple[Path, int]:
    """Ask one question; return where its index is, and its generation."""
    with open_with(notes, settings) as library:
        assert library.search("heron", mode="keyword").hits
        return library.index_dir, library.status().generation


def age(index: Path, seconds: int = LONG_AGO) -> None:
    """Make an index look as if it was built and last asked some time ago."""
    moment = time.time() - seconds
    for name in (ASKED_FILE, "CURRENT"):
        os.utime(index / name, (moment, moment))


@pytest.mark.parametrize("toolset", ["anvil", "document-db", "msrl", "ragdocs", "search-mcp"])
def test_a_toolset_brings_its_preset(toolset: str) -> None:
    settings = load(None, {"serve.toolset": [toolset]}, {})
    assert settings.preset == toolset
    assert settings.origin["preset"] == "derived"
    assert settings.chunk.count == "characters"


@pytest.mark.parametrize("toolsets", [["default"], ["all"], ["msrl", "anvil"], []])
def test_no_toolset_or_several_bring_none(toolsets: list[str]) -> None:
    assert load(None, {"serve.toolset": toolsets} if toolsets else {}, {}).preset == ""


def test_a_users_own_settings_win_over_the_toolset(tmp_path: Path) -> None:
    user_file = tmp_path / "config.toml"
    user_file.write_text("[chunk]\nmax_tokens = 321\n", encoding="utf-8")
    environ = {"LOOKFAR_CONFIG": str(user_file)}
    settings = load(None, {"serve.toolset": ["msrl"]}, environ)
    assert (settings.chunk.max_tokens, settings.search.top_k) == (321, 8)
    assert load(None, {"serve.toolset": ["msrl"], "preset": ""}, environ).search.top_k == 10


def test_each_preset_has_an_index_and_rebuilds_no_other(notes: Path) -> None:
    plain, generation = ask(notes, HASH)
    msrl, _ = ask(notes, MSRL)
    assert msrl == plain.with_name(f"{plain.name}.msrl")
    assert ask(notes, HASH) == (plain, generation)
    assert ask(notes, MSRL) == (msrl, generation)
    with open_with(notes, MSRL) as library:
        assert library.status().current


def test_a_second_index_embeds_nothing_that_the_first_has(notes: Path) -> None:
    ask(notes, HASH)
    chunk = load(None, {}, {}).chunk
    same = {f"chunk.{name}": getattr(chunk, name) for name in type(chunk).__slots__}
    with open_with(notes, {**MSRL, **same}) as library:
        report = library.index()
        assert report.added == 1
        assert library.status().counts.chunks > 0
    assert report.chunks_embedded == 0


def test_an_index_that_nobody_asks_is_deleted(notes: Path) -> None:
    plain, _ = ask(notes, HASH)
    msrl, _ = ask(notes, MSRL)
    age(plain)
    ask(notes, MSRL)
    assert not plain.exists()
    assert msrl.exists()


def test_an_index_asked_lately_stays(notes: Path) -> None:
    plain, _ = ask(notes, HASH)
    age(plain, LONG_AGO)
    ask(notes, HASH)
    ask(notes, MSRL)
    assert plain.exists()


@pytest.mark.parametrize("settings", [{}, {"index.drop_after_days": 0}])
def test_a_pinned_generation_or_a_setting_keeps_an_index(
    notes: Path, settings: dict[str, object]
) -> None:
    plain, generation = ask(notes, HASH)
    if not settings:
        with open_with(notes, HASH) as library:
            library.pin(generation)
    age(plain)
    ask(notes, {**MSRL, **settings})
    assert plain.exists()


def test_an_edit_is_undone_under_another_preset(notes: Path) -> None:
    before = (notes / "birds.md").read_text(encoding="utf-8")
    with open_with(notes, MSRL) as library:
        library.index()
        library.edit([Edit("append", "birds.md", path="Birds", text="An egret.\n")])
    assert "egret" in (notes / "birds.md").read_text(encoding="utf-8")
    with open_with(notes, HASH) as library:
        library.undo("birds.md")
    assert (notes / "birds.md").read_text(encoding="utf-8") == before


def test_deleting_the_index_of_a_folder_deletes_all_of_them(notes: Path) -> None:
    plain, _ = ask(notes, HASH)
    msrl, _ = ask(notes, MSRL)
    with open_with(notes, HASH) as library:
        library.delete()
    assert not plain.exists()
    assert not msrl.exists()


def test_a_folder_with_a_similar_name_is_another_source(tmp_path: Path) -> None:
    settings = load(None, {"index.dir": str(tmp_path), "preset": "msrl"}, {})
    assert place_index("a.b", "/a.b", settings).name.partition(".")[0].startswith("a-b-")


def test_sizes_can_count_characters(notes: Path) -> None:
    """Four characters are a token, whatever the model would count."""
    (notes / "birds.md").write_text("# Long\n\n" + "a " * 1200, encoding="utf-8")
    sizes = {"chunk.max_tokens": 100, "chunk.hard_max_tokens": 100, "chunk.min_tokens": 0}
    counts = {}
    for count in ("characters", "tokens"):
        with open_with(notes, {**sizes, "chunk.count": count, "index.workers": 1}) as library:
            library.index()
            counts[count] = library.status().counts.chunks
    assert 6 <= counts["characters"] <= 8
    assert counts["tokens"] >= 12
