"""Offsets to line numbers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from lookfar.common.lines import Lines
from lookfar.model import Span

examples = settings(max_examples=200, deadline=None, derandomize=True)


def test_lines_count_from_one_and_only_newlines_count() -> None:
    lines = Lines("a\u2028b\n\n\x0cc\n")
    assert [lines.line_of(offset) for offset in range(8)] == [1, 1, 1, 1, 2, 3, 3, 3]
    assert lines.line_of(8) == 3, "the end belongs to the last line"
    assert lines.span(0, 4) == Span(0, 4, 1, 1)
    assert lines.span(0, 5) == Span(0, 5, 1, 2)
    assert lines.span(5, 5) == Span(5, 5, 3, 3)


def test_lines_of_an_empty_text() -> None:
    assert Lines("").span(0, 0) == Span(0, 0, 1, 1)


def test_lines_are_counted_and_found() -> None:
    lines = Lines("ab\n\nc\n")
    assert len(lines) == 3
    assert [lines.start_of(line) for line in (1, 2, 3, 4)] == [0, 3, 4, 4]


@examples
@given(st.text(alphabet="a\n漢\x0b"))
def test_line_of_counts_newlines_before(text: str) -> None:
    lines = Lines(text)
    for offset in range(len(text)):
        assert lines.line_of(offset) == text.count("\n", 0, offset) + 1
