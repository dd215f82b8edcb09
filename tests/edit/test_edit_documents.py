"""Edits of real files: every operation, every kind of file, and what is refused."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from edit.faulty import seen
from lookfar.edit.editor import Editor
from lookfar.edit.work import make_diff
from lookfar.errors import (
    Ambiguous,
    Conflict,
    InvalidArgument,
    LookfarError,
    NotFound,
    OutsideRoot,
    PermissionDenied,
)
from lookfar.model import Edit, EditResult, Target
from lookfar.sources.confine import Root
from lookfar.sources.folder.policy import Policy

GUIDE = """\
---
title: The guide   # not a heading
---

# Guide

Intro.

## Setup

Do this.

```sh
# not a heading
```

### Linux

apt

## Use

> ## quoted, not a heading

Now use it.
"""


class Folder:
    """A folder of documents and its editor."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.docs = base / "docs"
        self.docs.mkdir()
        self.links: dict[str, list[tuple[str, str, str]]] = {}
        self.put("guide.md", GUIDE)

    def put(self, uri: str, text: str | bytes) -> Path:
        path = self.docs / uri
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def text(self, uri: str = "guide.md") -> str:
        return (self.docs / uri).read_bytes().decode()

    def editor(self, **more: object) -> Editor:
        return Editor(
            Root.open(self.docs),
            Policy(exclude=("private/**",), max_file_bytes=1 << 20),
            self.base / "edits",
            backlinks=lambda uri: self.links.get(uri, []),
            clock=lambda: 86_400.0,
            **more,  # type: ignore[arg-type]
        )

    def edit(
        self,
        op: str,
        path: str | Sequence[str] = (),
        *,
        uri: str = "guide.md",
        where: Target | None = None,
        dry_run: bool = False,
        rewrite_links: bool = False,
        **more: object,
    ) -> EditResult:
        edit = Edit(op, uri, path=path, **more)  # type: ignore[arg-type]
        target = replace(where or Target(uri), uri=uri)
        editor = self.editor(resolve=lambda _: target)
        return editor.edit([edit], dry_run=dry_run, rewrite_links=rewrite_links)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


# --- the operations -------------------------------------------------------------------------------


def test_replacing_a_section_keeps_its_heading_and_its_subsections(folder: Folder) -> None:
    result = folder.edit("replace", "Guide → Setup", text="Other.\n")
    before, after = GUIDE.split("Do this.")[0], GUIDE[GUIDE.index("\n### Linux") :]
    assert folder.text() == f"{before}Other.\n{after}"
    (edited,) = result.documents
    assert edited.action == "changed"
    assert edited.heading_path == ("Guide", "Setup")
    assert "-Do this.\n" in edited.diff
    assert "+Other.\n" in edited.diff
    assert edited.span is not None
    assert (edited.span.start_line, edited.span.end_line) == (9, 16)


def test_replacing_a_whole_section_includes_heading_and_subsections(folder: Folder) -> None:
    folder.edit("replace", "Guide > Setup", whole=True, text="## Install\n\nAll new.\n\n### Mac\n")
    assert "## Install\n\nAll new.\n\n### Mac\n\n## Use\n" in folder.text()
    assert "Linux" not in folder.text()
    with pytest.raises(InvalidArgument, match="start with a heading of level 2"):
        folder.edit("replace", "Guide > Install", whole=True, text="No heading.")
    with pytest.raises(InvalidArgument, match="level 1"):
        folder.edit("replace", "Guide > Install", whole=True, text="## A\n\n# B\n")


@pytest.mark.parametrize("op", ["replace", "append"])
def test_new_text_is_followed_by_a_blank_line(folder: Folder, op: str) -> None:
    """Seen to fail without it: an HTML block ends at the next blank line, not at a heading."""
    folder.put("a.md", "# A\ntext\n# B\nb\n")
    folder.edit(op, "A", uri="a.md", text="<div>\nx\n</div>")
    assert folder.text("a.md").endswith("<div>\nx\n</div>\n\n# B\nb\n")


def test_appended_text_comes_before_subsections(folder: Folder) -> None:
    folder.edit("append", "Guide > Setup", text="- and that\n")
    assert "# not a heading\n```\n\n- and that\n\n### Linux\n" in folder.text()
    folder.edit("append", text="The end.")
    assert folder.text().endswith("Now use it.\n\nThe end.\n")


@pytest.mark.parametrize(
    ("position", "path", "level", "expected"),
    [
        ("last", "Guide > Setup", 0, "apt\n\n### Mac\n\nbrew\n\n## Use"),
        ("first", "Guide > Setup", 0, "```\n\n### Mac\n\nbrew\n\n### Linux"),
        ("before", "Guide > Setup", 0, "Intro.\n\n## Mac\n\nbrew\n\n## Setup"),
        ("after", "Guide > Use", 0, "Now use it.\n\n## Mac\n\nbrew\n"),
        ("last", "Guide > Use", 4, "Now use it.\n\n#### Mac\n\nbrew\n"),
        ("last", "", 0, "Now use it.\n\n# Mac\n\nbrew\n"),
        ("last", "", 2, "Now use it.\n\n## Mac\n\nbrew\n"),
    ],
)
def test_a_section_is_inserted_at_the_position(
    folder: Folder, position: str, path: str, level: int, expected: str
) -> None:
    folder.edit("insert", path, heading="Mac", text="brew", level=level, position=position)
    assert expected in folder.text()


def test_an_unknown_position_is_rejected(folder: Folder) -> None:
    with pytest.raises(InvalidArgument, match="no position"):
        folder.edit("insert", "Guide", heading="Mac", position="below")


def test_a_section_that_would_join_a_neighbour_is_rejected(folder: Folder) -> None:
    """At level 4 a section of Guide would become one of Use."""
    with pytest.raises(InvalidArgument, match="a subsection of 'Guide > Use'"):
        folder.edit("insert", "Guide", heading="Mac", text="brew", level=4)
    with pytest.raises(InvalidArgument, match="Level 2 is not between 3 and 6"):
        folder.edit("insert", "Guide > Setup", heading="Mac", text="brew", level=2)
    assert folder.text() == GUIDE


def test_a_section_moves_with_its_subsections_and_new_levels(folder: Folder) -> None:
    folder.edit("move", "Guide > Setup", to="Guide > Use")
    assert folder.text().endswith(
        "## Use\n\n> ## quoted, not a heading\n\nNow use it.\n\n### Setup\n\nDo this.\n\n"
        "```sh\n# not a heading\n```\n\n#### Linux\n\napt\n"
    )
    folder.edit("move", "Guide > Use > Setup", to="Guide > Use", position="before")
    assert folder.text() == GUIDE
    folder.edit("move", "Guide > Setup > Linux", to="")
    assert folder.text().endswith("Now use it.\n\n# Linux\n\napt\n")


def test_headings_keep_their_style(folder: Folder) -> None:
    folder.put("a.md", "Top\n===\n\nOne\n---\n\n1\n\n## Two ##\n\n2\n\n### Three {#own}\n\n3\n")
    folder.edit("move", "Top > Two", uri="a.md", to="Top > One")
    assert folder.text("a.md").endswith("1\n\n### Two ###\n\n2\n\n#### Three {#own}\n\n3\n")
    folder.edit("rename", "Top > One > Two > Three", uri="a.md", heading="Third")
    assert "#### Third {#own}\n" in folder.text("a.md")
    folder.edit("rename", "Top > One", uri="a.md", heading="First")
    assert "===\n\nFirst\n---\n\n1\n" in folder.text("a.md")
    folder.edit("insert", uri="a.md", heading="Other", text="x")
    folder.edit("move", "Top", uri="a.md", to="Other")
    assert "# Other\n\nx\n\nTop\n---\n\n### First\n\n1\n\n#### Two ####\n" in folder.text("a.md")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"path": "Guide", "to": "Guide > Use"}, "into itself"),
        ({"path": "Guide > Setup", "to": "Guide > Setup"}, "into itself"),
        ({"path": "Guide > Setup", "to": "Guide > Nowhere"}, "no section"),
        ({"path": "", "to": "Guide > Use"}, "not a valid name for a document"),
    ],
)
def test_impossible_moves_are_rejected(folder: Folder, more: dict[str, str], message: str) -> None:
    with pytest.raises(LookfarError, match=message):
        folder.edit("move", **more)  # type: ignore[arg-type]
    assert folder.text() == GUIDE


def test_a_section_is_deleted_with_its_subsections(folder: Folder) -> None:
    folder.edit("delete", "Guide > Setup")
    assert folder.text() == GUIDE[: GUIDE.index("## Setup")] + GUIDE[GUIDE.index("## Use") :]
    folder.edit("delete", "Guide > Use")
    assert folder.text() == GUIDE[: GUIDE.index("\n## Setup")]
    with pytest.raises(InvalidArgument, match="needs a section"):
        folder.edit("delete")


def test_lines_and_citations_are_replaced_verbatim(folder: Folder) -> None:
    folder.edit("replace", where=Target("", lines=(11, 11)), text="Do that.")
    assert "## Setup\n\nDo that.\n\n```sh" in folder.text()
    start = folder.text().index("that")
    cited = Target("", chars=(start, start + 4), sha256=sha256(b"that").hexdigest()[:16])
    result = folder.edit("replace", where=cited, text="something\nelse")
    assert "\nDo something\nelse.\n" in folder.text()
    assert result.documents[0].span is not None
    with pytest.raises(Conflict, match="no longer contains"):
        folder.edit("replace", where=cited, text="again")
    folder.edit("delete", where=Target("", lines=(11, 12)))
    assert "## Setup\n\n\n```sh" in folder.text()
    with pytest.raises(NotFound, match="lines, not 99-99"):
        folder.edit("replace", where=Target("", lines=(99, 99)), text="x")


@pytest.mark.parametrize(
    ("before", "lines", "text", "after"),
    [
        ("# A\n\none\n\ntwo\n", (3, 4), "1\n\n", "# A\n\n1\n\ntwo\n"),
        ("# A\n\none\n\n    code\n", (3, 4), "1\n\n", "# A\n\n1\n\n    code\n"),
        ("# A\n\n```\na\n\n\nb\n```\n", (4, 6), "c\n\n\n", "# A\n\n```\nc\n\n\nb\n```\n"),
        ("# A\n\none\n\ntwo\n", (3, 4), "1\n", "# A\n\n1\ntwo\n"),
        ("# A\n\none\n\ntwo\n", (3, 4), "1", "# A\n\n1\ntwo\n"),
    ],
)
def test_blank_lines_in_a_replacement_of_lines_stay(
    folder: Folder, before: str, lines: tuple[int, int], text: str, after: str
) -> None:
    """Seen to fail when they were taken off: two paragraphs became one, and code prose."""
    folder.put("a.md", before)
    folder.edit("replace", uri="a.md", where=Target("", lines=lines), text=text)
    assert folder.text("a.md") == after


def test_blank_lines_in_text_appended_to_lines_stay(folder: Folder) -> None:
    """Seen to fail when the text was tidied: it ran into the paragraphs around it."""
    folder.put("a.md", "# A\n\none\n\ntwo\n")
    folder.edit("append", uri="a.md", where=Target("", lines=(3, 4)), text="more\n\n")
    assert folder.text("a.md") == "# A\n\none\n\nmore\n\ntwo\n"
    folder.edit("append", uri="a.md", where=Target("", lines=(7, 7)), text="\nlast")
    assert folder.text("a.md") == "# A\n\none\n\nmore\n\ntwo\n\nlast\n"


def test_moved_cited_text_is_found_but_never_guessed(folder: Folder) -> None:
    line = "same words here\n"
    cited = Target("", chars=(0, len(line)), sha256=sha256(line.encode()).hexdigest())
    folder.put("a.md", f"# New\n\n{line}")
    folder.edit("replace", uri="a.md", where=cited, text="other words")
    assert folder.text("a.md") == "# New\n\nother words\n"
    folder.put("a.md", f"# New\n\n{line}\n{line}")
    with pytest.raises(Ambiguous) as raised:
        folder.edit("replace", uri="a.md", where=cited, text="other words")
    assert raised.value.details["candidates"] == ["line 3", "line 5"]


def test_documents_are_created_from_templates(folder: Folder) -> None:
    result = folder.edit("create", uri="new/plan.md", heading="Plan", text="Some text.\r\n")
    assert result.documents[0].action == "created"
    assert result.documents[0].diff.startswith("--- /dev/null\n+++ b/new/plan.md\n")
    assert folder.text("new/plan.md") == "# Plan\n\nSome text.\n"
    folder.edit("create", uri="d.md", heading="Use Rust", template="decision")
    assert "date: 1970-01-02\n---\n\n# Use Rust\n\n## Context\n" in folder.text("d.md")
    folder.put("templates/ours.md", "# {title}\r\n\r\n{date} {other}\r\n")
    edit = Edit("create", "o.md", heading="Mine", template="ours")
    folder.editor(templates="templates").edit([edit])
    assert folder.text("o.md") == "# Mine\n\n1970-01-02 {other}\n"
    with pytest.raises(NotFound, match="no template") as raised:
        folder.edit("create", uri="e.md", heading="E", template="../ours")
    assert "decision" in raised.value.details["candidates"]


def test_a_document_is_overwritten_only_on_request(folder: Folder) -> None:
    with pytest.raises(Conflict, match="already"):
        folder.edit("create", heading="New")
    assert folder.text() == GUIDE
    stale = "0" * 64
    with pytest.raises(Conflict, match="changed since it was read"):
        folder.edit("create", heading="New", overwrite=True, expected=stale)
    folder.edit("create", heading="New", overwrite=True)
    assert folder.text() == "# New\n"
    folder.editor().undo("guide.md")
    assert folder.text() == GUIDE


def test_fix_repairs_what_validate_finds(folder: Folder) -> None:
    folder.put("a.md", "# A\n\n### Jump\n\n### Jump\n\n#### Deep\n\n# B\n")
    result = folder.editor().validate("a.md")
    assert [(violation.rule, violation.start_line) for violation in result.violations] == [
        ("heading-jump", 3),
        ("duplicate-sibling", 5),
    ]
    assert result.violations[0].suggested_fix == "Make it level 2."
    assert "'Jump (2)'" in result.violations[1].suggested_fix
    strict = folder.editor(single_h1=True).validate("a.md")
    assert [violation.rule for violation in strict.violations][-1] == "multiple-h1"
    assert not strict.ok
    folder.edit("fix", uri="a.md")
    assert folder.text("a.md") == "# A\n\n## Jump\n\n## Jump (2)\n\n### Deep\n\n# B\n"
    assert folder.editor().validate("a.md").ok
    again = folder.edit("fix", uri="a.md")
    assert again.transaction == 0
    assert again.documents[0].action == "unchanged"
    asked = Edit("fix", "a.md")
    folder.editor(single_h1=True).edit([asked])
    assert folder.text("a.md").endswith("### Deep\n\n## B\n")


# --- which part is meant --------------------------------------------------------------------------


def test_a_missing_section_lists_the_nearest(folder: Folder) -> None:
    with pytest.raises(NotFound) as raised:
        folder.edit("append", "Guide → Stup", text="x")
    assert raised.value.details["candidates"][0] == "Guide > Setup"
    assert raised.value.details["uri"] == "guide.md"
    assert raised.value.details["heading_path"] == "Guide → Stup"
    for case in ("guide → Setup", "Setup", "Guide → setup"):
        with pytest.raises(NotFound):
            folder.edit("append", case, text="x")
    for loose in ("setup", "GUIDE > setup", "Setup"):
        folder.edit("append", where=Target("", heading=loose), text="x", dry_run=True)


def test_an_ambiguous_heading_lists_all_sections(folder: Folder) -> None:
    folder.put("a.md", "# A\n\n## X\n\n## Y\n\n### X\n\n# B\n\n## X\n")
    with pytest.raises(Ambiguous) as raised:
        folder.edit("append", uri="a.md", where=Target("", heading="x"), text="?")
    assert raised.value.details["candidates"] == [
        "A > X (lines 3-4)",
        "A > Y > X (lines 7-8)",
        "B > X (lines 11-11)",
    ]
    folder.put("b.md", "# A\n\n## X\n\n1\n\n## X\n\n2\n")
    with pytest.raises(Ambiguous):
        folder.edit("append", "A → X", uri="b.md", text="?")
    folder.edit("append", uri="a.md", where=Target("", heading="B > X"), text="here")
    assert folder.text("a.md").endswith("# B\n\n## X\n\nhere\n")


def test_it_does_not_matter_how_accents_are_composed(folder: Folder) -> None:
    folder.put("a.md", "# Gro\u0308ße\n")
    for path in ("Größe", ("Größe",)):
        assert folder.edit("append", path, uri="a.md", text="x", dry_run=True).documents
    where = Target("a.md", heading="größe")
    assert folder.edit("append", uri="a.md", where=where, text="x", dry_run=True).documents


def test_signs_in_headings_may_be_escaped(folder: Folder) -> None:
    folder.put("a.md", "# a > b\n\n## c → d\n\n## `List<T>`\n\n# a\n\n## b\n")
    for path in (("a > b", "c → d"), r"a \> b > c \→ d", r"a \> b → c \→ d"):
        assert folder.edit("append", path, uri="a.md", text="x", dry_run=True).documents
    with pytest.raises(Ambiguous):
        folder.edit("append", "a > b", uri="a.md", text="x")
    folder.edit("append", r"a \> b", uri="a.md", text="mine")
    assert folder.text("a.md").startswith("# a > b\n\nmine\n")
    folder.edit("append", r"a \> b > List<T>", uri="a.md", text="generic")
    assert "## `List<T>`\n\ngeneric\n" in folder.text("a.md")


# --- texts that would do harm ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "```\nnever closed",
        "<!-- never closed",
        "# Top",
        "## Beside",
        "Beside\n---",
        "<pre>\n",
        "~~~",
    ],
)
@pytest.mark.parametrize("op", ["replace", "append"])
def test_a_text_that_would_break_the_section_is_rejected(
    folder: Folder, op: str, text: str
) -> None:
    """Seen to fail when the result was not parsed again."""
    with pytest.raises(InvalidArgument):
        folder.edit(op, "Guide > Setup", text=text)
    assert folder.text() == GUIDE


@pytest.mark.parametrize(
    ("before", "op", "line", "text"),
    [
        ("# A\n\nx\n\n---\n\n## B\n", "delete", 4, ""),  # The rule would underline x...
        ("# A\n\nx\ny\nz\n\n## B\n", "replace", 4, "==="),  # ...and so would these.
        ("# A\n\nx\ny\n\n## B\n", "append", 3, "---"),
        ("# A\n\n```\na\nb\nc\n```\n\nafter\n", "replace", 5, "```"),  # after would be code.
    ],
)
def test_replacing_lines_never_changes_the_structure_around_them(
    folder: Folder, before: str, op: str, line: int, text: str
) -> None:
    """Seen to fail: only headings and blocks that were there before were compared."""
    folder.put("a.md", before)
    with pytest.raises(InvalidArgument, match="read differently"):
        folder.edit(op, uri="a.md", where=Target("", lines=(line, line)), text=text)
    assert folder.text("a.md") == before


def test_a_heading_may_be_edited_from_its_middle(folder: Folder) -> None:
    folder.put("a.md", "A\n===\n\n## Set up\n")
    folder.edit("replace", uri="a.md", where=Target("", lines=(2, 2)), text="---")
    cited = Target("", chars=(14, 16), sha256=sha256(b"up").hexdigest())
    folder.edit("replace", uri="a.md", where=cited, text="off")
    assert folder.text("a.md") == "A\n---\n\n## Set off\n"


def test_lines_within_a_fence_are_edited_and_may_split_it(folder: Folder) -> None:
    folder.put("a.md", "# A\n\n```\na\nb\nc\n```\n\nafter\n")
    folder.edit("replace", uri="a.md", where=Target("", lines=(5, 5)), text="# B")
    folder.edit("replace", uri="a.md", where=Target("", lines=(5, 5)), text="```\n\nsaid\n\n```")
    assert folder.text("a.md") == "# A\n\n```\na\n```\n\nsaid\n\n```\nc\n```\n\nafter\n"


def test_an_open_fence_cannot_swallow_the_next_section(folder: Folder) -> None:
    folder.put("a.md", "# A\n\n```\nopen to the end\n")
    with pytest.raises(InvalidArgument, match="read differently"):
        folder.edit("append", "A", uri="a.md", text="lost in code")
    folder.edit("replace", "A", uri="a.md", text="closed now")
    assert folder.text("a.md") == "# A\n\nclosed now\n"


@pytest.mark.parametrize("heading", ["", "  ", "two\nlines", "#", "## Set up", "x" * 501, "\r"])
def test_invalid_headings_are_rejected(folder: Folder, heading: str) -> None:
    for op in ("insert", "rename", "create"):
        uri = "new.md" if op == "create" else "guide.md"
        with pytest.raises(InvalidArgument, match="heading"):
            folder.edit(op, () if op == "create" else "Guide", uri=uri, heading=heading)


@pytest.mark.parametrize("heading", ["In C #", "C#", "Issue #7", "a ##"])
def test_hashes_in_a_title_stay(folder: Folder, heading: str) -> None:
    """Caught: trailing hashes were read as a closing sequence and disappeared."""
    for uri, before in (("a.md", "# A\n"), ("b.md", "A\n===\n"), ("c.md", "# A ##\n")):
        folder.put(uri, before)
        done = folder.edit("rename", "A", uri=uri, heading=heading)
        assert done.documents[0].heading_path == (heading,)


def test_siblings_never_get_the_same_title(folder: Folder) -> None:
    for op, path in (("insert", "Guide"), ("rename", "Guide > Use")):
        with pytest.raises(Conflict, match="already has a section 'Guide > Setup', on line 9"):
            folder.edit(op, path, heading="Setup")
    folder.edit("rename", "Guide > Use", heading="Use")
    assert folder.text() == GUIDE


@pytest.mark.parametrize("text", ["a\0b", "half \ud800"])
def test_invalid_texts_are_rejected(folder: Folder, text: str) -> None:
    with pytest.raises(InvalidArgument):
        folder.edit("append", "Guide", text=text)


# --- kinds of files -------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_the_mark_and_the_last_newline_stay(
    folder: Folder, end: str, mark: str, last: bool
) -> None:
    """Seen to fail when new lines ended as they were given, and when the mark was not put back."""
    source = GUIDE if last else GUIDE.rstrip("\n")
    folder.put("a.md", (mark + source.replace("\n", end)).encode())
    folder.edit("append", "Guide > Use", uri="a.md", text="More.\r\nAnd more.\n")
    wanted = f"{source.rstrip(chr(10))}\n\nMore.\nAnd more." + ("\n" if last else "")
    assert (folder.docs / "a.md").read_bytes() == (mark + wanted.replace("\n", end)).encode()
    folder.editor().undo("a.md")
    assert (folder.docs / "a.md").read_bytes() == (mark + source.replace("\n", end)).encode()


def test_mixed_line_ends_stay_mixed_and_new_lines_end_like_their_neighbour(folder: Folder) -> None:
    folder.put("a.md", b"# A\r\n\r\none\ntwo\r\n\r\n## B\n\nb\r\nc")
    folder.edit("append", "A", uri="a.md", text="x\ny")
    assert (folder.docs / "a.md").read_bytes() == (
        b"# A\r\n\r\none\ntwo\r\n\r\nx\r\ny\r\n\r\n## B\n\nb\r\nc"
    )
    folder.edit("move", "A > B", uri="a.md", to="A", position="first")
    assert b"## B\n\nb\r\nc" in (folder.docs / "a.md").read_bytes()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("# A\n".encode("utf-16"), "UTF-16"),
        ("# A\n".encode("utf-16-be"), "UTF-16"),
        (b"# A\n\nl\xe9gende\n", "windows-1252, which can be read but not edited"),
        (b"# A\n\0\n", "NUL bytes"),
    ],
)
def test_files_that_are_not_utf_8_are_rejected_and_unchanged(
    folder: Folder, raw: bytes, message: str
) -> None:
    folder.put("a.md", raw)
    for op in ("append", "fix"):
        with pytest.raises(InvalidArgument, match=message):
            folder.edit(op, "A" if op == "append" else (), uri="a.md", text="x")
    assert (folder.docs / "a.md").read_bytes() == raw


def test_the_mode_and_attributes_of_a_file_stay(folder: Folder) -> None:
    path = folder.docs / "guide.md"
    path.chmod(0o640)
    before = path.stat()
    attributes = hasattr(os, "setxattr")
    if attributes:
        try:
            os.setxattr(path, "user.tag", b"green")
        except OSError:
            attributes = False
    folder.edit("append", "Guide", text="x")
    after = path.stat()
    assert stat.S_IMODE(after.st_mode) == 0o640
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    if attributes:
        assert os.getxattr(path, "user.tag") == b"green"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_of_a_file_stays(folder: Folder) -> None:
    os.chown(folder.docs / "guide.md", 1234, 4321)
    folder.edit("append", "Guide", text="x")
    info = (folder.docs / "guide.md").stat()
    assert (info.st_uid, info.st_gid) == (1234, 4321)


def test_a_new_file_has_the_mode_that_others_get(folder: Folder) -> None:
    folder.edit("create", uri="new.md", heading="New")
    (folder.docs / "usual").write_text("x", encoding="utf-8")
    usual = (folder.docs / "usual").stat().st_mode
    assert (folder.docs / "new.md").stat().st_mode == usual


def all_of_it(folder: Folder) -> None:
    """One of everything that touches the disk in its own way."""
    folder.edit("create", uri="x/y.md", heading="Y", text="new")
    folder.edit("append", "Y", uri="x/y.md", text="more")
    assert folder.text("x/y.md") == "# Y\n\nnew\n\nmore\n"
    with pytest.raises(Conflict):
        folder.edit("create", uri="x/y.md", heading="Y")
    folder.editor().undo("x/y.md")
    assert folder.text("x/y.md") == "# Y\n\nnew\n"
    assert sorted(seen(folder.docs)) == ["guide.md", "x/", "x/y.md"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP])
def test_it_works_without_hard_links(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    all_of_it(folder)


def test_it_works_without_directory_descriptors(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Root, "by_descriptor", False)
    all_of_it(folder)


@pytest.mark.parametrize("theirs", ["mine\n", "# New\n"])
def test_a_file_created_meanwhile_is_not_overwritten(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, theirs: str
) -> None:
    """Another process creates it just before the rename, perhaps with the same text. Seen
    to fail with a rename, and when any file with the new content was treated as ours."""
    from lookfar.store.ground import files

    create_document = files.create_document

    def meanwhile(handle: int | str, staged: str, name: str) -> bool:
        (folder.docs / "new.md").write_bytes(theirs.encode())
        return create_document(handle, staged, name)

    monkeypatch.setattr(files, "create_document", meanwhile)
    with pytest.raises(Conflict):
        folder.edit("create", uri="new.md", heading="New")
    assert seen(folder.docs) == {"guide.md": GUIDE, "new.md": theirs}


def test_five_megabytes_are_edited(folder: Folder) -> None:
    body = "".join(f"## Part {n}\n\n{'word ' * 100}\n\n" for n in range(11_000))
    folder.put("big.md", f"# Big\n\n{body}")
    assert (folder.docs / "big.md").stat().st_size > 5 << 20
    result = folder.edit("replace", ("Big", "Part 7000"), uri="big.md", text="found it")
    assert "## Part 7000\n\nfound it\n\n## Part 7001\n" in folder.text("big.md")
    assert "so it is not searched" in result.warnings[0]
    assert len(result.documents[0].diff.splitlines()) < 15
    assert "@@ -28002,7 +28002,7 @@" in result.documents[0].diff


def test_names_with_newlines_are_edited_but_not_created(folder: Folder) -> None:
    folder.put("odd\nname.md", "# A\n")
    result = folder.edit("append", "A", uri="odd\nname.md", text="x")
    assert folder.text("odd\nname.md") == "# A\n\nx\n"
    assert result.documents[0].diff.startswith("--- a/odd\ufffdname.md\n")
    for name in ("new\nname.md", "tab\there.md", " space.md", "x" * 300 + ".md"):
        with pytest.raises(LookfarError):
            folder.edit("create", uri=name, heading="A")


# --- what may not be written ----------------------------------------------------------------------


def refused(folder: Folder, error: type[LookfarError], uri: str, match: str = ".") -> None:
    before = seen(folder.docs)
    for op, more in (("append", {"text": "x"}), ("create", {"heading": "H", "overwrite": True})):
        with pytest.raises(error, match=match):
            folder.edit(op, uri=uri, **more)
    assert seen(folder.docs) == before


@pytest.mark.parametrize(
    "uri", ["../outside.md", "/etc/motd.md", "a/../../b.md", "./x.md", "", "a//b.md", "a\0.md"]
)
def test_nothing_outside_of_the_root_is_written(folder: Folder, uri: str) -> None:
    refused(folder, OutsideRoot, uri)


def test_writes_never_follow_links(folder: Folder) -> None:
    outside = folder.base / "outside"
    outside.mkdir()
    (outside / "a.md").write_bytes(b"# A\n")
    (folder.docs / "link.md").symlink_to(outside / "a.md")
    (folder.docs / "folder").symlink_to(outside)
    (folder.docs / "broken.md").symlink_to(outside / "none.md")
    os.link(outside / "a.md", folder.docs / "hard.md")
    for uri in ("link.md", "folder/a.md", "folder/new.md", "broken.md"):
        refused(folder, InvalidArgument, uri, "link")
    refused(folder, InvalidArgument, "hard.md", "hard links")
    assert sorted(path.name for path in outside.iterdir()) == ["a.md"]
    assert (outside / "a.md").read_bytes() == b"# A\n"


def test_hard_linked_files_may_be_read_but_are_never_replaced(folder: Folder) -> None:
    """Seen to fail when only reading looked at the names: a replaced file parts from them."""
    os.link(folder.put("one.md", "# A\n"), folder.docs / "two.md")
    root = Root.open(folder.docs, allow_hard_links=True)
    made = Editor(root, Policy(), folder.base / "edits")
    assert made.validate("one.md").ok
    with pytest.raises(InvalidArgument, match="hard links"):
        made.edit([Edit("append", "one.md", text="x")])
    assert folder.text("one.md") == folder.text("two.md") == "# A\n"


def test_excluded_files_are_not_written(folder: Folder) -> None:
    folder.put(".gitignore", "secret.md\n")
    folder.put("secret.md", "# S\n")
    folder.put("private/p.md", "# P\n")
    refused(folder, PermissionDenied, "secret.md", "secret.md")
    refused(folder, PermissionDenied, "private/p.md", "private")
    refused(folder, PermissionDenied, "private/new.md", "private")
    refused(folder, PermissionDenied, ".git/x.md")
    refused(folder, InvalidArgument, "script.py", "not a Markdown")


def test_read_only_files_are_not_written(folder: Folder) -> None:
    """Also for root, whom the system would let."""
    folder.put("ro.md", "# A\n").chmod(0o444)
    refused(folder, PermissionDenied, "ro.md", "read-only")
    folder.put("sub/a.md", "# A\n")
    (folder.docs / "sub").chmod(0o555)
    try:
        refused(folder, PermissionDenied, "sub/a.md", "read-only")
        with pytest.raises(PermissionDenied, match="read-only"):
            folder.edit("create", uri="sub/b.md", heading="B")
        for dry_run in (True, False):
            with pytest.raises(PermissionDenied, match="read-only"):
                folder.edit("create", uri="sub/new/b.md", heading="B", dry_run=dry_run)
        assert os.listdir(folder.docs / "sub") == ["a.md"]
    finally:
        (folder.docs / "sub").chmod(0o755)


def test_read_only_files_can_be_validated(folder: Folder) -> None:
    folder.put("ro.md", "# A\n\n### B\n").chmod(0o444)
    assert [violation.rule for violation in folder.editor().validate("ro.md").violations] == [
        "heading-jump"
    ]


def test_a_folder_or_file_in_the_way_is_reported(folder: Folder) -> None:
    (folder.docs / "dir.md").mkdir()
    refused(folder, InvalidArgument, "dir.md", "not a file")
    for below in ("guide.md/new.md", "guide.md/deep/new.md"):
        for dry_run in (True, False):
            with pytest.raises(InvalidArgument, match=r"guide\.md' is a file"):
                folder.edit("create", uri=below, heading="N", dry_run=dry_run)
    with pytest.raises(NotFound):
        folder.edit("append", uri="none.md", text="x")
    os.mkfifo(folder.docs / "pipe.md")
    with pytest.raises(InvalidArgument, match="not a file"):
        folder.edit("append", uri="pipe.md", text="x")


# --- what an edit says and remembers --------------------------------------------------------------


def test_a_dry_run_returns_the_same_and_writes_nothing(folder: Folder) -> None:
    before = (folder.docs / "guide.md").stat()
    said = folder.edit("rename", "Guide > Setup", heading="Install", dry_run=True)
    after = (folder.docs / "guide.md").stat()
    # Reading it may have moved its access time.
    assert (after.st_ino, after.st_ctime_ns, after.st_mtime_ns) == (
        before.st_ino,
        before.st_ctime_ns,
        before.st_mtime_ns,
    )
    assert not (folder.base / "edits").exists()
    done = folder.edit("rename", "Guide > Setup", heading="Install")
    assert said.documents == done.documents
    assert (said.dry_run, said.transaction) == (True, 0)
    assert (done.dry_run, done.transaction) == (False, 1)


@pytest.mark.parametrize("expected", ["xyz", "0" * 15, "0" * 65, "g" * 64])
def test_an_invalid_hash_is_rejected(folder: Folder, expected: str) -> None:
    with pytest.raises(InvalidArgument, match="not a hash"):
        folder.edit("append", "Guide", text="x", expected=expected)


def test_several_edits_are_made_one_after_the_other(folder: Folder) -> None:
    folder.put("b.md", "# B\n")
    asked = [
        Edit("rename", "guide.md", path="Guide > Setup", heading="Install"),
        Edit("append", "guide.md", path="Guide > Install", text="more"),
        Edit("append", "b.md", text="b"),
    ]
    result = folder.editor().edit(asked)
    assert [document.uri for document in result.documents] == ["guide.md", "b.md"]
    assert "## Install\n\nDo this." in folder.text()
    assert "```\n\nmore\n\n### Linux" in folder.text()
    # One of them fails, so none is made.
    before = seen(folder.docs)
    bad = Edit("append", "guide.md", path="Nowhere", text="x")
    with pytest.raises(NotFound):
        folder.editor().edit([asked[2], bad])
    assert seen(folder.docs) == before
    undone = folder.editor().undo("b.md")
    assert {document.uri for document in undone.documents} == {"guide.md", "b.md"}
    assert (folder.text(), folder.text("b.md")) == (GUIDE, "# B\n")


def test_an_undo_can_be_undone_and_a_changed_file_refuses_it(folder: Folder) -> None:
    made = folder.editor()
    with pytest.raises(NotFound, match="no edit"):
        made.undo("guide.md")
    folder.edit("append", "Guide", text="one")
    once = folder.text()
    folder.edit("append", "Guide", text="two")
    made.undo("guide.md")
    assert folder.text() == once, "one step is kept, the last"
    made.undo("guide.md")
    assert "two" in folder.text()
    (folder.docs / "guide.md").write_text(folder.text() + "\nmine\n", encoding="utf-8")
    before = folder.text()
    with pytest.raises(Conflict, match="changed after"):
        made.undo("guide.md")
    assert folder.text() == before
    assert len(made.undoable()) == 1


def test_undoing_a_creation_removes_its_folders(folder: Folder) -> None:
    folder.edit("create", uri="x/y/new.md", heading="N")
    folder.put("x/other.txt", "kept\n")
    result = folder.editor().undo("x/y/new.md")
    assert result.documents[0].action == "removed"
    assert sorted(path.name for path in (folder.docs / "x").iterdir()) == ["other.txt"]
    assert folder.editor().undo("x/y/new.md").documents[0].action == "created"
    assert folder.text("x/y/new.md") == "# N\n"


def test_only_the_last_step_of_each_document_is_kept(folder: Folder) -> None:
    folder.put("b.md", "# B\n")
    for number in range(5):
        folder.edit("append", "Guide", text=f"n{number}")
    folder.edit("append", "B", uri="b.md", text="x")
    assert [item.uris for item in folder.editor().undoable()] == [("b.md",), ("guide.md",)]
    assert len(list((folder.base / "edits").rglob("*.old"))) == 2


# --- links ----------------------------------------------------------------------------------------


LINKS = """\
# Links

[[guide#Setup]] and [[guide#Setup|the setup]] and ![[guide#Guide#Setup]]
[a](guide.md#setup) [b](<guide.md#setup> "title") [c][ref] [d](guide.md#linux)
`[[guide#Setup]]` and [e](other.md#setup)

[ref]: guide.md#setup
"""


def test_links_to_a_renamed_heading_are_reported_and_rewritten_when_asked(folder: Folder) -> None:
    folder.put("sub/links.md", LINKS.replace("\n", "\r\n"))
    folder.put("guide.md", GUIDE.replace("Intro.", "See [[#Setup]] and [here](#setup)."))
    folder.links["guide.md"] = [
        ("sub/links.md", "wikilink", "guide"),
        ("sub/links.md", "embed", "guide"),
        ("sub/links.md", "link", "guide.md"),
    ]
    said = folder.edit("rename", "Guide > Setup", heading="First steps")
    assert [(link.uri, link.line, link.becomes) for link in said.links] == [
        ("guide.md", 7, "First steps"),
        ("guide.md", 7, "first-steps"),
        ("sub/links.md", 3, "First steps"),
        ("sub/links.md", 3, "First steps"),
        ("sub/links.md", 3, "Guide#First steps"),
        ("sub/links.md", 4, "first-steps"),
        ("sub/links.md", 4, "first-steps"),
        ("sub/links.md", 4, "first-steps"),
    ]
    assert not any(link.rewritten for link in said.links)
    assert folder.text("sub/links.md") == LINKS.replace("\n", "\r\n")
    folder.editor().undo("guide.md")
    done = folder.edit("rename", "Guide > Setup", heading="First steps", rewrite_links=True)
    assert all(link.rewritten for link in done.links)
    assert "See [[#First steps]] and [here](#first-steps)." in folder.text()
    assert folder.text("sub/links.md").replace("\r\n", "\n") == (
        LINKS.replace("[[guide#Setup]] and [[", "[[guide#First steps]] and [[", 1)
        .replace("#Setup|", "#First steps|")
        .replace("#Guide#Setup", "#Guide#First steps")
        .replace("(guide.md#setup)", "(guide.md#first-steps)")
        .replace("<guide.md#setup>", "<guide.md#first-steps>")
        .replace(": guide.md#setup", ": guide.md#first-steps")
    )
    folder.editor().undo("sub/links.md")
    assert folder.text("sub/links.md") == LINKS.replace("\n", "\r\n")
    assert "## Setup" in folder.text()


def test_links_by_the_title_of_a_document_follow_it(folder: Folder) -> None:
    folder.put("a.md", "# Old title\n\n## Part\n")
    folder.put("links.md", "[[Old title]] ![[old title#Part|x]] [[a#Part]] [[a#Old title]]\n")
    folder.links["a.md"] = [
        ("links.md", "wikilink", "Old title"),
        ("links.md", "embed", "old title"),
        ("links.md", "wikilink", "a"),
    ]
    result = folder.edit("rename", "Old title", uri="a.md", heading="New", rewrite_links=True)
    assert [(link.anchor, link.becomes) for link in result.links] == [
        ("", "New"),
        ("", "New"),
        ("Old title", "New"),
    ]
    assert all(link.rewritten for link in result.links)
    assert folder.text("links.md") == "[[New]] ![[New#Part|x]] [[a#Part]] [[a#New]]\n"


def test_links_to_a_deleted_heading_are_reported(folder: Folder) -> None:
    folder.put("links.md", "[x](guide.md#linux)\n")
    folder.links["guide.md"] = [("links.md", "link", "guide.md")]
    result = folder.edit("delete", "Guide > Setup", rewrite_links=True)
    (link,) = result.links
    assert (link.becomes, link.rewritten) == ("", False)
    assert link.heading_path == ("Guide", "Setup", "Linux")
    assert folder.text("links.md") == "[x](guide.md#linux)\n"


def test_a_new_twin_before_a_heading_moves_its_anchor(folder: Folder) -> None:
    folder.put("links.md", "[x](guide.md#linux)\n")
    folder.links["guide.md"] = [("links.md", "link", "guide.md")]
    result = folder.edit(
        "insert", "Guide", heading="Linux", text="x", position="first", rewrite_links=True
    )
    (link,) = result.links
    assert (link.becomes, link.rewritten) == ("linux-1", True)
    assert folder.text("links.md") == "[x](guide.md#linux-1)\n"


def test_a_linking_document_that_cannot_be_written_is_still_reported(folder: Folder) -> None:
    folder.put("links.md", "[x](guide.md#use)\n").chmod(0o444)
    folder.links["guide.md"] = [("links.md", "link", "guide.md"), ("gone.md", "link", "guide.md")]
    result = folder.edit("rename", "Guide > Use", heading="Usage", rewrite_links=True)
    assert [(link.uri, link.rewritten) for link in result.links] == [("links.md", False)]
    assert "## Usage" in folder.text()


# --- diffs ----------------------------------------------------------------------------------------


def applied(text: str, diff: str) -> str:
    """What ``patch`` makes of a text."""
    lines, made, at = text.splitlines(keepends=True), [], 0
    for line in diff.splitlines(keepends=True)[2:]:
        if line.startswith("@@"):
            first = int(line.split()[1].split(",")[0][1:])
            start = max(first - 1, 0) if ",0 " not in line.split("+")[0] else first
            made += lines[at:start]
            at = start
        elif line[0] in " -":
            assert lines[at] == line[1:]
            made += [line[1:]] if line[0] == " " else []
            at += 1
        else:
            made.append(line[1:])
    return "".join(made + lines[at:])


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [*lines[:5], "new\n", *lines[5:]],
        lambda lines: ["new\n", *lines],
        lambda lines: [*lines, "new\n"],
        lambda lines: lines[:2] + lines[40:],
        lambda lines: ["a\n", *lines[1:50], "b\n", *lines[51:]],
        lambda _: [],
        lambda lines: lines[:1] + ["x\n"] * 5000 + lines[1:],
    ],
)
def test_a_diff_gives_the_new_text(change: Callable[[list[str]], list[str]]) -> None:
    lines = [f"line {n}\n" for n in range(100)]
    before, after = "".join(lines), "".join(change(lines))
    assert applied(before, make_diff("a.md", before, after)) == after
    assert make_diff("a.md", before, before) == ""


REFERRING = (
    "# Top\n\n## One\n\none\n\n## Two\n\nSee [x] and [y](z.md).\n\n## Three\n\n[x]: good.md\n"
)


def test_an_edit_must_not_redirect_other_links(folder: Folder) -> None:
    """Seen to fail: the first definition of a name wins, and so one could be slipped in."""
    folder.put("r.md", REFERRING)
    with pytest.raises(InvalidArgument, match=r"'\[x\]' elsewhere in r\.md"):
        folder.edit("append", ("Top", "One"), uri="r.md", text="[x]: evil.md")
    assert folder.text("r.md") == REFERRING
    # One that agrees, one of another name, and one behind that does not win are harmless.
    for text in ("[x]: good.md", "[w]: evil.md"):
        folder.edit("append", ("Top", "One"), uri="r.md", text=text)
    folder.edit("append", ("Top", "Three"), uri="r.md", text="[x]: evil.md")


def test_a_link_that_loses_its_definition_is_reported(folder: Folder) -> None:
    folder.put("r.md", REFERRING)
    result = folder.edit("delete", ("Top", "Three"), uri="r.md")
    assert result.warnings == (
        "The definition of [x] in r.md was removed, so it is not a link now.",
    )
    assert "[x] and [y](z.md)" in folder.text("r.md")
