"""The heading of a hit names what its lines contain, also where small neighbours were joined."""

from __future__ import annotations

from pathlib import Path

import pytest

from lookfar import Library
from lookfar.model import Hit
from lookfar.retrieve.answer.diversify import _find_common_path
from retrieve.passage_maker import passage


@pytest.fixture
def library(tmp_path: Path) -> Library:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "limits.h").write_text("#define ONE 1\n#define TWO 2\n#define THREE 3\n", "utf-8")
    many = "".join(f"def name_{number}():\n    return {number}\n\n\n" for number in range(9))
    (folder / "many.py").write_text(many, "utf-8")
    (folder / "shelf.py").write_text("class Shelf:\n    def put(self): ...\n", "utf-8")
    long_method = "".join(f"        quantity_{number} = {number}\n" for number in range(400))
    members = (
        f"    def small(self): ...\n    def tiny(self): ...\n    def long(self):\n{long_method}"
    )
    (folder / "store.py").write_text(f"class Store:\n{members}", "utf-8")
    library = Library.open(
        folder, index_dir=tmp_path / "index", settings={"embed.provider": "none"}
    )
    library.index()
    return library


def first(library: Library, query: str) -> Hit:
    return library.search(query, top_k=1).hits[0]


def test_a_hit_of_several_definitions_lists_them(library: Library) -> None:
    """Seen to fail without ``name_contents``: the hit was called (root)."""
    assert first(library, "TWO").heading_path == ("ONE, TWO, THREE",)
    names = ", ".join(f"name_{number}" for number in range(6))
    assert first(library, "name_3").heading_path == (f"{names} and 3 more",)


def test_a_hit_of_one_definition_has_its_name(library: Library) -> None:
    assert first(library, "Shelf").heading_path == ("Shelf",)


def test_a_part_of_a_class_lists_its_members(library: Library) -> None:
    hit = first(library, "tiny")
    assert hit.heading_path == ("Store", "small, tiny")
    assert hit.path == ("Store",)
    assert (hit.span.start_line, hit.span.end_line) == (1, 3)


@pytest.mark.parametrize(
    ("paths", "common"),
    [
        ([("A", "x"), ("A", "y")], ("A",)),
        ([("A", "x"), ("B",)], ()),
        ([("A",), ("A", "y")], ("A",)),
        ([("A", "x"), ("A", "x")], None),
    ],
)
def test_joined_chunks_have_the_headings_that_they_share(
    paths: list[tuple[str, ...]], common: tuple[str, ...] | None
) -> None:
    """Seen to fail with the headings of the best chunk over all of them."""
    assert (
        _find_common_path([passage("a.py", 1.0, path=path).place.path for path in paths]) == common
    )
