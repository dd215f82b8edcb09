"""Source code to its symbols and chunks: definitions nest, and chunks rejoin to the file.

Takes: a byte that chooses the language, and the bytes of a file. Gives: the document and its
chunks. Refuses: nothing, as the parser.
"""

from __future__ import annotations

from fuzz.common import Target
from fuzz.markdown import check_chunks
from lookfar.model import Chunk, Document
from lookfar.text.chunk.definitions import chunk, symbols_in
from lookfar.text.chunk.parts import Sizes
from lookfar.text.normalise import normalise
from lookfar.text.parse.languages import LANGUAGES
from lookfar.text.parse.source_code import parse

_SIZES = (Sizes(16, 24, 6), Sizes(40, 60, 10, overlap_tokens=12), Sizes(512, 768, 64))
_URIS = [
    f"a{language.extensions[0]}" if language.extensions else language.names[0]
    for language in LANGUAGES
]


def work(data: bytes) -> tuple[Document, list[Chunk], list[list[str]]]:
    uri = _URIS[(data[0] if data else 0) % len(_URIS)]
    document = parse(uri, normalise(data[1:])[0])
    chunks = chunk(document, _SIZES[len(data) % len(_SIZES)])
    return document, chunks, [[each.name for each in symbols_in(document, c)] for c in chunks]


def check(_: bytes, result: tuple[Document, list[Chunk], list[list[str]]]) -> None:
    document, chunks = result[:2]
    text, sections = document.text, document.sections
    for number, section in enumerate(sections):
        span = section.span
        assert section.ordinal == number
        assert 0 <= span.start < span.end <= len(text)
        assert section.parent < number
        if section.parent >= 0:
            outer = sections[section.parent].span
            assert outer.start <= span.start <= span.end <= outer.end
    for symbol in document.symbols:
        assert 0 <= symbol.section < len(sections)
        symbol.signature.encode("utf-8")
    check_chunks(document, chunks)


TARGET = Target(
    work,
    check,
    # A syntax tree of hostile text costs more than reading prose; one file may not cost a second.
    limit=0.5,
    words=(
        "def f(x):\n    ", "class A:\n    ", "function f() {", "}", "{", "(", ")", "=>", "async ",
        "@a\n", "/*", "*/", "//", "#", '"""', "'''", "`", "${", "<T>", "impl A for B {", "fn f()",
        "func (a A) f() {", "struct A {", "public static void ", "namespace a {", "#define A \\\n",
        "end\n", "module A", "begin", "=begin\n", "<?php ", "<script>", "\t", "\0", "漢", "é",
    ),
)  # fmt: skip
