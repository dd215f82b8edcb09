"""Reranking with models whose scores are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from lookfar.errors import ModelUnavailable
from lookfar.ports import Reranker
from lookfar.retrieve.answer.diversify import Passage
from lookfar.retrieve.answer.rerank import rerank_passages
from retrieve.passage_maker import passage


class Judge:
    """Has fixed scores, and records what it was asked."""

    name = "judge"

    def __init__(self, verdicts: Mapping[str, float]) -> None:
        self._verdicts = verdicts
        self.read: list[str] = []

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        self.read += texts
        return [self._verdicts[text.rpartition("\n")[2]] for text in texts]


def uri(passage: Passage) -> str:
    return passage.place.uri


PASSAGES = [passage(name, 1 - at / 10, name) for at, name in enumerate("abcd")]


def test_best_passages_are_reordered_and_stay_first() -> None:
    judge: Reranker = Judge({"a": 0.2, "b": 0.9, "c": 0.5})
    reranked, notes = rerank_passages(PASSAGES, "question", uri, lambda: judge, 3)
    assert [passage.place.uri for passage in reranked] == ["b", "c", "a", "d"]
    # Above the 0.7 of the passage that was not read.
    assert [passage.score for passage in reranked] == pytest.approx([1.6, 1.2, 0.9, 0.7])
    assert [step.stage for step in reranked[0].steps] == ["rerank"]
    assert [step.value for step in reranked[0].steps] == pytest.approx([0.7])
    assert "judge scores it 0.900" in reranked[0].steps[0].note
    assert notes == []


def test_ties_go_by_uri() -> None:
    judge = Judge(dict.fromkeys("abcd", 0.5))
    backwards = [passage(name, 1 - at / 10, name) for at, name in enumerate("dcba")]
    reranked, _ = rerank_passages(backwards, "question", uri, lambda: judge, 9)
    assert [passage.place.uri for passage in reranked] == list("abcd")


def test_model_reads_headings_and_only_the_top() -> None:
    judge = Judge({"text": 0.5})
    passages = [passage(name, 0.5, name, path=("Guide", "Use")) for name in "abc"]
    rerank_passages(passages, "question", lambda _: "text", lambda: judge, 2)
    assert judge.read == ["Guide > Use\ntext"] * 2


def missing() -> Reranker:
    raise ModelUnavailable("There is no model.", hint="Get one.")


@pytest.mark.parametrize("model", [missing, None])
def test_without_a_model_the_order_stays_with_a_note(
    model: Callable[[], Reranker] | None,
) -> None:
    reranked, notes = rerank_passages(PASSAGES, "question", uri, model, 3)
    assert reranked == PASSAGES
    assert [note.reason for note in notes] == ["no_reranker"]
    assert "order of the search" in notes[0].detail


def test_no_passages_need_no_model() -> None:
    assert rerank_passages([], "question", uri, missing, 3) == ([], [])
