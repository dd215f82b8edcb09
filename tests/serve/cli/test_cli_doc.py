"""``lookfar doc`` and ``lookfar undo``, as people run them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lookfar.serve.cli.main import cli

Ask = Callable[..., dict[str, Any]]
Run = Callable[..., Result]
Process = Callable[..., "subprocess.CompletedProcess[str]"]

GUIDE = """# Guide

See [how](#install).

## Install

Unpack the archive.

### Linux

A tarball.

## Upgrade

Stop it first.
"""
INSTALL = "## Install\n\nUnpack the archive.\n\n### Linux\n\nA tarball.\n"
BROKEN = "# Top\n\n### Jump\n\n# Second\n"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "guide.md").write_text(GUIDE, encoding="utf-8")
    (folder / "broken.md").write_text(BROKEN, encoding="utf-8")
    (folder / "other.md").write_text("# Other\n\n[how](guide.md#install)\n", encoding="utf-8")
    return folder


@pytest.fixture
def at(docs: Path) -> tuple[str, str]:
    return ("--path", str(docs))


@pytest.fixture
def guide(docs: Path) -> Callable[[], str]:
    return lambda: (docs / "guide.md").read_text(encoding="utf-8")


def contents(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


# --- each command -------------------------------------------------------------------------------


def test_a_section_is_read_replaced_found_and_undone(
    run: Run, ask: Ask, docs: Path, at: tuple[str, str], guide: Callable[[], str]
) -> None:
    run("index", docs, "--quiet")
    sha = ask("read", "guide.md#Install", docs)["sha256"]
    given = ("doc", "replace", "guide.md#Install", "--text", "Feed the zebra.", *at)
    stale = run(*given, "--expect", "0" * 64)
    assert stale.exit_code == 5
    assert "error CONFLICT" in stale.stderr
    assert "Read it again" in stale.stderr
    assert guide() == GUIDE
    done = run(*given, "--expect", sha)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("guide.md:5-12  Guide > Install  changed  ")
    assert f"To undo this: lookfar undo guide.md --path {docs}" in done.stderr
    assert guide() == GUIDE.replace("Unpack the archive.", "Feed the zebra.")
    hits = ask("search", "zebra", docs, "--mode", "keyword")["hits"]
    assert [hit["uri"] for hit in hits] == ["guide.md"]
    assert run("doc", "append", "guide.md#Install", "--text", "x", *at, "--expect", sha).exit_code
    assert "guide.md" in run("undo", "guide.md", *at).stdout
    assert guide() == GUIDE


@pytest.mark.parametrize(
    ("arguments", "old", "new"),
    [
        (["append", "guide.md#Install", "--text", "More."],
         "Unpack the archive.\n", "Unpack the archive.\n\nMore.\n"),
        (["append", "guide.md", "--text", "More."], "Stop it first.\n",
         "Stop it first.\n\nMore.\n"),
        (["insert", "guide.md#Install", "Mac", "--text", "An image."], "A tarball.\n",
         "A tarball.\n\n### Mac\n\nAn image.\n"),
        (["insert", "guide.md#Upgrade", "Test", "--position", "before"], "## Upgrade\n",
         "## Test\n\n## Upgrade\n"),
        (["insert", "guide.md#Upgrade", "Deep", "--level", "4"], "Stop it first.\n",
         "Stop it first.\n\n#### Deep\n"),
        (["replace", "guide.md#Install", "--whole", "--text", "## Setup\n\nNew."],
         "## Install\n\nUnpack the archive.\n\n### Linux\n\nA tarball.\n", "## Setup\n\nNew.\n"),
        (["replace", "guide.md:7-7", "--text", "Run it."], "Unpack the archive.\n", "Run it.\n"),
        (["rename", "guide.md#Linux", "GNU/Linux"], "### Linux", "### GNU/Linux"),
        (["delete", "guide.md#Linux"], "### Linux\n\nA tarball.\n\n", ""),
        (["delete", "guide.md:9-12"], "### Linux\n\nA tarball.\n\n", ""),
        (["move", "guide.md#Linux", "Guide > Upgrade"],
         "### Linux\n\nA tarball.\n\n## Upgrade\n\nStop it first.\n",
         "## Upgrade\n\nStop it first.\n\n### Linux\n\nA tarball.\n"),
        (["move", "guide.md#Upgrade", "Guide > Install", "--position", "before"],
         f"{INSTALL}\n## Upgrade\n\nStop it first.\n",
         f"## Upgrade\n\nStop it first.\n\n{INSTALL}"),
        (["move", "guide.md#Upgrade", ""], "## Upgrade", "# Upgrade"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)  # fmt: skip
def test_what_each_command_changes(
    run: Run, docs: Path, at: tuple[str, str], arguments: list[str], old: str, new: str
) -> None:
    """Each command changes only this; the dry run shows it first, and undo reverts it."""
    before = contents(docs)
    tried = run("doc", *arguments, *at, "--dry-run")
    assert tried.exit_code == 0, tried.stderr
    assert "--- a/guide.md\n+++ b/guide.md\n@@ " in tried.stdout
    assert "would be changed" in tried.stdout
    assert tried.stdout.endswith("dry run: nothing was written\n")
    assert "take it back" not in tried.stderr
    assert contents(docs) == before
    assert GUIDE.count(old) == 1
    done = run("doc", *arguments, *at)
    assert done.exit_code == 0, done.stderr
    after = GUIDE.replace(old, new).encode()
    assert contents(docs) == {**before, "guide.md": after}
    run("undo", "guide.md", *at)
    assert contents(docs) == before


def test_a_document_is_created(run: Run, ask: Ask, docs: Path, at: tuple[str, str]) -> None:
    made = run("doc", "create", "new/plan.md", "--title", "Plan", "--text", "First this.", *at)
    assert made.stdout.startswith("new/plan.md:1-3  created  ")
    path = docs / "new" / "plan.md"
    assert path.read_text(encoding="utf-8") == "# Plan\n\nFirst this.\n"
    again = run("doc", "create", "new/plan.md", "--title", "Plan", *at)
    assert (again.exit_code, "CONFLICT" in again.stderr) == (5, True)
    shape = ask("doc", "create", "new/plan.md", "--title", "Anew", "--template", "guide",
                "--overwrite", *at)  # fmt: skip
    assert shape["documents"][0]["action"] == "changed"
    assert path.read_text(encoding="utf-8").startswith("# Anew\n\n## Before you begin\n")
    run("undo", "new/plan.md", *at)
    assert path.read_text(encoding="utf-8") == "# Plan\n\nFirst this.\n"


def test_headings_are_validated_and_fixed(
    run: Run, ask: Ask, docs: Path, at: tuple[str, str]
) -> None:
    found = run("doc", "validate", "guide.md", "broken.md", *at)
    assert found.exit_code == 9
    assert found.stdout.split("\n")[:2] == [
        "guide.md  ok",
        "broken.md:3: heading-jump: 'Jump' has level 3 after 'Top' of level 1. Make it level 2.",
    ]
    several = ask("doc", "validate", "broken.md", "--single-h1", *at)["documents"]
    assert [violation["rule"] for violation in several[0]["violations"]] == [
        "heading-jump",
        "multiple-h1",
    ]
    assert several[0]["ok"] is False
    assert run("doc", "fix", "broken.md", *at).exit_code == 0
    assert (docs / "broken.md").read_text(encoding="utf-8") == "# Top\n\n## Jump\n\n# Second\n"
    assert run("doc", "validate", "guide.md", "broken.md", *at).exit_code == 0
    same = run("doc", "fix", "broken.md", *at)
    assert (same.exit_code, "broken.md  unchanged" in same.stdout) == (0, True)
    assert "take it back" not in same.stderr


def test_broken_links_are_reported_and_rewritten_on_request(
    run: Run, docs: Path, at: tuple[str, str]
) -> None:
    run("index", docs, "--quiet")
    dry_run = run("doc", "rename", "guide.md#Install", "Set up", *at, "--dry-run").stdout
    assert "link in guide.md:3 to install should be set-up; use --rewrite-links" in dry_run
    assert "link in other.md:3 to install should be set-up" in dry_run
    would = run("doc", "rename", "guide.md#Install", "Set up", *at, "--rewrite-links", "--dry-run")
    assert "link in other.md:3 to install would become set-up" in would.stdout
    assert "+[how](guide.md#set-up)" in would.stdout
    run("doc", "rename", "guide.md#Install", "Set up", *at, "--rewrite-links")
    assert b"(guide.md#set-up)" in contents(docs)["other.md"]
    gone = run("doc", "delete", "guide.md#Set up", *at).stdout
    assert "link in other.md:3 to set-up is broken now" in gone


def test_undo_lists_the_edits(run: Run, ask: Ask, at: tuple[str, str]) -> None:
    assert "No edit to undo" in run("undo", "--list", *at).stdout
    run("doc", "append", "guide.md", "--text", "One.", *at)
    run("doc", "append", "other.md", "--text", "Two.", *at)
    steps = ask("undo", "--list", *at)["steps"]
    assert [(step["uris"], step["collection"]) for step in steps] == [
        (["other.md"], "docs"),
        (["guide.md"], "docs"),
    ]
    assert [line.split()[-1] for line in run("undo", "--list", *at).stdout.splitlines()] == [
        "other.md",
        "guide.md",
    ]


def test_undo_has_a_dry_run(run: Run, docs: Path, at: tuple[str, str]) -> None:
    run("doc", "append", "guide.md", "--text", "One.", *at)
    before = contents(docs)
    tried = run("undo", "guide.md", "--dry-run", *at)
    assert "-One." in tried.stdout
    assert contents(docs) == before
    (docs / "guide.md").write_text("# Changed by hand\n", encoding="utf-8")
    refused = run("undo", "guide.md", *at)
    assert (refused.exit_code, "CONFLICT" in refused.stderr) == (5, True)
    assert (docs / "guide.md").read_text(encoding="utf-8") == "# Changed by hand\n"


# --- texts --------------------------------------------------------------------------------------


def test_a_text_comes_from_a_file_or_from_stdin(
    run: Run, tmp_path: Path, docs: Path, guide: Callable[[], str]
) -> None:
    file = tmp_path / "text.md"
    file.write_bytes(b"\xef\xbb\xbfFrom a file.\r\n\r\nTwo paragraphs.\r\n")
    given = ["doc", "replace", "guide.md#Upgrade", "--path", str(docs)]
    assert run(*given, "--file", str(file)).exit_code == 0
    assert guide() == GUIDE.replace("Stop it first.", "From a file.\n\nTwo paragraphs.")
    piped = CliRunner().invoke(
        cli, [*given, "--file", "-", "--set", "embed.provider=hash"], input="Grüße, von stdin.\n"
    )
    assert piped.exit_code == 0
    assert guide() == GUIDE.replace("Stop it first.", "Grüße, von stdin.")


def test_stdin_of_a_process(process: Process, docs: Path, guide: Callable[[], str]) -> None:
    done = process(
        "doc", "append", "guide.md#Upgrade", "--file", "-", "--path", docs,
        "--set", "embed.provider=hash", input="Zwölf Zebras.\n",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert guide() == GUIDE + "\nZwölf Zebras.\n"


# --- what is refused ----------------------------------------------------------------------------

WRONG: list[tuple[list[str], int, str]] = [
    (["replace", "guide.md#Install"], 2, "There is no text"),
    (["append", "guide.md#Install"], 2, "There is no text"),
    (["append", "guide.md#Install", "--text", ""], 2, "nothing to append"),
    (["append", "guide.md#Install", "--text", "a", "--file", "b"], 2, "both given"),
    (["append", "guide.md#Install", "--file", "nowhere.md"], 3, "no file 'nowhere.md'"),
    (["append", "guide.md#Install", "--file", "latin1.md"], 2, "not UTF-8"),
    (["append", "guide.md#Instal", "--text", "x"], 3, "Nearest: Guide > Install"),
    (["append", "gide.md", "--text", "x"], 3, "Nearest: guide.md"),
    (["append", "../guide.md", "--text", "x"], 2, "OUTSIDE_ROOT"),
    (["append", "guide.md#Install", "--text", "x", "--expect", "soon"], 2, "is not a hash"),
    (["append", "guide.md#Install", "--text", "```"], 2, "Close every code fence"),
    (["insert", "guide.md#Guide", "Install"], 5, "Install', on line 5"),
    (["insert", "guide.md#Guide", ""], 2, "cannot be a heading"),
    (["insert", "guide.md#Guide", "X", "--level", "7"], 2, "--level"),
    (["insert", "guide.md#Guide", "X", "--position", "top"], 2, "--position"),
    (["move", "guide.md#Install"], 2, "Missing argument 'TO'"),
    (["move", "guide.md#Install", "Nowhere"], 3, "Nearest"),
    (["move", "guide.md#Install", "Guide > Install > Linux"], 2, "into itself"),
    (["rename", "guide.md", "a|b", "--yes"], 2, "not a valid name"),
    (["rename", "Guid", "New", "--yes"], 3, "Nearest: guide.md"),
    (["rename", "nope.pdf", "New", "--yes"], 3, "no document 'nope.pdf'"),
    (["rename", "table.csv", "New", "--yes"], 2, "not a Markdown file"),
    (["move", "Guid", "archive", "--yes"], 3, "There is no document 'Guid'"),
    (["validate", "Guid"], 3, "Nearest: guide.md"),
    (["delete", "guide.md"], 2, "needs a section"),
    (["delete", "guide.md#Install", "--text", "x"], 2, "no option --text"),
    (["create", "x.md"], 2, "--title"),
    (["create", "x.md", "--title", "X", "--template", "y"], 3, "Templates: decision"),
    (["create", "x.txt", "--title", "X"], 2, "not a Markdown"),
    (["validate"], 2, "Missing argument"),
    (["validate", "x.md"], 3, "NOT_FOUND"),
    (["remove", "guide.md"], 2, "no command 'remove'"),
]


@pytest.mark.parametrize(
    ("arguments", "code", "words"), WRONG, ids=[" ".join(case[0]) for case in WRONG]
)
def test_wrong_commands_are_refused_and_nothing_is_written(
    run: Run,
    docs: Path,
    at: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(docs.parent)
    (docs.parent / "latin1.md").write_bytes(b"Gr\xfc\xdfe\n")
    (docs / "table.csv").write_text("a,b\n1,2\n")
    run("index", docs, "--quiet")
    before = contents(docs)
    refused = run("doc", *arguments, *(at if arguments[0] != "remove" else ()))
    assert refused.exit_code == code, refused.output
    assert words in refused.stderr
    assert "hint: " in refused.stderr
    assert contents(docs) == before


@pytest.mark.parametrize(
    ("arguments", "code"), [([], 2), (["guide.md", "--list"], 2), (["guide.md"], 3)]
)
def test_invalid_undos_are_refused(
    run: Run, at: tuple[str, str], arguments: list[str], code: int
) -> None:
    refused = run("undo", *arguments, *at)
    assert refused.exit_code == code
    assert "hint: " in refused.stderr


def test_refusals_are_json_with_json(ask: Ask, at: tuple[str, str]) -> None:
    error = ask("doc", "append", "guide.md#Instal", "--text", "x", *at)["error"]
    assert (error["code"], error["details"]["candidates"][0]) == ("NOT_FOUND", "Guide > Install")


# --- what is shown ------------------------------------------------------------------------------


def test_json_has_everything(ask: Ask, at: tuple[str, str]) -> None:
    shape = ask("doc", "rename", "guide.md#Install", "Set up", *at)
    assert set(shape) == {
        "transaction", "dry_run", "indexed", "documents", "links", "violations", "warnings",
    }  # fmt: skip
    [document] = shape["documents"]
    assert (document["heading_path"], document["start_line"]) == (["Guide", "Set up"], 5)
    assert "+## Set up\n" in document["diff"]
    again = ask("doc", "append", "guide.md#Set up", "--text", "x", *at,
                "--expect", document["section_sha256"])  # fmt: skip
    assert again["transaction"] > shape["transaction"]


def test_a_diff_has_colours_on_a_terminal_only(
    process: Process, docs: Path, at: tuple[str, str]
) -> None:
    given = ("doc", "append", "guide.md", "--text", "\x1b[2JMore.", "--dry-run", *at)
    plain = process(*given, "--set", "embed.provider=hash")
    assert "\x1b" not in plain.stdout
    assert "+\\x1b[2JMore." in plain.stdout
    output = process(*given, "--set", "embed.provider=hash",
                    env={"FORCE_COLOR": "1", "TERM": "xterm"})  # fmt: skip
    assert "\x1b[32m+\\x1b[2JMore." in output.stdout


def test_renaming_a_document_shows_its_links_and_needs_a_yes(
    run: Run, docs: Path, at: tuple[str, str]
) -> None:
    before = contents(docs)
    run("index", docs, "--quiet")
    shown = run("doc", "rename", "guide", "manual", *at)
    assert shown.exit_code == 2
    assert "manual.md  would be moved from guide.md" in shown.stdout
    assert "other.md:3: [how](guide.md#install) → [how](manual.md#install)" in shown.stdout
    assert "--yes" in shown.stderr
    assert contents(docs) == before
    run("doc", "rename", "guide", "manual", *at, "--yes")
    assert (docs / "other.md").read_text() == "# Other\n\n[how](manual.md#install)\n"
    assert (docs / "manual.md").read_text() == GUIDE
    run("undo", "manual.md", *at)
    assert contents(docs) == before
