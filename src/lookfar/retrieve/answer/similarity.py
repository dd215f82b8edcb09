"""Compare passages by their stored vectors.

Passages embedded by different models cannot be compared; their cosine is 0.
"""

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
    """Return the matrix of cosines, by the best chunk of each; 0 without a vector."""
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
