"""Parsers, embedding models and rerankers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from lookfar.model import Document

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Parser = Callable[[str, str], Document]
"""``(uri, normalised text) -> Document``; accepts any text."""


class Embedder(Protocol):
    """Turns texts into unit vectors of a fixed length, the same in every process."""

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    @property
    def quick(self) -> bool:
        """Whether it can embed thousands of words during a search, at no cost per call."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever the same text could get another vector."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed passages of documents; return one row for each."""
        ...

    def embed_code(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed passages of code, which may have a model of their own."""
        ...

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Embed a question: one vector, or a row for each model if code has its own."""
        ...

    def count_tokens(self, text: str) -> int: ...


class Reranker(Protocol):
    """Scores how well texts answer a question, from 0 to 1; deterministic."""

    @property
    def name(self) -> str: ...

    def scores(self, question: str, texts: Sequence[str]) -> list[float]: ...
