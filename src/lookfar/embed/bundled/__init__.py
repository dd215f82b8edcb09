"""The default embedder: our own table of vectors, one for each piece of a word. No network.

Takes: nothing; the table and its vocabulary lie beside this file. Gives: unit vectors at the speed
of a table look-up. Refuses: to start where the installation lost those files.

A text is the sum of its pieces' vectors, each as often as the root of how often it occurs: what
is said three times is not three times as important. The length of a vector is what the model
learned a piece to be worth, so nothing is weighed here. The table stays int8 and mapped; what a
word's pieces are is remembered, so that a text costs one look-up for each word. How it was
trained, on what, and how good it is: MODEL_CARD.md in this folder.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lookfar.embed import tokens
from lookfar.embed.pieces import Pieces, parts, words
from lookfar.errors import ModelUnavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FOLDER = Path(__file__).parent
_TABLE, _PIECES = "table.safetensors", "pieces.txt"
_NAME = "static/lookfar-1"
_SAMPLED = 61
_MOST_TIMES = 256
_AT_ONCE = 32
_ROOTS = np.sqrt(np.arange(_MOST_TIMES, dtype=np.float32))


class BundledEmbedder:
    """Sum of the vectors of a text's pieces, as unit vectors."""

    quick = True
    name = _NAME

    def __init__(self) -> None:
        self._table, self._steps, self._costs = _read(_FOLDER / _TABLE)
        self._pieces = _Remembered(self._costs)

    @property
    def dimensions(self) -> int:
        return int(self._table.shape[1])

    @cached_property
    def fingerprint(self) -> str:
        digest = sha256(b"pieces, roots of counts 1")
        # A sample: the table changes as a whole, and every search asks for this.
        digest.update(np.ascontiguousarray(self._table[::_SAMPLED]).view(np.uint8).data)
        digest.update(self._steps.tobytes())
        digest.update(self._costs.tobytes())
        digest.update((_FOLDER / _PIECES).read_bytes())
        return f"{self.name}:{self.dimensions}:{digest.hexdigest()[:16]}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for first in range(0, len(texts), _AT_ONCE):
            self._add(texts[first : first + _AT_ONCE], vectors[first : first + _AT_ONCE])
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, norms, out=vectors, where=norms > 0)
        return vectors

    def _add(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Some texts at once, because a call of NumPy costs as much as a short text."""
        found = [self._ids(text) for text in texts]
        keys = np.frombuffer(b"".join(found), dtype=np.uint16).astype(np.uint32)
        lengths = [len(each) // 2 for each in found]
        keys += np.repeat(np.arange(len(found), dtype=np.uint32) << 16, lengths)
        keys.sort()
        ends = np.flatnonzero(np.append(keys[1:] != keys[:-1], len(keys) > 0))
        times = np.diff(ends, prepend=-1)
        keys = keys[ends]
        ids = (keys & 0xFFFF).astype(np.intp)
        weights = _ROOTS.take(times, mode="clip") * self._steps.take(ids)
        rows = self._table.take(ids, axis=0)
        edges = np.searchsorted(keys >> 16, np.arange(len(found) + 1)).tolist()
        for row, (start, end) in enumerate(pairwise(edges)):
            np.dot(weights[start:end], rows[start:end].astype(np.float32), out=vectors[row])

    def embed_code(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.embed(texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.embed([text])[0]
        return vector

    def count_tokens(self, text: str) -> int:
        return tokens.count(text, self._ids)

    def _ids(self, text: str) -> bytes:
        """The pieces of all words, two bytes each."""
        return b"".join(map(self._pieces.__getitem__, words(text)))


class _Remembered(tokens.Remembered):
    """The pieces of each word."""

    def __init__(self, costs: NDArray[np.float16]) -> None:
        super().__init__()
        self._costs = costs

    @cached_property
    def _cut(self) -> Pieces:
        return _vocabulary(_FOLDER / _PIECES, self._costs)

    def made(self, word: str) -> bytes:
        seen = parts(word)
        if seen != [word]:
            return b"".join(map(self.__getitem__, seen))
        return array("H", self._cut(word)).tobytes()


def _read(path: Path) -> tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.float16]]:
    """Map the table; what a unit of each row is worth, and what a piece costs, are small."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))

        def mapped(name: str, kind: type[np.int8] | type[np.float16]) -> NDArray[Any]:
            start = 8 + length + header[name]["data_offsets"][0]
            shape = tuple(header[name]["shape"])
            # As a plain array: the class of a map costs time at each slice.
            return np.memmap(path, kind, "r", offset=start, shape=shape).view(np.ndarray)

        table, steps = mapped("table", np.int8), mapped("steps", np.float16)
        return table, steps.astype(np.float32), mapped("costs", np.float16)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _lost(path, str(error)) from error


def _vocabulary(path: Path, costs: NDArray[np.float16]) -> Pieces:
    try:
        spelt = path.read_text(encoding="utf-8").split("\n")[:-1]
    except (OSError, ValueError) as error:
        raise _lost(path, str(error)) from error
    if len(spelt) != len(costs):
        raise _lost(path, f"it has {len(spelt):,} pieces, and the table {len(costs):,}")
    return Pieces(spelt, costs.tolist())


def _lost(path: Path, why: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"The bundled embedding model cannot be read: {path.name}: {why}.",
        hint="Install lookfar again, or use keywords alone: embed.provider = none.",
        details={"path": str(path)},
    )
