"""Promises that hold for the chunks of every Markdown text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookfar.common.lines import Lines
from lookfar.model import Block, Chunk, Document, Section, Span
from lookfar.text.chunk.headings import Sizes, chunk
from lookfar.text.normalise import normalise
from lookfar.text.parse.markdown import parse

examples = settings(max_examples=150, deadline=None, derandomize=True)

WORDS = st.sampled_from(
    ["the", "cache", "is", "full.", "Why?", "漢字かな交じり。", "👩\u200d💻🎉", "e\u0301te\u0301",
     "getUserById", "1.", "-", "#", "|", "`x`", "\t", "\u3000", ""]
)  # fmt: skip
LINES = st.lists(WORDS, min_size=1, max_size=40).map(" ".join)
CODE = st.lists(st.sampled_from(["x = 1", "", "# no heading", "y. z", "| a |"]), max_size=30)
FENCES = st.tuples(st.sampled_from(["```", "~~~~", "```py"]), CODE).map(
    lambda given: "\n".join([given[0], *given[1], given[0][:4].rstrip("p")])
)
TABLES = st.integers(1, 25).map(lambda rows: "| a | b |\n|---|---|\n" + "| c. d | e |\n" * rows)
LISTS = st.lists(LINES, min_size=1, max_size=8).map(
    lambda items: "\n".join(f"{'  ' * (at % 3)}- {item}" for at, item in enumerate(items))
)
HEADINGS = st.tuples(st.integers(1, 6), st.sampled_from(["A", "B", "Bé", "漢", ""])).map(
    lambda given: f"{'#' * given[0]} {given[1]}"
)
BLANK = st.sampled_from(["", " ", "\n\n", "\t\n"])
HTML = st.just("<div>\n" + "text. more\n" * 12 + "</div>")
SHORT = st.sampled_from(["a", "b c.", "漢"])
BLOCKS = (
    HEADINGS
    | HEADINGS
    | SHORT
    | LINES
    | FENCES
    | TABLES
    | LISTS
    | BLANK
    | HTML
    | st.just("x" * 300)
)
TEXTS = st.lists(BLOCKS, max_size=14).map("\n\n".join) | st.text(max_size=200)
SIZES = st.sampled_from(
    [
        Sizes(16, 24, 6),
        Sizes(40, 40, 10),
        Sizes(40, 60, 10, overlap_tokens=12),
        Sizes(40, 60, 0, merge_small=False),
        Sizes(16, 16, 16, overlap_tokens=15),
    ]
)


def count(text: str) -> int:
    return -(-len(text) // 4)


def document_of(text: str) -> Document:
    return parse("a.md", normalise(text.encode("utf-8", "surrogatepass"))[0])


def own_text(document: Document, each: Chunk) -> str:
    return document.text[each.span.start + each.overlap : each.span.end]


COUNTERS: dict[str, Callable[[str], int]] = {
    "by length": count,
    "nothing counts": lambda text: 0,
    "everything is huge": lambda text: 10**9,
    "words": lambda text: len(text.split()),
    "erratic": lambda text: hash_of(text) % 97,
}


def hash_of(text: str) -> int:
    return sum(map(ord, text)) * 31


@pytest.mark.parametrize("counter", COUNTERS)
@examples
@given(text=TEXTS, sizes=SIZES)
def test_chunks_tile_the_text(counter: str, text: str, sizes: Sizes) -> None:
    document = document_of(text)
    chunks = chunk(document, sizes, COUNTERS[counter])
    own = [own_text(document, item) for item in chunks]
    body = document.text[document.body :]
    assert "".join(own) == (body if body.strip() else "")
    assert all(part.strip() for part in own)
    assert len({item.id for item in chunks}) == len(chunks)
    assert [item.ordinal for item in chunks] == list(range(len(chunks)))
    for item in chunks:
        span = item.span
        assert item.overlap >= 0
        assert document.body <= span.start < span.end
        assert span.start_line == document.text.count("\n", 0, span.start) + 1
        assert span.end_line == document.text.count("\n", 0, span.end - 1) + 1
        assert 1 <= item.part <= item.parts
        if item.part == 1:
            assert item.overlap == 0


@examples
@given(TEXTS, SIZES)
def test_spans_have_the_lines_of_the_text(text: str, sizes: Sizes) -> None:
    """Lines are taken from the sections where a chunk has their boundaries."""
    document = document_of(text)
    lines = Lines(document.text)
    for each in chunk(document, sizes, count):
        assert each.span == lines.span(each.span.start, each.span.end)


@examples
@given(text=TEXTS, sizes=SIZES)
def test_equal_texts_give_equal_chunks(text: str, sizes: Sizes) -> None:
    assert chunk(document_of(text), sizes, count) == chunk(document_of(text), sizes, count)


@examples
@given(text=TEXTS, sizes=SIZES)
def test_blocks_are_never_cut(text: str, sizes: Sizes) -> None:
    document = document_of(text)
    edges = {item.span.start for item in chunk(document, sizes, count)}
    edges |= {item.span.start + item.overlap for item in chunk(document, sizes, count)}
    for block in document.blocks:
        if block.kind != "list":
            assert not [edge for edge in edges if block.start < edge < block.end]


@examples
@given(text=TEXTS, sizes=SIZES)
def test_no_chunk_is_larger_than_the_limit_if_blocks_may_be_split(text: str, sizes: Sizes) -> None:
    document = document_of(text)
    whole = replace(sizes, split_blocks=True)
    for item in chunk(document, whole, count):
        text = document.text[item.span.start : item.span.end]
        heading = document.sections[item.section]
        # A heading stays with the block below it, which fits by itself.
        room = count(document.text[heading.span.start : heading.body])
        assert count(text.strip()) <= sizes.hard_max_tokens + room


@examples
@given(text=TEXTS, sizes=SIZES)
def test_only_atomic_blocks_are_larger_than_the_limit(text: str, sizes: Sizes) -> None:
    document = document_of(text)
    for item in chunk(document, sizes, count):
        own = own_text(document, item).strip()
        if count(own) <= sizes.hard_max_tokens:
            continue
        body = document.sections[item.section].body
        start = document.text.index(own, item.span.start + item.overlap)
        start = max(start, body) if start < body else start
        while document.text[start].isspace():
            start += 1
        end = start + len(document.text[start : item.span.end].rstrip())
        assert any(
            document.text.rfind("\n", 0, start) + 1 >= block.start and end <= block.end
            for block in document.blocks
        )


@examples
@given(text=TEXTS)
def test_a_path_is_shared_by_all_sections_of_its_chunk(text: str) -> None:
    document = document_of(text)
    for item in chunk(document, Sizes(40, 60, 10), count):
        inside = [
            section
            for section in document.sections
            if item.span.start <= section.span.start < item.span.end
            and document.text[section.body : _own_end(document, section)].strip()
        ]
        assert all(section.path[: len(item.path)] == item.path for section in inside)


def _own_end(document: Document, section: Section) -> int:
    following = document.sections[section.ordinal + 1 :]
    return following[0].span.start if following else len(document.text)


SECTION = st.lists(
    SHORT | LINES | FENCES | LISTS | HEADINGS.map("#".__add__), min_size=1, max_size=5
).map(lambda blocks: "\n\n".join(block for block in blocks if not block.startswith("# ")))


@examples
@given(st.lists(SECTION, min_size=2, max_size=5), SECTION, st.integers(0, 4), SIZES)
def test_an_edit_stays_within_its_top_level_section(
    bodies: list[str], edit: str, at: int, sizes: Sizes
) -> None:
    at %= len(bodies)

    def ids(bodies: list[str]) -> set[str]:
        text = "---\ntitle: T\n---\n" + "\n\n".join(
            f"# S{number}\n\n{body}" for number, body in enumerate(bodies)
        )
        document = document_of(text)
        # Blocks that run on into the next section would be an edit of that section, too.
        tops = [section for section in document.sections if section.level == 1]
        if [section.title for section in tops] != [f"S{number}" for number in range(len(bodies))]:
            return set()
        chunks = chunk(document, sizes, count)
        return {item.id for item in chunks if item.path[:1] != (f"S{at}",)}

    before = ids(bodies)
    after = ids([*bodies[:at], edit, *bodies[at + 1 :]])
    if before and after:
        assert before == after


def test_blocks_that_overlap_are_one() -> None:
    text = "a b\n" * 100
    document = replace(
        document_of(text),
        blocks=(Block("fence", 4, 200), Block("table", 100, 300), Block("html", 120, 140)),
        sections=(Section(0, -1, 0, "", (), Span(0, len(text), 1, 100), 0),),
    )
    starts = [item.span.start for item in chunk(document, Sizes(10, 10, 0), count)]
    assert 4 in starts
    assert 300 in starts
    assert not [start for start in starts if 4 < start < 300]
