"""The nearest known word, on vocabularies small enough to count letters by hand."""

from __future__ import annotations

import pytest

from lookfar.retrieve.question.typos import edit_distance, find_nearest


@pytest.mark.parametrize(
    ("left", "right", "apart"),
    [
        ("node", "node", 0),
        ("node", "mode", 1),
        ("node", "nodes", 1),
        ("noed", "node", 1),
        ("onde", "node", 1),
        ("kuberentes", "kubernetes", 1),
        ("kubrenets", "kubernetes", 2),
        ("abcd", "badc", 2),
        ("", "ab", 2),
    ],
)
def test_letters_that_differ(left: str, right: str, apart: int) -> None:
    assert edit_distance(left, right, 2) == apart
    assert edit_distance(right, left, 2) == apart


def test_what_is_too_far_is_not_counted_out() -> None:
    assert edit_distance("node", "cluster", 2) > 2
    assert edit_distance("abcdef", "uvwxyz", 1) > 1


def known(*words: tuple[str, int]):  # type: ignore[no-untyped-def]
    return lambda prefix: [word for word in words if word[0].startswith(prefix)]


@pytest.mark.parametrize(
    ("term", "best"),
    [
        ("clustr", "cluster"),
        ("lcuster", "cluster"),
        ("clutser", "cluster"),
        ("configuratoin", "configuration"),
        ("confgiuratoin", "configuration"),
        ("clstr", ""),  # Two letters of five.
        ("cat", ""),
        ("clust3r", ""),
        ("クラスタ", ""),
        ("unrelated", ""),
    ],
)
def test_long_words_may_have_two_wrong_letters_and_short_ones_none(term: str, best: str) -> None:
    words = known(("cluster", 9), ("configuration", 3), ("cut", 50), ("clust4r", 5))
    assert find_nearest(term, words) == best


def test_of_equally_near_words_the_commonest_wins_and_then_the_alphabet() -> None:
    assert find_nearest("noke", known(("node", 3), ("note", 8))) == "note"
    assert find_nearest("noke", known(("note", 3), ("node", 3))) == "node"
    assert find_nearest("nodex", known(("noder", 99), ("node", 1))) == "noder"
    assert (
        find_nearest("deploymetns", known(("deployments", 1), ("deployment", 99))) == "deployments"
    )
