"""The nearest known word, on vocabularies small enough to check by hand."""

from __future__ import annotations

import pytest

from lookfar.retrieve.question.expand import edit_distance, find_nearest


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
def test_edit_distances(left: str, right: str, apart: int) -> None:
    assert edit_distance(left, right, 2) == apart
    assert edit_distance(right, left, 2) == apart


def test_distance_stops_at_the_limit() -> None:
    assert edit_distance("node", "cluster", 2) > 2
    assert edit_distance("abcdef", "uvwxyz", 1) > 1


def make_vocabulary(*words: tuple[str, int]):  # type: ignore[no-untyped-def]
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
def test_allowed_typos_depend_on_length(term: str, best: str) -> None:
    words = make_vocabulary(("cluster", 9), ("configuration", 3), ("cut", 50), ("clust4r", 5))
    assert find_nearest(term, words) == best


def test_ties_go_to_the_most_frequent_then_alphabetical() -> None:
    assert find_nearest("noke", make_vocabulary(("node", 3), ("note", 8))) == "note"
    assert find_nearest("noke", make_vocabulary(("note", 3), ("node", 3))) == "node"
    assert find_nearest("nodex", make_vocabulary(("noder", 99), ("node", 1))) == "noder"
    assert (
        find_nearest("deploymetns", make_vocabulary(("deployments", 1), ("deployment", 99)))
        == "deployments"
    )


def test_a_correction_is_a_word_that_a_document_still_has() -> None:
    known = {"kubernetes": 1, "kubernetis": 9}
    vocabulary = lambda prefix: [(w, n) for w, n in known.items() if w.startswith(prefix)]  # noqa: E731
    assert find_nearest("kubernetas", vocabulary) == "kubernetis"
    assert find_nearest("kubernetas", vocabulary, lambda word: word == "kubernetes") == "kubernetes"
    assert find_nearest("kubernetas", vocabulary, lambda _: False) == ""


def test_a_real_word_is_no_misspelling_of_another() -> None:
    assert find_nearest("collision", lambda _: [("concision", 3)]) == ""
