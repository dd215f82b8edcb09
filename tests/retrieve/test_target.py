"""Documents, sections and lines by name: found exactly, or rejected with candidates."""

from __future__ import annotations

from pathlib import Path

import pytest

from lookfar.edit.place import find
from lookfar.errors import Ambiguous, InvalidArgument, NotFound
from lookfar.library import Library
from lookfar.model import Edit, Target
from lookfar.retrieve.locate.target import locate, parse_target
from lookfar.text.parse.markdown import parse

TEXT = """# Guide

Intro.

## Install

Linux.

### Usage

One.

## Run

### Usage

Two.
"""


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("a.md", Target("a.md")),
        ("a.md#Install", Target("a.md", "Install")),
        ("a.md#Run > Usage", Target("a.md", "Run > Usage")),
        ("a.md:3", Target("a.md", lines=(3, 3))),
        ("a.md:3-9", Target("a.md", lines=(3, 9))),
        ("a.md#", Target("a.md")),
    ],
)
def test_targets_are_parsed(text: str, target: Target) -> None:
    assert parse_target(text, exists=False) == target


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("C#/notes.md#Install", Target("C#/notes.md", "Install")),
        ("C#/notes.md#C# > F#", Target("C#/notes.md", "C# > F#")),
        ("C#/notes.md:1-2", Target("C#/notes.md", lines=(1, 2))),
        ("C#/notes.md#", Target("C#/notes.md")),
        ("a.md#About C#", Target("a.md", "About C#")),
        ("a.md#Notes:1-2", Target("a.md", "Notes:1-2")),
        ("a.md:1-2", Target("a.md", lines=(1, 2))),
        ("C#/gone.md#Install", Target("C", "/gone.md#Install")),
        ("a.md" + "#" * 99, Target("a.md", "#" * 98)),
    ],
)
def test_path_may_contain_a_hash(text: str, target: Target) -> None:
    """Fails if every path ends at the first ``#``."""
    assert parse_target(text, False, {"C#/notes.md", "a.md"}.__contains__) == target


@pytest.mark.usefixtures("own_home")
def test_document_with_a_hash_in_its_path_is_read_and_edited(tmp_path: Path) -> None:
    """Fails if targets are parsed before checking which documents exist."""
    root = tmp_path / "root"
    (root / "C#").mkdir(parents=True)
    (root / "C#" / "notes.md").write_text("# Install\n\nRun it.\n\n# Use\n\nUse it.\n")
    settings = {"embed.provider": "hash"}
    with Library.open(root, index_dir=tmp_path / "index", settings=settings) as library:
        library.index()
        assert library.read("C#/notes.md#Install").text.startswith("# Install")
        assert library.read("C#/notes.md:7").text == "Use it.\n"
        library.edit(Edit("append", "C#/notes.md#Install", text="Then rest."))
        assert "Then rest." in library.read("C#/notes.md#Install").text
        library.edit(Edit("delete", "C#/notes.md:1-2"))
        assert library.read("C#/notes.md").text.startswith("Run it.")


def test_document_may_have_any_name() -> None:
    assert parse_target("c#.md:3", exists=True) == Target("c#.md:3")


@pytest.mark.parametrize("text", ["a.md:0", "a.md:9-3", "a.md:0-4"])
def test_invalid_lines_are_rejected(text: str) -> None:
    with pytest.raises(InvalidArgument, match="not a range"):
        parse_target(text, exists=False)


@pytest.mark.parametrize(
    ("heading", "start_line", "end_line"),
    [
        ("Install", 5, 12),
        ("install", 5, 12),
        ("Guide > Install", 5, 12),
        ("Run → Usage", 15, 17),
        ("Guide", 1, 17),
    ],
)
def test_sections_are_found_by_their_path(heading: str, start_line: int, end_line: int) -> None:
    document = parse("a.md", TEXT)
    path, span = locate(document, Target("a.md", heading))
    assert (span.start_line, span.end_line) == (start_line, end_line)
    assert document.text[span.start :].startswith("#")
    assert path[-1].lower() == heading.lower().split(">")[-1].split("→")[-1].strip()


SIGNS = (
    "# `Vec<T>`\n\n# 1.x -> 2.0\n\n# Q & A\n\n# x=>y\n\n# A > B\n\n"
    "# Cafe\u0301 & Co\n\n# Straße 1\n"
)


@pytest.mark.parametrize(
    ("heading", "line"),
    [
        ("Vec<T>", 1),
        ("1.x -> 2.0", 3),
        ("Q & A", 5),
        ("q--a", 5),
        ("q-a", 5),
        ("x=>y", 7),
        ("A > B", 9),
        ("A \\> B", 9),
        ("Caf\u00e9 & Co", 11),
        ("CAFE\u0301 & co", 11),
        ("stra\u00dfe-1", 13),
        ("STRASSE 1", 13),
    ],
)
def test_reading_and_editing_find_the_same_sections(heading: str, line: int) -> None:
    """Fails if headings are split at every separator, are not normalised, or have one hyphen for
    any run of blanks: an edit found a section that could not be read."""
    document = parse("a.md", SIGNS)
    assert locate(document, Target("a.md", heading))[1].start_line == line
    assert find(document, Target("a.md", heading)).span.start_line == line


def test_ambiguous_path_or_heading_is_rejected() -> None:
    """Fails if the first reading that fits is used; the error suggests what to write."""
    document = parse("a.md", "# A > B\n\n# A\n\n## B\n")
    with pytest.raises(Ambiguous) as refused:
        locate(document, Target("a.md", "A > B"))
    named = [candidate.partition(" (lines")[0] for candidate in refused.value.details["candidates"]]
    assert named == ["A \\> B", "A > B"]
    assert locate(document, Target("a.md", named[0]))[1].start_line == 1


def test_ambiguous_heading_is_rejected() -> None:
    with pytest.raises(Ambiguous) as refusal:
        locate(parse("a.md", TEXT), Target("a.md", "Usage"))
    assert len(refusal.value.details["candidates"]) == 2
    assert "Run > Usage" in refusal.value.hint


def test_missing_heading_suggests_the_nearest() -> None:
    with pytest.raises(NotFound) as refusal:
        locate(parse("a.md", TEXT), Target("a.md", "Instal"))
    assert "Guide > Install" in refusal.value.details["candidates"]


def test_lines_are_exact_and_end_with_the_document() -> None:
    document = parse("a.md", TEXT)
    path, span = locate(document, Target("a.md", lines=(5, 7)))
    assert document.text[span.start : span.end] == "## Install\n\nLinux.\n"
    assert path == ("Guide", "Install")
    _, rest = locate(document, Target("a.md", lines=(15, 999)))
    assert (rest.end, rest.end_line) == (len(document.text), 17)
    with pytest.raises(NotFound, match="17 lines"):
        locate(document, Target("a.md", lines=(18, 18)))
