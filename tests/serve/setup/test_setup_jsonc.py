"""Settings with comments are edited at exact spans: nothing else of them moves."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lookfar.serve.setup import jsonc
from lookfar.serve.setup.malformed import Malformed
from serve.setup.insertions import only_inserted

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | st.text(max_size=8)
KEYS = st.sampled_from(("a", "mcpServers", "lookfar", 'q"\\', "名前", "")) | st.text(max_size=4)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
WORDS = st.text(alphabet='ab "{}[],:/*#\\', max_size=6)
BLANKS = st.text(alphabet=" \t\n", max_size=3) | st.just("\r\n") | st.just("\r")
COMMENTS = WORDS.map(lambda text: f"//{text}\n") | WORDS.map(
    lambda text: f"/*{text.replace('*', '')}\n*/"
) | WORDS.map(lambda text: f"/*{text.replace('*', '')}*/")  # fmt: skip
TRIVIA = st.lists(BLANKS | COMMENTS, max_size=3).map("".join)
examples = settings(max_examples=100, deadline=None, derandomize=True)
ENTRY = {"command": "/bin/lookfar", "args": ["mcp", "ä"], "env": {}}


@st.composite
def formatted(draw: st.DrawFn, value: Any) -> str:
    """Format a value in any of the ways a person might."""

    def between() -> str:
        return draw(TRIVIA)

    def write(value: Any) -> str:
        if isinstance(value, dict):
            rows = [
                f"{between()}{json.dumps(key, ensure_ascii=draw(st.booleans()))}{between()}:"
                f"{between()}{write(item)}{between()}"
                for key, item in value.items()
            ]
            return "{" + joined(rows) + "}"
        if isinstance(value, list):
            return "[" + joined([between() + write(item) + between() for item in value]) + "]"
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    def joined(rows: list[str]) -> str:
        trailing = "," + between() if bool(rows) and draw(st.booleans()) else ""
        return ",".join(rows) + trailing + ("" if rows else between())

    return between() + write(value) + between()


@st.composite
def documents(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    value = draw(OBJECTS)
    return value, draw(formatted(value))


def merged(value: Any, path: tuple[str, ...], new: Any) -> Any:
    if not path:
        return new
    return {**value, path[0]: merged(value.get(path[0], {}), path[1:], new)}


@examples
@given(documents())
def test_formatted_values_are_parsed(document: tuple[dict[str, Any], str]) -> None:
    value, text = document
    node = jsonc.parse(text)
    assert node is not None
    assert node.value == value


@examples
@given(documents(), st.sampled_from([("mcpServers", "lookfar"), ("lookfar",), ("x", "y", "z")]))
@example(({}, "{}"), ("lookfar",))
@example(({"a": 1}, '{"a": 1 // one\n}'), ("lookfar",))
@example(({"a": 1}, '{"a": 1, // one\n}'), ("lookfar",))
@example(({"a": 1}, '{"a":1/* }*/ }'), ("lookfar",))
@example(({"a": 1}, '{"a":1// }\r }'), ("lookfar",))
def test_a_new_member_is_inserted_and_nothing_else_changes(
    document: tuple[dict[str, Any], str], path: tuple[str, ...]
) -> None:
    value, text = document
    place: Any = value
    for key in path[:-1]:
        place = place.get(key, {}) if isinstance(place, dict) else None
    if not isinstance(place, dict):
        with pytest.raises(Malformed, match="is not an object"):
            jsonc.put(text, path, ENTRY)
        return
    after = jsonc.put(text, path, ENTRY)
    node = jsonc.parse(after)
    assert node is not None
    assert node.value == merged(value, path, ENTRY)
    if path[-1] not in place:
        assert only_inserted(text, after)
    assert jsonc.put(after, path, ENTRY) == after, "the second time changes nothing"


@examples
@given(documents(), VALUES)
def test_an_existing_member_changes_only_its_value(
    document: tuple[dict[str, Any], str], new: Any
) -> None:
    value, text = document
    before = jsonc.parse(text)
    assert before is not None
    for member in before.members or ():
        if before.members and before.find(member.key) != before.members.index(member):
            continue
        after = jsonc.put(text, (member.key,), new)
        node = jsonc.parse(after)
        assert node is not None
        assert node.value == {**value, member.key: new}
        assert after.startswith(text[: member.node.start])
        assert after.endswith(text[member.node.end :])


def comments(text: str) -> list[str]:
    strings_or_comments = re.compile(r'"(?:[^"\\\r\n]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
    return [comment for comment in strings_or_comments.findall(text) if comment.startswith("/")]


@examples
@given(documents(), st.integers(0, 3))
def test_a_member_is_removed_and_comments_around_it_stay(
    document: tuple[dict[str, Any], str], number: int
) -> None:
    value, text = document
    if not value:
        assert jsonc.drop(text, ("lookfar",)) == text or "lookfar" in value
        return
    key = list(value)[number % len(value)]
    node = jsonc.parse(text)
    assert node is not None
    member = (node.members or ())[node.find(key) or 0]
    after = jsonc.drop(text, (key,))
    left = jsonc.parse(after)
    assert left is not None
    assert left.value == {name: value[name] for name in value if name != key}
    inside = comments(text[member.start : member.node.end])
    remaining = comments(text)
    for comment in inside:
        remaining.remove(comment)
    assert sorted(comments(after)) == sorted(remaining)


@examples
@given(documents(), st.sampled_from([("mcpServers", "lookfar"), ("lookfar",)]))
def test_an_inserted_member_can_be_removed(
    document: tuple[dict[str, Any], str], path: tuple[str, ...]
) -> None:
    value, text = document
    holder = value.get("mcpServers", {}) if len(path) == 2 else value
    if not isinstance(holder, dict) or "lookfar" in holder:
        return
    node = jsonc.parse(jsonc.drop(jsonc.put(text, path, ENTRY), path))
    assert node is not None
    assert node.value == (merged(value, path[:1], holder) if len(path) == 2 else value)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "s": {\n    "k": {\n      "c": 1\n    }\n  }\n}\n'),
        ("// mine", '// mine\n{\n  "s": {\n    "k": {\n      "c": 1\n    }\n  }\n}\n'),
        ('{"s": {"a": 1}}', '{"s": {"a": 1, "k": {"c": 1}}}'),
        ('{"s": {"a": 1,}}', '{"s": {"a": 1, "k": {"c": 1},}}'),
        (
            '{\n\t"s": {\n\t\t"a": 1, // one\n\t\t// two\n\t},\n}',
            (
                '{\n\t"s": {\n\t\t"a": 1, // one\n\t\t// two\n'
                '\t\t"k": {\n\t\t\t"c": 1\n\t\t},\n\t},\n}'
            ),
        ),
        (
            '{\r\n    "s": {}\r\n}\r\n',
            (
                '{\r\n    "s": {\r\n        "k": {\r\n            "c": 1\r\n'
                "        }\r\n    }\r\n}\r\n"
            ),
        ),
        (
            '{\n  "s": {\n    "a": 1 /* one */  \n  }\n}',
            '{\n  "s": {\n    "a": 1, /* one */  \n    "k": {\n      "c": 1\n    }\n  }\n}',
        ),
    ],
)
def test_an_insertion_follows_the_style_of_the_file(before: str, after: str) -> None:
    assert jsonc.put(before, ("s", "k"), {"c": 1}) == after


@pytest.mark.parametrize(
    "text",
    [
        '{\n  "s": {\n    "a": 1 // one\n    // two\n  }\n}\n',
        '{\n  "s": {\n    "a": 1, // one\n  },\n}\n',
        '{"s": {"a": 1}}',
        '{"s": {"a": 1,},}',
        '{"s": {}}',
        '{\n  "s": {},\n}',
        '{\r\n  "s": {\r\n    "a": 1  \r\n  }\r\n}',
    ],
)
def test_inserting_and_removing_restores_a_tidy_file(text: str) -> None:
    put = jsonc.put(text, ("s", "lookfar"), ENTRY)
    assert put != text
    assert jsonc.drop(put, ("s", "lookfar")) == text


def test_of_duplicate_members_the_last_counts_and_all_are_removed() -> None:
    text = '{"k": 1, "a": 2, "k": 3}'
    assert jsonc.put(text, ("k",), 4) == '{"k": 1, "a": 2, "k": 4}'
    assert jsonc.drop(text, ("k",)) == '{ "a": 2}'


def test_a_removal_never_extends_a_line_comment() -> None:
    assert jsonc.drop('{// c\n"k": 1, "b": 2}', ("k",)) == '{// c\n "b": 2}'
    assert jsonc.drop('{// c\n"k": 1}', ("k",)) == "{// c\n}"
    assert jsonc.drop('{// c\r"k": 1}', ("k",)) == "{// c\r}"
    assert jsonc.drop('{// c\n"k": 1 \n}', ("k",)) == "{// c\n}"
    assert jsonc.drop('{// c\n"k": 1 /* d\n */,\n"b": 2}', ("k",)) == '{// c\n /* d\n */\n"b": 2}'


def test_true_is_not_one() -> None:
    assert jsonc.put('{"k": 1}', ("k",), True) == '{"k": true}'


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{", "line 1, column 2"),
        ('{"a": 1 "b": 2}', "line 1, column 9"),
        ('{"a": 1}}', "line 1, column 9"),
        ('{\n  "a": tru\n}', "line 2, column 8"),
        ("{a: 1}", "line 1, column 2"),
        ('{"a" 1}', "line 1, column 6"),
        ('{"a": 01}', "line 1, column 7"),
        ('{"a": "x\n"}', "line 1, column 7"),
        ('{"a": "\\x"}', "line 1, column 7"),
        ('{"a": 1} /* never', "line 1, column 10"),
        ('{"a": 1,,}', "line 1, column 9"),
        ("[1, 2", "line 1, column 6"),
    ],
)
def test_invalid_json_is_refused_with_its_position(text: str, place: str) -> None:
    with pytest.raises(Malformed, match=place):
        jsonc.put(text, ("k",), 1)


def test_too_deep_nesting_is_refused() -> None:
    with pytest.raises(Malformed, match="too deeply"):
        jsonc.parse('{"a":' * 100_000)


def test_a_top_level_list_is_refused() -> None:
    with pytest.raises(Malformed, match="the file is not an object"):
        jsonc.put("[]", ("k",), 1)
    assert jsonc.drop("[]", ("k",)) == "[]"
    assert jsonc.drop("", ("k",)) == ""
