"""Entries of a passage: items with what is indented below them, rows, paragraphs."""

from __future__ import annotations

from lookfar.retrieve.stages.entries import find_innermost, split_entries

OVERVIEW = """\
# Keys

You can create keys.
They expire.

## Pages

- keys.rotate
  - : Replaces a key.
- Topics
  1. [Sign](sign.md): newest first
     and always
  2. [Check](check.md): old ones
still about checking

| page | about |
| [list](list.md) | all keys |

    An indented paragraph.

The end.
"""


def split(text: str) -> list[str]:
    return [text[entry.start : entry.end].strip() for entry in split_entries(text)]


def test_items_contain_what_is_indented_below_them() -> None:
    parts = split(OVERVIEW)
    assert "- keys.rotate\n  - : Replaces a key." in parts
    assert "1. [Sign](sign.md): newest first\n     and always" in parts
    assert "2. [Check](check.md): old ones\nstill about checking" in parts


def test_rows_and_paragraphs_are_entries() -> None:
    parts = split(OVERVIEW)
    assert "You can create keys.\nThey expire." in parts
    assert "| [list](list.md) | all keys |\n\n    An indented paragraph." in parts
    assert "The end." in parts


def test_no_entry_reaches_over_a_heading() -> None:
    assert not any("#" in part for part in split(OVERVIEW))
    assert split("# Only\ntext\n# Headings") == ["text"]


def test_the_innermost_entry_contains_a_link() -> None:
    entries = split_entries(OVERVIEW)
    entry = find_innermost(entries, OVERVIEW.index("[Sign]"))
    assert entry is not None
    assert OVERVIEW[entry.start : entry.first_line_end] == "  1. [Sign](sign.md): newest first"
    assert find_innermost(entries, OVERVIEW.index("## Pages")) is None


def test_any_text_can_be_split() -> None:
    for text in ("", "\n\n", "-", "- ", "|", "  text", "\t- a\n- b", "1) a\n\n\n2) b", "- a\n" * 3):
        entries = split_entries(text)
        assert all(0 <= start < end <= len(text) for start, _, end in entries)
    assert len(split_entries("- a\n" * 3)) == 3
