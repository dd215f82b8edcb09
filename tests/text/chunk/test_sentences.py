"""Pieces of plain text: exact slices, cut at ends of sentences, never through a character."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lookfar.text.chunk.sentences import split_sentences

examples = settings(max_examples=200, deadline=None, derandomize=True)

FRAGMENTS = st.sampled_from(
    ["犬は走る。", "「本当ですか？」", "It is so. ", "Why?\n", "\n\n", "か\u3099", "e\u0301\u0323",
     "ｶﾞｷﾞ", "👩\u200d💻", "👍🏽", "🇯🇵🇫🇷", "❤\ufe0f", "long" * 9, " ", "\r\n", "3.14", "３．１４",
     "\u0301", "漢字" * 20, "한국어입니다. ", "葛\U000e0100"]
)  # fmt: skip
TEXTS = st.lists(FRAGMENTS, max_size=40).map("".join) | st.text(max_size=120)
SIZES = st.sampled_from([(700, 100), (40, 0), (40, 10), (12, 5), (5, 4), (1, 0)])


def cuts(text: str, size: int, overlap: int) -> list[str]:
    return [text[start:end] for start, end, _ in split_sentences(text, size, overlap)]


@examples
@given(TEXTS, SIZES)
@example("か\u3099" * 400, (700, 100))
def test_pieces_without_overlap_are_the_text(text: str, sizes: tuple[int, int]) -> None:
    size, overlap = sizes
    result = split_sentences(text, size, overlap)
    assert "".join(text[start + repeated : end] for start, end, repeated in result) == text
    for start, end, repeated in result:
        assert 0 <= repeated <= overlap
        assert start + repeated < end <= start + size


@examples
@given(TEXTS, st.sampled_from([(700, 100), (40, 10), (40, 0)]))
def test_no_cut_goes_through_a_character(text: str, sizes: tuple[int, int]) -> None:
    """Marks, joined emoji and half-width voices stay with what they belong to, as far as
    32 of them in a row."""
    if any(len(run) > 30 for run in _runs_of_marks(text)):
        return
    for start, end, repeated in split_sentences(text, *sizes):
        for cut in (start, start + repeated, end):
            if 0 < cut < len(text):
                after = text[cut]
                assert not unicodedata.category(after).startswith("M"), (text, cut)
                assert after not in "\u200d\uff9e\uff9f\U0001f3fd"
                assert text[cut - 1] != "\u200d"
                assert (text[cut - 1], after) != ("\r", "\n")


@pytest.mark.parametrize(
    "unit", ["ｶﾞ", "か\u3099", "e\u0301\u0323", "👩\u200d💻", "👍🏽", "❤\ufe0f"]
)
@pytest.mark.parametrize("size", [40, 41, 42, 43])
def test_a_run_of_composed_characters_is_cut_between_them(unit: str, size: int) -> None:
    """Seen to fail where half-width voicing marks counted as separate letters."""
    for start, end, repeated in split_sentences(unit * 200, size, 11):
        assert [at % len(unit) for at in (start, start + repeated, end)] == [0, 0, 0]


def _runs_of_marks(text: str) -> list[str]:
    runs, run = [], ""
    for character in text:
        joined = unicodedata.category(character)[0] == "M" or character in "\u200d\uff9e\uff9f"
        flag = "\U0001f1e6" <= character <= "\U0001f1ff"
        run = run + character if joined or flag or run.endswith("\u200d") else character
        runs.append(run)
    return runs


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("犬は走る。猫は眠る。鳥は鳴く。", ["犬は走る。猫は眠る。", "鳥は鳴く。"]),
        ("行くの？「はい。」と言った！終わり", ["行くの？「はい。」", "と言った！終わり"]),
        ("Dogs run. Cats.", ["Dogs run. ", "Cats."]),
        ("値は3.14です", ["値は3.14です"]),
        ("一行目です\n二行目です\n三行", ["一行目です\n", "二行目です\n三行"]),
        ("no stop here at all", ["no stop ", "here at all"]),
        ("漢字仮名交文章連続継続試験用", ["漢字仮名交文章連続継続", "試験用"]),
    ],
)
def test_sentences_end_a_piece(text: str, found: list[str]) -> None:
    assert cuts(text, 11, 0) == found


def test_the_usual_size_and_overlap() -> None:
    """700 characters with what is repeated, which is about 100 and begins with a sentence."""
    text = "".join(
        f"これは{number:04d}番目の文章で、検索の試験のために書かれています。"
        for number in range(100)
    )
    result = split_sentences(text, 700, 100)
    assert len(result) == 6
    for (_, before, _), (start, end, repeated) in pairwise(result):
        assert end - start <= 700
        assert 50 <= repeated <= 100
        assert start + repeated == before
        assert text[start:].startswith("これは")
        assert text[:end].endswith("。")


def test_splitting_takes_linear_time() -> None:
    assert len(split_sentences("あ" * 100_000, 700, 100)) == 167
    assert len(split_sentences("\n" * 100_000, 700, 100)) > 100
