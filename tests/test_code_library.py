"""Source code in a library: definitions by name, comments as documentation, programs in prose."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lookfar.errors import Ambiguous, NotFound
from lookfar.library import Library
from lookfar.model import Filters
from sample_files import write_files

pytestmark = pytest.mark.usefixtures("own_home")

HASH = {"embed.provider": "hash", "index.workers": 1, "chunk.merge_small": False}

CORE = '''"""Ships and what they carry."""


class Ship:
    """Carries crates over the sea."""

    def load(self, crate):
        """Put a crate below deck until the harbour master signs."""
        return self.stow_away(crate)

    def stow_away(self, crate):
        return crate


class Barge:
    def load(self, crate):
        return crate


def getUserById(number):
    return number
'''
SHIP = """// Shared by all of the fleet.
export class Fleet {
  find() { return getUserById(1); }
}

export function config() { return 1; }
export class Config {}
export class Boat { moor() {} }
export function moor() {}
"""
RUST = """mod harbour {
    pub fn dock(ship: u8) -> u8 {
        ship
    }
}
"""
GUIDE = """# Guide

Call `getUserById(3)` first, and never getUserByIdentity or mygetUserById.

## Prose

Nothing but words about getUserByIdentity.

## Python

```python
ship.stow_away(zebra_crate)
```

## Shell

```console
load --zebra
```
"""
FILES = {"src/core.py": CORE, "src/ship.ts": SHIP, "src/harbour.rs": RUST, "docs/guide.md": GUIDE}


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    root = write_files(tmp_path / "root", FILES)
    with Library.open(root, index_dir=tmp_path / "index", settings=HASH) as opened:
        opened.index()
        yield opened


# --- definitions by name ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "place"),
    [
        ("src/core.py#Ship.load", "src/core.py:7-9"),
        ("src/core.py#Ship::load", "src/core.py:7-9"),
        ("src/core.py#Ship > load", "src/core.py:7-9"),
        ("src/core.py#stow_away", "src/core.py:11-12"),
        ("src/core.py#ship", "src/core.py:4-12"),
        ("src/harbour.rs#harbour::dock", "src/harbour.rs:2-4"),
        ("Ship.load", "src/core.py:7-9"),
        ("Ship#load", "src/core.py:7-9"),
        ("harbour::dock", "src/harbour.rs:2-4"),
        ("getUserById", "src/core.py:20-21"),
        ("getuserbyid", "src/core.py:20-21"),
        ("stow_away", "src/core.py:11-12"),
        ("config", "src/ship.ts:6-6"),
        ("Config", "src/ship.ts:7-7"),
        ("moor", "src/ship.ts:9-9"),
        ("src/ship.ts#moor", "src/ship.ts:9-9"),
        ("Boat.moor", "src/ship.ts:8-8"),
    ],
)
def test_definition_is_read_by_its_name(library: Library, target: str, place: str) -> None:
    """With or without its file; the same case wins."""
    result = library.read(target)
    assert f"{result.uri}:{result.span.start_line}-{result.span.end_line}" == place
    lines = FILES[result.uri].splitlines(keepends=True)
    assert result.text in "".join(lines[result.span.start_line - 1 : result.span.end_line])
    assert result.heading_path[-1].casefold() in result.text.casefold()


def test_ambiguous_name_lists_its_definitions(library: Library) -> None:
    """Never guessed, and each candidate lists its lines."""
    with pytest.raises(Ambiguous) as refusal:
        library.read("load")
    assert refusal.value.details["candidates"] == [
        "src/core.py:7-9 (Ship.load)",
        "src/core.py:16-17 (Barge.load)",
    ]
    assert "src/core.py:16-17" in refusal.value.hint
    with pytest.raises(Ambiguous, match="2 sections"):
        library.read("src/core.py#load")


@pytest.mark.parametrize("target", ["nobody", "Ship.nobody", "src/core.py#nobody", "100%", "_"])
def test_unknown_name_is_not_found(library: Library, target: str) -> None:
    """Wildcards of the store mean nothing in a name."""
    with pytest.raises(NotFound):
        library.read(target)


def test_names_are_resolved_across_folders(tmp_path: Path) -> None:
    """With several folders, the one that defines it; if two do, it is ambiguous."""
    one = write_files(
        tmp_path / "one", {"a.py": "def alone():\n    pass\n\ndef both():\n    pass\n"}
    )
    two = write_files(tmp_path / "two", {"b.py": "def both():\n    pass\n"})
    with Library.open(one, two, index_dir=tmp_path / "index", settings=HASH) as library:
        for name in library.collections:
            library.index(collection=name)
        assert library.read("alone").collection == "one"
        with pytest.raises(Ambiguous):
            library.read("both")


def test_outline_of_code_lists_its_definitions(library: Library) -> None:
    tree = library.outline("src/core.py")
    signatures = {entry.signature: entry.kind for entry in tree.symbols}
    assert signatures["def load(self, crate)"] == "method"
    assert [entry.title for entry in tree.sections][:2] == ["Ship", "load"]


# --- related to a definition
# -----------------------------------------------------------------------


def test_definitions_and_mentions_of_a_name(library: Library) -> None:
    """Whole words, case-sensitive, with their lines, and without the definition."""
    result = library.related("getUserById")
    assert result.totals["definitions"] == 1
    by_kind = {
        kind: [
            (entry.uri, entry.line, entry.context) for entry in result.entries if entry.kind == kind
        ]
        for kind in ("definitions", "mentions")
    }
    assert by_kind["definitions"] == [("src/core.py", 20, "def getUserById(number):")]
    assert sorted(by_kind["mentions"]) == [
        ("docs/guide.md", 3, GUIDE.splitlines()[2]),
        ("src/ship.ts", 3, "find() { return getUserById(1); }"),
    ]
    assert {entry.count for entry in result.entries if entry.kind == "mentions"} == {1}
    mentioned = library.related("src/core.py#Ship.stow_away", kinds=["mentions"])
    assert set(mentioned.totals) == {"mentions"}
    assert {(entry.uri, entry.line) for entry in mentioned.entries} == {
        ("src/core.py", 9),
        ("docs/guide.md", 12),
    }


def test_document_path_is_not_a_name(library: Library) -> None:
    assert "mentions" not in library.related("src/core.py").totals
    asked = library.related("docs/guide.md#Prose", kinds=("definitions", "mentions"))
    assert asked.totals == {"definitions": 0, "mentions": 0}


# --- comments -------------------------------------------------------------------------------------


def test_comments_answer_searches_of_documentation(library: Library) -> None:
    """They are cited exactly, and only once."""
    asked = "crate below deck until the harbour master signs"
    first = library.search(asked, filters=Filters(lanes=("docs",)), explain=True).hits[0]
    assert (first.uri, first.lane, first.comment) == ("src/core.py", "docs", True)
    assert first.state == "same"
    assert first.text == '"""Put a crate below deck until the harbour master signs."""'
    assert CORE[first.span.start : first.span.end] == first.text
    assert first.heading_path == ("Ship", "load")
    assert first.score == pytest.approx(sum(step.value for step in first.explanation), abs=1e-4)
    again = library.read(f"{first.uri}:{first.span.start_line}-{first.span.end_line}")
    assert first.text in again.text
    for filters in (None, Filters(lanes=("docs", "code")), Filters(lanes=("code",))):
        hits = library.search(asked, filters=filters).hits
        assert not any(hit.comment for hit in hits)
        assert sum(first.text in hit.text for hit in hits) == 1


def test_filters_apply_to_comments(library: Library) -> None:
    """A search below docs finds nothing in src."""
    filters = Filters(lanes=("docs",), prefix="docs/")
    hits = library.search("crate below deck harbour", filters=filters).hits
    assert {hit.uri for hit in hits} <= {"docs/guide.md"}


def test_changed_comment_is_reported(library: Library) -> None:
    """An answer from an older text never claims to be on disk."""
    path = Path(library.folder().root.path, "src/core.py")
    generation = library.status().generation
    path.write_text(CORE.replace("Put a crate", "Place a box"), encoding="utf-8")
    result = library.search(
        "crate below deck until the harbour master signs",
        filters=Filters(lanes=("docs",)),
        as_of=generation,
    ).hits[0]
    assert result.comment
    assert result.state == "changed"


# --- programs in prose ------------------------------------------------------------------------


def test_language_filter_finds_programs_in_prose(library: Library) -> None:
    """Only the passages of a Markdown page with a program in that language."""
    python = library.search("zebra crate", filters=Filters(languages=("python",))).hits
    assert {hit.uri for hit in python} <= {"docs/guide.md", "src/core.py"}
    page = [hit for hit in python if hit.uri == "docs/guide.md"]
    assert page
    assert all("stow_away(zebra_crate)" in hit.text for hit in page)
    shell = library.search("zebra load", filters=Filters(languages=("bash",))).hits
    assert [hit.uri for hit in shell] == ["docs/guide.md"]
    below = Filters(languages=("python",), heading="Shell")
    assert not [h for h in library.search("zebra", filters=below).hits if h.uri != "src/core.py"]
    assert not library.search("zebra", filters=Filters(languages=("haskell",))).hits


@pytest.mark.parametrize("query", ["zebra_crate", "zebra crate", "stow away", "ship.stow_away"])
def test_programs_in_prose_are_indexed_as_code(library: Library, query: str) -> None:
    """Names are found whole and in parts."""
    hits = library.search(query, mode="keyword", filters=Filters(prefix="docs/")).hits
    assert "stow_away(zebra_crate)" in hits[0].text
