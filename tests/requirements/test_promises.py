"""Promises of the specs about the whole that no other test names: real folders, real index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lookfar.library import Library
from lookfar.model import Filters

SETTINGS = {"embed.provider": "hash", "index.workers": 1}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def library(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with Library.open(root, index_dir=tmp_path / "index", settings=SETTINGS) as opened:
        yield opened


def found(library: Library, query: str) -> list[str]:
    return [hit.uri for hit in library.search(query, mode="keyword").hits]


def test_six_levels_of_headings_give_six_names(library: Library, root: Path) -> None:
    """Protects against a parser or chunker that loses the deep levels."""
    names = ["One", "Two", "Three", "Four", "Five", "Six"]
    text = "".join(
        f"{'#' * level} {name}\n\n{f'About {name}. ' * 60}\n\n"
        for level, name in enumerate(names, start=1)
    )
    (root / "deep.md").write_text(text + "okapi\n")
    hit = library.search("okapi", mode="keyword").hits[0]
    assert list(hit.heading_path) == names


def test_any_word_of_a_question_may_match_and_more_words_rank_higher(
    library: Library, root: Path
) -> None:
    """Protects against a keyword search that wants all words, or that counts them alike."""
    (root / "one.md").write_text("# A\n\nkubernetes runs here\n")
    (root / "all.md").write_text("# B\n\nkubernetes pod networking here\n")
    (root / "none.md").write_text("# C\n\nsomething else runs here\n")
    assert found(library, "kubernetes pod networking") == ["all.md", "one.md"]


def test_paths_are_kept_as_they_are_written(library: Library, root: Path) -> None:
    """Protects against names that are folded, encoded or normalised on the way."""
    names = ["Projects/AI/GPT Notes.md", "notes/q&a #1 100%.md", "cafe\u0301.md"]
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"okapi {name}\n")
    assert sorted(found(library, "okapi")) == sorted(names)
    one = library.search("okapi", mode="keyword", filters=Filters(uris=(names[0],)))
    assert [hit.uri for hit in one.hits] == [names[0]]


def test_an_edit_of_white_space_is_an_edit(library: Library, root: Path) -> None:
    """Protects against contents that are compared without their spaces."""
    (root / "a.md").write_text("# A\n\nokapi here\n")
    assert library.index().added == 1
    (root / "a.md").write_text("# A\n\nokapi  here\n")
    report = library.index()
    assert (report.changed, report.chunks_embedded) == (1, 1)


def test_what_is_saved_during_the_first_build_is_found_after_it(
    library: Library, root: Path
) -> None:
    """Protects against a file that comes after the walk and before the index serves."""
    for number in range(20):
        (root / f"{number}.md").write_text(f"# {number}\n\ngiraffe\n")
    saved: list[bool] = []

    def save(*_: object) -> None:
        if not saved:
            saved.append(True)
            (root / "late.md").write_text("okapi\n")

    library.index(on_progress=save)
    assert saved
    assert found(library, "okapi") == ["late.md"]
