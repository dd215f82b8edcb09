"""Folding of copies, near copies and paraphrases, on cases small enough to compute by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest

from lookfar.retrieve.answer.choose import drop_weak
from lookfar.retrieve.answer.diversify import Passage
from lookfar.retrieve.answer.duplicates import READ, fold_equal, fold_near, fold_same_words
from retrieve.passage_maker import list_duplicates, passage


def test_equal_texts_are_folded_into_the_best() -> None:
    folded = fold_equal(
        [
            passage("b.md", 0.9, "same"),
            passage("a.md", 0.8, "other"),
            passage("c.md", 0.7, "same"),
            passage("d.md", 0.6, "same"),
        ]
    )
    assert list_duplicates(folded) == [("b.md", [("c.md", "text"), ("d.md", "text")]), ("a.md", [])]
    assert [passage.score for passage in folded] == [0.9, 0.8]
    assert [(step.stage, step.value) for step in folded[0].steps] == [("duplicates", 0.0)]
    assert "2 duplicates" in folded[0].steps[0].note


def test_merged_passages_are_equal_if_all_chunks_are() -> None:
    """Fails if only the best chunk is compared."""
    one, two = b"1" * 32, b"2" * 32
    both = passage("a.md", 0.9, end=20)._replace(texts=((0, one), (10, two)), chunks=2)
    same = passage("b.md", 0.8, end=20)._replace(texts=((0, one), (10, two)), chunks=2)
    less = passage("c.md", 0.7, end=10)._replace(texts=((0, one),))
    apart = passage("d.md", 0.6, end=30)._replace(texts=((0, one), (20, two)), chunks=2)
    assert list_duplicates(fold_equal([both, same, less, apart])) == [
        ("a.md", [("b.md", "text")]),
        ("c.md", []),
        ("d.md", []),
    ]


def test_prose_and_code_are_not_folded_into_each_other() -> None:
    folded = fold_equal([passage("a.md", 0.9, "x"), passage("a.py", 0.8, "x", lane="code")])
    assert len(folded) == 2


@pytest.mark.parametrize("lane", ["commits", "memory"])
def test_commits_and_memories_are_never_folded(lane: str) -> None:
    two = [passage("a", 0.9, "x", lane=lane), passage("b", 0.8, "x", lane=lane)]
    assert fold_equal(two) == two
    assert fold_same_words(two, lambda _: "one two three", 0.5, 10) == two
    assert fold_near(two, np.ones((2, 2), np.float32), 0.5) == two


TEXTS = {
    "full.md": "One two three four five six.",
    # Trigrams: one two three, two three four, three four five, four five seven: 3 of 4 are shared.
    "most.md": "one, two, three: FOUR five seven",
    # 1 of 3.
    "less.md": "one two three eight nine",
    "part.md": "three four five",
}


@pytest.mark.parametrize(
    ("share", "remaining"),
    [
        (1.0, ["full.md", "most.md", "less.md"]),
        (0.76, ["full.md", "most.md", "less.md"]),
        (0.75, ["full.md", "less.md"]),
        (0.3, ["full.md"]),
    ],
)
def test_words_are_compared_as_trigrams(share: float, remaining: list[str]) -> None:
    passages = [passage(uri, 1 - at / 10, uri) for at, uri in enumerate(TEXTS)]
    folded = fold_same_words(passages, lambda passage: TEXTS[passage.place.uri], share, 10)
    assert [passage.place.uri for passage in folded] == remaining
    assert ("part.md", "words") in [(o.place.uri, by) for o, by in folded[0].folded]


def test_longer_text_is_not_folded_into_its_part() -> None:
    """Fails if divided by the smaller of both: what the longer text adds would be lost."""
    texts = {"a.md": "three four five", "b.md": TEXTS["full.md"]}
    passages = [passage(uri, 1 - at / 10, uri) for at, uri in enumerate(texts)]
    assert len(fold_same_words(passages, lambda passage: texts[passage.place.uri], 0.9, 10)) == 2


def test_scripts_without_spaces_are_compared_by_character() -> None:
    texts = {"a.md": "設定を変更する", "b.md": "設定を変更しない", "c.md": "猫が好き"}
    passages = [passage(uri, 1 - at / 10, uri) for at, uri in enumerate(texts)]
    # Trigrams of a: 設定を 定を変 を変更 変更す 更する; b has the first three and three others.
    folded = fold_same_words(passages, lambda passage: texts[passage.place.uri], 0.5, 10)
    assert list_duplicates(folded) == [("a.md", [("b.md", "words")]), ("c.md", [])]


def test_no_more_texts_are_read_than_are_needed() -> None:
    passages = [passage(f"{at:03}.md", 1 - at / 200, str(at)) for at in range(100)]
    read: list[str] = []

    def text(passage_read: object) -> str:
        read.append(passage_read.place.uri)  # type: ignore[attr-defined]
        return f"same words here {len(read) if len(read) > 5 else 0} and so on {len(read) // 6}"

    fold_same_words(passages, text, 0.9, 10)
    assert len(read) == READ
    read.clear()
    remaining = fold_same_words(passages, text, 0.9, 50)
    folded = len(passages) - len(remaining)
    assert folded == 4
    assert len(read) == 50 + folded


def test_similar_passage_is_folded_into_nearest_better_one() -> None:
    near = np.array(
        [
            [1.0, 0.2, 0.9, 0.86],
            [0.2, 1.0, 0.95, 0.1],
            [0.9, 0.95, 1.0, 0.99],
            [0.86, 0.1, 0.99, 1.0],
        ],
        dtype=np.float32,
    )
    passages = [passage(uri, 1 - at / 10, uri) for at, uri in enumerate("abcd")]
    folded = fold_near(passages, near, 0.85)
    # c is nearest to b; d is nearest to c, which is folded, and then to a.
    assert list_duplicates(folded) == [("a", [("d", "meaning")]), ("b", [("c", "meaning")])]
    assert list_duplicates(fold_near(passages, near, 0.995)) == [(uri, []) for uri in "abcd"]


def test_folded_passage_keeps_its_duplicates() -> None:
    passages = [passage("a", 0.9, "x"), passage("b", 0.8, "y"), passage("c", 0.7, "y")]
    near = np.array([[1, 0.9], [0.9, 1]], dtype=np.float32)
    folded = fold_near(fold_equal(passages), near, 0.85)
    assert list_duplicates(folded) == [("a", [("b", "meaning"), ("c", "meaning")])]


def test_confidence_is_relative_to_the_best_score() -> None:
    passages = [passage("a", 0.8), passage("b", 0.4), passage("c", 0.39)]
    assert [passage.place.uri for passage in drop_weak(passages, 0.5)] == ["a", "b"]
    assert drop_weak([], 0.5) == []
    assert drop_weak([passage("a", -0.1)], 0.5) == []


def test_quick_word_check_misses_no_pair() -> None:
    """Fails with a bound half as wide."""
    chance = random.Random(7)
    for _ in range(1000):
        first = [chance.choice("abcdefghijklmnop") for _ in range(chance.randint(1, 14))]
        second = [chance.choice((*[word] * 8, "x", "y", "z")) for word in first]
        share = chance.choice((0.2, 0.4, 0.5, 0.75, 0.8, 1.0))
        rows: list[set[tuple[str, ...]]] = [
            set(zip(words, words[1:], words[2:], strict=False)) or {tuple(words)}
            for words in (first, second)
        ]
        alike = len(rows[0] & rows[1]) >= share * len(rows[1])
        texts = {"a": " ".join(first), "b": " ".join(second)}
        two = [passage("a", 0.9, "a"), passage("b", 0.8, "b")]

        def look_up(passage: Passage, texts: dict[str, str] = texts) -> str:
            return texts[passage.place.uri]

        folded = fold_same_words(two, look_up, share, 9)
        assert (len(folded) == 1) == alike, (texts, share)
