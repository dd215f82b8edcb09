"""A deterministic embedder for tests: texts are similar only if they share words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from lookfar.embed.local import SingleModel, normalise_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORDS = re.compile(r"\w+")


class HashedEmbedder(SingleModel):
    """Each word adds to one signed coordinate, chosen by its hash."""

    name = "hash"
    quick = True

    def __init__(self, dimensions: int = 64) -> None:
        self.dimensions = dimensions
        self.embedded: list[str] = []
        """Every text embedded so far, for tests to count."""

    @property
    def fingerprint(self) -> str:
        return f"hash:{self.dimensions}:1"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.embedded.extend(texts)
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in _WORDS.findall(text.lower()):
                digest = int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little")
                vectors[row, digest % self.dimensions] += 1.0 if digest >> 63 else -1.0
        return normalise_rows(vectors)

    def count_tokens(self, text: str) -> int:
        return -(-len(text) // 4)
