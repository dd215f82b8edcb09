"""A static model from a folder: the mean of token vectors. No network, no inference.

The folder has a float16 table (``*.safetensors``) and a ``tokenizer.json``. Only words are
averaged, because punctuation dominates a page of documentation; identifiers are split and
lower-cased first.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lookfar.common.folders import list_folder
from lookfar.embed import local
from lookfar.embed.local import SingleModel, normalise_rows
from lookfar.errors import ModelUnavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CJK = "\u2e80-\u2fdf\u3005-\u3007\u3041-\u3096\u30a1-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = re.compile(r"[^\W_]+")
_BLANKED = bytes(code if chr(code).isalnum() and code < 128 else 32 for code in range(256))
# Letters that do not start a part of an identifier: any script but CJK, where each is a word.
_SMALL = rf"[^\W\d_A-Z{_CJK}]"
# Longer runs are sliced, because tokenizing is quadratic in the length.
_PARTS = re.compile(rf"[A-Z]{{1,32}}(?!{_SMALL})|[A-Z]?{_SMALL}{{1,32}}|[0-9]{{1,32}}|[{_CJK}]")
_CJK_CHARACTER = re.compile(f"[{_CJK}]")
_BULK_TEXTS = 64
_MAX_HEADER = 1 << 20
_MAX_ROWS = 1 << 16


class StaticEmbedder(SingleModel):
    """Mean of token vectors, as unit vectors."""

    quick = True

    def __init__(self, folder: Path) -> None:
        self._table_path, self._tokenizer_path = _model_files(folder)
        self._half = _read_table(self._table_path)
        self._full: NDArray[np.float32] | None = None
        self._tokens = local.TokenCache(self._split_word)

    @property
    def name(self) -> str:
        return f"static/{self._table_path.stem}"

    @property
    def dimensions(self) -> int:
        return int(self._half.shape[1])

    @cached_property
    def fingerprint(self) -> str:
        digest = sha256(b"static words lowered mean 2")
        digest.update(np.ascontiguousarray(self._half).view(np.uint8).data)
        digest.update(self._tokenizer_path.read_bytes())
        return f"{self.name}:{self.dimensions}:{digest.hexdigest()[:16]}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        table = self._table(len(texts))
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            ids = np.frombuffer(self._ids(text), dtype=np.uint16)
            # Convert to float32 before the sum, so that a query and a batch round the same way.
            rows = table.take(ids, axis=0).astype(np.float32, copy=False)
            np.dot(np.ones(len(ids), np.float32), rows, out=vectors[row])
        return normalise_rows(vectors)

    def count_tokens(self, text: str) -> int:
        return local.count(text, self._ids)

    def _ids(self, text: str) -> bytes:
        """Return the token IDs of all words, two bytes each."""
        return b"".join(map(self._tokens.__getitem__, _words(text)))

    def _split_word(self, word: str) -> bytes:
        parts = _parts(word)
        if len(parts) != 1:
            return b"".join(map(self._tokens.__getitem__, parts))
        return array("H", self._tokenize(parts[0], not _CJK_CHARACTER.match(parts[0]))).tobytes()

    @cached_property
    def _tokenize(self) -> local.Tokenize:
        return local.load_tokenizer(self._tokenizer_path, self._half.shape[0])

    def _table(self, texts: int) -> NDArray[Any]:
        """Return the table: float32 in memory for bulk work, otherwise the memory-mapped file."""
        if self._full is None:
            if texts < _BULK_TEXTS:
                return self._half
            self._full = self._half.astype(np.float32)
        return self._full


def _words(text: str) -> list[str]:
    """Split into runs of letters and digits; ASCII, the usual case, needs no regex."""
    if text.isascii():
        return text.encode().translate(_BLANKED).decode().split()
    return _WORD.findall(text)


def _parts(word: str) -> list[str]:
    """Split an identifier into its parts, in lower case."""
    plain = (word.islower() or word[1:].islower()) and len(word) <= local.LONGEST_WORD
    if plain and (word.isascii() or not _CJK_CHARACTER.search(word)):
        return [word.lower()]
    return [part.lower() for part in _PARTS.findall(word)]


def _model_files(folder: Path) -> tuple[Path, Path]:
    table = next(iter(list_folder(folder, "*.safetensors")), folder / "model.safetensors")
    tokenizer = folder / "tokenizer.json"
    for path in (table, tokenizer):
        if not path.is_file():
            raise ModelUnavailable(
                f"The embedding model has no {path.name}.",
                hint="Set embed.model to a folder with model.safetensors and tokenizer.json.",
                details={"path": str(path)},
            )
    return table, tokenizer


def _read_table(path: Path) -> NDArray[np.float16]:
    """Memory-map the float16 matrix of a safetensors file."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > _MAX_HEADER:
                raise ValueError("the header is too long")
            header = json.loads(file.read(length))
        (matrix,) = (entry for entry in header.values() if len(entry.get("shape", ())) == 2)
        rows, columns = matrix["shape"]
        if matrix["dtype"] != "F16" or rows > _MAX_ROWS:
            raise ValueError("it does not contain a single float16 matrix")
        start = 8 + length + matrix["data_offsets"][0]
        return np.memmap(path, np.float16, "r", offset=start, shape=(rows, columns))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _not_a_table(path, str(error)) from error


def _not_a_table(path: Path, reason: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"{path.name} is not a static embedding model: {reason}.",
        hint="Set embed.model to a folder with a float16 token table.",
        details={"path": str(path)},
    )
