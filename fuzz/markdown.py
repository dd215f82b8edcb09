"""Markdown to its outline and its chunks: spans lie in the text, nest, and rejoin to it.

Takes: the bytes of a file. Gives: the document and its chunks. Refuses: nothing, as the parser.
"""

from __future__ import annotations

from fuzz.common import Target
from lookfar.model import Chunk, Document
from lookfar.text.chunk.headings import Sizes, chunk
from lookfar.text.normalise import normalise
from lookfar.text.parse.markdown import parse

_SIZES = (Sizes(16, 24, 6), Sizes(40, 60, 10, overlap_tokens=12), Sizes(512, 768, 64))


def _count(text: str) -> int:
    return -(-len(text) // 4)


def work(data: bytes) -> tuple[Document, list[Chunk]]:
    document = parse("a.md", normalise(data)[0])
    return document, chunk(document, _SIZES[len(data) % len(_SIZES)], _count)


def check(_: bytes, result: tuple[Document, list[Chunk]]) -> None:
    document, chunks = result
    text, sections = document.text, document.sections
    assert 0 <= document.body <= len(text)
    if not sections:
        assert not text[document.body :].strip()
    for number, section in enumerate(sections):
        span = section.span
        assert section.ordinal == number
        assert document.body <= span.start < span.end <= len(text)
        assert span.start == 0 or text[span.start - 1] == "\n"
        assert span.start <= section.body <= span.end
        assert section.parent < number
        if section.parent >= 0:
            parent = sections[section.parent]
            assert parent.level < section.level
            assert parent.span.start < span.start <= span.end <= parent.span.end
    for block in document.blocks:
        assert document.body <= block.start < block.end <= len(text)
    for link in document.links:
        assert document.body <= link.start < link.end <= len(text)
    check_chunks(document, chunks)


def check_chunks(document: Document, chunks: list[Chunk]) -> None:
    """Chunks tile the text, and each says truly where it stands."""
    text = document.text
    own = "".join(text[each.span.start + each.overlap : each.span.end] for each in chunks)
    body = text[document.body :]
    assert own == (body if body.strip() else ""), "the chunks do not rejoin to the text"
    assert len({each.id for each in chunks}) == len(chunks)
    for number, each in enumerate(chunks):
        span = each.span
        assert each.ordinal == number
        assert 0 <= each.section < max(1, len(document.sections))
        assert span.start_line == text.count("\n", 0, span.start) + 1
        assert span.end_line == text.count("\n", 0, span.end - 1) + 1


TARGET = Target(
    work,
    check,
    words=(
        "---\n", "+++\n", "```", "~~~", "# ", "## ", "===\n", "> ", "- ", "1. ", "|", "|---|",
        "[[", "]]", "![[", "](", "[^1]", "[^1]: ", "<!--", "-->", "<div>", "</div>", "#tag",
        "title: ", "    ", "\t", "\\", "&amp;", "{#id}", "漢", "\u0301", "\u200d", "\r\n", "\0",
        "$$", "\u2028",
    ),
)  # fmt: skip
