"""The best rows and entries are the same, however few of them are looked at."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from lookfar.store.keywords import searcher
from lookfar.store.keywords.fields import FIELDS
from lookfar.store.vectors import vector_file
from store.shelf import Shelf


@pytest.mark.parametrize("levels", [4, 50, 1_000_000])
@pytest.mark.parametrize("limit", [1, 7, 100, 2_500])
def test_the_best_of_groups_are_the_best_of_all(levels: int, limit: int) -> None:
    """Fails if a row outside the best of its group is lost, or if ties depend on the groups."""
    scores = np.random.default_rng(limit).integers(0, levels, 4_003) / levels
    best, values = vector_file.best_rows(scores, limit)
    order = np.lexsort((np.arange(len(scores)), -scores))[:limit]
    assert best.tolist() == order.tolist()
    assert values.tolist() == scores[order].tolist()


def test_a_query_among_documents_gives_the_scores_of_all(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if entries outside the documents are scored, or if the way changes a score."""
    shelf.write({f"{name}.md": f"# {name}\n\nred engine\n\n## Two\n\nred\n" for name in "abcdef"})
    weights = dict.fromkeys(FIELDS, 1.0)
    with shelf.store.snapshot() as snapshot:
        keywords = cast(Any, snapshot)._keywords
        every = dict(keywords.search(["red", "engin"], weights, 100))
        some = keywords.search(["red", "engin"], weights, 100, [2, 5])
        best = keywords.best_of_each(["red"], weights, [1, 3])
        monkeypatch.setattr(searcher, "_SUMMED", 0)
        monkeypatch.setattr(searcher, "_FIRST_STAGE", 0)
        assert (
            keywords.search(["red", "engin"], weights, 3)[:3]
            == sorted(every.items(), key=lambda hit: (-hit[1], hit[0]))[:3]
        )
    assert len(some) == 4
    assert all(every[key] == score for key, score in some)
    assert len(best) == 2
