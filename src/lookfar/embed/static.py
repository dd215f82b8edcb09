"""The default embedder: a table of token vectors, averaged. No network, no inference.

Takes: a folder with a table (``*.safetensors``, float16) and a tokenizer
(``*.json``), or nothing for the bundled model. Gives: unit vectors at the speed
of a table look-up. Refuses: to download, and files that are not such a model.

Three findings shape it, each measured on the question sets of ``bench/quality.py``:
only words are averaged (punctuation tokens drown a page of documentation),
identifiers are split and lower-cased first (``getUserById`` is four words to a
reader), and what a word's tokens are is remembered, so that a text costs one
dictionary look-up per word and one gather per chunk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lookfar.errors import ModelUnavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

_CJK = "\u2e80-\u2fdf\u3005-\u3007\u3041-\u3096\u30a1-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = re.compile(r"[^\W_]+")
_PARTS = re.compile(rf"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[{_CJK}]|[^\W\d_A-Za-z{_CJK}]+")
_REMEMBERED_WORDS = 300_000
_BULK = 64
_ANCHOR = "a"


class StaticEmbedder:
    """Mean of token vectors, as unit vectors."""

    def __init__(self, folder: Path | None = None) -> None:
        self._table_path, self._tokenizer_path = _model_files(folder)
        self._half = _read_table(self._table_path)
        self._full: NDArray[np.float32] | None = None
        self._ids: dict[str, bytes] = {}

    @property
    def name(self) -> str:
        return f"static/{self._table_path.stem}"

    @property
    def dimensions(self) -> int:
        return int(self._half.shape[1])

    @cached_property
    def fingerprint(self) -> str:
        digest = sha256(b"static words lowered mean 1")
        digest.update(np.ascontiguousarray(self._half[::97]).tobytes())
        digest.update(str(self._tokenizer_path.stat().st_size).encode())
        return f"{self.name}:{self.dimensions}:{digest.hexdigest()[:16]}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        words = [_WORD.findall(text) for text in texts]
        self._learn(words)
        table = self._table(len(texts))
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        ones = np.ones(max((len(found) for found in words), default=1) * 4 + 64, dtype=np.float32)
        for row, found in enumerate(words):
            ids = np.frombuffer(b"".join(map(self._ids.__getitem__, found)), dtype=np.uint16)
            if len(ids) == 0:
                continue
            gathered = table.take(ids, axis=0, mode="clip")
            if len(ids) <= len(ones) and gathered.dtype == np.float32:
                np.dot(ones[: len(ids)], gathered, out=vectors[row])
            else:
                vectors[row] = gathered.sum(axis=0, dtype=np.float32)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, norms, out=vectors, where=norms > 0)
        return vectors

    def count_tokens(self, text: str) -> int:
        found = _WORD.findall(text)
        self._learn((found,))
        return sum(map(len, map(self._ids.__getitem__, found))) // 2

    def _table(self, texts: int) -> NDArray[Any]:
        """Float32 for bulk work; a single query reads its few rows from the mapped file."""
        if self._full is None:
            if texts < _BULK:
                return self._half
            self._full = self._half.astype(np.float32)
        return self._full

    def _learn(self, texts: Iterable[Sequence[str]]) -> None:
        """Tokenize the words not met before, all at once."""
        known = self._ids
        if len(known) > _REMEMBERED_WORDS:
            known.clear()
        unseen = [word for word in set().union(*texts) if word not in known]
        if not unseen:
            return
        pieces = [self._pieces(word) for word in unseen]
        flat = [piece for word in pieces for piece in word]
        encoded = iter(self._tokenizer.encode_batch_fast(flat, add_special_tokens=False))
        for word, parts in zip(unseen, pieces, strict=True):
            ids: list[int] = []
            for part in parts:
                found = next(encoded).ids
                ids += found[1:] if part.startswith(_ANCHOR) and not part.isascii() else found
            known[word] = np.array(ids, dtype=np.uint16).tobytes()

    @staticmethod
    def _pieces(word: str) -> list[str]:
        """Lower-case parts; a CJK character is anchored so that it gets no word-start mark."""
        if word.isascii() and (word.islower() or word[1:].islower()):
            return [word.lower()]
        return [
            _ANCHOR + part if not part.isascii() and re.match(f"[{_CJK}]", part) else part.lower()
            for part in _PARTS.findall(word)
        ]

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(self._tokenizer_path))


def _model_files(folder: Path | None) -> tuple[Path, Path]:
    if folder is None:
        # Only the data files of the package are used; finding it does not import it.
        spec = find_spec("wordllama")
        if spec is None or not spec.submodule_search_locations:
            raise ModelUnavailable(
                "The bundled embedding model is not installed.",
                hint="Run: pip install wordllama, or search by keywords with embed.provider = none.",
            )
        package = Path(spec.submodule_search_locations[0])
        table = package / "weights" / "l2_supercat_256.safetensors"
        tokenizer = package / "tokenizers" / "l2_supercat_tokenizer_config.json"
    else:
        table = next(iter(sorted(folder.glob("*.safetensors"))), folder / "model.safetensors")
        tokenizer = folder / "tokenizer.json"
    for path in (table, tokenizer):
        if not path.is_file():
            raise ModelUnavailable(
                f"The embedding model lacks {path.name}.",
                hint="Give a folder with model.safetensors and tokenizer.json as embed.model.",
                details={"path": str(path)},
            )
    return table, tokenizer


def _read_table(path: Path) -> NDArray[np.float16]:
    """Map the one float16 matrix of a safetensors file."""
    import json

    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > 1 << 20:
            raise _not_a_table(path, "the header is too long")
        try:
            header = json.loads(file.read(length))
        except ValueError as error:
            raise _not_a_table(path, str(error)) from error
    matrices = [entry for entry in header.values() if len(entry.get("shape", ())) == 2]
    if len(matrices) != 1 or matrices[0]["dtype"] != "F16" or matrices[0]["shape"][0] > 65536:
        raise _not_a_table(path, "it does not hold exactly one float16 matrix")
    begin, _ = matrices[0]["data_offsets"]
    rows, columns = matrices[0]["shape"]
    return np.memmap(path, np.float16, "r", offset=8 + length + begin, shape=(rows, columns))


def _not_a_table(path: Path, why: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"{path.name} is not a static embedding model: {why}.",
        hint="Give a folder with a float16 token table as embed.model.",
        details={"path": str(path)},
    )
