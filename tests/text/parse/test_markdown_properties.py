"""Promises that hold for every Markdown text."""

from __future__ import annotations

import re

import pyromark
from hypothesis import given, settings
from hypothesis import strategies as st

from lookfar.model import Document
from lookfar.text.normalise import normalise_text
from lookfar.text.parse.markdown import parse

examples = settings(max_examples=200, deadline=None, derandomize=True)

PIECES = [
    "# A", "## Bé", "### ", "#tag", "x", "Title", "===", "---", "> ", "- ", "1. ", "```", "~~~py",
    "    code", "\t", "| a |", "|---|", "<div>", "</div>", "<!--", "-->", "[[N#h|a]]", "![[e]]",
    "[a](b%20c)", "[r]: u", "[r]", "`", "*", "漢字", "👩‍💻", "e\u0301", "\\", "&amp;", "[^1]",
    "[^1]: f", "title: x", "+++", "...", "\0", "\x0b", "{#id}", "\u2028", "<a@b.c>", "![", "]",
    "(", ")",
]  # fmt: skip
markdown_like = st.lists(
    st.sampled_from(PIECES) | st.sampled_from(["\n", "\n\n", " ", "\n> ", "\n  "]), max_size=40
).map("".join)


def document_of(text: str) -> Document:
    return parse("a.md", normalise_text(text))


@examples
@given(markdown_like | st.text(max_size=100))
def test_sections_cover_the_text_and_nest(text: str) -> None:
    document = document_of(text)
    text, sections = document.text, document.sections
    if sections:
        assert not text[document.body : sections[0].span.start].strip()
        assert max(section.span.end for section in sections) == len(text)
    else:
        assert not text[document.body :].strip()
    for number, section in enumerate(sections):
        span = section.span
        assert section.ordinal == number
        assert document.body <= span.start < span.end <= len(text)
        assert span.start == 0 or text[span.start - 1] == "\n"
        assert span.start_line == text.count("\n", 0, span.start) + 1
        assert span.end_line == text.count("\n", 0, span.end - 1) + 1
        assert span.start <= section.body <= span.end
        if section.parent >= 0:
            parent = sections[section.parent]
            assert parent.level < section.level
            assert parent.span.start < span.start
            assert span.end <= parent.span.end
            assert section.path == (*parent.path, section.title)
        for later in sections[number + 1 :]:
            assert later.span.start >= span.end or later.level > section.level > 0


@examples
@given(markdown_like)
def test_a_section_starts_with_its_heading(text: str) -> None:
    document = document_of(text)
    for section in document.sections:
        if section.level == 0:
            continue
        head = document.text[section.span.start : section.body]
        atx = re.match(r" {0,3}(#{1,6})(?:[ \t]|$)", head, re.MULTILINE)
        setext = re.search(r"\n {0,3}(=+|-+)[ \t]*\n\Z", head)
        assert (atx and len(atx[1]) == section.level) or (
            setext and section.level == (1 if setext[1][0] == "=" else 2)
        )


@examples
@given(markdown_like)
def test_headings_are_those_outside_containers(text: str) -> None:
    """Counted another way: by the depth of containers instead of by their ranges."""
    document = document_of(text)
    depth, levels = 0, []
    options = (
        pyromark.Options.ENABLE_TABLES
        | pyromark.Options.ENABLE_FOOTNOTES
        | pyromark.Options.ENABLE_WIKILINKS
        | pyromark.Options.ENABLE_STRIKETHROUGH
        | pyromark.Options.ENABLE_TASKLISTS
        | pyromark.Options.ENABLE_GFM
    )
    for event in pyromark.events(document.text[document.body :], options=options):
        match event:
            case {"Start": {"BlockQuote": _} | {"List": _} | {"FootnoteDefinition": _}}:
                depth += 1
            case {"End": {"BlockQuote": _} | {"List": _} | "FootnoteDefinition"}:
                depth -= 1
            case {"Start": {"Heading": {"level": level}}} if depth == 0:
                levels.append(int(level[1]))
    assert [section.level for section in document.sections if section.level] == levels


@examples
@given(markdown_like | st.text(max_size=100))
def test_blocks_and_links_lie_in_the_text(text: str) -> None:
    document = document_of(text)
    text = document.text
    for block in document.blocks:
        assert document.body <= block.start < block.end <= len(text)
        assert block.start == 0 or text[block.start - 1] == "\n"
        assert text[block.end - 1] == "\n"
    for link in document.links:
        written = text[link.start : link.end]
        assert written[0] in "[!<"
        assert written[-1] in ")]>"
        if link.kind in ("wikilink", "embed"):
            assert written.startswith(("[[", "![["))
            assert written.endswith("]]")
    for tag in document.tags:
        assert f"#{tag}" in text


@examples
@given(markdown_like, st.sampled_from(["é", "漢", "👩‍💻", "\u0301"]))
def test_a_character_of_many_bytes_only_shifts_offsets(text: str, wide: str) -> None:
    """The same text after an ASCII and after a wide paragraph: equal but for the shift."""
    plain = document_of("x" * len(wide) + "\n\n" + text)
    shifted = document_of(wide + "\n\n" + text)
    assert shifted.sections == plain.sections
    assert shifted.blocks == plain.blocks
    assert shifted.links == plain.links
    assert shifted.tags == plain.tags
