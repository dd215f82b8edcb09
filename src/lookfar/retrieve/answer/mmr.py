"""Maximal marginal relevance: prefer hits that differ from those before them.

Passages are chosen one by one by ``balance * score - (1 - balance) * best * cosine``, with the
cosine to the nearest one already chosen. Divided by the balance, this is a score again. It replaces
the score of the passage, so that scores still decrease along the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lookfar.retrieve.answer.diversify import Passage

POOL = 50
"""Passages that are reordered; it does not depend on the question."""


def reorder_by_novelty(
    passages: Sequence[Passage], near: NDArray[np.float32], balance: float
) -> list[Passage]:
    """Return the passages that ``near`` covers in their new order, and then the others."""
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
