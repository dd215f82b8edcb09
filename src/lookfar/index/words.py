"""Terms, pieces and token counts of texts, from one memory of their words.

The keyword index needs the terms of every word, the model its pieces, and the chunker their
number. To look up each of these on its own would split every text three times and search three
caches, and these walks over the words are most of the cost of indexing. So a text is split once,
and one record per distinct word has everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lookfar.ports import Embedder, PieceEmbedder
from lookfar.store.keywords.analyser import expand, split_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LONGEST_CACHED = 32
"""Longer words are rarely words, and seldom occur twice."""
MOST_CACHED = 60_000
"""About 12 MB; the memory is cleared when it is full."""

Embeddable = str | bytes
"""What is embedded: a text, or its pieces where the model can use them."""


class Read(NamedTuple):
    """What indexing needs to know about a text."""

    terms: str
    """Separated by spaces."""
    pieces: bytes
    """For the model, in no particular order; empty if it does not use them."""


class Words:
    """Reads texts for indexing."""

    def __init__(self, embedder: Embedder | None = None, *, by_length: bool = False) -> None:
        """Count four characters as a token with ``by_length``, instead of asking the model."""
        self._model = _as_piece_embedder(embedder)
        self._records = _Records(self._model)
        self.count: Callable[[str], int] = _count_by_length
        """Counts the tokens of a text."""
        if embedder is not None and not by_length:
            self.count = self._count_pieces if self._model else embedder.count_tokens

    @property
    def uses_pieces(self) -> bool:
        """Whether the model embeds pieces instead of texts."""
        return self._model is not None

    def read(self, text: str) -> Read:
        records = [*map(self._records.__getitem__, split_words(text))]
        terms = "".join([record[0] for record in records])
        return Read(terms[:-1], b"".join([record[1] for record in records]))

    def terms(self, text: str) -> str:
        return self.read(text).terms

    def _count_pieces(self, text: str) -> int:
        assert self._model is not None
        if text.isascii():
            return self._model.count_tokens(text)
        return len(self.read(text).pieces) // 2


class _Records(dict[str, tuple[str, bytes]]):
    """The terms of each word, with a space after each of them, and its pieces."""

    def __init__(self, model: PieceEmbedder | None) -> None:
        super().__init__()
        self._pieces = model.pieces if model else _no_pieces

    def __missing__(self, word: str) -> tuple[str, bytes]:
        terms = expand(word)
        record = (f"{terms} " if terms else "", self._pieces(word))
        if len(word) <= LONGEST_CACHED:
            if len(self) >= MOST_CACHED:
                self.clear()
            self[word] = record
        return record


def _no_pieces(_: str) -> bytes:
    return b""


def _count_by_length(text: str) -> int:
    return -(-len(text) // 4)


def embed_all(
    embedder: Embedder, items: Sequence[Embeddable], *, is_code: bool
) -> NDArray[np.float32]:
    """Embed texts, or the pieces of texts, which only a model of pieces gets."""
    texts = [item for item in items if isinstance(item, str)]
    if texts:
        return embedder.embed_code(texts) if is_code else embedder.embed(texts)
    model = _as_piece_embedder(embedder)
    assert model is not None
    return model.embed_pieces([item for item in items if isinstance(item, bytes)])


def _as_piece_embedder(embedder: object) -> PieceEmbedder | None:
    return embedder if isinstance(embedder, PieceEmbedder) else None
