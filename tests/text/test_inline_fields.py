"""Inline fields of Dataview and Logseq: lines, list items and brackets, but not code."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookfar.text.parse.markdown import find_fields, parse


def fields(text: str) -> list[tuple[str, Any]]:
    return list(parse("note.md", text).fields)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("status:: active", [("status", "active")]),
        ("- due:: 2026-12-01", [("due", "2026-12-01")]),
        ("1. [x] effort:: 3", [("effort", 3)]),
        ("> mood:: -2.5", [("mood", -2.5)]),
        ("**Due Date**:: soon", [("Due Date", "soon")]),
        ("done:: True", [("done", True)]),
        ("up:: [[Home]]", [("up", "[[Home]]")]),
        ("up:: [[Home]], [[Other|o]]", [("up", ["[[Home]]", "[[Other|o]]"])]),
        ('authors:: "A. B.", "C, D"', [("authors", ["A. B.", "C, D"])]),
        ("We met [place:: Rome] and (time:: 10:30).", [("place", "Rome"), ("time", "10:30")]),
        ("See [up:: [[Home]]] now.", [("up", "[[Home]]")]),
        ("設定:: 値", [("設定", "値")]),
    ],
)
def test_fields(text: str, expected: list[tuple[str, Any]]) -> None:
    assert fields(f"# Note\n\nBefore.\n\n{text}\n") == expected


@pytest.mark.parametrize(
    "text",
    [
        "std::string is a type",
        "map :: (a -> b) -> [a] -> [b]",
        "`key:: value`",
        "```\nkey:: value\n```",
        "    key:: value",
        "[key:: value](https://example.org)",
        "[[key:: value]]",
        "<!-- key:: value -->",
        "key::",
        ":: value",
        "A sentence, with a comma:: value",
        f"{'x' * 101}:: value",
    ],
)
def test_not_fields(text: str) -> None:
    assert fields(f"# Note\n\n{text}\n") == []


def test_logseq_tags_and_aliases_are_the_notes_own() -> None:
    note = parse("note.md", "tags:: [[Project/Alpha]], beta\nalias:: Other Name\n\n- text\n")
    assert note.tags == ("Project/Alpha", "beta")
    assert note.aliases == ("Other Name",)


@given(st.text(alphabet="ab:[]() \n`*", max_size=60))
def test_every_field_is_where_it_says(text: str) -> None:
    for field in find_fields(text):
        assert text[field.offset : field.offset + 2] == "::"
        assert field.name in text
