"""Two models at once: one for code and one for everything else.

Takes: two embedders. Gives: one, whose vectors have a part for each of them; a text has numbers
in the part of its own model and zeros in the other. Refuses: to compare what two models made: a
zero there is all that one says of the other's texts.

A question has a row for each model, so that each puts forward the passages nearest by its own
measure: what one calls near may be far by the other's numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lookfar.ports import Embedder


class PairEmbedder:
    """``docs`` for documents, ``code`` for code."""

    def __init__(self, docs: Embedder, code: Embedder) -> None:
        self._docs = docs
        self._code = code

    @property
    def name(self) -> str:
        return f"{self._docs.name} + {self._code.name} for code"

    @property
    def quick(self) -> bool:
        return self._docs.quick and self._code.quick

    @property
    def dimensions(self) -> int:
        return self._docs.dimensions + self._code.dimensions

    @property
    def fingerprint(self) -> str:
        both = f"pair 1; {self._docs.fingerprint}; {self._code.fingerprint}"
        return f"pair:{sha256(both.encode()).hexdigest()[:16]}"

    def count_tokens(self, text: str) -> int:
        return self._docs.count_tokens(text)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._placed(self._docs.embed(texts), 0)

    def embed_code(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._placed(self._code.embed(texts), self._docs.dimensions)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Two rows, one for each model."""
        rows = (
            self._placed(self._docs.embed_query(text)[None, :], 0),
            self._placed(self._code.embed_query(text)[None, :], self._docs.dimensions),
        )
        return np.concatenate(rows)

    def _placed(self, vectors: NDArray[np.float32], at: int) -> NDArray[np.float32]:
        placed = np.zeros((len(vectors), self.dimensions), dtype=np.float32)
        placed[:, at : at + vectors.shape[1]] = vectors
        return placed
