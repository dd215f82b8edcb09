"""Edits through a library: read, edit, search, undo, with real indexes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lookfar.errors import Ambiguous, Conflict, InvalidArgument, NotFound
from lookfar.library import Library
from lookfar.model import Edit
from lookfar.retrieve.locate.address import format_citation

GUIDE = "# Guide\n\n## Setup\n\nUse the crimson lever.\n\n### Linux\n\napt\n\n## Use\n\nPull it.\n"
NOTES = "# Notes\n\nSee [setup](guide.md#setup) and [[guide#Linux]].\n"


def opened(base: Path, *names: str, **settings: object) -> Library:
    chosen = {"embed.provider": "hash", **settings}
    paths = [base / name for name in names or ("docs",)]
    return Library.open(*paths, index_dir=base / "indexes", settings=chosen)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text(GUIDE, encoding="utf-8")
    (tmp_path / "docs" / "notes.md").write_text(NOTES, encoding="utf-8")
    return tmp_path


@pytest.fixture
def library(base: Path) -> Iterator[Library]:
    with opened(base) as library:
        library.index()
        yield library


def uris(library: Library, query: str) -> list[str]:
    return [hit.uri for hit in library.search(query, mode="keyword").hits]


@pytest.mark.parametrize("name", ["target", "text", "heading", "template", "expected"])
def test_none_in_place_of_a_text_says_so(name: str, base: Path, library: Library) -> None:
    """Proved by mutation: without the check, a TypeError comes from deep inside."""
    given: dict[str, Any] = {"op": "replace", "target": "guide.md#Setup", "text": "x", name: None}
    with pytest.raises(InvalidArgument, match=f"{name} must be a text") as raised:
        library.edit(Edit(**given))
    assert name in raised.value.hint
    assert (base / "docs" / "guide.md").read_text(encoding="utf-8") == GUIDE


def test_what_was_read_is_replaced_found_and_taken_back(base: Path, library: Library) -> None:
    read = library.read("guide.md#Setup")
    with pytest.raises(Conflict) as raised:
        library.edit(Edit("replace", "guide.md#Setup", text="No.", expected="f" * 64))
    assert raised.value.details["part"] == read.sha256
    text = "Use the turquoise button."
    done = library.edit(Edit("replace", "guide.md#Setup", text=text, expected=read.sha256))
    assert done.indexed
    assert uris(library, "turquoise") == ["guide.md"]
    assert uris(library, "crimson") == []
    again = library.read("guide.md#Setup")
    assert again.sha256 == done.documents[0].section_sha256
    assert again.state == "same"
    assert library.read("guide.md").sha256 == done.documents[0].after
    undone = library.undo("guide.md")
    assert undone.indexed
    assert (base / "docs" / "guide.md").read_text(encoding="utf-8") == GUIDE
    assert uris(library, "crimson") == ["guide.md"]
    assert uris(library, "turquoise") == []


def test_what_is_created_is_found_and_what_goes_is_not(base: Path, library: Library) -> None:
    library.edit(Edit("create", "new/page.md", heading="Turquoise", text="text"))
    assert uris(library, "turquoise") == ["new/page.md"]
    library.undo("new/page.md")
    assert uris(library, "turquoise") == []
    assert not (base / "docs" / "new").exists()


def test_an_edit_while_the_folder_is_followed_is_found_at_once(library: Library) -> None:
    library.watch()
    for number in range(3):
        library.edit(Edit("append", "guide.md#Use", text=f"turquoise{number}"))
        assert uris(library, f"turquoise{number}") == ["guide.md"]


def test_every_way_to_name_a_part_means_the_same(base: Path, library: Library) -> None:
    hit = library.search("crimson", mode="keyword").hits[0]
    cite = format_citation(hit.collection, hit.uri, hit.span, hit.sha256)
    targets = {
        "guide.md#Setup > Linux": "### Linux\n\napt\n\n",
        "guide.md#linux": "### Linux\n\napt\n\n",
        "lookfar://docs/guide.md#Guide%20%3E%20Use": "## Use\n\nPull it.\n",
        "guide.md:5": "Use the crimson lever.\n",
        "lookfar://docs/guide.md:5-5": "Use the crimson lever.\n",
        cite: hit.text,
    }
    for target, text in targets.items():
        assert library.read(target).text == text
        said = library.edit(Edit("delete", target), dry_run=True)
        removed = [line[1:] for line in said.documents[0].diff.splitlines()[2:] if line[0] == "-"]
        assert removed
        assert set(removed) <= set(text.splitlines()), target
    said = library.edit(Edit("delete", "guide.md", path="Guide → Setup → Linux"), dry_run=True)
    assert "-### Linux\n" in said.documents[0].diff
    with pytest.raises(InvalidArgument, match="names a part"):
        library.edit(Edit("delete", "lookfar://docs/guide.md#Use", path="Guide"))


def test_heading_paths_are_matched_name_by_name_with_case(library: Library) -> None:
    library.edit(Edit("append", "guide.md", path="Guide → Use", text="x"))
    for path in ("Use", "Guide → use", "Guide → Setup → Use"):
        with pytest.raises(NotFound) as raised:
            library.edit(Edit("append", "guide.md", path=path, text="x"))
        assert raised.value.details["heading_path"] == path
        assert raised.value.details["uri"] == "guide.md"


@pytest.mark.parametrize("path", ["", "  "])
def test_an_empty_path_never_means_the_whole_document(library: Library, path: str) -> None:
    with pytest.raises(InvalidArgument, match="path is empty"):
        library.edit(Edit("replace", "guide.md", path=path, text="all gone"))


def test_a_name_that_looks_like_a_part_is_the_document_of_that_name(
    base: Path, library: Library
) -> None:
    (base / "docs" / "C#.md").write_text("# C\n", encoding="utf-8")
    library.edit(Edit("append", "C#.md", text="one"))
    library.edit(Edit("append", "C#.md", path="C", text="two"))
    assert (base / "docs" / "C#.md").read_text(encoding="utf-8") == "# C\n\none\n\ntwo\n"


def test_links_in_the_graph_are_rewritten_in_the_same_transaction(
    base: Path, library: Library
) -> None:
    said = library.edit(Edit("rename", "guide.md#Setup", heading="Install"), dry_run=True)
    assert [(each.uri, each.anchor, each.becomes) for each in said.links] == [
        ("notes.md", "setup", "install")
    ]
    edits = [
        Edit("rename", "guide.md#Setup", heading="Install"),
        Edit("rename", "guide.md#Linux", heading="On Linux"),
    ]
    done = library.edit(edits, rewrite_links=True)
    assert {each.uri for each in done.documents} == {"guide.md", "notes.md"}
    notes = (base / "docs" / "notes.md").read_text(encoding="utf-8")
    assert notes == "# Notes\n\nSee [setup](guide.md#install) and [[guide#On Linux]].\n"
    links = library.related("notes.md", kinds=["links"]).entries
    assert {each.anchor for each in links} <= {"install", "On Linux"}
    library.undo("guide.md")
    assert (base / "docs" / "notes.md").read_text(encoding="utf-8") == NOTES


def test_a_link_written_this_moment_counts(base: Path, library: Library) -> None:
    """The index is brought up to date before it is asked who links here."""
    (base / "docs" / "late.md").write_text("[x](guide.md#use)\n", encoding="utf-8")
    said = library.edit(Edit("rename", "guide.md#Use", heading="Usage"), dry_run=True)
    assert [each.uri for each in said.links] == ["late.md"]


def test_a_folder_that_was_never_indexed_can_be_edited(base: Path) -> None:
    with opened(base) as library:
        done = library.edit(Edit("append", "guide.md#Use", text="turquoise"))
        assert not done.indexed
        assert uris(library, "turquoise") == ["guide.md"]


def test_what_an_index_that_is_held_does_not_show_is_said(library: Library) -> None:
    library.edit(Edit("append", "guide.md#Use", text="turquoise"))
    library.roll_back(library.snapshots()[0].number)
    done = library.edit(Edit("append", "guide.md#Use", text="ochre"))
    assert not done.indexed
    assert done.warnings[-1].startswith("Not searched yet")
    assert uris(library, "ochre") == []
    library.index()
    assert uris(library, "ochre") == ["guide.md"]


def test_of_several_folders_the_one_that_has_the_document_is_edited(base: Path) -> None:
    (base / "more").mkdir()
    (base / "more" / "other.md").write_text("# Other\n", encoding="utf-8")
    (base / "more" / "notes.md").write_text("# Notes too\n", encoding="utf-8")
    with opened(base, "docs", "more") as library:
        for name in library.collections:
            library.index(collection=name)
        done = library.edit(Edit("append", "other.md#Other", text="turquoise"))
        assert done.documents[0].collection == "more"
        assert uris(library, "turquoise") == ["other.md"]
        with pytest.raises(Ambiguous):
            library.edit(Edit("append", "notes.md", text="x"))
        library.edit(Edit("append", "lookfar://more/notes.md", text="x"))
        with pytest.raises(InvalidArgument, match="name one of them"):
            library.edit(Edit("create", "new.md", heading="New"))
        library.edit(Edit("create", "new.md", heading="New"), collection="more")
        assert (base / "more" / "new.md").exists()
        both = [Edit("append", "guide.md", text="x"), Edit("append", "other.md", text="x")]
        with pytest.raises(InvalidArgument, match="two collections"):
            library.edit(both)
        library.undo("other.md")
        library.undo("lookfar://more/new.md")
        assert not (base / "more" / "new.md").exists()
        assert {each.collection for each in library.undoable()} == {"more"}
        with pytest.raises(InvalidArgument, match="cannot be edited by section"):
            library.edit(Edit("append", "x.md", text="x"), collection="docs@memory")


def test_the_next_search_puts_an_interrupted_edit_in_order(
    base: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when only the next edit looked for a journal."""
    from lookfar.edit.transaction import Transactions

    class Dead(BaseException):
        pass

    def die(*_: object) -> None:
        raise Dead

    with monkeypatch.context() as patched:
        patched.setattr(Transactions, "_perform", die)
        patched.setattr(Transactions, "_give_up", lambda *_: None)
        with pytest.raises(Dead):
            library.edit(Edit("append", "guide.md#Use", text="turquoise"))
    docs = base / "docs"
    assert [path for path in os.listdir(docs) if path.endswith(".tmp")]
    with opened(base) as another:
        assert uris(another, "turquoise") == ["guide.md"]
    assert sorted(os.listdir(docs)) == ["guide.md", "notes.md"]


def test_validate_says_what_breaks_a_rule(base: Path, library: Library) -> None:
    path = base / "docs" / "bad.md"
    path.write_text("# A\n\n### C\n\n# A\n", encoding="utf-8")
    found = library.validate("bad.md")
    assert [each.rule for each in found.violations] == ["heading-jump", "duplicate-sibling"]
    assert not found.ok
    strict = library.validate("lookfar://docs/bad.md", single_h1=True)
    assert "multiple-h1" in {each.rule for each in strict.violations}
    library.edit(Edit("fix", "bad.md", expected=found.sha256))
    assert library.validate("bad.md").ok
    with pytest.raises(NotFound) as raised:
        library.validate("bed.md")
    assert "bad.md" in raised.value.details["candidates"]


def test_the_settings_say_how_many_top_headings_and_where_templates_are(base: Path) -> None:
    (base / "docs" / "bad.md").write_text("# A\n\n# B\n", encoding="utf-8")
    (base / "docs" / "forms").mkdir()
    (base / "docs" / "forms" / "ours.md").write_text("# {title}\n\nours\n", encoding="utf-8")
    chosen = {"edit.single_h1": True, "edit.templates": "forms"}
    with opened(base, **chosen) as library:
        assert not library.validate("bad.md").ok
        library.edit(Edit("create", "c.md", heading="C", template="ours"))
        assert (base / "docs" / "c.md").read_text(encoding="utf-8") == "# C\n\nours\n"


def test_an_edit_that_breaks_a_rule_says_so(library: Library) -> None:
    done = library.edit(Edit("insert", "guide.md#Use", heading="Deep", level=4, text="x"))
    assert [each.rule for each in done.violations] == ["heading-jump"]


def test_an_edit_is_not_blamed_for_what_broke_a_rule_before(base: Path, library: Library) -> None:
    """Caught: a twin further down came with another line in its message, and so counted as new."""
    (base / "docs" / "twins.md").write_text("# T\n\n## A\n\na\n\n## B\n\n## B\n", encoding="utf-8")
    assert library.edit(Edit("append", "twins.md#A", text="more\nand more")).violations == ()
    third = library.edit(Edit("append", "twins.md", text="## B"))
    assert [each.rule for each in third.violations] == ["duplicate-sibling"]


def test_links_that_the_index_may_not_know_of_are_admitted(base: Path) -> None:
    """Caught: without an index, links went astray and nobody was told."""
    rename = Edit("rename", "guide.md#Use", heading="Usage")
    with opened(base) as library:
        assert "never indexed" in library.edit(rename, dry_run=True).warnings[0]
        own = library.edit(Edit("replace", "guide.md#Use", text="Push it."), dry_run=True)
        assert own.warnings == ()
        library.index()
        assert library.edit(rename, dry_run=True).warnings == ()
    (base / "docs" / "late.md").write_text("[x](guide.md#use)\n", encoding="utf-8")
    with opened(base, **{"index.max_auto_files": 0}) as library:
        assert "1 file changed" in library.edit(rename, dry_run=True).warnings[0]


def test_what_is_too_large_to_be_indexed_is_not_called_indexed(tmp_path: Path) -> None:
    """Seen to fail: the warning said that it is not searched, and the result that it is."""
    root = tmp_path / "notes"
    root.mkdir()
    (root / "a.md").write_text("# A\n\nshort\n")
    settings = {"embed.provider": "none", "sources.max_file_bytes": 200}
    with Library.open(root, index_dir=tmp_path / "index", settings=settings) as library:
        library.index()
        small = library.edit(Edit("append", "a.md", text="more\n"))
        assert small.indexed
        large = library.edit(Edit("append", "a.md", text="many words " * 50))
        assert "not searched" in large.warnings[0]
        assert not large.indexed
