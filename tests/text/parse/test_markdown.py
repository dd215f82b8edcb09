"""Markdown documents: sections, blocks, links, tags, metadata."""

from __future__ import annotations

import pytest

from lookfar.model import Document, Link
from lookfar.text.normalise import normalise
from lookfar.text.parse import markdown
from lookfar.text.parse.markdown import parse
from processor_time import processor_time_below


def read(text: str) -> Document:
    return parse("note.md", text)


def outline(document: Document) -> list[tuple[int, str]]:
    return [(section.level, section.title) for section in document.sections]


def blocks(document: Document) -> list[tuple[str, str, str]]:
    return [(b.kind, b.language, document.text[b.start : b.end]) for b in document.blocks]


def links(document: Document) -> list[tuple[str, str, str, str]]:
    return [(link.kind, link.target, link.anchor, link.text) for link in document.links]


def test_a_page_between_thematic_breaks_has_its_sections() -> None:
    """Seen to fail when any text between them was front matter, and could not be searched."""
    old = "---\n\nWarning: this page is old.\n\n# Install\n\nRun make.\n\n---\n\n# Use\n\ntext\n"
    slides = "---\nNote: hi\n\n# Slide one\n\nbody\n\n---\n\n# Slide two\n"
    for text, titles in ((old, ["Install", "Use"]), (slides, ["Slide one", "Slide two"])):
        document = read(text)
        assert (document.body, document.metadata, document.warnings) == (0, {}, ())
        assert [title for level, title in outline(document) if level] == titles


# --- Sections --------------------------------------------------------------------------------


def test_sections_nest_by_level() -> None:
    text = "intro\n\n# A\na\n### B\nb\n## C\nc\n# D\n"
    sections = read(text).sections
    assert [(s.ordinal, s.parent, s.level, s.path) for s in sections] == [
        (0, -1, 0, ()),
        (1, -1, 1, ("A",)),
        (2, 1, 3, ("A", "B")),
        (3, 1, 2, ("A", "C")),
        (4, -1, 1, ("D",)),
    ]
    assert [text[s.span.start : s.span.end] for s in sections] == [
        "intro\n\n",
        "# A\na\n### B\nb\n## C\nc\n",
        "### B\nb\n",
        "## C\nc\n",
        "# D\n",
    ]
    assert [(s.span.start_line, s.span.end_line) for s in sections] == [
        (1, 2),
        (3, 8),
        (5, 6),
        (7, 8),
        (9, 9),
    ]
    assert [text[s.span.start : s.body] for s in sections] == [
        "",
        "# A\n",
        "### B\n",
        "## C\n",
        "# D\n",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t\n", []),
        ("text\n", [(0, "")]),
        ("\n\n# A\n", [(1, "A")]),
        ("x\n# A\n", [(0, ""), (1, "A")]),
        ("---\na: 1\n---\n\n# A\n", [(1, "A")]),
        ("---\na: 1\n---\nx\n# A\n", [(0, ""), (1, "A")]),
        ("---\na: 1\n---\n", []),
    ],
)
def test_the_untitled_section_exists_iff_there_is_text_before_headings(
    text: str, expected: list[tuple[int, str]]
) -> None:
    assert outline(read(text)) == expected


def test_the_untitled_section_starts_after_front_matter() -> None:
    text = "---\na: 1\n---\nx\n# A\n"
    document = read(text)
    root = document.sections[0]
    assert text[root.span.start : root.span.end] == "x\n"
    assert root.body == root.span.start == document.body
    assert (root.span.start_line, root.span.end_line) == (4, 4)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# a `b c` [d](e) *f* **g**\n", "a b c d f g"),
        ("# R&amp;D &copy; \\*x\\*\n", "R&D © *x*"),
        ("# a   b\t c #####\n", "a b c"),
        ("#\n", ""),
        ("# Title {#my-id}\n", "Title"),
        ("# Title {#my-id} ##\n", "Title"),
        ("# Use `{#id}`\n", "Use {#id}"),
        ("# Set {a, b}\n", "Set {a, b}"),
        ("# ![logo](x.png) Name\n", "logo Name"),
        ("# a <b>c</b>\n", "a c"),
        ("# [[Note|alias]] and [[Other]]\n", "alias and Other"),
        ("Two\nlines *here*\n===\n", "Two lines here"),
        ("Two\nlines {#id}\n===\n", "Two lines"),
        ("# 漢字 👩‍💻 e\u0301\n", "漢字 👩‍💻 e\u0301"),
    ],
)
def test_titles_are_what_the_reader_sees(text: str, title: str) -> None:
    assert [section.title for section in read(text).sections] == [title]


def test_setext_headings_and_their_bodies() -> None:
    text = "  Two\nlines\n===\nbody\n\nNext\n-\n"
    sections = read(text).sections
    assert [(s.level, s.title) for s in sections] == [(1, "Two lines"), (2, "Next")]
    assert text[sections[0].span.start : sections[0].body] == "  Two\nlines\n===\n"


@pytest.mark.parametrize(
    "text",
    [
        "```\n# no\n```\n",
        "~~~\n# no\n",
        "    # no\n",
        "<div>\n# no\n</div>\n",
        "<!--\n# no\n-->\n",
        "> # no\n",
        "> no\n> ===\n",
        "- # no\n",
        "1. a\n\n   ## no\n",
        "x[^1]\n\n[^1]: a\n\n    # no\n",
        "#no\n",
        "\\# no\n",
        "####### no\n",
    ],
)
def test_headings_that_are_not_sections(text: str) -> None:
    assert outline(read(text)) == [(0, "")]


def test_a_heading_after_a_container_opens_a_section() -> None:
    assert outline(read("- a\n\n  # no\n# A\n> # no\n\n# B\n")) == [(0, ""), (1, "A"), (1, "B")]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: Front\n---\n# A\n", "Front"),
        ("---\ntitle: ''\n---\n# A\n", "A"),
        ("---\ntitle: 7\n---\n# A\n", "A"),
        ("## B\n# A\n", "A"),
        ("### C\n## B\n", "C"),
        ("text\n", ""),
    ],
)
def test_document_title(text: str, title: str) -> None:
    assert read(text).title == title


# --- Blocks ----------------------------------------------------------------------------------


def test_blocks_cover_whole_lines() -> None:
    text = """\
```JavaScript {1,2} title="x"
a
```
> ~~~
> b
> ~~~
- c

      d

| a |
|---|
| b |

<div>
x
</div>

    e

    f
"""
    assert blocks(read(text)) == [
        ("fence", "javascript", '```JavaScript {1,2} title="x"\na\n```\n'),
        ("fence", "", "> ~~~\n> b\n> ~~~\n"),
        ("indented", "", "      d\n"),
        ("table", "", "| a |\n|---|\n| b |\n"),
        ("html", "", "<div>\nx\n</div>\n"),
        ("indented", "", "    e\n\n    f\n"),
    ]


def test_an_unclosed_fence_runs_to_the_end() -> None:
    assert blocks(read("é\n```py\na\n")) == [("fence", "py", "```py\na\n")]


def test_spans_are_exact_in_every_script() -> None:
    raw = (
        "\ufeff---\r\ntitle: ééé\r\n---\r\n漢字 [[日本|語]]\r\n\r\n# 👩‍💻 Ünï\r\n\r\n"
        "```py\r\nx = '𝄞'\r\n```\r\nпривет [мир](ми%20р.md#я) e\u0301 #тег\r\n\r\n## हिन्दी\r\n"
    )
    text, warnings = normalise(raw.encode())
    document = read(text)
    assert warnings == ()
    assert [text[s.span.start : s.body] for s in document.sections] == [
        "",
        "# 👩‍💻 Ünï\n",
        "## हिन्दी\n",
    ]
    assert [s.span.start_line for s in document.sections] == [4, 6, 13]
    assert blocks(document) == [("fence", "py", "```py\nx = '𝄞'\n```\n")]
    assert [text[link.start : link.end] for link in document.links] == [
        "[[日本|語]]",
        "[мир](ми%20р.md#я)",
    ]
    assert document.tags == ("тег",)


# --- Links -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[[Note]]", ("wikilink", "Note", "", "Note")),
        ("[[My Note#A heading|shown *so*]]", ("wikilink", "My Note", "A heading", "shown so")),
        ("[[#Here]]", ("wikilink", "", "Here", "#Here")),
        ("[[a/b#^block]]", ("wikilink", "a/b", "^block", "a/b#^block")),
        ("[[__init__]]", ("wikilink", "__init__", "", "__init__")),
        ("![[image.png|100]]", ("embed", "image.png", "", "100")),
        ("[a `b`](c.md)", ("link", "c.md", "", "a b")),
        ("[a](b%20c.md#d%20e)", ("link", "b c.md", "d e", "a")),
        ("[a](b%23c.md)", ("link", "b#c.md", "", "a")),
        ("[a](<b c.md> 'title')", ("link", "b c.md", "", "a")),
        ("[a](#b)", ("link", "", "b", "a")),
        ("[a](https://x.y/b%20c#d)", ("link", "https://x.y/b%20c", "d", "a")),
        ("![alt](p.png)", ("image", "p.png", "", "alt")),
        ("<https://x.y/#z>", ("link", "https://x.y/", "z", "https://x.y/#z")),
        ("<a@b.cd>", ("link", "mailto:a@b.cd", "", "a@b.cd")),
        ("[a][r]\n\n[r]: t.md#u", ("link", "t.md", "u", "a")),
        ("[r][]\n\n[r]: t.md", ("link", "t.md", "", "r")),
        ("[r]\n\n[r]: t.md", ("link", "t.md", "", "r")),
        ("![r]\n\n[r]: t.png", ("image", "t.png", "", "r")),
    ],
)
def test_link_forms(text: str, expected: tuple[str, str, str, str]) -> None:
    assert links(read(f"{text}\n")) == [expected]


@pytest.mark.parametrize(
    "text",
    ["`[[Prototype]]`", "```\n[[a]] [b](c)\n```", "    [[a]]", "\\[[a]\\]", "[a]()", "<i>[[</i>"],
)
def test_text_that_is_not_a_link(text: str) -> None:
    assert read(f"{text}\n").links == ()


def test_links_keep_their_place_and_order() -> None:
    text = "# [[H]]\n\n[![alt](p.png)](q.md) | [[T]]\n\n| a |\n|---|\n| [[n\\|x]] |\n"
    document = read(text)
    assert links(document) == [
        ("wikilink", "H", "", "H"),
        ("link", "q.md", "", "alt"),
        ("image", "p.png", "", "alt"),
        ("wikilink", "T", "", "T"),
        ("wikilink", "n", "", "x"),
    ]
    assert document.links[0] == Link("wikilink", "H", "", "H", 2, 7)
    assert text[document.links[1].start : document.links[1].end] == "[![alt](p.png)](q.md)"


def test_text_of_links_is_kept_four_levels_down() -> None:
    result = links(read("![" * 6 + "a" + "](x)" * 6 + "\n"))
    assert [text for _, _, _, text in result] == ["a", "a", "a", "a", "", ""]


# --- Tags, aliases, metadata -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("#one and (#two) #hyphen-ated", ("hyphen-ated", "one", "two")),
        ("#nested/tag/ #日本語 #हिन्दी #été", ("nested/tag", "été", "हिन्दी", "日本語")),
        ("- #item\n> #quoted\n", ("item", "quoted")),
        ("# Heading #inside", ("inside",)),
        ("a #snake_case_tag, #end. #x!", ("end", "snake_case_tag", "x")),
        ("#1 #2024 #-- #1st", ("1st",)),
        ("a#b x/#c &#35;d \\#e http://x.y/#f", ()),
        ("`#a` [#b](c) [[#d]] [e #f](g) <b title=' #h'>", ()),
        ("```\n #a\n```\n\n    #b\n\n<div>\n #c\n</div>\n", ()),
        ("[a]: #b\n\n[c](<d #e>)", ()),
        ("# \n## x ##\n#", ()),
        ("#a #b #a", ("a", "b")),
        ("é #a\n\n`x` é #b", ("a", "b")),
    ],
)
def test_inline_tags(text: str, tags: tuple[str, ...]) -> None:
    assert read(f"{text}\n").tags == tags


@pytest.mark.parametrize(
    ("front", "tags"),
    [
        ("tags: [b, '#a', 3, {x: y}]", ("3", "a", "b")),
        ("tags: b, #a", ("b",)),
        ("tags: 'b, #a  c'", ("a", "b", "c")),
        ("tags:\n  - two words\n  - no", ("no", "two words")),
        ("tag: x", ("x",)),
        ("tags:", ()),
        ("tags: {a: b}", ()),
    ],
)
def test_front_matter_tags(front: str, tags: tuple[str, ...]) -> None:
    assert read(f"---\n{front}\n---\n").tags == tags


def test_front_matter_and_inline_tags_join() -> None:
    assert read("---\ntags: [z, a]\n---\n#b #a\n").tags == ("a", "b", "z")


def test_aliases_and_metadata() -> None:
    document = read("---\naliases: [Two words, B]\nalias: B, C\nday: 2024-01-02\n---\nx\n")
    assert document.aliases == ("Two words", "B", "C")
    assert document.metadata["day"] == "2024-01-02"
    assert document.text[document.body :] == "x\n"


def test_toml_front_matter() -> None:
    document = read("+++\ntitle = 'T'\ntags = ['a']\n+++\n# B\n")
    assert (document.title, document.tags) == ("T", ("a",))
    assert outline(document) == [(1, "B")]


def test_broken_front_matter_warns_and_the_rest_is_read() -> None:
    document = read("---\na: [\n---\n# A\n")
    assert document.metadata == {}
    assert len(document.warnings) == 1
    assert outline(document) == [(1, "A")]


def test_names_of_the_document() -> None:
    document = read("x\n")
    assert (document.uri, document.lane, document.language) == ("note.md", "docs", "markdown")
    assert (document.body, document.tags, document.aliases, document.warnings) == (0, (), (), ())


# --- What must not break ---------------------------------------------------------------------

HOSTILE = {
    "quotes": ">" * 2_000 + " a\n",
    "brackets": "[" * 20_000 + "\n",
    "pairs": "[]" * 20_000 + "\n",
    "wikilinks": "[[" * 20_000 + "a" + "]]" * 20_000 + "\n",
    "images": "![" * 20_000 + "&amp;" * 20_000 + "](x)" * 20_000 + "\n",
    "stars": "*" * 1_000_000 + "\n",
    "emphasis": "a**b" * 50_000 + "\n",
    "lists": "- " * 2_000 + "a\n",
    "headings": "# a\n" * 10_000,
    "levels": "".join("#" * (i % 6 + 1) + f" #t{i}\n" for i in range(10_000)),
    "fences": "```\n" * 10_000,
    "tags": "#a " * 50_000 + "\n",
    "hashes": "#" * 200_000 + "a\n",
    "front matter": "---\n" + "a: 1\n" * 50_000,
    "comments": "---\n" + "#\n" * 50_000 + "---\n",
    "table": "|a" * 500 + "|\n" + "|-" * 500 + "|\n" + "|x|\n" * 500,
    "backticks": "".join("`" * i + " " for i in range(800)) + "\n",
    "spaces": "# a" + " " * 200_000 + "b {#id}\n",
    "ids": "# " + "{#" * 100_000 + "}\n",
    "nul": "\0" * 1000 + "# \0\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_read_quickly(name: str) -> None:
    with processor_time_below(3):
        read(HOSTILE[name])


def test_headings_inside_500_quotes_and_after() -> None:
    assert outline(read(">" * 500 + " # no\n\n# A\n")) == [(0, ""), (1, "A")]


def test_a_panic_of_the_parser_costs_only_the_outline(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        pass

    class Broken:
        def events_with_range(self, text: str) -> None:
            raise PanicException(text)

    monkeypatch.setattr(markdown, "_PARSER", Broken())
    document = read("---\ntitle: T\n---\n# A #tag\n")
    assert outline(document) == [(0, "")]
    assert document.title == "T"
    assert "plain text" in document.warnings[0]


def test_an_interrupt_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        def events_with_range(self, text: str) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(markdown, "_PARSER", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        read("x\n")
