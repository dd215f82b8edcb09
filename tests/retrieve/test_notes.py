"""Notes are named as in Obsidian, wherever a target is taken: names, aliases, links and blocks."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lookfar.errors import Ambiguous, InvalidArgument, NotFound
from lookfar.library import Library
from lookfar.model import Edit, Filters, RelatedKind
from sample_files import write_files

BLOCK = "64f0aaaa-0000-4000-8000-000000000001"
NOTES = {
    "projects/Alpha Plan.md": (
        "# The plan\n\nFirst. ^first\n\n## Risks\n\nMany.\n\n### Money\n\nLittle.\n\n"
        "- one ^item\n  - below it\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n^table\n\n"
        "> A quote\n> in two lines. ^quote\n\n```\nnot ^code\n```\n\n"
        "## Meetings\n\n### Money\n\nMore.\n"
    ),
    "people/ada.md": "---\naliases: [Countess, A. L.]\n---\n# Ada Lovelace\n\nShe wrote.\n",
    "code/tool.py": "def ada():\n    return 1\n\n\ndef Ideas():\n    return 2\n",
    "deep/index.md": "# Deep\n\nPages below. [[Alpha Plan]]\n",
    "ideas.md": "# Ideas of mine\n\nSome.\n",
    "work/Log.md": "# Work log\n\nWork.\n",
    "home/Log.md": "# Home log\n\nHome.\n",
    "home/log book.md": "# Shared title\n\nOne.\n",
    "work/records.md": "# Shared title\n\nTwo.\n",
    "both/guide.md": "# Guide in Markdown\n\nText.\n",
    "both/guide.rst": "Guide in reST\n=============\n\nText.\n",
    "202401011200 On numbers.md": "# On numbers\n\nSee [[202401011201]].\n",
    "zettel/other.md": "---\nid: 202401011201\n---\n# Another\n\nText.\n",
    "journals/2024.md": f"- A block\n  id:: {BLOCK}\n- Another\n",
    "pages/refers.md": f"- See (({BLOCK})) there\n",
    "C# tips.md": "# Tips\n\nMany.\n",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("vault") / "notes", NOTES)


@pytest.fixture(scope="module")
def library(root: Path) -> Iterator[Library]:
    settings = {"embed.provider": "hash", "index.workers": 1}
    with Library.open(root, index_dir=root.parent / "index", settings=settings) as library:
        library.index()
        yield library


LINKS: tuple[RelatedKind, ...] = ("links",)
PLAN = "projects/Alpha Plan.md"


@pytest.mark.parametrize(
    ("target", "uri", "heading"),
    [
        ("Alpha Plan", PLAN, ()),
        ("alpha plan", PLAN, ()),
        ("[[Alpha Plan]]", PLAN, ()),
        ("[[Alpha Plan#Risks]]", PLAN, ("The plan", "Risks")),
        ("Alpha Plan#Risks", PLAN, ("The plan", "Risks")),
        ("[[Alpha Plan#Risks#Money]]", PLAN, ("The plan", "Risks", "Money")),
        ("[[Alpha Plan#The plan#Meetings#Money]]", PLAN, ("The plan", "Meetings", "Money")),
        ("Alpha Plan#meetings#money", PLAN, ("The plan", "Meetings", "Money")),
        ("[[projects/Alpha Plan|the plan]]", PLAN, ()),
        ("[[Alpha Plan.md]]", PLAN, ()),
        ("![[Alpha Plan]]", PLAN, ()),
        ("Countess", "people/ada.md", ()),
        ("[[countess]]", "people/ada.md", ()),
        ("Ada Lovelace", "people/ada.md", ()),
        ("[[ada]]", "people/ada.md", ()),
        ("[[deep]]", "deep/index.md", ()),
        ("work/Log", "work/Log.md", ()),
        ("[[home/log]]", "home/Log.md", ()),
        ("guide", "both/guide.md", ()),
        ("guide.rst", "both/guide.rst", ()),
        ("202401011200", "202401011200 On numbers.md", ()),
        ("[[202401011201]]", "zettel/other.md", ()),
        ("C# tips", "C# tips.md", ()),
        ("lookfar://notes/Alpha%20Plan", PLAN, ()),
    ],
)
def test_note_is_known_by_its_name(
    library: Library, target: str, uri: str, heading: tuple[str, ...]
) -> None:
    reading = library.read(target)
    assert (reading.uri, reading.heading_path) == (uri, heading)
    assert library.outline(target).uri == uri
    assert library.related(target, kinds=("links", "backlinks")).uri == uri
    assert library.graph(around=target).nodes[0].uri == uri


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("Alpha Plan#^first", "First. ^first\n"),
        ("[[Alpha Plan#^item]]", "- one ^item\n  - below it\n"),
        ("[[Alpha Plan#^table]]", "| a | b |\n|---|---|\n| 1 | 2 |\n\n^table\n"),
        ("projects/Alpha Plan.md#^QUOTE", "> A quote\n> in two lines. ^quote\n"),
        (f"(({BLOCK}))", f"- A block\n  id:: {BLOCK}\n"),
        ("Alpha Plan:3", "First. ^first\n"),
    ],
)
def test_block_is_read_by_its_id(library: Library, target: str, text: str) -> None:
    reading = library.read(target)
    assert reading.text == text
    whole = library.read(reading.uri).text
    assert whole[reading.span.start : reading.span.end] == text


@pytest.mark.parametrize("block", ["code", "frst"])
def test_unknown_block_names_the_nearest(library: Library, block: str) -> None:
    """A marker in code is not an id."""
    with pytest.raises(NotFound, match="no block") as error:
        library.read(f"Alpha Plan#^{block}")
    assert ("^first" in error.value.details["candidates"]) == (block == "frst")


def test_block_reference_is_a_link(library: Library) -> None:
    related = library.related("pages/refers.md", kinds=LINKS)
    assert [entry.uri for entry in related.entries] == ["journals/2024.md"]


def test_order_of_precedence(library: Library) -> None:
    """Path, exact definition, note, definition in another case; a link can only mean a note."""
    assert library.read("ideas.md").uri == "ideas.md"
    assert library.read("ada").uri == "code/tool.py"
    assert library.read("[[ada]]").uri == "people/ada.md"
    assert library.read("Ideas").uri == "code/tool.py"
    assert library.read("ideas").uri == "ideas.md"
    assert library.read("ADA").uri == "people/ada.md"


@pytest.mark.parametrize(
    ("target", "uris"),
    [
        ("log", ["home/Log.md", "work/Log.md"]),
        ("[[Log]]", ["home/Log.md", "work/Log.md"]),
        ("Shared title", ["home/log book.md", "work/records.md"]),
        ("[[Log#Work log]]", ["home/Log.md", "work/Log.md"]),
    ],
)
def test_ambiguous_name_lists_the_notes(library: Library, target: str, uris: list[str]) -> None:
    for ask in (library.read, library.outline, library.related, library.validate):
        with pytest.raises(Ambiguous) as error:
            ask(target)
        documents = error.value.details["documents"]
        assert sorted(document["uri"] for document in documents) == uris
        assert all(document["title"] for document in documents)
        assert all(uri in error.value.hint for uri in uris)
    with pytest.raises(Ambiguous):
        library.edit(Edit("append", target, text="More."), dry_run=True)


@pytest.mark.parametrize("target", ["[[Nobody]]", "Nobody", "[[]]", "[[#Risks]]", "[[../etc]]"])
def test_unknown_note_is_not_found(library: Library, target: str) -> None:
    with pytest.raises(NotFound):
        library.read(target)


@pytest.mark.parametrize(
    ("target", "near"),
    [("Alpa Plan", PLAN), ("[[Countes]]", "people/ada.md"), ("Ada Lovelac", "people/ada.md")],
)
def test_nearest_names_are_suggested(library: Library, target: str, near: str) -> None:
    with pytest.raises(NotFound) as error:
        library.read(target)
    assert error.value.details["candidates"][0] == near
    assert near in error.value.hint


def test_edits_take_names(library: Library, root: Path) -> None:
    before = (root / "people/ada.md").read_text()
    result = library.edit(Edit("append", "[[Countess#Ada Lovelace]]", text="She counted."))
    assert result.documents[0].uri == "people/ada.md"
    assert "She counted." in (root / "people/ada.md").read_text()
    library.undo("Countess")
    assert (root / "people/ada.md").read_text() == before
    diff = library.edit(Edit("replace", "Alpha Plan#^first", text="Second."), dry_run=True)
    assert "-First. ^first\n+Second.\n" in diff.documents[0].diff
    assert library.validate("Alpha Plan").uri == PLAN
    with pytest.raises(InvalidArgument, match="whole document"):
        library.validate("[[Alpha Plan#Risks]]")


def test_history_of_a_note(tmp_path: Path) -> None:
    """The name of a file may contain the signs of a pattern."""
    files = ("notes/A {draft}, old.md", "notes/B.md", "B.md")
    root = write_files(tmp_path / "repo", dict.fromkeys(files, "# Text\n"))

    def git(*arguments: str) -> None:
        name = ("-c", "user.name=Ada", "-c", "user.email=a@example.com")
        subprocess.run(["git", *name, *arguments], cwd=root, check=True, capture_output=True)

    git("init", "-q")
    for file in files:
        git("add", file)
        git("commit", "-qm", f"Add {file}")
    settings = {"embed.provider": "hash", "index.workers": 1}
    with Library.open(root, index_dir=tmp_path / "index", settings=settings) as library:
        library.index()
        for file in files:
            link = f"[[{file.removesuffix('.md')}]]"
            commits, _ = library.history(filters=Filters(touches=link))
            assert [commit.title for commit in commits] == [f"Add {file}"]


def test_precedence_holds_over_several_folders(tmp_path: Path) -> None:
    """A definition of the exact name in one folder comes before a note in another."""
    code = write_files(tmp_path / "code", {"a.py": "def shelf():\n    return 1\n"})
    notes = write_files(tmp_path / "notes", {"shelf.md": "# Shelf\n", "Alpha.md": "# A\n"})
    settings = {"embed.provider": "hash", "index.workers": 1}
    with Library.open(code, notes, index_dir=tmp_path / "index", settings=settings) as library:
        library.index(collection="code")
        library.index(collection="notes")
        assert library.read("shelf").uri == "a.py"
        assert library.read("[[shelf]]").uri == "shelf.md"
        assert library.read("alpha").uri == "Alpha.md"
        with pytest.raises(NotFound):
            library.read("[[Nobody]]")
