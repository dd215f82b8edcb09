"""Code and pages are compared although their scores are made of different parts.

Seen to fail with scores as they are: the page was the fifth of nine hits.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lookfar.library import Library
from lookfar.model import Filters, Lane
from lookfar.ports import Place
from lookfar.retrieve.ranking import Candidate, Ranking
from lookfar.retrieve.stages.fuse import level_kinds

pytestmark = pytest.mark.usefixtures("own_home")

HASH = {"embed.provider": "hash", "index.workers": 1}


@pytest.fixture
def make_mixed(
    make_place: Callable[..., Place], make_ranking: Callable[..., Ranking]
) -> Callable[..., Ranking]:
    """Return a ranking of one candidate for each kind and score."""

    def make_mixed(*scored: tuple[Lane, float]) -> Ranking:
        candidates = [
            Candidate(make_place(at, document=at)._replace(lane=kind), 1.0, 1.0, 0.0)
            for at, (kind, _) in enumerate(scored)
        ]
        return make_ranking(candidates, [score for _, score in scored])

    return make_mixed


@pytest.mark.parametrize(("better", "other"), [("code", "docs"), ("docs", "code")])
def test_the_lower_kind_is_raised_but_not_to_the_first_place(
    make_mixed: Callable[..., Ranking], better: Lane, other: Lane
) -> None:
    levelled = level_kinds(
        make_mixed((better, 1.0), (better, 0.9), (better, 0.8), (other, 0.6), (other, 0.3))
    )
    assert levelled.scores == pytest.approx((1.0, 0.9, 0.8, 0.6**0.2, 0.3 / 0.6 * 0.6**0.2))
    assert levelled.order() == [0, 3, 1, 2, 4]


def test_a_kind_that_matches_far_less_stays_behind(make_mixed: Callable[..., Ranking]) -> None:
    levelled = level_kinds(make_mixed(("code", 1.0), ("code", 0.5), ("docs", 0.2)))
    assert levelled.scores == pytest.approx((1.0, 0.5, 0.2 * 2**0.8))
    assert levelled.order() == [0, 1, 2]


@pytest.mark.parametrize(
    "kinds", [("docs", "docs"), ("code", "code"), ("docs", "memory"), ("code", "commits")]
)
def test_scores_within_one_kind_stay_as_they_are(
    make_mixed: Callable[..., Ranking], kinds: tuple[Lane, Lane]
) -> None:
    first, second = kinds
    ranking = make_mixed((first, 1.0), (second, 0.6))
    assert level_kinds(ranking).scores == ranking.scores


def test_commits_are_neither_raised_nor_compared(make_mixed: Callable[..., Ranking]) -> None:
    levelled = level_kinds(make_mixed(("commits", 3.0), ("code", 1.0), ("docs", 0.6)))
    assert levelled.scores == pytest.approx((3.0, 1.0, 0.6**0.2))


def test_a_page_is_shown_beside_many_files_that_score_better(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    for n in range(8):
        doc = "Repeat a call up to the retry limit." + " The client waits longer each time." * n
        code = f'def call_{n}(request):\n    """{doc}"""\n    return request\n'
        (folder / f"client{n}.py").write_text(code, encoding="utf-8")
    page = "# Calls\n\nA call that fails is repeated. Each retry counts, and there is a limit.\n"
    (folder / "calls.md").write_text(page, encoding="utf-8")
    with Library.open(folder, index_dir=tmp_path / "index", settings=HASH) as library:
        mixed = library.search("retry limit", mode="keyword").hits
        only_code = Filters(lanes=("code",))
        files = library.search("retry limit", mode="keyword", filters=only_code).hits
    uris = [hit.uri for hit in mixed]
    assert uris.index("calls.md") in (1, 2)
    assert [uri for uri in uris if uri != "calls.md"] == [hit.uri for hit in files]
