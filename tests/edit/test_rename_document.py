"""Documents are renamed and moved with the links to them, and undone as one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lookfar.edit.rename_document import add_alias
from lookfar.edit.shape import apply_changes
from lookfar.errors import Conflict, InvalidArgument
from lookfar.library import Library
from lookfar.model import Edit, RelatedKind
from lookfar.text.parse.markdown import parse
from sample_files import write_files

LINKS: tuple[RelatedKind, ...] = ("links",)
BACKLINKS: tuple[RelatedKind, ...] = ("backlinks",)
CANVAS = json.dumps(
    {
        "nodes": [
            {"id": "1", "type": "file", "file": "plans/Alpha Plan.md", "subpath": "#Risks"},
            {"id": "2", "type": "text", "text": 'See [[Alpha Plan|it]] and "quotes"'},
            {"id": "3", "type": "file", "file": "people/ada.md"},
        ],
        "edges": [],
    },
    indent="\t",
)
NOTES = {
    "plans/Alpha Plan.md": (
        "---\naliases: [Plan A]\n---\n# The plan\n\nBy [ada](../people/ada.md), a picture"
        " ![p](img/p%201.png), [here](#risks), [[Alpha Plan#Risks]].\n\n## Risks\n\nMany. ^many\n"
    ),
    "people/ada.md": (
        '---\nup: "[[Alpha Plan]]"\nrelated:\n  - "[[plans/Alpha Plan|shown]]"\n---\n'
        "# Ada\n\n[[Alpha Plan]], [[alpha plan#Risks|the risks]], ![[Alpha Plan#^many]],\n"
        "[[plans/Alpha Plan]], [[Alpha Plan.md]], [[Plan A]], [[The plan]],\n"
        "[x](../plans/Alpha%20Plan.md#risks), [y](<../plans/Alpha Plan.md>), [z][ref].\n\n"
        "| a |\n|---|\n| [[Alpha Plan\\|p]] |\n\n`[[Alpha Plan]]` stays.\n\n"
        "[ref]: /plans/Alpha%20Plan.md\n"
    ),
    "map.canvas": CANVAS,
    "old/Beta Plan.md": "# Old\n\nText.\n",
    "links.md": "# Links\n\n[[Beta Plan]]\n",
    "other.md": "# Other\n\nNothing.\n",
}


@pytest.fixture
def root(tmp_path: Path, own_home: Path) -> Path:
    return write_files(tmp_path / "notes", NOTES)


@pytest.fixture
def library(root: Path) -> Iterator[Library]:
    settings = {"embed.provider": "hash", "index.workers": 1}
    with Library.open(root, index_dir=root.parent / "index", settings=settings) as library:
        library.index()
        yield library


def snapshot(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def test_links_of_every_form_follow_a_renamed_note(library: Library, root: Path) -> None:
    """Fails if one form is not rewritten, or one that must stay is."""
    library.edit(Edit("rename", "Alpha Plan", heading="Gamma Plan"))
    assert not (root / "plans/Alpha Plan.md").exists()
    assert (root / "people/ada.md").read_text() == (
        '---\nup: "[[Gamma Plan]]"\nrelated:\n  - "[[plans/Gamma Plan|shown]]"\n---\n'
        "# Ada\n\n[[Gamma Plan]], [[Gamma Plan#Risks|the risks]], ![[Gamma Plan#^many]],\n"
        "[[plans/Gamma Plan]], [[Gamma Plan.md]], [[Plan A]], [[The plan]],\n"
        "[x](../plans/Gamma%20Plan.md#risks), [y](<../plans/Gamma Plan.md>), [z][ref].\n\n"
        "| a |\n|---|\n| [[Gamma Plan\\|p]] |\n\n`[[Alpha Plan]]` stays.\n\n"
        "[ref]: /plans/Gamma%20Plan.md\n"
    )
    assert "[[Gamma Plan#Risks]]" in (root / "plans/Gamma Plan.md").read_text()
    canvas = (root / "map.canvas").read_text()
    assert canvas == CANVAS.replace("Alpha Plan", "Gamma Plan")
    related = library.related("Gamma Plan", kinds=BACKLINKS, limit=50)
    assert {entry.uri for entry in related.entries} == {"people/ada.md", "map.canvas"}


def test_definitions_with_different_anchors_follow_a_renamed_note(
    library: Library, root: Path
) -> None:
    """Seen to change only the first definition while anchors were not compared."""
    text = (
        "# Refs\n\n[x][a], [y][b], [z ![p](p.png)](old/Beta%20Plan.md).\n\n"
        "[a]: old/Beta%20Plan.md#old\n[b]: old/Beta%20Plan.md\n"
    )
    (root / "refs.md").write_text(text)
    library.index()
    library.edit(Edit("rename", "old/Beta Plan.md", heading="Delta"))
    assert (root / "refs.md").read_text() == text.replace("Beta%20Plan", "Delta")


def test_link_follows_although_the_title_is_the_old_name(library: Library, root: Path) -> None:
    """Other programs do not resolve titles, so the link must not be left to the title."""
    write_files(root, {"Same.md": "# Same\n", "more.md": "[[Same]]\n"})
    library.index()
    library.edit(Edit("rename", "Same.md", heading="New"))
    assert (root / "more.md").read_text() == "[[New]]\n"


def test_dry_run_lists_files_lines_and_links(library: Library, root: Path) -> None:
    before = snapshot(root)
    result = library.edit(Edit("rename", "Alpha Plan", heading="Gamma Plan"), dry_run=True)
    assert snapshot(root) == before
    first = result.documents[0]
    assert (first.action, first.moved_from, first.uri) == (
        "moved",
        "plans/Alpha Plan.md",
        "plans/Gamma Plan.md",
    )
    changes = {(link.uri, link.line, link.written, link.becomes) for link in result.links}
    assert ("people/ada.md", 2, "[[Alpha Plan]]", "[[Gamma Plan]]") in changes
    assert (
        "people/ada.md",
        8,
        "[[alpha plan#Risks|the risks]]",
        "[[Gamma Plan#Risks|the risks]]",
    ) in changes
    assert (
        "people/ada.md",
        10,
        "[x](../plans/Alpha%20Plan.md#risks)",
        "[x](../plans/Gamma%20Plan.md#risks)",
    ) in changes
    assert any(uri == "map.canvas" for uri, *_ in changes)
    assert all(link.rewritten for link in result.links)


def test_undo_reverts_the_whole(library: Library, root: Path) -> None:
    before = snapshot(root)
    library.edit(Edit("move", "Alpha Plan", to="archive/2026", keep_alias=False))
    assert (root / "archive/2026/Alpha Plan.md").exists()
    library.undo("Alpha Plan")
    assert snapshot(root) == before
    assert not (root / "archive").exists()
    assert library.read("Alpha Plan").uri == "plans/Alpha Plan.md"


def test_relative_links_of_a_moved_note_are_adjusted(library: Library, root: Path) -> None:
    """Names stay; paths, also to files that are not indexed, are seen from the new folder."""
    library.edit(Edit("move", "Alpha Plan", to="archive/2026/"))
    text = (root / "archive/2026/Alpha Plan.md").read_text()
    assert "[ada](../../people/ada.md)" in text
    assert "![p](../../plans/img/p%201.png)" in text
    assert "[here](#risks), [[Alpha Plan#Risks]]" in text
    linking = (root / "people/ada.md").read_text()
    assert "[[Alpha Plan]], [[alpha plan#Risks|the risks]]" in linking
    assert "[[archive/2026/Alpha Plan]]" in linking
    assert "[x](../archive/2026/Alpha%20Plan.md#risks)" in linking
    assert "[ref]: /archive/2026/Alpha%20Plan.md" in linking


def test_new_name_catches_no_link_of_another_note(library: Library, root: Path) -> None:
    """A shorter path would win ``[[Beta Plan]]``; the link is written out, and so are the new."""
    library.edit(Edit("rename", "Alpha Plan", heading="/Beta Plan"))
    assert (root / "links.md").read_text() == "# Links\n\n[[old/Beta Plan]]\n"
    assert 'up: "[[Beta Plan]]"' in (root / "people/ada.md").read_text()
    assert library.related("links.md", kinds=LINKS).entries[0].uri == "old/Beta Plan.md"


def test_name_that_is_not_unique_is_written_with_its_path(library: Library, root: Path) -> None:
    library.edit(Edit("rename", "Alpha Plan", heading="plans/deep/Beta Plan"))
    linking = (root / "people/ada.md").read_text()
    assert 'up: "[[plans/deep/Beta Plan]]"' in linking
    assert (root / "links.md").read_text() == NOTES["links.md"]


def test_old_name_is_kept_as_an_alias(library: Library, root: Path) -> None:
    library.edit(Edit("rename", "Alpha Plan", heading="Gamma Plan", keep_alias=True))
    text = (root / "plans/Gamma Plan.md").read_text()
    assert text.startswith("---\naliases: [Plan A, Alpha Plan]\n---\n")
    assert library.read("Alpha Plan").uri == "plans/Gamma Plan.md"
    assert '"[[Gamma Plan]]"' in (root / "people/ada.md").read_text()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# T\n", "---\naliases:\n  - Old name\n---\n# T\n"),
        ("---\ntitle: T\n---\nx\n", "---\ntitle: T\naliases:\n  - Old name\n---\nx\n"),
        ("---\naliases:\n---\nx\n", "---\naliases:\n  - Old name\n---\nx\n"),
        ("---\naliases: []\nb: 1\n---\nx\n", "---\naliases: [Old name]\nb: 1\n---\nx\n"),
        ("---\naliases:\n- a\n---\nx\n", "---\naliases:\n- a\n- Old name\n---\nx\n"),
        ("---\naliases: |\n  a\n---\nx\n", None),
        (
            "---\naliases:\n    - a\n    - b\nc: 1\n---\nx\n",
            "---\naliases:\n    - a\n    - b\n    - Old name\nc: 1\n---\nx\n",
        ),
        ("---\naliases: a, b\n---\nx\n", "---\naliases: a, b, Old name\n---\nx\n"),
        ("---\naliases: [old NAME]\n---\nx\n", "---\naliases: [old NAME]\n---\nx\n"),
        ('+++\naliases = ["a"]\n+++\nx\n', None),
    ],
)
def test_alias_is_added_in_the_style_of_the_front_matter(before: str, after: str | None) -> None:
    changes = add_alias(parse("a.md", before), "Old name")
    assert (None if changes is None else apply_changes(before, changes)) == after


@pytest.mark.parametrize(
    ("edit", "error"),
    [
        (Edit("rename", "Alpha Plan", heading="a[b"), InvalidArgument),
        (Edit("rename", "Alpha Plan", heading=""), InvalidArgument),
        (Edit("rename", "Alpha Plan", heading="../../etc/x"), InvalidArgument),
        (Edit("move", "Alpha Plan", to=".git"), Exception),
        (Edit("rename", "old/Beta Plan.md", heading="/plans/Alpha Plan"), Conflict),
        (Edit("rename", "Alpha Plan", heading="x", expected="0" * 16), Conflict),
    ],
)
def test_wrong_names_change_nothing(
    library: Library, root: Path, edit: Edit, error: type[Exception]
) -> None:
    before = snapshot(root)
    with pytest.raises(error):
        library.edit(edit)
    assert snapshot(root) == before


def test_rename_is_alone_in_its_transaction(library: Library) -> None:
    edits = [Edit("rename", "Alpha Plan", heading="x"), Edit("append", "other.md", text="y")]
    with pytest.raises(InvalidArgument, match="combined"):
        library.edit(edits)


def test_link_in_a_read_only_note_is_reported(library: Library, root: Path) -> None:
    (root / "people/ada.md").chmod(0o444)
    result = library.edit(Edit("rename", "Alpha Plan", heading="Gamma Plan"))
    assert {link.uri for link in result.links if not link.rewritten} == {"people/ada.md"}
    assert "[[Alpha Plan]]" in (root / "people/ada.md").read_text()
