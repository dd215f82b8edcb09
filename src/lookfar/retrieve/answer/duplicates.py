"""Fold duplicates: the same text, nearly the same words, or nearly the same meaning.

Folded passages can still be cited from the one that represents them. Prose and code are never
folded into each other, and commits and memories never at all, since each records an event.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from lookfar.errors import how_many
from lookfar.model import Contribution, Likeness
from lookfar.retrieve.answer.diversify import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

READ = 20
"""Minimum number of passages whose texts are read to compare their words."""
_ALONE = frozenset(("commits", "memory"))
"""Kinds that are never folded."""
_TRIGRAM = 3
# In scripts without spaces between words, each character counts as a word.
_CJK = "\u2e80-\u2fdf\u3005-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")
_BLANKED = bytes(code if code < 128 and chr(code).isalnum() else 32 for code in range(256))
_BY: Mapping[Likeness, str] = {
    "text": "the same text",
    "words": "nearly the same words",
    "meaning": "nearly the same meaning",
}
_BY_LOOSENESS = tuple(_BY).index


def fold_equal(passages: Sequence[Passage]) -> list[Passage]:
    first: dict[object, int] = {}
    into: dict[int, int] = {}
    for at, passage in enumerate(passages):
        same = first.setdefault(
            (passage.place.lane, passage.end - passage.start, passage.texts), at
        )
        if same != at and passage.place.lane not in _ALONE:
            into[at] = same
    return _fold(passages, into, "text")


def fold_same_words(
    passages: Sequence[Passage], text_of: Callable[[Passage], str], share: float, wanted: int
) -> list[Passage]:
    """Fold passages into a better one that contains at least this share of their trigrams."""
    into: dict[int, int] = {}
    representatives: dict[int, _Words] = {}
    for at, passage in enumerate(passages):
        if at >= max(READ, wanted + len(into)):
            break
        if passage.place.lane in _ALONE:
            continue
        words = _Words(text_of(passage))
        shared = {
            better: words.count_shared(other, share)
            for better, other in representatives.items()
            if passages[better].place.lane == passage.place.lane
        }
        best = max(shared, key=lambda better: (shared[better], -better), default=-1)
        most = shared.get(best, 0)
        if most and most >= share * len(words.trigrams):
            into[at] = best
        else:
            representatives[at] = words
    return _fold(passages, into, "words")


def fold_near(
    passages: Sequence[Passage], near: NDArray[np.float32], least: float
) -> list[Passage]:
    """Fold passages into the nearest better one whose cosine is at least this."""
    into: dict[int, int] = {}
    alike = near >= least
    for at, passage in enumerate(passages):
        better = [
            other
            for other in alike[at, :at].nonzero()[0].tolist()
            if other not in into and passages[other].place.lane == passage.place.lane
        ]
        if better and passage.place.lane not in _ALONE:
            into[at] = max(better, key=lambda other: (near[at, other], -other))
    return _fold(passages, into, "meaning")


class _Words:
    def __init__(self, text: str) -> None:
        lowered = text.lower()
        if lowered.isascii():  # The usual case; splitting it does not need a regex.
            self._words = lowered.encode().translate(_BLANKED).decode().split()
        else:
            self._words = _WORD.findall(lowered)
        self._distinct = frozenset(self._words)

    @cached_property
    def trigrams(self) -> frozenset[tuple[str, ...]]:
        """All trigrams; for a shorter text, all of its words."""
        words = self._words
        if len(words) < _TRIGRAM:
            return frozenset((tuple(words),))
        return frozenset(zip(words, words[1:], words[2:], strict=False))

    def count_shared(self, other: _Words, share: float) -> int:
        """Return how many trigrams two texts share; 0 if that cannot be at least ``share`` of ours.

        Each of our words that the other text lacks is in at least one trigram that it lacks, so
        comparing words is enough for most pairs, and faster.
        """
        most = max(len(self._words) - (_TRIGRAM - 1), 1)
        if most - len(self._distinct - other._distinct) < share * most:
            return 0
        return len(self.trigrams & other.trigrams)


def _fold(passages: Sequence[Passage], into: Mapping[int, int], by: Likeness) -> list[Passage]:
    """Move each passage in ``into``, with its own duplicates, to the one that represents it."""
    others: dict[int, list[tuple[Passage, Likeness]]] = defaultdict(list)
    for at, better in into.items():
        # An exact copy of a merely similar passage is merely similar, too.
        carried = [
            (duplicate, max(by, known, key=_BY_LOOSENESS))
            for duplicate, known in passages[at].folded
        ]
        others[better] += [(passages[at]._replace(folded=(), steps=()), by), *carried]
    return [
        _attach(passage, others[at], by) if at in others else passage
        for at, passage in enumerate(passages)
        if at not in into
    ]


def _attach(passage: Passage, others: Sequence[tuple[Passage, Likeness]], by: Likeness) -> Passage:
    note = f"{how_many(len(others), 'duplicate')} with {_BY[by]}"
    return passage._replace(
        folded=(*passage.folded, *others),
        steps=(*passage.steps, Contribution("duplicates", 0.0, note)),
    )
