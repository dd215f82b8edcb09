"""What a reader expects of chunks: where they begin and end, and what they are called."""

from __future__ import annotations

import pytest

from lookfar.model import Chunk, Document
from lookfar.text.chunk.headings import Sizes, chunk
from lookfar.text.chunk.identity import embedded_text, heading_context
from lookfar.text.normalise import normalise
from lookfar.text.parse.markdown import parse
from processor_time import processor_time_below

SIZES = Sizes(max_tokens=100, hard_max_tokens=130, min_tokens=20)
SENTENCE = "The quick brown fox jumps over the lazy dog again. "


def count(text: str) -> int:
    return -(-len(text) // 4)


def document_of(text: str) -> Document:
    return parse("a.md", normalise(text.encode())[0])


def chunks_of(text: str, sizes: Sizes = SIZES) -> list[Chunk]:
    return chunk(document_of(text), sizes, count)


def texts_of(text: str, sizes: Sizes = SIZES) -> list[str]:
    document = document_of(text)
    return [
        document.text[item.span.start : item.span.end] for item in chunk(document, sizes, count)
    ]


def prose(tokens: int) -> str:
    return (SENTENCE * (tokens * 4 // len(SENTENCE) + 1))[: tokens * 4].rstrip()


# --- sizes ----------------------------------------------------------------------------------


def test_only_long_flat_text_is_split_into_small_parts() -> None:
    """Seen to fail when every section that does not fit got small parts."""
    sizes = Sizes(100, 130, 20, part_tokens=40)
    flat, usual = (
        [count(text) for text in texts_of(f"# A\n\n{prose(tokens)}\n", sizes)]
        for tokens in (300, 180)
    )
    assert max(flat) <= 52
    assert len(flat) >= 6
    assert len(usual) == 2


# --- sections ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "\n", "  \n\t\n", "---\ntitle: x\n---\n", "---\na: 1\n---\n\n \n"]
)
def test_a_blank_document_has_no_chunks(text: str) -> None:
    assert chunks_of(text) == []


def test_a_file_without_headings_is_called_root() -> None:
    (only,) = chunks_of("Hello there.")
    assert only.path == ()
    assert only.heading_path == ("(root)",)
    assert (only.part, only.parts, only.overlap, only.section) == (1, 1, 0, 0)


def test_each_section_is_a_chunk_with_its_breadcrumb() -> None:
    text = (
        f"# A\n\n{prose(30)}\n\n## B\n\n{prose(30)}\n\n### C\n\n{prose(40)}\n\n# D\n\n{prose(30)}\n"
    )
    chunks = chunks_of(text)
    assert [chunk.path for chunk in chunks] == [("A",), ("A", "B"), ("A", "B", "C"), ("D",)]
    assert [chunk.section for chunk in chunks] == [0, 1, 2, 3]
    assert [chunk.ordinal for chunk in chunks] == [0, 1, 2, 3]


def test_chunks_exclude_front_matter() -> None:
    texts = texts_of("---\ntitle: T\n---\n\n# A\n\nhello\n")
    assert texts == ["\n# A\n\nhello\n"]


def test_lines_and_offsets_are_exact() -> None:
    text = f"# A\n\n{prose(30)}\n\n# B\n\n{prose(30)}\n"
    first, second = chunks_of(text)
    assert (first.span.start_line, first.span.end_line) == (1, 4)
    assert (second.span.start_line, second.span.end_line) == (5, 7)
    assert text[second.span.start : second.span.end].startswith("# B\n")


# --- small sections ---------------------------------------------------------------------------


def test_small_sections_join_under_the_heading_they_share() -> None:
    chunks = chunks_of(f"# T\n\n{prose(97)}\n\n## A\n\none\n\n## B\n\ntwo\n\n## C\n\nthree\n")
    assert [chunk.path for chunk in chunks] == [("T",), ("T",)]
    assert chunks[1].section == 1


def test_a_small_section_joins_its_parent() -> None:
    (only,) = chunks_of(f"# T\n\n{prose(40)}\n\n## A\n\none\n")
    assert only.path == ("T",)


def test_a_small_section_does_not_overfill_its_neighbour() -> None:
    chunks = chunks_of(f"# T\n\n{prose(97)}\n\n## A\n\n{prose(10)}\n")
    assert [chunk.path for chunk in chunks] == [("T",), ("T", "A")]


def test_small_top_level_sections_stay_apart() -> None:
    assert [item.path for item in chunks_of("# A\n\none\n\n# B\n\ntwo\n")] == [("A",), ("B",)]


def test_sections_that_share_only_their_title_are_not_merged() -> None:
    chunks = chunks_of("# A\n\none\n\n# A\n\ntwo\n\n# A\n\n## B\n\nthree\n")
    assert [chunk.section for chunk in chunks] == [0, 1, 2]
    chunks = chunks_of(f"# T\n\n## A\n\n{prose(60)}\n\n### X\n\nx\n\n# T\n\n## A\n\ny\n")
    assert [chunk.section for chunk in chunks] == [0, 3]


def test_bare_headings_lend_their_place() -> None:
    (only,) = chunks_of(f"# A\n\n## B\n\n### C\n\n{prose(50)}\n")
    assert only.path == ("A", "B", "C")


def test_a_document_of_bare_headings_is_one_chunk() -> None:
    (only,) = chunks_of("# A\n## B\n### C\n")
    assert only.path == ("A", "B", "C")


def test_the_text_before_the_first_heading_joins_what_follows() -> None:
    (only,) = chunks_of("badge\n\n# A\n\none\n")
    assert only.path == ()


def test_merging_can_be_turned_off() -> None:
    apart = Sizes(100, 130, 20, merge_small=False)
    chunks = chunks_of("# A\n\none\n\n## B\n\ntwo\n\n## C\n", apart)
    assert [chunk.path for chunk in chunks] == [("A",), ("A", "B"), ("A", "C")]


# --- large sections ---------------------------------------------------------------------------


def test_a_long_section_is_split_at_paragraphs() -> None:
    paragraphs = [prose(60) for _ in range(4)]
    chunks = chunks_of("# A\n\n" + "\n\n".join(paragraphs) + "\n")
    assert [chunk.heading_path for chunk in chunks] == [
        (f"A [part {number}/4]",) for number in (1, 2, 3, 4)
    ]
    assert [chunk.path for chunk in chunks] == [("A",)] * 4
    texts = texts_of("# A\n\n" + "\n\n".join(paragraphs) + "\n")
    assert texts[0] == f"# A\n\n{paragraphs[0]}\n\n"
    assert texts[1] == f"{paragraphs[1]}\n\n"


def test_the_breadcrumb_of_a_split_root_has_its_part() -> None:
    chunks = chunks_of("\n\n".join([prose(60)] * 2))
    assert chunks[0].heading_path == ("(root) [part 1/2]",)


def test_a_long_paragraph_is_split_at_sentences() -> None:
    for text in texts_of("# A\n\n" + SENTENCE * 40):
        assert text.rstrip().endswith("again.")


def test_a_long_sentence_is_split_at_words() -> None:
    words = " ".join(f"word{number}" for number in range(400))
    texts = texts_of(words)
    assert len(texts) > 5
    assert all(text.startswith("word") and text[-1].isspace() for text in texts)


def test_text_without_spaces_is_split_between_characters() -> None:
    texts = texts_of("漢字かな交じり文" * 200)
    assert "".join(texts).strip() == "漢字かな交じり文" * 200
    assert all(count(text) <= SIZES.hard_max_tokens for text in texts)


def test_chinese_is_split_at_its_full_stops() -> None:
    texts = texts_of("今天天气很好我们去公园。" * 100)
    assert all(text.rstrip().endswith("。") for text in texts)


@pytest.mark.parametrize(
    "character",
    ["e\u0301", "👩‍💻", "👍🏽", "🇯🇵", "か\u3099", "❤\ufe0f", "👨‍👩‍👧‍👦", "नि"],
    ids=ascii,
)
@pytest.mark.parametrize("shift", range(3))
def test_a_character_is_not_cut_from_its_marks(character: str, shift: int) -> None:
    text = "x" * shift + character * 400
    cuts = [item.span.start for item in chunks_of(text)][1:]
    assert cuts
    if character != "🇯🇵":  # where one of many flags in a row begins is not looked for
        assert all((cut - shift) % len(character) == 0 for cut in cuts)


def test_a_heading_stays_with_what_it_heads() -> None:
    texts = texts_of(f"# A\n\n{prose(99)}\n\n{prose(80)}\n", Sizes(100, 100, 20))
    assert all(text.lstrip("# A\n").strip() for text in texts)
    assert all(count(text) <= 101 for text in texts)


def test_a_small_tail_joins_the_part_before_it() -> None:
    texts = texts_of(f"# A\n\n{prose(95)}\n\n{prose(90)}\n\n{prose(12)}\n")
    assert len(texts) == 2
    assert count(texts[-1]) <= SIZES.hard_max_tokens


def test_a_nested_list_item_keeps_its_indent() -> None:
    items = "".join(f"- item {n}\n\n  more of it {prose(20)}\n\n" for n in range(12))
    for text in texts_of(items):
        assert text.startswith(("- ", "  more"))


# --- atomic blocks ----------------------------------------------------------------------------

FENCE = "```py\n" + "x = 1\n\n" * 200 + "```\n"
TABLE = "| a | b |\n|---|---|\n" + "| one. two | three |\n" * 100


@pytest.mark.parametrize("block", [FENCE, TABLE], ids=["fence", "table"])
def test_an_oversized_block_stays_whole(block: str) -> None:
    texts = texts_of(f"# A\n\n{prose(60)}\n\n{block}\n{prose(60)}\n")
    assert texts == [f"# A\n\n{prose(60)}\n\n", f"{block}\n", f"{prose(60)}\n"]


@pytest.mark.parametrize("lead", ["", "\n\n\n", "# A\n", "# A\n\n", "A\n=\n\n\n"])
def test_an_oversized_block_takes_its_heading_along(lead: str) -> None:
    texts = texts_of(f"{lead}{FENCE}\n\n\n{prose(60)}\n")
    assert texts == [f"{lead}{FENCE}\n\n\n", f"{prose(60)}\n"]


def test_an_unclosed_fence_stays_whole() -> None:
    text = "# A\n\n```\n" + "code. more\n\n" * 300
    assert texts_of(text) == [text]


def test_a_fence_in_a_list_stays_whole() -> None:
    inside = "  ```\n" + "  x = 1. y\n\n" * 200 + "  ```\n"
    texts = texts_of(f"- item\n\n{inside}\n- other {prose(60)}\n")
    assert any(inside in text for text in texts)


# --- overlap ----------------------------------------------------------------------------------

OVERLAPPING = Sizes(100, 130, 20, overlap_tokens=25)


def overlaps_of(text: str, sizes: Sizes = OVERLAPPING) -> list[str]:
    document = document_of(text)
    chunks = chunk(document, sizes, count)
    assert chunks[0].overlap == 0
    assert all(count(document.text[c.span.start : c.span.end]) <= 130 for c in chunks)
    return [document.text[c.span.start : c.span.start + c.overlap] for c in chunks[1:]]


def test_overlap_is_whole_paragraphs_where_they_are_near() -> None:
    short = prose(20)
    overlaps = overlaps_of("\n\n".join([short] * 30))
    assert overlaps
    assert set(overlaps) == {f"{short}\n\n"}


def test_overlap_is_whole_words_otherwise() -> None:
    text = " ".join(f"word{number}" for number in range(400))
    overlaps = overlaps_of(text)
    assert overlaps
    for overlap in overlaps:
        assert overlap.startswith("word")
        assert 12 <= count(overlap) <= 25


def test_overlap_without_a_space_in_reach_is_characters() -> None:
    overlaps = overlaps_of("e\u0301" * 1000)
    assert overlaps
    assert all(overlap.startswith("e") and 12 <= count(overlap) <= 26 for overlap in overlaps)


def test_overlap_never_starts_inside_a_block() -> None:
    fence = "```\n" + "x = 1\n\n" * 20 + "```\n"
    overlaps = overlaps_of(f"{fence}\n{prose(60)}\n\n" * 6)
    assert overlaps
    assert all(overlap.count("```") % 2 == 0 for overlap in overlaps)


def test_sections_do_not_overlap_each_other() -> None:
    chunks = chunks_of(f"# A\n\n{prose(90)}\n\n# B\n\n{prose(90)}\n", OVERLAPPING)
    assert [chunk.overlap for chunk in chunks] == [0, 0]


# --- names ------------------------------------------------------------------------------------


def test_duplicate_sections_get_ids_of_their_own() -> None:
    chunks = chunks_of("# A\n\nsame\n\n# A\n\nsame\n\n# A\n\nsame\n")
    assert len({chunk.id for chunk in chunks}) == 3
    assert len({chunk.content for chunk in chunks}) == 1
    assert all(len(chunk.id) == 32 and len(chunk.content) == 16 for chunk in chunks)


def test_ids_depend_on_the_file_and_contents_do_not() -> None:
    document = document_of("# A\n\nsame\n")
    other = parse("b.md", document.text)
    (mine,), (theirs,) = chunk(document, SIZES, count), chunk(other, SIZES, count)
    assert mine.id != theirs.id
    assert mine.content == theirs.content


def test_a_chunk_keeps_its_names_when_it_moves() -> None:
    section = f"# B\n\n{prose(60)}\n"
    before = chunks_of(f"# T\n\nshort\n\n{section}")
    after = chunks_of(f"# T\n\n{prose(80)}\n\n## New\n\n{prose(80)}\n\n{section}")
    assert before[-1].id == after[-1].id
    assert before[-1].span != after[-1].span


def test_text_after_a_chunk_does_not_change_its_id() -> None:
    (before,) = chunks_of("# A\n\nsame")
    first, _ = chunks_of("# A\n\nsame\n\n\n# B\n\nnew\n")
    assert before.id == first.id


def test_a_page_in_one_heading_is_not_repeated_with_each_part() -> None:
    document = document_of("# " + "word " * 10_000)
    texts = [embedded_text(document, item) for item in chunk(document, SIZES, count)]
    assert sum(map(len, texts)) < 3 * len(document.text)


def test_an_edit_among_large_sections_stays_in_its_own() -> None:
    def text(middle: str) -> str:
        return "# T\n\n" + "".join(
            f"## S{n}\n\n{middle if n == 5 else prose(40 + n * 20)}\n\n" for n in range(10)
        )

    before, after = chunks_of(text(prose(50))), chunks_of(text(prose(300)))
    kept = {item.id for item in before if item.path != ("T", "S5")}
    assert len(kept) == len(before) - 1
    assert kept == {item.id for item in after if item.path != ("T", "S5")}


def test_names_hold_any_text() -> None:
    document = parse("\udcff.md", '---\ntitle: "\\ud800"\n---\n# \x1f\n\nx\n')
    (only,) = chunk(document, SIZES, count)
    assert embedded_text(document, only).endswith("# \x1f\n\nx")


@pytest.mark.parametrize(
    ("title", "path", "context"),
    [
        ("", (), ""),
        ("T", (), "T"),
        ("T", ("A", "B"), "T > A > B"),
        ("T", ("T", "B"), "T > B"),
        ("", ("A", "", "B"), "A > B"),
    ],
)
def test_the_context_names_each_heading_once(
    title: str, path: tuple[str, ...], context: str
) -> None:
    assert heading_context(title, path) == context


# --- hostile documents ------------------------------------------------------------------------

HOSTILE = {
    "10,000 lines": "".join(f"## H{n}\n\n{SENTENCE}\n\n" for n in range(3_334)),
    "10,000 lines in one section": "# A\n\n" + f"{SENTENCE}\n" * 10_000,
    "one line of words": "word " * 200_000,
    "one line of letters": "x" * 1_000_000,
    "one line of sentences": "Go on. " * 143_000,
    "one line of Chinese": "漢字" * 150_000,
    "one line of marks": "\u0301" * 200_000,
    "white space in the middle": "a" + " " * 1_000_000 + "b",
    "white space at the start": " " * 3 + "\n" * 500_000 + "b" * 10_000,
    "thousands of fences": "# A\n\n" + "```\nx\n```\n\ntext\n\n" * 10_000,
    "a fence in every section": f"## H\n\n{SENTENCE * 10}\n\n```\nx\n```\n\n" * 2_000,
    "nested lists": "".join(f"{' ' * (2 * (n % 40))}- item {n}\n" for n in range(20_000)),
    "nested quotes": ">" * 5_000 + " x\n",
    "headings only": "".join(f"{'#' * (n % 6 + 1)} H\n" for n in range(10_000)),
    "a very long heading": "# " + "word " * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(
    "sizes", [Sizes(450, 600, 50), Sizes(100, 100, 20, 25)], ids=["", "overlap"]
)
def test_hostile_documents_are_quick(name: str, sizes: Sizes) -> None:
    document = document_of(HOSTILE[name])
    with processor_time_below(3.0):
        chunks = chunk(document, sizes, count)
    own = [document.text[c.span.start + c.overlap : c.span.end] for c in chunks]
    assert "".join(own) == document.text
    assert all(text.strip() for text in own)
    if name not in ("a fence in every section", "thousands of fences"):
        assert all(count(text.strip()) <= sizes.hard_max_tokens for text in own)
