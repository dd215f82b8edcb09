"""Fuse keyword, page and vector scores into one between 0 and 1, each scaled to its own range.

Fusing ranks instead was worse than keywords alone wherever words decide. After all boosts, code and
pages are brought closer together. A long question, such as a pasted issue, is ranked once more by
its title, and both rankings are added.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lookfar.retrieve.question.intent import asks_for_history
from lookfar.retrieve.ranking import Candidate, Candidates, Chunk, Document, Ranking

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNKS_FOR_A_PAGE = 3
_CHUNKS_FOR_A_FILE = 5
_FILE_SHARE = 0.375
"""Share of the whole file in the score of each of its chunks."""


_PAGE_SHARE = 0.8
"""Share of the whole document in the score of its chunks; 0 if nothing but similarity counts."""
_CODE_VECTORS = 0.8
"""Weight of meaning for code: questions seldom use the words of code."""
_SECOND_SHARE = 0.8
"""Share of the second model in the vector score, where it has a vector."""
_SECOND_LIFT = 3.0
"""Factor for the weight of meaning if the second model judged all candidates."""
_FEWEST_TO_ALIGN = 8
"""Candidates with scores of both models that are needed to compare the scales of these."""
_LEVELLING = 0.8
"""How far code and pages are brought together; with 1, the best of both would be equal."""
_OF_DOCUMENT = 0.8
"""For a long question, the share of a score that comes from the document's best passages."""
_FARTHEST = 2.0
"""A kind whose best score is farther behind than this factor is raised no further."""

Weigh = Callable[[Ranking, float, float], tuple[float, float]]
"""Adjusts the weights of vectors and keywords to one question."""


def mode_weights(ranking: Ranking) -> tuple[float, float]:
    """Return the weights of vectors and keywords for the mode of this question.

    Words that do not occur have no vote: of a question in another language than the documents, the
    few that do occur would otherwise decide alone.
    """
    plan, settings = ranking.plan, ranking.settings
    vector, keyword = settings.vector_weight, settings.keyword_weight
    if settings.alpha >= 0:
        vector, keyword = settings.alpha, 1 - settings.alpha
    meaning = vector * plan.vector_trust if plan.mode == "hybrid" else 1.0
    meaning = meaning if plan.vector is not None else 0.0
    words = keyword * ranking.known_share if meaning else keyword
    return meaning, words if plan.mode != "vector" else 0.0


def fuse_by_score(ranking: Ranking, weigh: Weigh | None = None) -> Ranking:
    """Scale the scores of each retriever to its own range, then add them.

    Keywords and vectors count twice: for the chunk, and with a share for its document, since
    a question is seldom answered in the words of one paragraph. A file of code is scored by its
    best chunks together, since BM25 would punish its length.
    """
    plan, settings, candidates = ranking.plan, ranking.settings, ranking.candidates
    prose = np.array([lane != "code" for lane in candidates.lanes], dtype=np.bool_)
    by_retriever = candidates.scores_by_retriever
    meaning, words = mode_weights(ranking)
    if weigh is not None:
        meaning, words = weigh(ranking, meaning, words)
    # The more candidates the second model has judged, the more meaning counts.
    judged = len(candidates) - by_retriever.quality.count(None)
    lift = 1 + (_SECOND_LIFT - 1) * judged / (len(candidates) or 1)
    meaning *= lift
    total = meaning + words or 1.0
    page_share = _PAGE_SHARE if settings.boosts else 0.0
    chunk, page = (1 - page_share) / total, page_share / total
    # The same for code, as a share of 1; words that do not occur have no vote.
    near_code = float(bool(meaning))
    if meaning and words:
        near_code = settings.alpha if settings.alpha >= 0 else _CODE_VECTORS
        near_code *= plan.vector_trust
        near_code *= lift / (1 + (lift - 1) * near_code)
        near_code += (1 - near_code) * (1 - ranking.known_share)
    own = 1 - _FILE_SHARE
    scaled = partial(scale, reference=choose_reference(ranking))
    by_words = by_meaning = np.zeros(len(candidates))
    if words:
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
        cosines = np.array(by_retriever.vector)
        if plan.vector is not None and plan.vector.ndim > 1 and prose.any() and not prose.all():
            # A model for code may have another range than that for prose.
            first, second = cosines[prose], cosines[~prose]
            low, high, least = first.min(), first.max(), second.min()
            width = (second.max() - least) or 1.0
            cosines = np.where(prose, cosines, low + (cosines - least) / width * (high - low))
        if judged:
            cosines = blend_models(ranking, cosines)
        vector = scaled(cosines, 1.0)
        # A document is as near as the mean of its nearest chunks.
        near: dict[Document, list[float]] = defaultdict(list)
        for document, value in zip(candidates.documents, cosines.tolist(), strict=True):
            near[document].append(value)
        pages = {
            document: sum(best := sorted(values)[-_CHUNKS_FOR_A_PAGE:]) / len(best)
            for document, values in near.items()
        }
        page_near = np.array([pages[document] for document in candidates.documents])
        page_near = scaled(page_near, meaning * page)
        by_meaning = near_code * own * vector
        by_vector = np.where(prose, meaning * chunk * vector, by_meaning).tolist()
        ranking = ranking.add_step("vector", by_vector, note_vector)
        ranking = ranking.add_step(
            "page vector",
            np.where(prose, page_near, 0.0).tolist(),
            lambda _: f"mean of the {_CHUNKS_FOR_A_PAGE} nearest chunks of the document",
            whole_document=True,
        )
    if "code" in candidates.kinds:
        of_chunks = (by_words + by_meaning).tolist()
        files: dict[Document, list[float]] = defaultdict(list)
        for at, lane in enumerate(candidates.lanes):
            if lane == "code":
                files[candidates.documents[at]].append(of_chunks[at])
        together = {file: sum(sorted(of)[-_CHUNKS_FOR_A_FILE:]) for file, of in files.items()}
        best_file = max(together.values()) or 1.0
        ranking = ranking.add_step(
            "file",
            [
                _FILE_SHARE * together[document] / best_file if lane == "code" else 0.0
                for document, lane in zip(candidates.documents, candidates.lanes, strict=True)
            ],
            lambda _: f"the {_CHUNKS_FOR_A_FILE} best chunks of its file together",
            whole_document=True,
        )
    return ranking


def blend_models(ranking: Ranking, nearness: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cosines with those of the second model blended in, where there are any.

    Cosines of two models are never compared as they are: those of the second are first scaled
    to the mean and spread that the first has for the same candidates. So a candidate neither gains
    nor loses by having a vector of the second model, only by what that says.
    """
    scores = ranking.candidates.scores_by_retriever.quality
    if len(scores) - scores.count(None) < _FEWEST_TO_ALIGN:
        return nearness
    known = np.array([score is not None for score in scores], dtype=np.bool_)
    second = np.array([score for score in scores if score is not None])
    first = nearness[known]
    spread = float(second.std())
    if spread <= 0:
        return nearness
    aligned = first.mean() + (second - second.mean()) * (first.std() / spread)
    blended = nearness.copy()
    blended[known] = (1 - _SECOND_SHARE) * first + _SECOND_SHARE * aligned
    return blended


def note_vector(candidate: Candidate) -> str:
    """Name the models that judged a chunk, each with its own cosine."""
    if candidate.quality is None:
        return f"cosine {candidate.vector:.3f}"
    return f"cosine {candidate.vector:.3f}, second model {candidate.quality:.3f}"


def choose_reference(ranking: Ranking) -> NDArray[np.bool_] | None:
    """Return which candidates' best and worst scores define the scale; ``None`` if all do.

    Commits are excluded if there are documents, whose scores must not depend on the history.
    """
    plan, kinds = ranking.plan, ranking.candidates.kinds
    if "commits" not in kinds or kinds == {"commits"} or "commits" in plan.filters.lanes:
        return None
    if asks_for_history(plan.text):
        return None
    return np.array([lane != "commits" for lane in ranking.candidates.lanes])


def scale(
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


def level_kinds(ranking: Ranking) -> Ranking:
    """Raise the scores of code or of pages, whichever are lower, towards those of the other.

    Their scores are made of different parts, so a difference between the kinds says less about
    which one answers than a difference within a kind. What is first stays first.
    """
    lanes = ranking.candidates.lanes
    best = {"code": 0.0, "pages": 0.0}
    for lane, score in zip(lanes, ranking.scores, strict=True):
        kind = "code" if lane == "code" else "pages"
        if lane != "commits" and score > best[kind]:
            best[kind] = score
    lower, higher = sorted(best, key=best.__getitem__)
    if best[lower] <= 0:
        return ranking
    factor = min(best[higher] / best[lower], _FARTHEST) ** _LEVELLING
    added = [
        (factor - 1) * score if lane != "commits" and (lane == "code") == (lower == "code") else 0.0
        for lane, score in zip(lanes, ranking.scores, strict=True)
    ]
    note = f"factor {factor:.2f}, to compare {lower} with {higher}"
    return ranking.add_step("kind", added, lambda _: note, whole_document=True)


def fuse_with_title(whole: Ranking, title: Ranking) -> Ranking:
    """Add the scores of a long question and of its title, each as a share of its best score.

    Most of a score comes from the best passages of the whole document, so that a document may match
    the text and the title in different places. The rest is the chunk's own score.
    """
    candidates: dict[Chunk, Candidate] = {}
    for ranking in (whole, title):
        for candidate in ranking.candidates:
            candidates.setdefault(candidate.chunk, candidate)
    fused = replace(
        whole,
        candidates=Candidates(candidates.values()),
        scores=(0.0,) * len(candidates),
        steps=(),
        named={**title.named, **whole.named},
        relevance=None,
    )
    for stage, ranking in (("whole text", whole), ("title", title)):
        best = max(ranking.scores, default=0.0) or 1.0
        own: dict[Chunk, float] = {}
        together: dict[Document, float] = defaultdict(float)
        for candidate, score in zip(ranking.candidates, ranking.scores, strict=True):
            own[candidate.chunk] = score / best
            together[candidate.document] = max(together[candidate.document], score / best)
        by_document = [_OF_DOCUMENT / 2 * together[c.document] for c in fused.candidates]
        by_chunk = [(1 - _OF_DOCUMENT) / 2 * own.get(key, 0.0) for key in candidates]
        fused = fused.add_step(
            f"{stage}, document", by_document, lambda _: "its best passage", whole_document=True
        )
        fused = fused.add_step(stage, by_chunk, lambda _: "the passage itself")
    return fused
