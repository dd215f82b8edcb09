"""How near passages are to each other in meaning, by the vectors that are stored anyway.

Takes: passages and the collections they stand in. Gives: cosines between them. Refuses: to
compare what different models made; such passages have nothing in common.
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
"""Of a cosine that count: stored vectors have no more, and the rest is noise."""


def compute_cosines(passages: Sequence[Passage], sources: Sequence[Source]) -> NDArray[np.float32]:
    """A square of similarities, by the best chunk of each; 0 where there is no vector."""
    import numkong

    near = np.zeros((len(passages), len(passages)), dtype=np.float32)
    models: dict[int, list[int]] = {}
    for at, each in enumerate(passages):
        models.setdefault(_find_model(sources, each.source), []).append(at)
    for members in models.values():
        rows = _load_vectors([passages[at] for at in members], sources)
        # In one thread, as a search is one of many; BLAS would wake all cores for this.
        near[np.ix_(members, members)] = np.asarray(numkong.cdist(rows, rows, "dot"))
    return np.round(near, _DIGITS)


def _load_vectors(passages: Sequence[Passage], sources: Sequence[Source]) -> NDArray[np.float32]:
    """Unit vectors in the order of ``passages``, which one model has made."""
    found: dict[int, NDArray[np.float32]] = {}
    for number in sorted({each.source for each in passages}):
        at = [position for position, each in enumerate(passages) if each.source == number]
        places = [passages[position].place for position in at]
        found.update(zip(at, sources[number].snapshot.vectors(places), strict=True))
    rows = np.stack([found[at] for at in range(len(passages))])
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    np.divide(rows, lengths, out=rows, where=lengths > 0)
    return rows


def _find_model(sources: Sequence[Source], number: int) -> int:
    """What is equal for collections of one model: the question was embedded once for each."""
    vector = sources[number].plan.vector
    if vector is None:
        return number
    return next(at for at, each in enumerate(sources) if each.plan.vector is vector)
