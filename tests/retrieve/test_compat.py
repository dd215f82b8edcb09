"""Ranking as other systems do: factors of code, computed by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lookfar.library import compat
from lookfar.model import Lane, SymbolKind
from lookfar.ports import Definition, Place
from lookfar.retrieve.question.intent import detect_intents
from lookfar.retrieve.ranking import Candidate, Candidates, Ranking
from lookfar.store.keywords.analyser import names_in, terms_of

Defined = dict[Candidate, list[Definition]]
Made = Callable[..., tuple[Ranking, Defined]]


@pytest.fixture
def make_code_ranking(
    make_place: Callable[..., Place], make_ranking: Callable[..., Ranking]
) -> Callable[..., tuple[Ranking, Defined]]:
    """Return a ranking of chunks with one definition each, all with score 0.5."""

    def make_code_ranking(
        query: str, *defines: tuple[str, SymbolKind, bool], uri: str = "a.py", lane: Lane = "code"
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
            candidate: [Definition(0, *fields)]
            for candidate, fields in zip(candidates, defines, strict=True)
        }
        return replace(ranking, plan=plan), defined

    return make_code_ranking


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
def test_intents_of_questions(question: str, intents: tuple[str, ...]) -> None:
    assert detect_intents(terms_of(question)) == intents


def test_requested_kind_counts_more(make_code_ranking: Made) -> None:
    ranking, defined = make_code_ranking(
        "date function", ("Date", "class", False), ("date", "method", False)
    )
    judged = compat.boost_kind(ranking, defined)
    assert judged.scores == pytest.approx((0.5, 0.5 * compat.KIND))
    assert judged.explain(1)[-1].note == "the question is about: function"
    ranking, defined = make_code_ranking(
        "date class", ("Date", "class", False), ("date", "method", False)
    )
    assert compat.boost_kind(ranking, defined).scores == pytest.approx((0.5 * compat.KIND, 0.5))


def test_topic_of_code_is_found_by_names(make_code_ranking: Made) -> None:
    """A question about logins boosts code that checks passwords, though they share no word."""
    defines = ("check_password", "function", False), ("print_page", "function", False)
    judged = compat.boost_kind(*make_code_ranking("how does login work", *defines))
    assert judged.scores == pytest.approx((0.5 * compat.TOPIC, 0.5))
    same = make_code_ranking("how do pages look", *defines)
    assert compat.boost_kind(*same) is same[0]


def test_documented_code_counts_more(make_code_ranking: Made) -> None:
    judged = compat.boost_documented(
        *make_code_ranking("x", ("a", "function", True), ("b", "function", False))
    )
    assert judged.scores == pytest.approx((0.5 * compat.DOCUMENTED, 0.5))


@pytest.mark.parametrize(("least", "counts"), compat.LARGE)
def test_large_code_counts_less(make_code_ranking: Made, least: int, counts: float) -> None:
    ranking, _ = make_code_ranking("x", ("a", "function", False), ("b", "function", False))
    small, large = ranking.candidates
    large = large._replace(place=large.place._replace(end=large.place.start + least))
    judged = compat.demote_large(replace(ranking, candidates=Candidates((small, large))))
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
def test_name_ladder(make_code_ranking: Made, query: str, name: str, counts: float) -> None:
    judged = compat.boost_names_by_ladder(*make_code_ranking(query, (name, "function", False)))
    assert judged.scores == pytest.approx((0.5 * counts,))


def test_path_words_count(make_code_ranking: Made) -> None:
    ranking, _ = make_code_ranking("json reader", ("a", "function", False), uri="src/json/x.py")
    assert compat.boost_path_words(ranking).scores == pytest.approx((0.5 * 1.1,))


def test_prose_is_not_changed(make_code_ranking: Made) -> None:
    ranking, defined = make_code_ranking(
        "date function", ("date", "function", True), uri="date.md", lane="docs"
    )
    for judge in (
        compat.boost_kind,
        compat.boost_documented,
        compat.boost_names_by_ladder,
    ):
        assert judge(ranking, defined).scores == (0.5,)
    assert compat.boost_path_words(ranking).scores == (0.5,)
