"""What local embedders share: one model for prose, code and queries, and unit vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class SingleModel(ABC):
    """An embedder that treats passages, code and queries alike."""

    @abstractmethod
    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]: ...

    def embed_code(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.embed(texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.embed([text])[0]
        return vector


def normalise_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale each row to length 1, in place; a row of zeros stays as it is."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    np.divide(vectors, norms, out=vectors, where=norms > 0)
    return vectors
