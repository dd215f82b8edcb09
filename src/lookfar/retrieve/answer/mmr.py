"""Maximal marginal relevance: the next hit is good, and unlike those before it.

Takes: passages, best first, and how near they are in meaning. Gives: the same passages in the
order in which they add most. Refuses: to hide what it did; what a passage loses for being like
a better one is taken from its score, so that scores fall along the answer as before.

Chosen one by one by ``balance * score - (1 - balance) * best * cosine``, where the cosine is
that to the nearest one chosen already. Divided by the balance this is a score again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lookfar.retrieve.answer.diversify import Passage

POOL = 50
"""Passages that are weighed against each other; a number that no question changes."""


def reorder_by_novelty(
    passages: Sequence[Passage], near: NDArray[np.float32], balance: float
) -> list[Passage]:
    """The passages that ``near`` is about in their new order, and then the others."""
    count = len(near)
    if not count or passages[0].score <= 0:
        return list(passages)
    weight = passages[0].score * (1 - balance) / balance
    left = np.array([each.score for each in passages[:count]])
    closest = np.zeros(count)
    to = np.zeros(count, dtype=np.intp)
    chosen: list[Passage] = []
    for _ in range(count):
        # The first of equals, so that ties stay in the order they came in.
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
    note = f"cosine {cosine:.3f} with {other}, which stands before it"
    return passage.scored("mmr", passage.score - weight * cosine, note)
