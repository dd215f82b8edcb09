"""Words to token ids, as the model's tokenizer would give them.

Takes: the path of a ``tokenizer.json``. Gives: a function from a lower-case word
to its ids. Refuses: files that are not a tokenizer, and ones with more tokens
than the model has vectors.

The bundled model's tokenizer is a byte-pair encoding whose merges follow its
ids, so its vocabulary is all one needs: that loads in a third of the time that
the library takes, which is most of what a single search costs. Tests hold the
two to the same ids. Any other model is read by the library.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from lookfar.errors import ModelUnavailable

Tokenize = Callable[[str, bool], list[int]]
"""``(text, starts_word) -> ids``"""

_WORD_START = "▁"


def bundled(path: Path, rows: int) -> Tokenize:
    """The tokenizer of the bundled model, from its vocabulary alone."""
    try:
        text = path.read_text(encoding="utf-8")
        vocabulary, _ = json.JSONDecoder().raw_decode(text, text.index("{", text.index('"vocab"')))
        if len(vocabulary) > rows or max(vocabulary.values()) >= rows:
            raise ValueError("it has more tokens than the model")
    except ValueError as error:
        raise _not_a_tokenizer(path, str(error)) from error

    def merged(left: str, right: str) -> int:
        found: int = vocabulary.get(left + right, rows)
        return found

    def spelt(symbol: str) -> list[int]:
        if symbol in vocabulary:
            return [vocabulary[symbol]]
        return [vocabulary[f"<0x{byte:02X}>"] for byte in symbol.encode("utf-8", "replace")]

    def tokenize(text: str, starts_word: bool) -> list[int]:
        symbols = [_WORD_START, *text] if starts_word else list(text)
        pairs = [merged(left, right) for left, right in pairwise(symbols)]
        while pairs and (best := min(pairs)) < rows:
            at = pairs.index(best)
            del pairs[at]
            symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
            if at > 0:
                pairs[at - 1] = merged(symbols[at - 1], symbols[at])
            if at < len(pairs):
                pairs[at] = merged(symbols[at], symbols[at + 1])
        return [id_ for symbol in symbols for id_ in spelt(symbol)]

    return tokenize


def from_library(path: Path, rows: int) -> Tokenize:
    """Any tokenizer that the ``tokenizers`` library can read."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
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
