"""Compare passages by their stored vectors, and prefer those that differ from better ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lookfar.retrieve.answer.diversify import Passage
    from lookfar.retrieve.ranking import Source

_DIGITS = 5
"""Digits of a cosine that count: stored vectors are not more precise."""


def compute_cosines(passages: Sequence[Passage], sources: Sequence[Source]) -> NDArray[np.float32]:
    """Return the cosine of each pair of passages, by their best chunks.

    It is 0 for a passage without a vector, and between passages of different models.
    """
    import numkong

    near = np.zeros((len(passages), len(passages)), dtype=np.float32)
    models: dict[int, list[int]] = {}
    for at, passage in enumerate(passages):
        models.setdefault(_find_model(sources, passage.source), []).append(at)
    for members in models.values():
        rows = _load_vectors([passages[at] for at in members], sources)
        # In one thread, since many searches run at once; BLAS would use all cores.
        near[np.ix_(members, members)] = np.asarray(numkong.cdist(rows, rows, "dot"))
    return np.round(near, _DIGITS)


def _load_vectors(passages: Sequence[Passage], sources: Sequence[Source]) -> NDArray[np.float32]:
    """Return unit vectors in the order of ``passages``, all from one model."""
    vectors: dict[int, NDArray[np.float32]] = {}
    for number in sorted({passage.source for passage in passages}):
        at = [position for position, passage in enumerate(passages) if passage.source == number]
        places = [passages[position].place for position in at]
        vectors.update(zip(at, sources[number].snapshot.vectors(places), strict=True))
    rows = np.stack([vectors[at] for at in range(len(passages))])
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    np.divide(rows, lengths, out=rows, where=lengths > 0)
    return rows


def _find_model(sources: Sequence[Source], number: int) -> int:
    """Return a number that collections with the same model share: they share a query vector."""
    vector = sources[number].plan.vector
    if vector is None:
        return number
    return next(at for at, source in enumerate(sources) if source.plan.vector is vector)


POOL = 50
"""Number of passages that are reordered."""


def reorder_by_novelty(
    passages: Sequence[Passage], near: NDArray[np.float32], balance: float
) -> list[Passage]:
    """Reorder the passages that ``near`` has cosines for by maximal marginal relevance.

    They are chosen one by one by ``balance * score - (1 - balance) * best * cosine``, with the
    cosine to the nearest one already chosen. Divided by the balance, this replaces the score.
    """
    count = len(near)
    if not count or passages[0].score <= 0:
        return list(passages)
    weight = passages[0].score * (1 - balance) / balance
    left = np.array([passage.score for passage in passages[:count]])
    closest = np.zeros(count)
    to = np.zeros(count, dtype=np.intp)
    chosen: list[Passage] = []
    for _ in range(count):
        # The first of equals, so that ties keep their order.
        at = int(np.argmax(left - weight * closest))
        chosen.append(_penalise(passages[at], passages[to[at]], weight, float(closest[at])))
        nearer = near[at] > closest
        to[nearer] = at
        closest = np.maximum(closest, near[at])
        left[at] = -np.inf
    return [*chosen, *passages[count:]]


def _penalise(passage: Passage, nearest: Passage, weight: float, cosine: float) -> Passage:
    if not weight * cosine:
        return passage
    other = f"{nearest.place.uri}:{nearest.start_line}"
    note = f"cosine {cosine:.3f} with {other}, which ranks higher"
    return passage.with_score("mmr", passage.score - weight * cosine, note)
