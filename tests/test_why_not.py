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


def test_a_hit_is_shown_with_its_place(library: Library) -> None:
    hits = [hit.uri for hit in library.search("bread oven").hits]
    found = library.why_not("bread oven", hits[2])
    assert (found.verdict, found.rank, found.detail) == ("shown", 3, "It is hit 3.")
    assert sum(each.value for each in found.explanation) == pytest.approx(found.score, abs=1e-4)


def test_a_document_behind_the_last_hit_is_told_its_rank(library: Library) -> None:
    hits = [hit.uri for hit in library.search("bread oven", top_k=20).hits]
    found = library.why_not("bread oven", hits[12], top_k=10)
    assert (found.verdict, found.rank) == ("outranked", 13)
    assert 0 < found.score < found.needed
    assert "ranks 13 of" in found.detail


def test_beyond_the_candidates_it_is_ranked_all_the_same(library: Library) -> None:
    """Caught: without being put forward it would be called unmatched."""
    from dataclasses import replace

    few = replace(library.settings.search, candidates=2)
    hits = [hit.uri for hit in library.search("bread oven", top_k=20).hits]
    found = library.why_not("bread oven", hits[14], top_k=1, tuned=few)
    assert found.verdict == "outranked"
    assert found.rank > 1


def test_no_word_and_no_meaning_is_no_match(library: Library) -> None:
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
    found = library.why_not("cats purr", "cats.md", filters=filters)
    assert found.verdict == "filtered"
    assert found.detail == f"The filters exclude it: {by}."


@pytest.mark.parametrize("query", ["rye -cellar", "rye NOT cellar", 'rye -"cold cellar"'])
def test_words_that_are_not_wanted_are_a_filter(library: Library, query: str) -> None:
    """Caught: a word after a dash was only refused later, so that the page was unmatched."""
    found = library.why_not(query, "twin1.md")
    assert found.verdict == "filtered"
    assert found.detail == "The filters exclude it: without."


def test_a_phrase_that_nobody_wrote_keeps_nothing_out(library: Library) -> None:
    query = '"purple elephant" cats'
    assert [hit.uri for hit in library.search(query).hits] == ["cats.md"]
    assert library.why_not(query, "cats.md").verdict == "shown"


def test_a_score_below_the_least_confidence_is_said_to_be_so(library: Library) -> None:
    from dataclasses import replace

    sure = replace(library.settings.search, min_confidence=1.0)
    hits = [hit.uri for hit in library.search("bread oven", top_k=20).hits]
    found = library.why_not("bread oven", hits[5], tuned=sure)
    assert found.verdict == "outranked"
    assert "min_confidence" in found.detail
    assert "top_k" not in found.detail


def test_what_is_not_indexed_is_said_to_be_so(library: Library) -> None:
    assert library.why_not("cats", "dogs.md").verdict == "not_indexed"


def test_what_says_the_same_as_a_hit_is_folded_into_it(library: Library) -> None:
    shown = library.search("rye sourdough").hits
    assert [hit.uri for hit in shown].count("twin2.md") == 0
    assert library.why_not("rye sourdough", "twin2.md").verdict == "folded"
