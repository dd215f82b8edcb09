"""Synonyms: the table, the user's own, and the limit."""

from __future__ import annotations

import time

import pytest

from lookfar.errors import InvalidConfig
from lookfar.retrieve.question.synonyms import build_table, find_synonyms, parse_own_synonyms
from lookfar.store.keywords.analyser import terms_of


def test_there_are_more_than_sixty_mappings() -> None:
    assert len(build_table()) > 60


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("k8s", "kubernetes"),
        ("kubernetes", "k8s"),
        ("auth", "authentication"),
        ("config", "configuration"),
        ("db", "database"),
        ("env", "environment"),
        ("repo", "repository"),
        ("i18n", "internationalization"),
        ("folder", "directory"),
        ("remove", "delete"),
    ],
)
def test_abbreviations_and_synonyms(asked: str, expected: str) -> None:
    term = terms_of(asked)[0]
    assert terms_of(expected)[0] in find_synonyms([term], {})[term]


def test_own_synonyms_come_first() -> None:
    synonyms = find_synonyms(["db"], parse_own_synonyms(("db = postgres", "fe=frontend")))
    assert synonyms["db"][:2] == tuple(terms_of("postgres database"))
    assert find_synonyms(["fe"], parse_own_synonyms(("fe=frontend",))) == {"fe": ("frontend",)}


def test_terms_take_turns_up_to_the_limit() -> None:
    own = parse_own_synonyms(("one=a1 a2 a3 a4 a5", "two=b1 b2"))
    assert find_synonyms(["one", "two"], own, 3) == {"one": ("a1", "a2"), "two": ("b1",)}
    assert find_synonyms(["one", "two"], own, 0) == {}
    total = sum(map(len, find_synonyms(["one", "two", "auth", "config", "err"], own).values()))
    assert total == 10


def test_words_of_the_question_are_not_synonyms() -> None:
    asked = terms_of("db database")
    assert find_synonyms(asked, {}).get("db", ()) == ()


@pytest.mark.parametrize("wrong", ["frontend", "=frontend", "fe=", "!!=x"])
def test_invalid_synonym_is_rejected(wrong: str) -> None:
    with pytest.raises(InvalidConfig, match="not a synonym"):
        parse_own_synonyms((wrong,))


def test_widening_a_question_takes_far_less_than_a_millisecond() -> None:
    """A deadline that only a change of the algorithm could miss: the best of many tries."""
    terms = terms_of("how to configure db auth in the test env of a k8s repo with async errors")
    find_synonyms(terms, {})  # The table is built once.
    times = []
    for _ in range(50):
        started = time.perf_counter()
        find_synonyms(terms, {})
        times.append(time.perf_counter() - started)
    assert min(times) < 0.001
