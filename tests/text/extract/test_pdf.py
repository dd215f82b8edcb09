"""PDF: reading order, headings, tables, code, links and places by page."""

from __future__ import annotations

import pytest

from lookfar.text.extract.extracted import CannotExtract, Extracted, Limits
from lookfar.text.extract.formats import extract, extractor_for
from lookfar.text.extract.pdf_blocks import find_table
from lookfar.text.extract.pdf_lines import Cell, Line
from text.extract.made_pdf import Drawn, column, make_pdf


def extract_pdf(data: bytes, limits: Limits | None = None) -> Extracted:
    row = extractor_for("report.pdf")
    assert row is not None
    return extract(row, data, limits)


def place_of(result: Extracted, words: str) -> str:
    """Return the label of the place that contains some words."""
    offset = result.text.index(words)
    return [place.label for place in result.places if place.start <= offset][-1]


BODY = (
    "The quay was surveyed in spring, and the depth was",
    "found to be less than the plan had promised to the",
    "owners of the ferries that use it.",
)


def test_headings_by_size_and_pages_as_places() -> None:
    first = [Drawn(60, 700, "Harbour report", 24), *column(60, 650, *BODY)]
    second = [Drawn(60, 700, "Budget", 16), *column(60, 650, "Dredging costs", "forty thousand.")]
    result = extract_pdf(make_pdf(first, second, title="Annual report"))
    assert result.text == (
        f"# Harbour report\n\n{' '.join(BODY)}\n\n## Budget\n\nDredging costs forty thousand.\n"
    )
    assert [place.label for place in result.places] == ["page=1", "page=2"]
    assert place_of(result, "depth was") == "page=1"
    assert place_of(result, "Budget") == "page=2"
    assert result.title == "Annual report"


def test_titles_in_the_outline_are_headings() -> None:
    page = [Drawn(60, 700, "1.2 Scope of work"), *column(60, 650, *BODY)]
    result = extract_pdf(make_pdf(page, page, outline=[("Scope of work", 1)]))
    assert result.text.startswith("# 1.2 Scope of work\n\nThe quay")
    assert result.text.count("# 1.2") == 1  # Only on the page that the outline names.


def test_two_columns_are_read_one_after_the_other() -> None:
    left = column(60, 700, *[f"left words in row number {n} of" for n in range(12)])
    right = column(330, 700, *[f"right words in row number {n} of" for n in range(12)])
    by_row = [part for pair in zip(left, right, strict=True) for part in pair]
    for page in (left + right, by_row):
        text = extract_pdf(make_pdf([Drawn(60, 750, "Across", 20), *page])).text
        assert text.index("left words in row number 11") < text.index("right words in row number 0")


def test_a_line_across_the_page_ends_both_columns() -> None:
    rows = [
        part
        for n in range(20)
        for part in (
            Drawn(60, 700 - 12 * n - 40 * (n > 9), f"left words in row number {n} of"),
            Drawn(330, 700 - 12 * n - 40 * (n > 9), f"right words in row number {n} of"),
        )
    ]
    across = Drawn(
        60, 568, "A caption that runs across the gutter of the two columns of this page."
    )
    text = extract_pdf(make_pdf([*rows[:20], across, *rows[20:]])).text
    order = ("left words in row number 9", "right words in row number 9", "caption",
             "left words in row number 10", "right words in row number 10")  # fmt: skip
    offsets = [text.index(words) for words in order]
    assert offsets == sorted(offsets)


def test_a_page_drawn_in_a_wild_order_is_ordered_by_place() -> None:
    rows = column(60, 700, *[f"Sentence {n:02} ends here." for n in range(20)], step=2.2)
    wild = [rows[n * 7 % 20] for n in range(20)]
    text = extract_pdf(make_pdf(wild)).text
    offsets = [text.index(f"Sentence {n:02}") for n in range(20)]
    assert offsets == sorted(offsets)


def test_hyphens_at_line_ends_are_joined_unless_they_belong_to_the_word() -> None:
    lines = (
        "The well-known survey shows sedi-",
        "mentation near the old quay, a well-",
        "known problem of every harbour in the",
        "region and of others.",
    )
    text = extract_pdf(make_pdf(column(60, 700, *lines))).text
    assert "shows sedimentation near" in text
    assert "a well-known problem" in text


def test_repeated_headers_and_page_numbers_are_dropped() -> None:
    pages = [
        [
            Drawn(60, 780, "Port Authority - confidential"),
            *column(60, 700, f"Content of part {n}."),
            Drawn(290, 20, f"Page {n} of 5"),
        ]
        for n in range(1, 6)
    ]
    text = extract_pdf(make_pdf(*pages)).text
    assert "confidential" not in text
    assert "of 5" not in text
    assert all(f"Content of part {n}." in text for n in range(1, 6))
    # Twice is not a header.
    assert "confidential" in extract_pdf(make_pdf(*pages[:2])).text


def test_a_table_keeps_the_header_row_that_each_page_repeats() -> None:
    """Seen to fail when every line at the edge of three pages was dropped."""
    pages = [
        [
            Drawn(60, 780, "Port Authority - confidential"),
            *(
                Drawn(x, 750 - 14 * n, text)
                for n, row in enumerate([("Vessel", "Fee"), *[(f"Ferry {page}", "900")] * 3])
                for x, text in zip((60, 300), row, strict=True)
            ),
        ]
        for page in "abcd"
    ]
    text = extract_pdf(make_pdf(*pages)).text
    assert text.count("| Vessel | Fee |\n") == 4
    assert "confidential" not in text


def test_a_right_to_left_row_stays_in_its_table() -> None:
    """Its cells come in the opposite order, which looked like columns that are not aligned."""
    cells = [Cell("1", 60, 66), Cell("Ferry", 100, 130), Cell("Nine hundred", 200, 260)]
    foreign = [Cell("تسعمئة", 200, 240), Cell("عبارة", 100, 128), Cell("2", 60, 66)]
    lines = [
        Line("", 60, 260, 700 - 14 * n, 710 - 14 * n, 10, cells=row)
        for n, row in enumerate((cells, foreign, cells, cells))
    ]
    end, columns = find_table(lines, 0)
    assert (end, [left for left, _ in columns]) == (4, [60, 100, 200])


def test_aligned_cells_become_a_table_and_prose_does_not() -> None:
    rows = [("Vessel", "Length", "Fee"), ("Small yacht", "12", "40"), ("Ferry", "120", "900")]
    cells = [
        Drawn(x, 700 - 14 * n, text)
        for n, row in enumerate(rows)
        for x, text in zip((60, 200, 300), row, strict=True)
    ]
    text = extract_pdf(make_pdf([*cells, *column(60, 600, *BODY)])).text
    assert "| Vessel | Length | Fee |\n|---|---|---|\n| Small yacht | 12 | 40 |\n" in text
    assert "\n\nThe quay was" in text
    bullets = [
        d
        for n in range(4)
        for d in (Drawn(60, 700 - 14 * n, "-"), Drawn(80, 700 - 14 * n, f"point {n}"))
    ]
    assert "- point 0\n- point 1\n" in extract_pdf(make_pdf(bullets)).text


def test_monospaced_lines_become_code_with_their_indentation() -> None:
    code = [
        Drawn(60, 600, "def fee(length):", font="F3"),
        Drawn(60 + 4 * 6, 588, "return  40", font="F3"),
    ]
    text = extract_pdf(make_pdf([*column(60, 700, *BODY), *code])).text
    assert "```\ndef fee(length):\n    return  40\n```" in text


def test_links_keep_their_target() -> None:
    page = [Drawn(60, 700, "See the survey. Or not.")]
    box = (78.0, 695.0, 130.0, 712.0)
    text = extract_pdf(make_pdf(page, links=[(1, box, "https://example.org/s")])).text
    assert text == "See [the survey](https://example.org/s). Or not.\n"


def test_pages_without_text_are_named() -> None:
    scan = "q 100 0 0 100 0 0 cm BI /W 1 /H 1 /BPC 8 /CS /G ID \x80 EI Q\n"
    text = column(60, 700, *BODY)
    result = extract_pdf(make_pdf(text, [], [], text, drawing=scan))
    assert result.warnings == ("pages 2-3 have no text (a scan?)",)
    starts = {place.label: place.start for place in result.places}
    assert starts["page=2"] == starts["page=3"] == starts["page=4"]
    with pytest.raises(CannotExtract) as caught:
        extract_pdf(make_pdf([], drawing=scan))
    assert caught.value.code == "no_text"
    assert "scan" in caught.value.reason


ENCRYPTION = f"/Encrypt<</Filter/Standard/V 1/R 2/P -4/O({'a' * 32})/U({'b' * 32})>>/ID[(a)(a)]"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "damaged"),
        (b"%PDF-1.7\nnothing more", "damaged"),
        (make_pdf(), "damaged"),
        (make_pdf([], trailer=ENCRYPTION), "encrypted"),
    ],
)
def test_what_cannot_be_read_has_a_reason(data: bytes, code: str) -> None:
    with pytest.raises(CannotExtract) as caught:
        extract_pdf(data)
    assert caught.value.code == code
    assert caught.value.reason


def test_limits_hold() -> None:
    pages = [column(60, 700, *BODY)] * 4
    with pytest.raises(CannotExtract, match="more than 3 pages"):
        extract_pdf(make_pdf(*pages), Limits(max_parts=3))
    result = extract_pdf(make_pdf(*pages), Limits(max_output_chars=200))
    assert len(result.text) <= 201
    assert result.warnings


def test_a_truncated_file_gives_what_is_left_or_a_reason() -> None:
    data = make_pdf(*[column(60, 700, *BODY)] * 3)
    codes = set()
    for size in range(0, len(data), 97):
        try:
            codes.add("text" if extract_pdf(data[:size]).text else "")
        except CannotExtract as error:
            codes.add(error.code)
    assert codes <= {"text", "damaged", "no_text"}
