"""Entries of a passage: items with what is indented below them, rows, paragraphs."""

from __future__ import annotations

from lookfar.retrieve.stages.links import PassageEntries, split_entries

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
    entries = PassageEntries(OVERVIEW)
    number = entries.find_innermost(OVERVIEW.index("[Sign]"))
    assert number is not None
    entry = split_entries(OVERVIEW)[number]
    assert OVERVIEW[entry.start : entry.first_line_end] == "  1. [Sign](sign.md): newest first"
    assert entries.find_innermost(OVERVIEW.index("## Pages")) is None


def test_an_entry_weighs_the_terms_that_it_has() -> None:
    entries = PassageEntries(OVERVIEW)
    number = entries.find_innermost(OVERVIEW.index("[Check]"))
    assert number is not None
    terms = [(" check ", 2.0), (" old ", 1.0), (" sign ", 4.0), (" chec ", 8.0)]
    for _ in range(2):  # The second time from the words that were analysed before.
        assert entries.weigh(number, terms) == 3.0
    assert entries.weigh(number, [(" newest ", 1.0)]) == 0


def test_first_lines_are_spelt_out_in_the_order_of_the_entries() -> None:
    lines = PassageEntries(OVERVIEW).spell_first_lines().split("\n")
    assert len(lines) == len(split_entries(OVERVIEW))
    assert lines[:3] == [" you can create keys ", " keys rotate ", " replaces a key "]


def test_any_text_can_be_split() -> None:
    for text in ("", "\n\n", "-", "- ", "|", "  text", "\t- a\n- b", "1) a\n\n\n2) b", "- a\n" * 3):
        entries = split_entries(text)
        assert all(0 <= start < end <= len(text) for start, _, end in entries)
    assert len(split_entries("- a\n" * 3)) == 3
