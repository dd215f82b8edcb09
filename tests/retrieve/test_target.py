"""Documents, sections and lines by name: found exactly, or refused with candidates."""

from __future__ import annotations

import pytest

from lookfar.errors import Ambiguous, InvalidArgument, NotFound
from lookfar.parse.markdown import parse
from lookfar.retrieve.target import Target, locate, parse_target

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
def test_targets_are_taken_apart(text: str, target: Target) -> None:
    assert parse_target(text, exists=False) == target


def test_a_document_may_be_called_anything() -> None:
    assert parse_target("c#.md:3", exists=True) == Target("c#.md:3")


@pytest.mark.parametrize("text", ["a.md:0", "a.md:9-3", "a.md:0-4"])
def test_impossible_lines_are_refused(text: str) -> None:
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


def test_a_heading_that_several_sections_have_is_never_guessed() -> None:
    with pytest.raises(Ambiguous) as refusal:
        locate(parse("a.md", TEXT), Target("a.md", "Usage"))
    assert len(refusal.value.details["candidates"]) == 2
    assert "Run > Usage" in refusal.value.hint


def test_a_heading_that_is_not_there_names_the_nearest() -> None:
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
