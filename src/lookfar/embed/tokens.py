"""Words to token ids, as the model's tokenizer would give them, and how many a text has.

Takes: the path of a ``tokenizer.json``. Gives: a function from a lower-case word
to its ids. Refuses: files that are not a tokenizer, and ones with more tokens
than the model has vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lookfar.errors import ModelUnavailable

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Tokenize = Callable[[str, bool], list[int]]
"""``(text, starts_word) -> ids``"""

_SHAPE = bytes(ord("w") if chr(code).isalnum() and code < 128 else 32 for code in range(256))
_LONGEST_MEAN_TOKEN = 8
LONGEST_WORD = 32
_REMEMBERED_WORDS = 300_000


class Remembered(dict[str, bytes]):
    """Remembers the ids of each word, two bytes for each; forgets everything when full."""

    def made(self, word: str) -> bytes:
        """What a word that is not remembered has."""
        raise NotImplementedError

    def __missing__(self, word: str) -> bytes:
        found = self.made(word)
        if len(word) <= LONGEST_WORD:
            if len(self) >= _REMEMBERED_WORDS:
                self.clear()
            self[word] = found
        return found


def count(text: str, ids: Callable[[str], bytes]) -> int:
    """Exact beyond ASCII; of ASCII an estimate, because counting costs as much as embedding.

    Three words are about four tokens, and no token is long: a text without spaces has many.
    ``ids`` gives two bytes for each token.
    """
    if not text.isascii():
        return len(ids(text)) // 2
    shape = text.encode().translate(_SHAPE)
    words = shape.count(b" w") + shape.startswith(b"w")
    return max(-(-words * 4 // 3), shape.count(b"w") // _LONGEST_MEAN_TOKEN)


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


def from_library(path: Path, rows: int) -> Tokenize:
    """Any tokenizer that the ``tokenizers`` library can read."""
    try:
        tokenizer = read_tokenizer(path)
    except ModelUnavailable:
        raise
    except Exception as error:  # the library raises nothing more precise
        raise _not_a_tokenizer(path, str(error)) from error
    if tokenizer.get_vocab_size() > rows:
        raise _not_a_tokenizer(path, "it has more tokens than the model")

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def tokenize(text: str, starts_word: bool) -> list[int]:
        # Inside a word: anchored to a letter, whose tokens are dropped again.
        return encode(text) if starts_word else encode(f"a{text}")[len(encode("a")) :]

    return tokenize


def _not_a_tokenizer(path: Path, why: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"{path.name} is not the tokenizer of this model: {why}.",
        hint="Give a folder with model.safetensors and its tokenizer.json as embed.model.",
        details={"path": str(path)},
    )
