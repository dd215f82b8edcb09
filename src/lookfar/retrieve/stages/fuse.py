"""Fuse keyword, page and vector scores into one: by scaled scores, or by reciprocal ranks.

Fused scores are between 0 and 1. Scaled scores are the default: on the question sets, fused ranks
were worse than keywords alone wherever words decide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lookfar.retrieve.question.intent import asks_for_history
from lookfar.retrieve.ranking import Candidate, Candidates, Ranking, Stage

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNKS_FOR_A_PAGE = 3
_CHUNKS_FOR_A_FILE = 5
_BEHIND_CHUNKS = 1e6
"""Divisor that puts documents matching as a whole behind all matching chunks."""
_FILE_SHARE = 0.375
"""Share of the whole file in the score of each of its chunks."""


_FEWEST_TO_ALIGN = 8
"""Candidates with scores of both models that are needed to compare the scales of these."""

Weigh = Callable[[Ranking, float, float], tuple[float, float]]
"""Adjusts the weights of vectors and keywords to one question."""


class SecondTier(NamedTuple):
    """How much the second model counts where it has a vector."""

    weight: float
    """Its share of the vector score."""
    lift: float
    """The factor for the weight of the vector score."""


FIRST_ALONE = SecondTier(0.0, 1.0)


def keep_weights(_: Ranking, meaning: float, words: float) -> tuple[float, float]:
    """Return the weights unchanged."""
    return meaning, words


def weigh_by_variance(threshold: float, least: float) -> Weigh:
    """Lower the weight of a retriever whose scores hardly differ, down to the share ``least``."""

    def weigh(ranking: Ranking, meaning: float, words: float) -> tuple[float, float]:
        if not meaning or not words:
            return meaning, words
        reference = _choose_reference(ranking)

        def factor(values: Sequence[float], floor: float | None) -> float:
            scaled = _scale(np.array(values), 1.0, floor, reference=reference).tolist()
            mean = sum(scaled) / (len(scaled) or 1)
            spread = sum((value - mean) ** 2 for value in scaled) / (len(scaled) or 1)
            return max(least, spread / threshold) if spread < threshold else 1.0

        by_retriever = ranking.candidates.scores_by_retriever
        by_meaning = meaning * factor(by_retriever.vector, None)
        by_words = words * factor(by_retriever.keyword, 0.0)
        whole = (meaning + words) / (by_meaning + by_words or 1.0)
        return by_meaning * whole, by_words * whole

    return weigh


def fuse_by_rank(
    vector_weight: float,
    keyword_weight: float,
    k: int,
    weigh: Weigh = keep_weights,
    second: SecondTier = FIRST_ALONE,
) -> Stage:
    """Give the first of each retriever 1 / (k + 1), the second 1 / (k + 2), and so on.

    The sums are scaled so that a candidate that is first everywhere gets 1.
    """

    def fuse(ranking: Ranking) -> Ranking:
        plan = ranking.plan
        meaning, words = weigh(ranking, *_mode_weights(ranking, vector_weight, keyword_weight))
        total = (meaning + words or 1.0) / (k + 1)

        def score_by_rank(scores: Sequence[float], weight: float) -> list[float]:
            # A retriever without a score for a candidate does not rank it.
            listed = replace(ranking, scores=tuple(scores)).order()
            listed = [at for at in listed if scores[at] > 0]
            place = {at: rank for rank, at in enumerate(listed, 1)}
            return [
                weight / (k + place[at]) / total if at in place else 0.0
                for at in range(len(scores))
            ]

        if words:
            matched = [c.keyword or c.page / _BEHIND_CHUNKS for c in ranking.candidates]
            added = score_by_rank(matched, words)
            ranking = ranking.add_step("keyword", added, lambda c: f"bm25 {c.keyword:.3f}, by rank")
        if meaning and plan.vector is not None:
            cosines = np.array(ranking.candidates.scores_by_retriever.vector)
            blended = _blend_tiers(ranking, cosines, second.weight).tolist()
            added = score_by_rank(blended, meaning)
            ranking = ranking.add_step("vector", added, lambda c: f"{_note_vector(c)}, by rank")
        return ranking

    return fuse


def _mode_weights(ranking: Ranking, vector: float, keyword: float) -> tuple[float, float]:
    """Return the weights of vectors and keywords for the mode of this question.

    Words that do not occur have no vote: of a question in another language than the documents, the
    few that do occur would otherwise decide alone.
    """
    plan = ranking.plan
    meaning = vector * plan.vector_trust if plan.mode == "hybrid" else 1.0
    meaning = meaning if plan.vector is not None else 0.0
    words = keyword * ranking.known_share if meaning else keyword
    return meaning, words if plan.mode != "vector" else 0.0


def fuse_by_score(
    vector_weight: float,
    keyword_weight: float,
    page_share: float,
    code_vector_weight: float,
    weigh: Weigh = keep_weights,
    second: SecondTier = FIRST_ALONE,
) -> Stage:
    """Scale the scores of each retriever to its own range, then add them.

    Keywords and vectors count twice: for the chunk, and with ``page_share`` for its document, since
    a question is seldom answered in the words of one paragraph. A file of code is scored by its
    best chunks together, since BM25 would punish its length.
    """

    def fuse(ranking: Ranking) -> Ranking:
        candidates = ranking.candidates
        prose = np.array([lane != "code" for lane in candidates.lanes], dtype=np.bool_)
        meaning, words = weigh(ranking, *_mode_weights(ranking, vector_weight, keyword_weight))
        lift = _measure_lift(candidates, second)
        meaning *= lift
        total = meaning + words or 1.0
        chunk, page = (1 - page_share) / total, page_share / total
        # The same weights for code, as shares of 1.
        near_code = _weigh_code(ranking, bool(meaning), bool(words), code_vector_weight, lift)
        own = 1 - _FILE_SHARE
        scaled = partial(_scale, reference=_choose_reference(ranking))
        by_words = by_meaning = np.zeros(len(candidates))
        if words:
            by_retriever = candidates.scores_by_retriever
            keyword = scaled(np.array(by_retriever.keyword), 1.0, floor=0.0)
            whole = scaled(np.array(by_retriever.page), words * page, floor=0.0)
            by_words = (1 - near_code) * own * keyword
            by_chunk = np.where(prose, words * chunk * keyword, by_words).tolist()
            ranking = ranking.add_step("keyword", by_chunk, lambda c: f"bm25 {c.keyword:.3f}")
            ranking = ranking.add_step(
                "page keyword",
                np.where(prose, whole, 0.0).tolist(),
                lambda c: f"bm25 {c.page:.3f}",
                whole_document=True,
            )
        if meaning:
            nearness = _blend_tiers(ranking, _align_models(ranking, prose), second.weight)
            vector = scaled(nearness, 1.0)
            page_near = scaled(_score_pages(candidates, nearness.tolist()), meaning * page)
            by_meaning = near_code * own * vector
            by_vector = np.where(prose, meaning * chunk * vector, by_meaning).tolist()
            ranking = ranking.add_step("vector", by_vector, _note_vector)
            ranking = ranking.add_step(
                "page vector",
                np.where(prose, page_near, 0.0).tolist(),
                _note_page,
                whole_document=True,
            )
        if "code" in candidates.kinds:
            files = _score_files(candidates, (by_words + by_meaning).tolist())
            ranking = ranking.add_step("file", files, _note_file, whole_document=True)
        return ranking

    return fuse


def _weigh_code(
    ranking: Ranking, meaning: bool, words: bool, vector_weight: float, lift: float
) -> float:
    """Return the share of meaning in the score of code; words that do not occur have no vote."""
    if not meaning or not words:
        return float(meaning)
    share = vector_weight * ranking.plan.vector_trust
    share *= lift / (1 + (lift - 1) * share)
    return share + (1 - share) * (1 - ranking.known_share)


def _score_files(candidates: Candidates, scores: Sequence[float]) -> list[float]:
    """Return for each chunk of code the sum of the best chunks of its file."""
    scores_by_file: dict[tuple[int, int], list[float]] = defaultdict(list)
    for document, lane, score in zip(candidates.documents, candidates.lanes, scores, strict=True):
        if lane == "code":
            scores_by_file[document].append(score)
    together = {
        document: sum(sorted(values)[-_CHUNKS_FOR_A_FILE:])
        for document, values in scores_by_file.items()
    }
    best = max(together.values(), default=0.0) or 1.0
    return [
        _FILE_SHARE * together[document] / best if lane == "code" else 0.0
        for document, lane in zip(candidates.documents, candidates.lanes, strict=True)
    ]


def _note_file(_: Candidate) -> str:
    return f"the {_CHUNKS_FOR_A_FILE} best chunks of its file together"


def _note_page(_: Candidate) -> str:
    return f"mean of the {_CHUNKS_FOR_A_PAGE} nearest chunks of the document"


def _align_models(ranking: Ranking, prose: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return cosines on one scale: a model for code may have another range than that for prose."""
    values = np.array(ranking.candidates.scores_by_retriever.vector)
    vector = ranking.plan.vector
    if vector is None or getattr(vector, "ndim", 1) == 1 or prose.all() or not prose.any():
        return values
    first, second = values[prose], values[~prose]
    low, high = first.min(), first.max()
    least, width = second.min(), (second.max() - second.min()) or 1.0
    return np.where(prose, values, low + (values - least) / width * (high - low))


def _blend_tiers(
    ranking: Ranking, nearness: NDArray[np.float64], weight: float
) -> NDArray[np.float64]:
    """Return the cosines with those of the second model blended in, where there are any.

    Cosines of two models are never compared as they are: those of the second are first scaled
    to the mean and spread that the first has for the same candidates. So a candidate neither gains
    nor loses by having a vector of the second model, only by what that says.
    """
    scores = ranking.candidates.scores_by_retriever.quality
    if not weight or len(scores) - scores.count(None) < _FEWEST_TO_ALIGN:
        return nearness
    known = np.array([score is not None for score in scores], dtype=np.bool_)
    second = np.array([score for score in scores if score is not None])
    first = nearness[known]
    spread = float(second.std())
    if spread <= 0:
        return nearness
    aligned = first.mean() + (second - second.mean()) * (first.std() / spread)
    blended = nearness.copy()
    blended[known] = (1 - weight) * first + weight * aligned
    return blended


def _measure_lift(candidates: Candidates, second: SecondTier) -> float:
    """Return the factor for the weight of meaning; it grows with the share of scored candidates."""
    judged = len(candidates) - candidates.scores_by_retriever.quality.count(None)
    return 1 + (second.lift - 1) * judged / (len(candidates) or 1)


def _note_vector(candidate: Candidate) -> str:
    """Name the models that judged a chunk, each with its own cosine."""
    if candidate.quality is None:
        return f"cosine {candidate.vector:.3f}"
    return f"cosine {candidate.vector:.3f}, second model {candidate.quality:.3f}"


def _score_pages(candidates: Candidates, nearness: Sequence[float]) -> NDArray[np.float64]:
    """Return for each candidate the mean of the nearest chunks in its document."""
    near: dict[tuple[int, int], list[float]] = defaultdict(list)
    for document, value in zip(candidates.documents, nearness, strict=True):
        near[document].append(value)
    page = {
        document: values[0]
        if len(values) == 1
        else sum(sorted(values)[-_CHUNKS_FOR_A_PAGE:]) / min(len(values), _CHUNKS_FOR_A_PAGE)
        for document, values in near.items()
    }
    return np.array([page[document] for document in candidates.documents])


def _choose_reference(ranking: Ranking) -> NDArray[np.bool_] | None:
    """Return which candidates' best and worst scores define the scale; ``None`` if all do.

    Commits are excluded if there are documents, whose scores must not depend on the history.
    """
    plan, kinds = ranking.plan, ranking.candidates.kinds
    if "commits" not in kinds or kinds == {"commits"} or "commits" in plan.filters.lanes:
        return None
    if asks_for_history(plan.text):
        return None
    return np.array([lane != "commits" for lane in ranking.candidates.lanes])


def _scale(
    values: NDArray[np.float64],
    share: float,
    floor: float | None = None,
    *,
    reference: NDArray[np.bool_] | None,
) -> NDArray[np.float64]:
    """Scale ``values`` from 0 (the worst reference, or ``floor``) to ``share`` (the best)."""
    if not len(values):
        return values
    reference_values = values if reference is None else values[reference]
    low = float(reference_values.min()) if floor is None else floor
    width = float(reference_values.max()) - low
    if width <= 0:
        return np.where(values > 0, share, 0.0)
    scaled = (values - low) * share / width
    return scaled if reference is None else np.clip(scaled, 0.0, share)
