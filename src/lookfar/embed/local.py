"""What local embedders share: one model for prose, code and queries, unit vectors, and tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lookfar.errors import ModelUnavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

Tokenize = Callable[[str, bool], list[int]]
"""``(text, starts_word) -> ids``"""
_WORD_MASK = bytes(ord("w") if chr(code).isalnum() and code < 128 else 32 for code in range(256))
_LONGEST_MEAN_TOKEN = 8
LONGEST_WORD = 32
_MAX_CACHED_WORDS = 300_000


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


class TokenCache(dict[str, bytes]):
    """Caches the token IDs of words, two bytes each; cleared when full."""

    def __init__(self, tokenize: Callable[[str], bytes]) -> None:
        super().__init__()
        self._tokenize = tokenize

    def __missing__(self, word: str) -> bytes:
        ids = self._tokenize(word)
        if len(word) <= LONGEST_WORD:
            if len(self) >= _MAX_CACHED_WORDS:
                self.clear()
            self[word] = ids
        return ids


def count(text: str, ids: Callable[[str], bytes]) -> int:
    """Count the tokens of a text: exactly if it is not ASCII, otherwise by an estimate.

    An exact count costs as much as embedding. The estimate is four tokens for three words, but
    more for text without spaces. ``ids`` returns two bytes for each token.
    """
    if not text.isascii():
        return len(ids(text)) // 2
    mask = text.encode().translate(_WORD_MASK)
    words = mask.count(b" w") + mask.startswith(b"w")
    tokens = -(-words * 4 // 3)
    if len(text) // _LONGEST_MEAN_TOKEN <= tokens:  # No need to count the letters.
        return tokens
    return max(tokens, mask.count(b"w") // _LONGEST_MEAN_TOKEN)


def read_tokenizer(path: Path) -> Tokenizer:
    """Read a ``tokenizer.json`` with the ``tokenizers`` library, which comes with the extra."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ModelUnavailable(
            "This model needs a package that is not installed: tokenizers.",
            hint='Run: pip install "lookfar[onnx]", or remove embed.provider and embed.model from'
            " the settings to use the bundled model.",
            developer=str(error),
        ) from error
    return Tokenizer.from_file(str(path))


def load_tokenizer(path: Path, rows: int) -> Tokenize:
    """Load any tokenizer that the ``tokenizers`` library can read, with at most ``rows`` tokens."""
    try:
        tokenizer = read_tokenizer(path)
    except ModelUnavailable:
        raise
    except Exception as error:  # the library has no specific exception
        raise _not_a_tokenizer(path, str(error)) from error
    if tokenizer.get_vocab_size() > rows:
        raise _not_a_tokenizer(path, "it has more tokens than the model has vectors")

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def tokenize(text: str, starts_word: bool) -> list[int]:
        # Inside a word: put a letter in front, and drop its tokens again.
        return encode(text) if starts_word else encode(f"a{text}")[len(encode("a")) :]

    return tokenize


def _not_a_tokenizer(path: Path, reason: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"{path.name} is not the tokenizer of this model: {reason}.",
        hint="Set embed.model to a folder with model.safetensors and its tokenizer.json.",
        details={"path": str(path)},
    )
