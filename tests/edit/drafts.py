"""Random Markdown for the tests of edits, and one edit made on bytes alone."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from lookfar.edit.place import NamedPart, find
from lookfar.edit.sections import Draft, Verified, verify
from lookfar.edit.shape import Shape
from lookfar.model import Document, Section, Target
from lookfar.text.parse.markdown import parse

TITLES = st.sampled_from(
    ["Setup", "Use", "setup", "a > b", "x → y", "C# notes", "`code` here", "*em* and more",
     "größe", "設定", "With {#own}", "Notes ##", "back\\slash", "Q&A: why?", "Linux", "[l](a.md)"]
)  # fmt: skip
BLOCKS = st.sampled_from(
    [
        "plain text of some words",
        "two lines\nof one paragraph",
        "```\n# no heading\n\n## nor this\n```",
        "~~~python\n# a comment\n~~~",
        "    # indented code",
        "> # quoted heading\n> and text",
        "- item\n\n  # heading in a list\n- more",
        "1. one\n2. two",
        "| a | b |\n|---|---|\n| # | 2 |",
        "<div>\n# in HTML\n</div>",
        "<!-- # hidden\n\n## too -->",
        "a line\n\n***\n\nanother, with `#` code",
        "[[Note#Setup]] and [x](#setup)",
        "größe ✓ 設定 \U0001f600",
        "line ends with two spaces  \nand goes on",
    ]
)
BODIES = st.lists(BLOCKS, max_size=3).map("\n\n".join)
FRONT = st.sampled_from(["", "---\ntitle: x # no heading\ntags: [a]\n---\n", "+++\na = 1\n+++\n"])
TEXTS = st.one_of(BODIES, st.text(alphabet="ab #`~-=>\n\t|*<![]:é", max_size=40))


@st.composite
def headings(draw: st.DrawFn) -> str:
    title = draw(TITLES)
    kind = draw(st.integers(0, 8))
    if kind == 7:
        return f"{title}\n==="
    if kind == 8:
        return f"{title}\n---"
    level = draw(st.integers(1, 5))
    closing = f" {'#' * level}" if kind == 6 else ""
    return f"{' ' * (kind == 5)}{'#' * level} {title}{closing}"


@st.composite
def neat(draw: st.DrawFn) -> str:
    """A document with one blank line between any two blocks, and one newline at its end."""
    parts = [draw(BODIES)]
    for _ in range(draw(st.integers(1, 6))):
        parts += [draw(headings()), draw(BODIES)]
    body = "\n\n".join(part for part in parts if part)
    front = draw(FRONT)
    return f"{front}\n{body}\n" if front else f"{body}\n"


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """The bytes of a document: any line ends, perhaps a mark, perhaps no newline at the end."""
    text = draw(
        st.one_of(neat(), st.lists(st.one_of(headings(), BODIES), max_size=8).map("\n".join))
    )
    ends = draw(st.sampled_from([["\n"], ["\r\n"], ["\n", "\r\n"], ["\n"]]))
    made = "".join(
        line + (ends[at % len(ends)] if last else "")
        for at, (line, last) in enumerate(_lines(text))
    )
    if draw(st.booleans()):
        made = made.rstrip("\r\n")
    mark = b"\xef\xbb\xbf" if draw(st.integers(0, 4)) == 4 else b""
    return mark + made.encode()


def _lines(text: str) -> list[tuple[str, bool]]:
    lines = text.split("\n")
    return [(line, at < len(lines) - 1) for at, line in enumerate(lines)]


def titled(document: Document) -> list[Section]:
    return [section for section in document.sections if section.level]


def outline(document: Document) -> list[tuple[int, str]]:
    return [(section.level, section.title) for section in titled(document)]


def read(raw: bytes) -> Document:
    return parse("a.md", Shape("a.md", raw).text)


def made(
    raw: bytes, section: Section | None, edit: Callable[[Document, NamedPart], Draft]
) -> tuple[bytes, Verified]:
    """The bytes that an edit of a section leads to, if the parser agrees."""
    shape = Shape("a.md", raw)
    document = parse("a.md", shape.text)
    place = find(document, Target("a.md")) if section is None else NamedPart(section.span, section)
    draft = edit(document, place)
    changed = shape.apply(draft.changes)
    return changed, verify(document, draft, Shape("a.md", changed).text)
