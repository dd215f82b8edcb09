"""Line matching, compared with Python's ``re``, and with ripgrep if it is installed.

Python is the oracle for expressions that both read the same way. It gets short lines only, because
its time is not bounded.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import harness
from lookfar.errors import InvalidArgument
from lookfar.ports import EVERYTHING, AllOf, AnyOf, Need
from lookfar.retrieve.grep.matcher import make_matcher
from waiting import DEADLINE

# Letters with other cases in ASCII and beyond (the Kelvin sign, the long s), letters without, and
# characters of one to four bytes.
LETTERS = "abkKsS\u212a\u017féÉßẞ日λΛςσ_7٣ .-(\t😀x"
LINES = st.lists(st.text(LETTERS, max_size=12), max_size=8)
TRIALS = harness.amount(150, 5_000)

Found = list[tuple[int, list[tuple[int, int]]]]
"""Numbers of matching lines, each with its matches in characters."""


def matched(lines: list[str], pattern: str, **how: object) -> Found:
    text = "".join(f"{line}\n" for line in lines)
    usual = {"regex": False, "case": "sensitive", "whole_words": False}
    matcher = make_matcher(pattern, **{**usual, **how})  # type: ignore[arg-type]
    raw = text.encode()
    matches: Found = []
    for line in matcher.lines(raw):
        number = raw.count(b"\n", 0, line.start) + 1
        whole = raw[line.start : line.end]
        spans = [
            (len(whole[:start].decode()), len(whole[:end].decode()))
            for start, end in matcher.spans(whole)
        ]
        matches.append((number, spans))
    assert matcher.count(raw) == len(matches)
    return matches


def oracle(lines: list[str], expression: str, flags: re.RegexFlag = re.NOFLAG) -> Found:
    compiled = re.compile(expression, flags)
    matches: Found = []
    for number, line in enumerate(lines, start=1):
        spans: list[tuple[int, int]] = []
        at = 0
        # Python continues after an empty match, and lets one touch the match before it, in ways
        # that ripgrep does not.
        while at <= len(line) and (match := compiled.search(line, at)):
            start, end = match.span()
            if start == end and spans and spans[-1][1] == start:
                at += 1
                continue
            spans.append((start, end))
            at = end
        if spans:
            matches.append((number, spans))
    return matches


@settings(max_examples=TRIALS, deadline=None)
@given(lines=LINES, data=st.data(), fold=st.booleans(), words=st.booleans())
def test_literal_matches_where_python_does(
    lines: list[str], data: st.DataObject, fold: bool, words: bool
) -> None:
    """Fails if the character before a whole word is read as a single byte."""
    pattern = data.draw(_parts_of(lines))
    case = "insensitive" if fold else "sensitive"
    around = r"(?<!\w){}(?!\w)" if words else "{}"
    expected = oracle(
        lines, around.format(re.escape(pattern)), re.IGNORECASE if fold else re.NOFLAG
    )
    assert matched(lines, pattern, case=case, whole_words=words) == expected


def test_match_may_begin_where_another_ended() -> None:
    """Fails if the character before the next match is not looked at again."""
    how = {"case": "insensitive", "whole_words": True}
    assert matched(["7.."], ".", **how) == [(1, [(2, 3)])]


def test_matches_do_not_overlap() -> None:
    """Fails if the search continues one byte after the last match."""
    assert matched(["aaaaa"], "aa") == [(1, [(0, 2), (2, 4)])]


def _parts_of(lines: list[str]) -> st.SearchStrategy[str]:
    """Part of one of the lines, or any short text."""
    parts = {line[a:b] for line in lines for a in range(len(line)) for b in range(a + 1, a + 6)}
    anything = st.text(LETTERS, min_size=1, max_size=4)
    return st.one_of(st.sampled_from(sorted(parts)), anything) if parts else anything


def _has_width(expression: str) -> bool:
    """Python counts repetitions of an empty match differently."""
    return bool(re._parser.parse(expression).getwidth()[0])  # type: ignore[attr-defined]


def _expressions() -> st.SearchStrategy[str]:
    """Expressions that Python and ripgrep read the same way."""
    atoms = st.sampled_from(
        ["a", "b", "k", "S", "\u017f", "é", "ß", "日", "x", r"\.", ".", r"\w", r"\d", r"\s", r"\W",
         "[ab]", "[^ab]", "[^é]", r"[\w.]", r"[^\w.]", "[a-k]", "^", "$", " ", "_"]
    )  # fmt: skip
    return st.recursive(
        atoms,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map("".join),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
            st.tuples(
                inner.filter(_has_width),
                st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "+?", "??"]),
            ).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        ),
        max_leaves=6,
    )


@settings(max_examples=TRIALS, deadline=None)
@given(lines=LINES, expression=_expressions(), fold=st.booleans(), words=st.booleans())
@example(["aé a"], "a", False, True)
@example(["\u212a"], "k", True, False)
def test_expression_matches_where_python_does(
    lines: list[str], expression: str, fold: bool, words: bool
) -> None:
    """Fails with ASCII classes, and if a whole word may begin inside of another."""
    case = "insensitive" if fold else "sensitive"
    around = rf"(?<!\w)(?:{expression})(?!\w)" if words else expression
    expected = oracle(lines, around, re.IGNORECASE if fold else re.NOFLAG)
    assert matched(lines, expression, regex=True, case=case, whole_words=words) == expected
    harness.report("expressions against Python's", trials=1)


@settings(max_examples=TRIALS, deadline=None)
@given(lines=LINES, expression=_expressions(), fold=st.booleans())
def test_every_matching_text_contains_what_is_required(
    lines: list[str], expression: str, fold: bool
) -> None:
    """A condition that a match does not meet would hide it."""
    from lookfar.store.keywords.signatures import fold as folded

    def meets(need: Need, text: bytes) -> bool:
        if isinstance(need, bytes):
            return need in text
        parts = [meets(part, text) for part in need.parts]
        return all(parts) if isinstance(need, AllOf) else any(parts)

    need = need_of(expression, "insensitive" if fold else "sensitive")
    flags = re.IGNORECASE if fold else re.NOFLAG
    for line in lines:
        if re.search(expression, line, flags):
            assert meets(need, folded(line.encode()))


def need_of(expression: str, case: str = "sensitive") -> Need:
    return make_matcher(expression, regex=True, case=case, whole_words=False).need  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expression", "need"),
    [("hello world", b"hello world"), (r"Foo\w+Bar", AllOf((b"foo", b"bar"))),
     ("(?:abc|xyz)+", AnyOf((b"abc", b"xyz"))), ("fo[oa]bar", b"bar"), ("(?:abc)*", EVERYTHING),
     ("abcd?", b"abc"), ("abcd+efg", AllOf((b"abcd", b"efg"))), ("abcd{0,2}", b"abc"),
     ("abc|x", EVERYTHING), (r"(?i)STRASSE\b", b"strasse"),
     ("(?i)caféxyz", AllOf((b"caf", b"xyz"))),
     ("(a|b)c(def(ghi)?)", b"def"), (r"a\.b\(c", b"a.b(c")],
)  # fmt: skip
def test_required_literals(expression: str, need: object) -> None:
    """Fails if the texts of an optional repetition are required."""
    assert need_of(expression) == need


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [("(", "Close"), ("a)", "Escape"), ("a)(b", "Escape"), ("a(?=b)", "filter"), ("[a", "Close"),
     ("(?<!a)b", "filter"), (r"(a)\1", "Repeat"), ("(?P=a)", "Repeat"), ("*a", "Escape"),
     ("a{3,2}", "repetitions"), (r"a\nb", "one of the lines"), ("a\nb", "one of the lines"),
     (r"\p{", "Greek"), (r"\p{Letter}", "Lu"), ("a\\", "backslash"), ("(?q)", "Flags"),
     ("(?x) a", "Flags"), ("(?-u)a", "Flags"), ("[z-a]", "ranges"), (r"\u0041", r"\x{"),
     (r"\x{110000}", r"\x{"), (r"\<a", r"\b"), ("(?>a)", "(?:"), ("a++", "Repeat once"),
     (r"[\w--[a-z]]", "List"), (r"[\w&&[^x]]", "List"), (r"[^\W_]", r"\p{L}"), (r"[\s\S]", "."),
     (r"x(?:\bслово\b)", "whole words"), (r"\Qa.b\E", "literal"), (r"a\Z", "$"),
     (r"\b{start}a", r"\b")],
)  # fmt: skip
def test_unsupported_syntax_is_rejected_with_the_equivalent(pattern: str, hint: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make_matcher(pattern, regex=True, case="sensitive", whole_words=False)
    assert hint in (caught.value.hint or "")
    assert caught.value.details["pattern"] == pattern


@pytest.mark.parametrize("pattern", ["", "a\nb", "\ud800", "x" * 10_001])
def test_invalid_patterns_are_rejected(pattern: str) -> None:
    with pytest.raises(InvalidArgument):
        make_matcher(pattern, regex=False, case="sensitive", whole_words=False)


@pytest.mark.parametrize("pattern", ["(?:a{1000}){1000}", "a{1001}"])
def test_too_large_expressions_are_rejected(pattern: str) -> None:
    with pytest.raises(InvalidArgument):
        make_matcher(pattern, regex=True, case="sensitive", whole_words=False)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(x+x+)+y", r"(?:\b\w+\b ?)+!", "(.*)*Q"])
@pytest.mark.parametrize("letter", ["a", "é"])
def test_exponential_expressions_are_fast(pattern: str, letter: str) -> None:
    """Python would never finish; the second letter is not ASCII."""
    line = "a" * 400 + letter * 5 + "x" * 400 + "#"
    assert matched([line], pattern, regex=True) == []


@pytest.mark.parametrize(
    ("pattern", "case", "expected"),
    [("abc", "smart", [1, 2]), ("Abc", "smart", [2]), (r"a\Sc", "smart", [1, 2]),
     (r"\w{3}", "smart", [1, 2]), ("abc", "sensitive", [1]), ("ABC", "insensitive", [1, 2])],
)  # fmt: skip
def test_smart_case(pattern: str, case: str, expected: list[int]) -> None:
    matches = matched(["abc", "Abc"], pattern, regex=True, case=case)
    assert [number for number, _ in matches] == expected


def test_classes_are_those_of_ripgrep() -> None:
    lines = ["٣", "é", "\u00a0", "\u200d", "x", "-", "Ⓐ"]

    def numbers(pattern: str) -> list[int]:
        return [number for number, _ in matched(lines, pattern, regex=True)]

    assert numbers(r"\d") == [1]
    assert numbers(r"\w") == [1, 2, 4, 5, 7]
    assert numbers(r"\s") == [3]
    assert numbers(r"[^\w\s]") == [6]
    assert numbers(r"[[:alpha:]-]") == [5, 6]
    assert numbers(r"\p{L}") == [2, 5]
    assert numbers(r"(?i)[^X]") == [1, 2, 3, 4, 6, 7]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [(r"\bслово\b", [1]), (r"\bслово", [1, 2]), (r"слово\b", [1, 3]), (r"(?i)\bСЛОВО\b", [1]),
     (r"\bcaf\b", []), (r"\bcaf|x\b", [4, 5]), (r"\b\(", [5]), (r"\b(?:foo|bar)\b", [6])],
)  # fmt: skip
def test_word_boundaries_at_either_end_know_all_scripts(pattern: str, expected: list[int]) -> None:
    """Fails with RE2's own boundaries, which know ASCII only."""
    lines = ["о слово.", "словом", "предслово", "café", "call(x", "a foo"]
    found = [number for number, _ in matched(lines, pattern, regex=True)]
    assert found == expected


RG = shutil.which("rg")


@pytest.mark.skipif(RG is None, reason="ripgrep is not installed")
@settings(max_examples=harness.amount(60, 2_000), deadline=None)
@given(lines=LINES, expression=_expressions(), fold=st.booleans(), literal=st.booleans())
def test_lines_and_matches_are_those_of_ripgrep(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    expression: str,
    fold: bool,
    literal: bool,
) -> None:
    """Fails with the same mutations as the test against Python."""
    folder = _folder(tmp_path_factory)
    case = "insensitive" if fold else "sensitive"
    matches = matched(lines, expression, regex=not literal, case=case)
    expected = _ripgrep(folder, lines, expression, fold=fold, literal=literal)
    assert [number for number, _ in matches] == [number for number, _ in expected]
    # ripgrep 13 forgets what precedes a match that is not the first of its line.
    if "^" not in expression:
        whole = [
            (number, [span for span in spans if span[0] < span[1]]) for number, spans in matches
        ]
        assert whole == expected


_made: list[Path] = []


def _folder(factory: pytest.TempPathFactory) -> Path:
    if not _made:
        _made.append(factory.mktemp("ripgrep"))
    return _made[0]


def _ripgrep(folder: Path, lines: list[str], pattern: str, *, fold: bool, literal: bool) -> Found:
    assert RG is not None
    file = folder / "lines.txt"
    file.write_bytes("".join(f"{line}\n" for line in lines).encode())
    options = ["--json", "--no-config", "-i" if fold else "-s", *(["-F"] if literal else [])]
    done = subprocess.run(
        [RG, *options, "-e", pattern, "--", str(file)],
        capture_output=True,
        check=False,
        timeout=DEADLINE,
    )
    assert done.returncode in (0, 1), done.stderr
    matches: Found = []
    for event in map(json.loads, done.stdout.splitlines()):
        if event["type"] == "match":
            raw = event["data"]["lines"]["text"].encode()
            # It also reports empty matches inside of a character.
            spans = [
                (len(raw[: span["start"]].decode()), len(raw[: span["end"]].decode()))
                for span in event["data"]["submatches"]
                if span["start"] < span["end"]
            ]
            matches.append((event["data"]["line_number"], spans))
    return matches
