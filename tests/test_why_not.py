"""Why a document is not among the hits: each verdict, on a real index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lookfar import Filters, Library


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(1, 16):
        more = "oven " * (16 - number)
        (folder / f"bread{number:02}.md").write_text(f"# Loaf {number}\n\nBread from the {more}\n")
    (folder / "cats.md").write_text("# Cats\n\nCats purr.\n")
    (folder / "twin1.md").write_text("# Rye\n\nRye sourdough rises overnight in a cold cellar.\n")
    (folder / "twin2.md").write_text("# Rye\n\nRye sourdough rises overnight in a cold cellar.\n")
    settings = {"embed.provider": "none"}
    with Library.open(folder, index_dir=tmp_path / "index", settings=settings) as library:
        library.index()
        yield library


def test_hit_is_shown_with_its_rank(library: Library) -> None:
    hits = [hit.uri for hit in library.search("bread oven").hits]
    verdict = library.why_not("bread oven", hits[2])
    assert (verdict.verdict, verdict.rank, verdict.detail) == ("shown", 3, "It is hit 3.")
    assert sum(step.value for step in verdict.explanation) == pytest.approx(verdict.score, abs=1e-4)


def test_document_behind_the_last_hit_gets_its_rank(library: Library) -> None:
    hits = [hit.uri for hit in library.search("bread oven", top_k=20).hits]
    verdict = library.why_not("bread oven", hits[12], top_k=10)
    assert (verdict.verdict, verdict.rank) == ("outranked", 13)
    assert 0 < verdict.score < verdict.needed
    assert "ranks 13 of" in verdict.detail


def test_document_beyond_the_candidates_is_ranked(library: Library) -> None:
    """Fails if it is not added to the candidates: it would be unmatched."""
    from dataclasses import replace

    few = replace(library.settings.search, candidates=2)
    hits = [hit.uri for hit in library.search("bread oven", top_k=20).hits]
    verdict = library.why_not("bread oven", hits[14], top_k=1, tuned=few)
    assert verdict.verdict == "outranked"
    assert verdict.rank > 1


def test_document_without_a_match_is_unmatched(library: Library) -> None:
    assert library.why_not("bread oven", "cats.md").verdict == "unmatched"


@pytest.mark.parametrize(
    ("filters", "by"),
    [
        (Filters(prefix="bread"), "prefix"),
        (Filters(glob="bread*"), "glob"),
        (Filters(uris=("bread01.md",)), "uris"),
        (Filters(tags=("pets",), prefix="c"), "tags"),
        (Filters(heading="Loaf"), "heading"),
    ],
)
def test_filters_are_named(library: Library, filters: Filters, by: str) -> None:
    verdict = library.why_not("cats purr", "cats.md", filters=filters)
    assert verdict.verdict == "filtered"
    assert verdict.detail == f"The filters exclude it: {by}."


@pytest.mark.parametrize("query", ["rye -cellar", "rye NOT cellar", 'rye -"cold cellar"'])
def test_excluded_words_are_a_filter(library: Library, query: str) -> None:
    """Fails if words after a dash are resolved later: the page would be unmatched."""
    verdict = library.why_not(query, "twin1.md")
    assert verdict.verdict == "filtered"
    assert verdict.detail == "The filters exclude it: without."


def test_unknown_phrase_excludes_nothing(library: Library) -> None:
    query = '"purple elephant" cats'
    assert [hit.uri for hit in library.search(query).hits] == ["cats.md"]
    assert library.why_not(query, "cats.md").verdict == "shown"


def test_score_below_min_confidence_is_reported(library: Library) -> None:
    from dataclasses import replace

    sure = replace(library.settings.search, min_confidence=1.0)
    hits = [hit.uri for hit in library.search("bread oven", top_k=20).hits]
    verdict = library.why_not("bread oven", hits[5], tuned=sure)
    assert verdict.verdict == "outranked"
    assert "min_confidence" in verdict.detail
    assert "top_k" not in verdict.detail


def test_unindexed_document_is_reported(library: Library) -> None:
    assert library.why_not("cats", "dogs.md").verdict == "not_indexed"


def test_duplicate_of_a_hit_is_folded(library: Library) -> None:
    hits_shown = library.search("rye sourdough").hits
    assert [hit.uri for hit in hits_shown].count("twin2.md") == 0
    assert library.why_not("rye sourdough", "twin2.md").verdict == "folded"
