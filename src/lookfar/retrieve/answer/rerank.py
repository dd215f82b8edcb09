"""Reorder the best passages with a model that reads question and text together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from lookfar.errors import IOFailed, ModelUnavailable
from lookfar.model import Incomplete
from lookfar.ports import Reranker
from lookfar.retrieve.answer.diversify import Passage

_DIGITS = 6


def rerank_passages(
    passages: Sequence[Passage],
    question: str,
    text_of: Callable[[Passage], str],
    open_model: Callable[[], Reranker] | None,
    top: int,
) -> tuple[list[Passage], list[Incomplete]]:
    """Reorder the ``top`` best passages by the scores of the model."""
    first, others = passages[:top], passages[top:]
    if not first:
        return list(passages), []
    if open_model is None:
        return list(passages), [_note_no_reranker("These collections have no reranker.")]
    try:
        model = open_model()
        values = model.scores(
            question, [_make_input(passage, text_of(passage)) for passage in first]
        )
    except (ModelUnavailable, IOFailed) as missing:
        return list(passages), [_note_no_reranker(missing.message)]
    # Above all passages that were not read, so that scores still decrease along the answer.
    floor = max((passage.score for passage in others), default=0.0)
    judged = [
        passage.with_score(
            "rerank", floor + round(value, _DIGITS), f"{model.name} scores it {value:.3f}"
        )
        for passage, value in zip(first, values, strict=True)
    ]
    return [*sorted(judged, key=attrgetter("rank_key")), *others], []


def _note_no_reranker(why: str) -> Incomplete:
    return Incomplete("no_reranker", f"{why} The hits are in the order of the search.")


def _make_input(passage: Passage, text: str) -> str:
    """Return the text for the model, below its headings."""
    headings = " > ".join(passage.place.path or (passage.place.title,))
    return f"{headings}\n{text}" if headings else text
