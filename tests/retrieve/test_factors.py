"""Factors by kind, docstring, size, name and path of code, worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lookfar.model import SymbolKind
from lookfar.ports import Definition, Place
from lookfar.retrieve.question.intent import detect_intents
from lookfar.retrieve.ranking import Candidate, Ranking
from lookfar.retrieve.stages import factors
from lookfar.store.keywords.analyser import names_in, terms_of

Defined = dict[Candidate, list[Definition]]
Made = Callable[..., tuple[Ranking, Defined]]


@pytest.fixture
def made(
    make_place: Callable[..., Place], make_ranking: Callable[..., Ranking]
) -> Callable[..., tuple[Ranking, Defined]]:
    """A ranking of chunks that define one thing each and all score one half."""

    def made(
        query: str, *defines: tuple[str, SymbolKind, bool], uri: str = "a.py", lane: str = "code"
    ) -> tuple[Ranking, Defined]:
        candidates = [
            Candidate(make_place(at, document=at, uri=uri)._replace(lane=lane), 1.0, 1.0, 0.5)
            for at, _ in enumerate(defines, 1)
        ]
        ranking = make_ranking(candidates, [0.5] * len(candidates))
        plan = replace(
            ranking.plan, text=query, terms=tuple(terms_of(query)), names=names_in(query)
        )
        defined = {
            each: [Definition(0, *one)] for each, one in zip(candidates, defines, strict=True)
        }
        return replace(ranking, plan=plan), defined

    return made


@pytest.mark.parametrize(
    ("question", "intents"),
    [
        ("which function parses dates", ("function",)),
        ("the User class", ("class",)),
        ("where are exceptions raised", ("error",)),
        ("sql for the orders", ("database",)),
        ("endpoints of the service", ("api",)),
        ("how does login work", ("auth",)),
        ("mocks of the clock", ("test",)),
        ("settings of the cache", ("config",)),
        ("database errors", ("error", "database")),
        ("how dates are parsed", ()),
    ],
)
def test_questions_tell_what_they_are_about(question: str, intents: tuple[str, ...]) -> None:
    assert detect_intents(terms_of(question)) == intents


def test_the_kind_that_is_asked_for_counts_more(made: Made) -> None:
    ranking, defined = made("date function", ("Date", "class", False), ("date", "method", False))
    judged = factors.boost_kind(1.3, 1.15)(ranking, defined)
    assert judged.scores == pytest.approx((0.5, 0.5 * 1.3))
    assert judged.explain(1)[-1].note == "the question is about: function"
    ranking, defined = made("date class", ("Date", "class", False), ("date", "method", False))
    assert factors.boost_kind(1.3, 1.15)(ranking, defined).scores == pytest.approx((0.5 * 1.3, 0.5))


def test_what_a_question_is_about_is_found_by_names(made: Made) -> None:
    """A question about logins lifts what checks passwords, though no word is shared."""
    defines = ("check_password", "function", False), ("print_page", "function", False)
    judged = factors.boost_kind(1.3, 1.15)(*made("how does login work", *defines))
    assert judged.scores == pytest.approx((0.5 * 1.15, 0.5))
    same = made("how do pages look", *defines)
    assert factors.boost_kind(1.3, 1.15)(*same) is same[0]


def test_documented_code_counts_more(made: Made) -> None:
    judged = factors.boost_documented(1.05)(
        *made("x", ("a", "function", True), ("b", "function", False))
    )
    assert judged.scores == pytest.approx((0.5 * 1.05, 0.5))


@pytest.mark.parametrize(("least", "counts"), factors.LARGE)
def test_large_code_counts_less(made: Made, least: int, counts: float) -> None:
    ranking, _ = made("x", ("a", "function", False), ("b", "function", False))
    small, large = ranking.candidates
    large = large._replace(place=large.place._replace(end=large.place.start + least))
    judged = factors.demote_large(replace(ranking, candidates=(small, large)))
    assert judged.scores == pytest.approx((0.5, 0.5 * counts))


@pytest.mark.parametrize(
    ("query", "name", "counts"),
    [
        ("parse_date", "parse_date", 1.4),
        ("parse date", "parse_date", 1.3),
        ("parse the date long", "parse_date", 1.2),
        ("parse some date strings slowly", "date", 1.05),
        ("parse date strings", "date", 1.1),
        ("render", "date", 1.0),
    ],
)
def test_the_ladder_of_names(made: Made, query: str, name: str, counts: float) -> None:
    judged = factors.boost_names_by_ladder(*made(query, (name, "function", False)))
    assert judged.scores == pytest.approx((0.5 * counts,))


def test_words_of_the_path_count(made: Made) -> None:
    ranking, _ = made("json reader", ("a", "function", False), uri="src/json/x.py")
    assert factors.boost_path_words(ranking).scores == pytest.approx((0.5 * 1.1,))


def test_prose_is_left_alone(made: Made) -> None:
    ranking, defined = made("date function", ("date", "function", True), uri="date.md", lane="docs")
    for judge in (
        factors.boost_kind(1.3, 1.15),
        factors.boost_documented(1.05),
        factors.boost_names_by_ladder,
    ):
        assert judge(ranking, defined).scores == (0.5,)
    assert factors.boost_path_words(ranking).scores == (0.5,)
