"""The default embedder: a bundled table with one vector for each word piece. No network.

The vector of a text is the sum of the vectors of its pieces, each weighted by the square root of
its count. The length of a piece's vector is its learned weight, so no other weights are applied.
The table stays int8 and memory-mapped; the pieces of each word are cached, so a text costs one
lookup for each word. MODEL_CARD.md in this folder describes training, data and quality.
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

from lookfar.embed import local
from lookfar.embed.local import SingleModel, normalise_rows
from lookfar.embed.pieces import LONGEST_PART, Pieces, parts, words
from lookfar.embed.providers import BUNDLED
from lookfar.errors import ModelUnavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FOLDER = Path(__file__).parent
_TABLE, _PIECES = "table.safetensors", "pieces.txt"
_SAMPLE_STEP = 61
_MAX_COUNT = 256
_BATCH = 32
_ROOTS = np.sqrt(np.arange(_MAX_COUNT, dtype=np.float32))


class BundledEmbedder(SingleModel):
    """Sum of the vectors of a text's pieces, as unit vectors."""

    quick = True
    name = BUNDLED

    def __init__(self) -> None:
        self._table, self._steps, self._costs = _map_table(_FOLDER / _TABLE)
        self._parts = local.TokenCache(self._split_part)
        self._words = local.TokenCache(self._split_word)

    @property
    def dimensions(self) -> int:
        return int(self._table.shape[1])

    @cached_property
    def fingerprint(self) -> str:
        digest = sha256(b"pieces, roots of counts 1")
        # A sample is enough: the table changes as a whole, and every search needs the fingerprint.
        digest.update(np.ascontiguousarray(self._table[::_SAMPLE_STEP]).view(np.uint8).data)
        digest.update(self._steps.tobytes())
        digest.update(self._costs.tobytes())
        digest.update((_FOLDER / _PIECES).read_bytes())
        return f"{self.name}:{self.dimensions}:{digest.hexdigest()[:16]}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.embed_pieces([self._read(text) for text in texts])

    def embed_pieces(self, texts: Sequence[bytes]) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), self._table.shape[1]), dtype=np.float32)
        # A batch at once, because a NumPy call costs as much as a short text.
        for first in range(0, len(texts), _BATCH):
            batch = texts[first : first + _BATCH]
            keys = np.frombuffer(b"".join(batch), dtype=np.uint16).astype(np.uint32)
            lengths = [len(pieces) // 2 for pieces in batch]
            keys += np.repeat(np.arange(len(batch), dtype=np.uint32) << 16, lengths)
            keys.sort()
            ends = np.flatnonzero(np.append(keys[1:] != keys[:-1], len(keys) > 0))
            counts = np.diff(ends, prepend=-1)
            keys = keys[ends]
            ids = (keys & 0xFFFF).astype(np.intp)
            weights = _ROOTS.take(counts, mode="clip") * self._steps.take(ids)
            rows = self._table.take(ids, axis=0)
            edges = np.searchsorted(keys >> 16, np.arange(len(batch) + 1)).tolist()
            for row, (start, end) in enumerate(pairwise(edges), first):
                np.dot(weights[start:end], rows[start:end].astype(np.float32), out=vectors[row])
        return normalise_rows(vectors)

    def count_tokens(self, text: str) -> int:
        return local.count(text, self._read)

    def pieces(self, text: str) -> bytes:
        """Return the piece IDs of all words, two bytes each, without remembering the words."""
        if text.isascii() and text.isalnum():
            return self._split_word(text)
        return b"".join(map(self._split_word, words(text)))

    def _read(self, text: str) -> bytes:
        return b"".join(map(self._words.__getitem__, words(text)))

    def _split_word(self, word: str) -> bytes:
        # Words share their parts, so there are fewer of these to remember.
        return b"".join(map(self._parts.__getitem__, parts(word)))

    def _split_part(self, part: str) -> bytes:
        # In lower case, a part may be longer than the longest, or have other parts.
        if not part.isascii() or len(part) > LONGEST_PART or not part.islower():
            again = parts(part)
            if again != [part]:
                return b"".join(map(self._parts.__getitem__, again))
        return array("H", self._pieces(part)).tobytes()

    @cached_property
    def _pieces(self) -> Pieces:
        return _read_pieces(_FOLDER / _PIECES, self._costs)


def _map_table(path: Path) -> tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.float16]]:
    """Memory-map the table; the scale of each row and the cost of each piece are small."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))

        def map_array(name: str, kind: type[np.int8] | type[np.float16]) -> NDArray[Any]:
            start = 8 + length + header[name]["data_offsets"][0]
            shape = tuple(header[name]["shape"])
            # A plain array, because slicing a memmap object is slow.
            return np.memmap(path, kind, "r", offset=start, shape=shape).view(np.ndarray)

        table, steps = map_array("table", np.int8), map_array("steps", np.float16)
        return table, steps.astype(np.float32), map_array("costs", np.float16)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _unreadable(path, str(error)) from error


def _read_pieces(path: Path, costs: NDArray[np.float16]) -> Pieces:
    try:
        pieces = path.read_text(encoding="utf-8").split("\n")[:-1]
    except (OSError, ValueError) as error:
        raise _unreadable(path, str(error)) from error
    if len(pieces) != len(costs):
        raise _unreadable(path, f"it has {len(pieces):,} pieces, but the table has {len(costs):,}")
    return Pieces(pieces, costs.tolist())


def _unreadable(path: Path, why: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"The bundled embedding model cannot be read: {path.name}: {why}.",
        hint="Reinstall lookfar, or search by keyword only: embed.provider = none.",
        details={"path": str(path)},
    )
