"""Notes are read by their names, aliases and links."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lookfar.errors import Ambiguous, NotFound
from lookfar.library import Library
from sample_files import write_files

NOTES = {
    "projects/Alpha Plan.md": "# The plan\n\nFirst.\n\n## Risks\n\nMany.\n",
    "people/ada.md": "---\naliases: [Countess, A. L.]\n---\n# Ada Lovelace\n\nShe wrote.\n",
    "code/tool.py": "def ada():\n    return 1\n",
    "deep/index.md": "# Deep\n\nPages below. [[Alpha Plan]]\n",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    home = tmp_path_factory.mktemp("vault")
    write_files(home / "notes", NOTES)
    settings = {"embed.provider": "hash", "index.workers": 1}
    with Library.open(home / "notes", index_dir=home / "index", settings=settings) as library:
        library.index()
        yield library


@pytest.mark.parametrize(
    ("target", "uri", "heading"),
    [
        ("Alpha Plan", "projects/Alpha Plan.md", ()),
        ("alpha plan", "projects/Alpha Plan.md", ()),
        ("[[Alpha Plan]]", "projects/Alpha Plan.md", ()),
        ("[[Alpha Plan#Risks]]", "projects/Alpha Plan.md", ("The plan", "Risks")),
        ("Alpha Plan#Risks", "projects/Alpha Plan.md", ("The plan", "Risks")),
        ("[[projects/Alpha Plan|the plan]]", "projects/Alpha Plan.md", ()),
        ("![[Alpha Plan]]", "projects/Alpha Plan.md", ()),
        ("Countess", "people/ada.md", ()),
        ("[[countess]]", "people/ada.md", ()),
        ("Ada Lovelace", "people/ada.md", ()),
        ("[[ada]]", "people/ada.md", ()),
        ("[[deep]]", "deep/index.md", ()),
    ],
)
def test_note_is_read_by_its_name(
    library: Library, target: str, uri: str, heading: tuple[str, ...]
) -> None:
    reading = library.read(target)
    assert (reading.uri, reading.heading_path) == (uri, heading)
    assert library.related(target, kinds=("links", "backlinks")).uri == uri


def test_definition_comes_before_note_of_the_same_name(library: Library) -> None:
    """A link can only mean a note."""
    assert library.read("ada").uri == "code/tool.py"
    assert library.read("[[ada]]").uri == "people/ada.md"


@pytest.mark.parametrize("target", ["[[Nobody]]", "Nobody", "[[]]", "[[#Risks]]", "[[../etc]]"])
def test_unknown_note_is_not_found(library: Library, target: str) -> None:
    with pytest.raises((NotFound, Ambiguous)) as error:
        library.read(target)
    assert error.type is NotFound
