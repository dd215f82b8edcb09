"""User globs: what they mean, what is refused, and that none can be slow.

Proved by mutation: with `(?>...)` replaced by `(?:...)` the slow-pattern test does not end, and
with the last piece of a component taken at its first place `a*ab` no longer matches `aab`.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookfar.errors import InvalidPattern
from lookfar.sources.globs import BETWEEN, MAX_PATTERNS, GlobSet, as_literal, glob_matcher
from processor_time import processor_time_below

MATCHES = [
    ("*.md", "a.md"),
    ("*.md", "x/y/a.md"),
    ("*.md", ".md"),
    ("*", ".hidden"),
    ("README", "x/README"),
    ("/README", "README"),
    ("./docs/*.md", "docs/a.md"),
    ("docs/**", "docs/a"),
    ("docs/**", "docs/a/b/c.md"),
    ("docs/", "docs/a"),
    ("docs/", "x/docs/y/a.md"),
    ("/docs/", "docs/a"),
    ("a/b/", "a/b/c"),
    ("**/*.md", "a.md"),
    ("**/*.md", "x/a.md"),
    ("**/docs/**", "docs/a"),
    ("**/docs/**", "x/y/docs/z/a"),
    ("a/**/b", "a/b"),
    ("a/**/b", "a/x/y/b"),
    ("a/**/**/b", "a/b"),
    ("a/**/b/**/c", "a/b/x/b/c"),
    ("**", "a/b"),
    ("**/**", "a"),
    ("a?c", "abc"),
    ("a?c", "aéc"),
    ("[abc]x", "bx"),
    ("[!abc]x", "dx"),
    ("[^abc]x", "dx"),
    ("[a-f0-9]", "7"),
    ("[]]", "]"),
    ("[!]]", "a"),
    ("[a-]", "-"),
    ("[[:digit:]]*.md", "1-a.md"),
    ("[\\]a]", "]"),
    ("*.{md,txt}", "x/a.txt"),
    ("src/**/*.{py,ts}", "src/a/b.ts"),
    ("{a,b/c}/*.md", "b/c/x.md"),
    ("{a,{b,c}d}", "cd"),
    ("x{,y}", "x"),
    ("[{]a", "{a"),
    ("\\*.md", "*.md"),
    ("\\{a\\}", "{a}"),
    ("a\nb*", "a\nbc"),
    ("caf\u00e9.md", "cafe\u0301.md"),
    ("cafe\u0301.md", "caf\u00e9.md"),
    ("*a*b*c*", "xaybzc"),
    ("a*ab", "aab"),
    ("*ab", "abab"),
    ("***.md", "a.md"),
    ("(x)", "(x)"),
]
MISSES = [
    ("*.md", "a.mdx"),
    ("*.md", "a.md/b"),
    ("*.MD", "a.md"),
    ("/README", "x/README"),
    ("docs/*.md", "docs/x/a.md"),
    ("docs/*.md", "x/docs/a.md"),
    ("docs/**", "docs"),
    ("docs/**", "docs-secret/a"),
    ("docs/", "docs"),
    ("/docs/", "x/docs/a"),
    ("a/**/b", "a/xb"),
    ("a/**/b", "ab"),
    ("**/b", "ab"),
    ("a?c", "a/c"),
    ("a*c", "a/c"),
    ("a[/]c", "a/c"),
    ("a[!x]c", "a/c"),
    ("[z-a]", "m"),
    ("[abc]", "d"),
    ("*a", "ab"),
    ("*.{md,txt}", "a.rst"),
    ("\\*.md", "a.md"),
    ("?", "ab"),
    ("a.c", "abc"),
    ("a+", "aa"),
]


@pytest.mark.parametrize(("pattern", "path"), MATCHES)
def test_matches(pattern: str, path: str) -> None:
    assert glob_matcher(pattern)(path)


@pytest.mark.parametrize(("pattern", "path"), MISSES)
def test_misses(pattern: str, path: str) -> None:
    assert not glob_matcher(pattern)(path)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "a" * 1001,
        "a\0b",
        "[abc",
        "[[:nope:]]",
        "{a,b",
        "{a,b}" * 7,
        "{" * 300 + "a" + "}" * 300,
        "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}" + "x" * 900,
        "a\\",
        "docs\\guide.md",
        "!",
        "../secret",
        "a/../b",
        "a/./b",
        "a//b",
        "//",
    ],
)
def test_refused_with_a_hint(pattern: str) -> None:
    with pytest.raises(InvalidPattern) as caught:
        glob_matcher(pattern)
    assert caught.value.hint
    assert len(caught.value.message) < 250


def test_too_many_patterns() -> None:
    assert GlobSet(["a"] * MAX_PATTERNS).match("a") == "a"
    with pytest.raises(InvalidPattern):
        GlobSet(["a"] * (MAX_PATTERNS + 1))


def test_a_set_names_the_glob_that_matched() -> None:
    globs = GlobSet(["*.tmp", "docs/*.md", "{x,y}/**", "*~"])
    assert globs.match("a/b.tmp") == "*.tmp"
    assert globs.match("docs/b.md") == "docs/*.md"
    assert globs.match("y/b") == "{x,y}/**"
    assert globs.match("a/b~") == "*~"
    assert globs.match("a/b.md") is None


def test_literals_are_unescaped() -> None:
    assert as_literal("a.md") == "a.md"
    assert as_literal("\\#a\\ ") == "#a "
    assert as_literal("\\*") == "*"
    assert as_literal("a\\\\") == "a\\"
    assert as_literal("a\\\\*") is None
    assert as_literal("a\\") is None
    assert as_literal("a?") is None


SLOW = [
    "*a" * 499,
    "a*" * 499 + "b",
    "?*" * 499,
    "[ab]*" * 199 + "c",
    "**/" * 300 + "b",
    "**/*a*/" * 140 + "b",
    "**/a/" * 190 + "b",
    "*?" * 10 + "b",
    "{*a*a*a*a,*a*a*a*b}" * 6 + "c",
]


@pytest.mark.parametrize("pattern", SLOW)
def test_no_pattern_is_slow(pattern: str) -> None:
    with processor_time_below(0.5):
        matches = glob_matcher(pattern)
        for path in ("a" * 4095, "a/" * 2047 + "c", "ab" * 2000, "a" * 60, "aaaa/" * 800 + "x"):
            matches(path)


def _reference(pattern: str, path: str) -> bool:
    """Plain backtracking over the definition: slow, and short enough to be believed."""

    def component(p: str, s: str) -> bool:
        if not p:
            return not s
        if p[0] == "*":
            return any(component(p[1:], s[i:]) for i in range(len(s) + 1))
        if p[0] == "[":
            return bool(s) and s[0] in p[1:3] and component(p[4:], s[1:])
        return bool(s) and p[0] in ("?", s[0]) and component(p[1:], s[1:])

    def parts(ps: list[str], ss: list[str]) -> bool:
        if not ps:
            return not ss
        if ps[0] == "**":
            if len(ps) == 1:
                return bool(ss)
            return any(parts(ps[1:], ss[i:]) for i in range(len(ss) + 1))
        return bool(ss) and component(ps[0], ss[0]) and parts(ps[1:], ss[1:])

    ps, ss = pattern.split("/"), path.split("/")
    return parts(ps, ss) if len(ps) > 1 else parts(ps, ss[-1:])


_piece = st.lists(st.sampled_from(["a", "b", "*", "?", "[ab]"]), min_size=1, max_size=5)
_component = _piece.map(lambda p: re.sub(r"\*+", "*", "".join(p)))
_pattern = st.lists(st.one_of(_component, st.just("**")), min_size=1, max_size=5).map("/".join)
_path = st.lists(st.text("abc", min_size=1, max_size=5), min_size=1, max_size=5).map("/".join)


@settings(max_examples=1500, deadline=None)
@given(_pattern, _path)
def test_agrees_with_the_definition(pattern: str, path: str) -> None:
    assert glob_matcher(pattern)(path) == _reference(pattern, path)


def test_several_patterns_and_those_that_exclude() -> None:
    matches = glob_matcher(BETWEEN.join(("docs/**", "*.md", "!**/old/**", "!*_test.md")))
    paths = ("docs/a.txt", "a.md", "docs/old/a.md", "a_test.md", "b.txt")
    assert [path for path in paths if matches(path)] == ["docs/a.txt", "a.md"]
    assert [path for path in paths if glob_matcher("!docs/**")(path)] == [
        "a.md", "a_test.md", "b.txt",
    ]  # fmt: skip
