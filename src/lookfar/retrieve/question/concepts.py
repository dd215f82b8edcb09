"""Find the terms of a corpus whose meaning is close to a question.

The index stores stems but the model knows words, so the most frequent form of a stem is embedded:
``configure`` for ``configur``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from lookfar.ports import Embedder, Snapshot
from lookfar.store.keywords.analyser import stem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST_TERMS = 20_000
_FEWEST_DOCUMENTS = 2
_COMMON = 0.1
"""Share of the documents above which a term is too common to be useful."""
_SHORTEST = 3
_MOST_READ = 500
"""Documents read to find the usual form of each word."""
_WORD = re.compile(r"[^\W\d_]{3,}")


class Concepts(NamedTuple):
    """Terms, and a unit vector for each."""

    terms: tuple[str, ...]
    vectors: NDArray[np.float16]

    def nearest(
        self,
        question: NDArray[np.float32],
        limit: int,
        threshold: float,
        besides: Collection[str] = (),
    ) -> tuple[str, ...]:
        """Return the terms closest to a question, best first, without those in ``besides``."""
        import numkong
        import numpy as np

        if not self.terms:
            return ()
        half = question.astype(np.float16).reshape(1, -1)
        scores = np.asarray(numkong.cdist(half, self.vectors, "dot")).reshape(-1)
        few = min(len(scores), limit + len(besides))
        best = np.argpartition(-scores, few - 1)[:few]
        ranked = sorted((-float(scores[at]), self.terms[at]) for at in best)
        near = [term for score, term in ranked if -score >= threshold and term not in besides]
        return tuple(near[:limit])


def load_concepts(snapshot: Snapshot, embedder: Embedder) -> Concepts:
    """Return the vocabulary of a generation; it is built on first use."""
    return snapshot.cached(
        f"concepts {embedder.fingerprint}", lambda: _build_concepts(snapshot, embedder)
    )


def _build_concepts(snapshot: Snapshot, embedder: Embedder) -> Concepts:
    import numpy as np

    most = max(_FEWEST_DOCUMENTS, int(snapshot.size() * _COMMON))
    terms = [
        term
        for term, count in snapshot.vocabulary(most=4 * _MOST_TERMS)
        if _FEWEST_DOCUMENTS <= count <= most and len(term) >= _SHORTEST and term.isalpha()
    ][:_MOST_TERMS]
    if not terms:
        return Concepts((), np.empty((0, embedder.dimensions), dtype=np.float16))
    spelt = _find_spellings(snapshot, terms)
    vectors = embedder.embed([spelt[term] for term in terms])
    return Concepts(tuple(terms), vectors.astype(np.float16))


def _find_spellings(snapshot: Snapshot, terms: Collection[str]) -> dict[str, str]:
    """Return for each term the word that the texts use most often."""
    uris = snapshot.uris()
    some = uris[:: -(-len(uris) // _MOST_READ)] if uris else []
    counted: dict[str, Counter[str]] = {term: Counter() for term in terms}
    for uri in some:
        for word in _WORD.findall((snapshot.text(uri) or "").lower()):
            forms = counted.get(stem(word))
            if forms is not None:
                forms[word] += 1
    return {
        term: min(forms, key=lambda word: (-forms[word], word)) if forms else term
        for term, forms in counted.items()
    }
