"""Front matter: where it is, what it says, what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookfar.text.parse import frontmatter
from lookfar.text.parse.frontmatter import parse, split
from processor_time import processor_time_below

examples = settings(max_examples=200, deadline=None, derandomize=True)


@pytest.mark.parametrize(
    ("text", "raw", "rest"),
    [
        ("---\na: 1\n---\nbody\n", "a: 1\n", "body\n"),
        ("---  \na: 1\n...\nbody\n", "a: 1\n", "body\n"),
        ("---\n---\nbody\n", "", "body\n"),
        ("---\n# note\n\n'a b': 1\n---\n", "# note\n\n'a b': 1\n", ""),
        ("---\ndc:title: x\n---\n", "dc:title: x\n", ""),
        ("---\na: 'unclosed\n---\nb\n", "a: 'unclosed\n", "b\n"),
        ("---\n\n---\nbody\n", "\n", "body\n"),
        ("---\na: 1\n# note\nb: 2\n---\n", "a: 1\n# note\nb: 2\n", ""),
        ("---\na: 1\n\n# note\nb: 2\n\n# end\n---\n", "a: 1\n\n# note\nb: 2\n\n# end\n", ""),
        ("---\na: 1\n\n# note\nb: [\n---\n", "a: 1\n\n# note\nb: [\n", ""),
        ("---\na:\n\n- x\n\n- y\n---\n", "a:\n\n- x\n\n- y\n", ""),
        ("---\na: |\n\n  text\n\nb: [1,\n\n]\n---\n", "a: |\n\n  text\n\nb: [1,\n\n]\n", ""),
        ("+++\na = 1\n+++\nb\n", "a = 1\n", "b\n"),
        ("+++\n[a]\nb = 1\n+++\n", "[a]\nb = 1\n", ""),
    ],
)
def test_block_is_found(text: str, raw: str, rest: str) -> None:
    front = split(text)
    assert front is not None
    assert (front.raw, text[front.body :]) == (raw, rest)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "---\n",
        "---\na: 1\n",
        "\n---\na: 1\n---\n",
        " ---\na: 1\n---\n",
        "----\na: 1\n----\n",
        "--- x\na: 1\n---\n",
        "---\nFoo\n---\nBar\n",
        "---\n- a: 1\n---\n",
        "---\n# Title\n---\n",
        "---\n> a: b\n---\n",
        "+++\nprose\n+++\n",
        "---\na: 1\n+++\n",
        "---\n\nWarning: this page is old.\n\n---\n",
        "---\n \t\na: 1\n---\n",
        "---\nNote: hi\n\n# Slide one\n\n- a\n- b\n\n---\n",
        "---\nNote: hi\n\n# Slide one\n- a\n- b\n\n---\n",
        "---\nNote: hi\n\nProse of a page.\n\n---\n",
        "---\nNote: *hi*\n\n## Slide one\n\n---\n",
        "---\nNote: hi\n\n- a\n- b\n\n---\n",
        "---\n# Slide\n\nNote: hi\n\nProse of a page.\n\n---\n",
        "---\nNote: hi\n\n# Slide one\n\n" + "word " * 4_000 + "\n\n---\n",
    ],
)
def test_markdown_that_only_resembles_front_matter_is_left_alone(text: str) -> None:
    """Seen to fail when blank lines might come first, and when a page between two thematic
    breaks that is not YAML was read as broken front matter."""
    assert split(text) is None


def test_a_long_page_between_breaks_is_recognised_quickly() -> None:
    """Nothing is read twice, and no line again for each colon in it."""
    pages = ("a: b" * 250_000, "a: 1\n\n# b\n" * 60_000, "a: 1\n" + " \n" * 300_000)
    with processor_time_below(2.0):
        for page in pages:
            split(f"---\nNote: {page}\n---\n")


def test_yaml_values_are_json_safe() -> None:
    raw = """
title: "A: b"
count: 3
ratio: 1.5
none: ~
yes: no
flag: true
day: 2024-05-06
moment: 2024-05-06T07:08:09Z
clock: 12:30
never: .nan
big: 99999999999999999999999
not-a-day: 2024-13-45
1: {nested: [a, 2, null]}
block: |
  two
  lines
"""
    mapping, warnings = parse(raw, "yaml")
    assert warnings == ()
    assert mapping == {
        "title": "A: b",
        "count": 3,
        "ratio": 1.5,
        "none": None,
        "yes": "no",
        "flag": True,
        "day": "2024-05-06",
        "moment": "2024-05-06T07:08:09+00:00",
        "clock": "12:30",
        "never": "nan",
        "big": "99999999999999999999999",
        "not-a-day": "2024-13-45",
        "1": {"nested": ["a", 2, None]},
        "block": "two\nlines\n",
    }
    json.dumps(mapping, allow_nan=False)


def test_toml_values_are_json_safe() -> None:
    raw = 'title = "T"\nday = 2024-05-06\nat = 07:08:09\nmax = inf\ntags = ["a"]\n[x]\ny = 1\n'
    expected = {
        "title": "T",
        "day": "2024-05-06",
        "at": "07:08:09",
        "max": "inf",
        "tags": ["a"],
        "x": {"y": 1},
    }
    assert parse(raw, "toml") == (expected, ())


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("a: &x 1\n", "anchors"),
        ("a: *x\n", "anchors"),
        ("b: 1\n&x a: 1\n", "anchors"),
        ("b: 1\n!!str a: 1\n", "tags"),
        ("a: !!python/object:os.system x\n", "tags"),
        ("a: !!str 1\n", "tags"),
        ("<<: {a: 1}\n", "merge keys"),
        ("? [a]\n: 1\n", "key must be a word"),
        ("a: [1\n", "broken YAML on its line"),
        ("a: b: c\n", "broken YAML on its line 1"),
        ("a: \x01\n", "broken YAML"),
        ("a: 1\n--- \nb: 2\n", "more than one"),
        ("words only: [\n", "broken YAML"),
        ("a: " + "[" * 20 + "]" * 20, "20 levels"),
        ("a: " + "[" * 8000, "20 levels"),
        ("a: " + "x" * 17_000, "16 KiB"),
        ("a: " + "é" * 9_000, "16 KiB"),
        ("'just a string'\n", "not a mapping"),
    ],
)
def test_yaml_that_is_refused(raw: str, reason: str) -> None:
    """Seen to fail when anchors were read as values."""
    mapping, warnings = parse(raw, "yaml")
    assert mapping == {}
    assert len(warnings) == 1
    assert reason in warnings[0]


@pytest.mark.parametrize(
    "raw", ["a = \n", "a = 1\na = 2\n", "a = " + "[" * 8000, "a" + ".a" * 500 + " = 1", "x"]
)
def test_toml_that_is_refused(raw: str) -> None:
    mapping, warnings = parse(raw, "toml")
    assert mapping == {}
    assert len(warnings) == 1


@pytest.mark.parametrize("raw", ["{} = 1", "[{}]", "x = {{ {} = 1 }}", "x = [{{ {} = 1 }}]"])
def test_a_key_of_many_parts_is_refused_at_once(raw: str) -> None:
    """It took the square of their number to read: 0.6 s for 16 KiB."""
    with processor_time_below(0.3):
        mapping, warnings = frontmatter.parse(raw.format(".".join("a" * 5_000)), "toml")
        assert mapping == {}
        assert "20 levels deep" in warnings[0]
    assert frontmatter.parse(raw.format("a.b.c.d"), "toml")[1] == ()


def test_the_deepest_mapping_allowed_is_read() -> None:
    assert parse("a: " + "[" * 19 + "]" * 19, "yaml")[1] == ()
    assert parse("a = " + "[" * 19 + "]" * 19, "toml")[1] == ()
    assert "20 levels" in parse("a = " + "[" * 20 + "]" * 20, "toml")[1][0]


def test_of_equal_keys_the_last_counts_with_a_warning() -> None:
    mapping, warnings = parse("a: 1\na: 2\n", "yaml")
    assert mapping == {"a": 2}
    assert "'a' appears twice" in warnings[0]


def test_the_python_loader_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    raw = 'a: 1\nb: [x, "y", 2024-01-02]\nc:\n  d: no\ne: "\\ud800"\n'
    monkeypatch.setattr(frontmatter, "_Loader", yaml.SafeLoader)
    assert parse(raw, "yaml") == (
        {"a": 1, "b": ["x", "y", "2024-01-02"], "c": {"d": "no"}, "e": "?"},
        (),
    )


@pytest.mark.parametrize(
    ("syntax", "raw"),
    [("yaml", '"k\\0": ["a\\0b", c]\n'), ("toml", '"k\\u0000" = ["a\\u0000b", "c"]\n')],
)
def test_values_have_no_nul_characters(syntax: frontmatter.Syntax, raw: str) -> None:
    """Seen to fail with escapes taken as they are: a server has no text with a zero."""
    assert parse(raw, syntax) == ({"k\ufffd": ["a\ufffdb", "c"]}, ())


yaml_like = st.text(alphabet="ab:-#[]{}'\"\\ \n\t|>&*!?,.019=é\x00", max_size=60)


@examples
@given(yaml_like | st.text(max_size=60), st.sampled_from(["yaml", "toml"]))
def test_no_block_raises_or_escapes_json(raw: str, syntax: Any) -> None:
    mapping, _ = parse(raw, syntax)
    json.dumps(mapping, allow_nan=False, ensure_ascii=False).encode()
