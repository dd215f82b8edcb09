"""The second model: a small transformer whose vectors improve on those of the bundled table.

Its folder has ``model.onnx``, ``tokenizer.json`` and ``model.json``; usually it is the bundled one,
``embed/bundled/quality``. It reads English and code; other texts keep the vectors of the first
model.
"""

from __future__ import annotations

import json
import re
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, get_args
from weakref import WeakValueDictionary

import numpy as np

from lookfar.common.cores import map_on_two_cores
from lookfar.config import EmbedSettings
from lookfar.embed import hub
from lookfar.embed.byte_pairs import BytePairs, read_byte_pairs
from lookfar.embed.card import Card, Pooling
from lookfar.embed.onnx import Encoded, OnnxEmbedder, pool
from lookfar.embed.quality_folder import MODEL
from lookfar.errors import ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from tokenizers import Tokenizer

TOKENIZER, CARD = "tokenizer.json", "model.json"
_VERSION: Final = "quality 1"
"""Increase whenever the same files would give other vectors."""
_REINSTALL: Final = (
    "Install Lookfar again: pip install --force-reinstall lookfar, or set quality.enabled to off."
)
_MOST_TOKENS: Final = 8192
_WORDS = re.compile(r"[^\W\d_]+")
_FOREIGN = re.compile("[^\\W\\d_\u0000-\u024f\u1e00-\u1eff]")
"""Letters outside the Latin alphabet."""
_MOST_FOREIGN: Final = 0.2
_SAMPLED: Final = 2000
_LEAST_PER_TOKEN: Final = 1.5
"""Letters per token below which the model spells the words instead of knowing them."""


class QualityModel(OnnxEmbedder):
    """The second model. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        # Each batch is computed by one thread: several threads for one batch cost more in all.
        self._settings = EmbedSettings(device="cpu", threads=1)
        self._folder = folder
        self._model = str(folder)
        missing = [name for name in (CARD, MODEL, TOKENIZER) if not (folder / name).is_file()]
        if missing:
            raise ModelUnavailable(
                f"The second model is incomplete: {folder} has no {' and no '.join(missing)}.",
                hint=_REINSTALL,
                details={"path": str(folder)},
            )
        self._about = _read_about(folder / CARD)
        self._file = folder / MODEL
        self._files = [self._file]
        self._card = _make_card(self._about, folder)
        self._loading = Lock()

    @property
    def name(self) -> str:
        return str(self._about.get("name") or self._folder.name)

    @cached_property
    def fingerprint(self) -> str:
        stated = self._about.get("fingerprint")
        if not stated:
            stated = hash_files(self._folder)
        how = f"{_VERSION}; {stated}; {self._card}"
        return f"{self.name}:{self.dimensions}:{sha256(how.encode()).hexdigest()[:16]}"

    @property
    def _is_int8(self) -> bool:
        return True

    @property
    def _must_quantise(self) -> bool:
        return False

    @property
    def folder(self) -> Path:
        return self._folder

    def load(self) -> None:
        """Load weights and tokenizer now."""
        self.embed_query("loaded")

    def reads(self, text: str) -> bool:
        """Return whether the text is in a script and in words that the model knows."""
        if text.isascii():
            return _WORDS.search(text) is not None
        words = _WORDS.findall(text[:_SAMPLED])
        letters = sum(map(len, words))
        # Only words are counted: the many marks and numbers of code and tables are tokens, too.
        known = " ".join(words)
        if not letters or len(_FOREIGN.findall(known)) > _MOST_FOREIGN * letters:
            return False
        return letters >= _LEAST_PER_TOKEN * self.count_tokens(known)

    def count_tokens(self, text: str) -> int:
        return super().count_tokens(text) if self._pairs is None else self._pairs.count(text)

    # -- loaded on first use, when the folder may have been replaced ---------

    @property
    def is_current(self) -> bool:
        """Whether the folder still describes the model that was opened."""
        try:
            return _read_about(self._folder / CARD) == self._about
        except ModelUnavailable:
            return False

    def _require_current(self) -> None:
        """Refuse files of another version: their vectors must not get this one's fingerprint."""
        if not self.is_current:
            raise ModelUnavailable(
                "The second model was replaced after this process had opened it.",
                hint="The new one is opened in a minute. Until then the first model answers alone.",
                details={"path": str(self._folder)},
            )

    def _load_session(self) -> tuple[Any, list[str], str]:
        session = super()._load_session()
        self._require_current()
        return session

    @cached_property
    def _pairs(self) -> BytePairs | None:
        try:
            pairs = read_byte_pairs(self._folder / TOKENIZER)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._unusable(f"its tokenizer cannot be read ({error})") from error
        self._require_current()
        return pairs

    def _encode(self, texts: Sequence[str]) -> Encoded:
        if self._pairs is None:
            return super()._encode(texts)
        return [self._pairs.encode(text, self.max_tokens) for text in texts]

    def _run_all(self, run: Callable[[list[int]], None], some: Iterator[list[int]]) -> None:
        first, *others = some
        map_on_two_cores(run, (first, *others)) if others else run(first)

    def _read_tokenizer(self) -> Tokenizer:
        tokenizer = super()._read_tokenizer()
        self._require_current()
        return tokenizer

    def _run(self, encoded: Encoded) -> NDArray[np.float32]:
        states, mask = self._infer(encoded)
        vectors = pool(states.astype(np.float32, copy=False), mask, self._card.pooling)
        if vectors.shape[1] < self.dimensions or not np.isfinite(vectors).all():
            raise self._unusable(f"it returns vectors of {vectors.shape[1]} dimensions, or NaN")
        return vectors[:, : self.dimensions]

    def _unusable(self, reason: str) -> ModelUnavailable:
        return ModelUnavailable(
            f"The second model {self.name} cannot be used: {reason}.",
            hint=_REINSTALL,
            details={"path": str(self._file)},
        )


# A model is released when the last collection that uses it rests.
_opened: WeakValueDictionary[Path, QualityModel] = WeakValueDictionary()
_lock = Lock()


def open_quality_model(folder: Path) -> QualityModel:
    """Return the second model of a folder, the same for all collections.

    After an upgrade, the new model is returned.
    """
    with _lock:
        model = _opened.get(folder)
        if model is None or not model.is_current:
            model = _opened[folder] = QualityModel(folder)
        return model


def hash_files(folder: Path) -> str:
    """Return the hash of weights and tokenizer that ``model.json`` states as ``fingerprint``."""
    digest = sha256()
    for name in (MODEL, TOKENIZER):
        digest.update(hub.hash_file(folder / name, sha256()).encode())
    return digest.hexdigest()[:32]


def _read_about(path: Path) -> dict[str, Any]:
    try:
        about = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise _invalid(path, f"it cannot be read ({error})") from error
    if not isinstance(about, dict):
        raise _invalid(path, "it must contain an object")
    return about


def _make_card(about: dict[str, Any], folder: Path) -> Card:
    path = folder / CARD
    dimensions, pooling = about.get("dimensions"), about.get("pooling", "mean")
    tokens, pad = about.get("max_tokens", 256), about.get("pad", 0)
    if type(dimensions) is not int or not 1 <= dimensions <= 4096:
        raise _invalid(path, "dimensions must be a number from 1 to 4096")
    if pooling not in get_args(Pooling):
        raise _invalid(path, f"pooling must be one of {', '.join(get_args(Pooling))}")
    if type(tokens) is not int or not 8 <= tokens <= _MOST_TOKENS:
        raise _invalid(path, f"max_tokens must be a number from 8 to {_MOST_TOKENS}")
    if type(pad) is not int or pad < 0:
        raise _invalid(path, "pad must be the number of a token")
    return Card(
        pooling=pooling,
        dimensions=dimensions,
        max_tokens=tokens,
        limit=tokens,
        pad=pad,
        query_prefix=str(about.get("query_prefix") or ""),
        passage_prefix=str(about.get("passage_prefix") or ""),
        needs="",
    )


def _invalid(path: Path, why: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"{path} does not describe a model: {why}.",
        hint=_REINSTALL,
        details={"path": str(path)},
    )
