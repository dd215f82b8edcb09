"""Promises that hold for the chunks of all source code."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from code_samples import FULL, HEURISTIC, PYTHON, STRUCTURAL
from lookfar.model import Chunk, Document
from lookfar.text.chunk.definitions import MERGE_BELOW, chunk, embedded_text, symbols_in
from lookfar.text.chunk.parts import Sizes
from lookfar.text.normalise import normalise
from lookfar.text.parse.languages import LANGUAGES
from lookfar.text.parse.source_code import parse
from processor_time import processor_time_below

examples = settings(max_examples=40, deadline=None, derandomize=True)
SIZES = Sizes(450, 600, 100)
SMALL = Sizes(16, 24, 6)
NAMES = [f"a{item.extensions[0]}" if item.extensions else item.names[0] for item in LANGUAGES]
TEXTS = [
    *(text for _, text in FULL.values()),
    *(text for _, text, _ in STRUCTURAL.values()),
    *(text for _, text, _ in HEURISTIC.values()),
]
TOKENS = st.sampled_from(
    ["def f(x):", "\n", "    ", "class A {", "}", "{", "(", ")", "// note", "# note", "/* c */",
     "fn g() {", "end", "é漢👩\u200d💻", '"""', "'", "=", ";", "\t", "@a", "x" * 90, "\n\n"]
)  # fmt: skip


def rejoined(document: Document, chunks: list[Chunk]) -> str:
    return "".join(
        document.text[chunk.span.start + chunk.overlap : chunk.span.end] for chunk in chunks
    )


def check(document: Document, chunks: list[Chunk]) -> None:
    """Chunks tile the text, none is blank, and each names what is embedded."""
    text = document.text
    assert rejoined(document, chunks) == (text if text.strip() else "")
    lines = text.split("\n")
    for ordinal, each in enumerate(chunks):
        own = text[each.span.start : each.span.end]
        assert own.strip()
        assert each.ordinal == ordinal
        assert 1 <= each.part <= each.parts
        shown = "\n".join(lines[each.span.start_line - 1 : each.span.end_line])
        assert own.strip("\n") in shown
        assert own.strip() in embedded_text(document, each)
    assert len({chunk.id for chunk in chunks}) == len(chunks)


@pytest.mark.parametrize("name", NAMES)
@examples
@given(
    st.lists(TOKENS, max_size=60).map("".join)
    | st.lists(st.sampled_from(TEXTS), max_size=3).map("".join),
    st.sampled_from(
        [
            SIZES,
            SMALL,
            Sizes(40, 40, 0, merge_small=False),
            Sizes(16, 16, 0, 8),
            Sizes(40, 40, 0, 8, by_definitions=False),
        ]
    ),
)
def test_chunks_of_every_language_rejoin_to_the_source(name: str, text: str, sizes: Sizes) -> None:
    """No character of a file may be lost, doubled or moved, whatever its syntax."""
    text, _ = normalise(text.encode())
    document = parse(name, text)
    check(document, chunk(document, sizes))


def test_a_file_can_be_cut_by_length_alone() -> None:
    """Each chunk is full and repeats the end of the one before it, wherever definitions begin."""
    text = "".join(f"def f{at}():\n    return {at}\n\n\n" for at in range(200))
    chunks = chunk(parse("a.py", text), Sizes(100, 100, 0, 20, False, by_definitions=False))
    lengths = [item.span.end - item.span.start for item in chunks]
    assert max(lengths) <= 400
    assert min(lengths[:-1]) > 200
    assert all(item.overlap for item in chunks[1:])
    assert {item.path for item in chunks} == {()}


def test_a_definition_is_one_chunk() -> None:
    """With nothing to merge, what is found is what was defined."""
    body = "".join(f"    total += {at}\n" for at in range(30))
    text = "".join(f"def f{at}(total):\n{body}    return total\n\n\n" for at in range(5))
    document = parse("a.py", text)
    chunks = chunk(document, Sizes(200, 260, 20))
    assert [item.path for item in chunks] == [(f"f{at}",) for at in range(5)]
    assert all(document.text[item.span.start :].startswith("def f") for item in chunks)


def test_members_of_a_large_class_stand_apart_from_its_head() -> None:
    """A class too large for a chunk is its head and its methods."""
    body = "".join(f"        self.x{at} = {at}\n" for at in range(25))
    methods = "".join(f"    def m{at}(self):\n{body}\n" for at in range(4))
    text = f'class Shelf:\n    """Holds books."""\n\n    size = 1\n\n{methods}'
    document = parse("a.py", text)
    chunks = chunk(document, Sizes(130, 180, 0))
    assert chunks[0].path == ("Shelf",)
    assert "Holds books" in text[chunks[0].span.start : chunks[0].span.end]
    assert [item.path for item in chunks[1:]] == [("Shelf", f"m{at}") for at in range(4)]


def test_an_oversized_body_keeps_its_signature_as_context() -> None:
    """The middle of a long function would otherwise not say whose it is."""
    body = "".join(f"    value_{at} = step({at})\n\n" for at in range(200))
    document = parse("a.py", f"def long_one(first, second):\n{body}")
    chunks = chunk(document, Sizes(100, 130, 0))
    assert len(chunks) > 5
    assert {item.parts for item in chunks} == {len(chunks)}
    assert [item.part for item in chunks] == list(range(1, len(chunks) + 1))
    for item in chunks[1:]:
        assert "def long_one(first, second)" in embedded_text(document, item)
        assert document.text[item.span.start :].startswith("    value_")


def test_code_may_be_cut_to_sizes_of_its_own() -> None:
    """4000 characters with 800 repeated, whatever the sizes of prose are."""
    text = "def long():\n" + "".join(f"    step_{n} = work({n} * {n})\n" for n in range(900))
    document = parse("a.py", text)
    sizes = Sizes(2000, 2000, 100, 500, code_max_tokens=1000, code_overlap_tokens=200)
    chunks = chunk(document, sizes)
    check(document, chunks)
    own = [item.span.end - item.span.start - item.overlap for item in chunks]
    assert 2_000 < max(own) <= 4_000
    assert all(600 < item.overlap <= 800 for item in chunks[1:])
    assert len(chunk(document, Sizes(2000, 2000, 100, 500))) < len(chunks)


def test_small_neighbours_share_a_chunk() -> None:
    """Twenty one-line functions are not twenty chunks."""
    text = "".join(f"def f{at}():\n    return {at}\n\n\n" for at in range(20))
    document = parse("a.py", text)
    chunks = chunk(document, SIZES)
    assert len(chunks) == 1
    assert chunks[0].path == ()
    assert [item.name for item in symbols_in(document, chunks[0])] == [f"f{n}" for n in range(20)]
    assert len(chunk(document, SIZES, merge_below=0.0)) <= len(chunk(document, Sizes(450, 600, 0)))
    assert 0 < MERGE_BELOW <= 1


def test_an_edit_keeps_the_ids_of_other_definitions() -> None:
    """Names come from content: an edit in one function re-embeds nothing else."""
    body = "".join(f"    total += {at}\n" for at in range(40))
    text = "".join(f"def f{at}(total):\n{body}\n\n" for at in range(4))
    before = chunk(parse("a.py", text), Sizes(150, 260, 0))
    after = chunk(parse("a.py", "import os\n" * 90 + "\n" + text), Sizes(150, 260, 0))
    assert {item.id for item in before} <= {item.id for item in after}


def test_every_line_of_a_sample_is_in_a_chunk() -> None:
    """Imports and comments between definitions are searched too."""
    document = parse("shelf.py", PYTHON)
    chunks = chunk(document, SMALL)
    check(document, chunks)
    assert len(chunks) > 3
    covered = {n for item in chunks for n in range(item.span.start_line, item.span.end_line + 1)}
    wanted = {n for n, line in enumerate(PYTHON.split("\n"), 1) if line.strip()}
    assert wanted <= covered


@pytest.mark.parametrize("raw", [b"", b"\n\n", b" \t\n", b"\xef\xbb\xbf"])
def test_a_blank_file_has_no_chunks(raw: bytes) -> None:
    text, _ = normalise(raw)
    assert chunk(parse("a.py", text), SIZES) == []


def test_mixed_encodings_are_cut_as_exactly() -> None:
    """Offsets count characters, though the grammar counts bytes."""
    raw = "# é漢👩\u200d💻\ndef größe(wört):\n    return 'ß'\n".encode() + b"x = '\xff\xfe'\n"
    text, warnings = normalise(raw)
    assert warnings
    document = parse("a.py", text)
    check(document, chunk(document, SMALL))
    assert [symbol.name for symbol in document.symbols] == ["größe", "x"]
    span = document.sections[document.symbols[0].section].span
    assert text[span.start : span.end] == "# é漢👩\u200d💻\ndef größe(wört):\n    return 'ß'\n"


def minified() -> str:
    return "var a=1;function b(c){return c+1};" * 12_000 + "\n"


def long_file() -> str:
    return "".join(f"def f{at}(x):\n    return x\n\n\n" for at in range(25_000))


def nested() -> str:
    """Deep, on lines of its own, and with enough variety to look like a program."""
    opened = "".join(f"f{at}(a{at * 7919 % 1000},\n" for at in range(8_000))
    return opened + ")" * 8_000 + "\n"


def noise() -> str:
    pick = random.Random(5)
    words = ["if", "(", ")", "{", "}", "'", '"', "=", "def", "class", ";", "\n", "x", "<", "/*"]
    return " ".join(pick.choice(words) for _ in range(60_000)) + "\n"


@pytest.mark.parametrize(
    "text",
    [minified(), long_file(), nested(), noise()],
    ids=["minified", "100k lines", "nested", "noise"],
)
@pytest.mark.parametrize("name", ["a.js", "a.py", "a.cc", "a.rs"])
def test_hostile_files_are_read_in_bounded_time(name: str, text: str) -> None:
    """One file must not hold up the others, however odd it is."""
    with processor_time_below(20):
        document = parse(name, text)
        chunks = chunk(document, SIZES)
        assert rejoined(document, chunks) == text
        assert all(item.span.end - item.span.start <= 3_000 for item in chunks)
