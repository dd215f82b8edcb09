"""Terms, pieces and token counts of texts, from one memory of their words.

The keyword index needs the terms of every word, the model its pieces, and the chunker their
number. To look up each of these on its own would split every text three times and search three
caches, and these walks over the words are most of the cost of indexing. So a text is split once,
and one record per distinct word has everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import local
from typing import TYPE_CHECKING, NamedTuple

from lookfar.ports import Embedder, PieceEmbedder
from lookfar.store.keywords.analyser import CLINGING, expand, split_compound, split_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LONGEST_CACHED = 32
"""Longer words are rarely words, and seldom occur twice."""
MOST_CACHED = 50_000
"""About 10 MB. A full memory becomes the older one, of which only the words in use are kept."""

Embeddable = str | bytes
"""What is embedded: a text, or its pieces where the model can use them."""


class Read(NamedTuple):
    """What indexing needs to know about a text."""

    terms: str
    """Separated by spaces."""
    pieces: bytes
    """For the model, in no particular order; empty if it does not use them."""


_Record = tuple[str, bytes]
"""The terms of a word, with a space after each of them, and its pieces."""


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
        """Return only the terms of a text."""
        records = map(self._records.__getitem__, split_words(text))
        return "".join([record[0] for record in records])[:-1]

    def pieces(self, text: str) -> bytes:
        """Return only the pieces of a text."""
        records = map(self._records.__getitem__, split_words(text))
        return b"".join([record[1] for record in records])

    def _count_pieces(self, text: str) -> int:
        assert self._model is not None
        if text.isascii():
            return self._model.count_tokens(text)
        return len(self.pieces(text)) // 2


class _Records(dict[str, _Record]):
    """Remembers the records of words."""

    def __init__(self, model: PieceEmbedder | None) -> None:
        super().__init__()
        self._pieces = model.pieces if model else _no_pieces
        self._older: dict[str, _Record] = {}

    def __missing__(self, word: str) -> _Record:
        record = self._older.get(word)
        if record is None:
            # A word at the end of a sentence is the same word.
            bare = word.strip(CLINGING)
            record = self._make(word) if bare == word else self[bare]
        if len(word) <= LONGEST_CACHED:
            if len(self) >= MOST_CACHED:
                self._older = dict(self)
                self.clear()
            self[word] = record
        return record

    def _make(self, word: str) -> _Record:
        components = () if word.isalpha() else split_compound(word)
        if components:
            # Most new words are compounds of words that are known already.
            records = [self[component] for component in components]
            terms = "".join([record[0] for record in records])
            return f"{word.strip('_').lower()} {terms}", b"".join([record[1] for record in records])
        terms = expand(word)
        return f"{terms} " if terms else "", self._pieces(word)


def _no_pieces(_: str) -> bytes:
    return b""


def _count_by_length(text: str) -> int:
    return -(-len(text) // 4)


class _Shared(local):
    """What the passes of a thread share; None outside of :func:`share_words`."""

    words: dict[tuple[int, bool], tuple[Embedder | None, Words]] | None = None


_shared = _Shared()


@contextmanager
def share_words() -> Iterator[None]:
    """Share one cache of words between the passes of this thread, to speed up many small ones."""
    _shared.words = {}
    try:
        yield
    finally:
        _shared.words = None


def open_words(embedder: Embedder | None, *, by_length: bool) -> Words:
    """Return the words that the passes of this thread share, or else new ones."""
    if _shared.words is None:
        return Words(embedder, by_length=by_length)
    key = id(embedder), by_length
    if key not in _shared.words:
        # The model is kept, so that no other one gets its number.
        _shared.words[key] = embedder, Words(embedder, by_length=by_length)
    return _shared.words[key][1]


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
