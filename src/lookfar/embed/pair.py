"""Two models combined: one for code and one for everything else.

A vector has a part for each model; a text has zeros in the part of the other model, so texts of
different models have a similarity of 0. A question has one row for each model, so that each model
finds its own nearest passages: their similarities are not comparable.
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
        return self._pad(self._docs.embed(texts), 0)

    def embed_code(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._pad(self._code.embed(texts), self._docs.dimensions)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return two rows, one for each model."""
        rows = (
            self._pad(self._docs.embed_query(text)[None, :], 0),
            self._pad(self._code.embed_query(text)[None, :], self._docs.dimensions),
        )
        return np.concatenate(rows)

    def _pad(self, vectors: NDArray[np.float32], start: int) -> NDArray[np.float32]:
        padded = np.zeros((len(vectors), self.dimensions), dtype=np.float32)
        padded[:, start : start + vectors.shape[1]] = vectors
        return padded
