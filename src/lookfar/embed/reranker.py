"""A cross-encoder: a transformer that reads a question and a text together, through ONNX.

It shares files, tokenizer and session with the models of :mod:`lookfar.embed.onnx`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from lookfar.embed.onnx import OnnxEmbedder
from lookfar.errors import ModelUnavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Encoding, Tokenizer

    from lookfar.config import EmbedSettings

_RETRY_SECONDS = 60.0
"""Pause before a model that failed to load is tried again."""


class CrossEncoder(OnnxEmbedder):
    """A cross-encoder. Thread-safe."""

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Score how well each text answers: the sigmoid of one logit, or the softmax of two."""
        if not texts:
            return []
        encoded = self._pair_tokenizer.encode_batch([(question, text) for text in texts])
        order = sorted(range(len(encoded)), key=lambda index: len(encoded[index].ids))
        scores = np.zeros(len(texts))
        for start in range(0, len(order), self.batch):
            batch = order[start : start + self.batch]
            scores[batch] = self._score_batch([encoded[index] for index in batch])
        return [float(score) for score in scores]

    def _score_batch(self, encoded: Sequence[Encoding]) -> NDArray[np.float64]:
        ids = [encoding.ids for encoding in encoded]
        output_values, _ = self._infer(ids, [encoding.type_ids for encoding in encoded])
        logits = output_values.astype(np.float64).reshape(len(encoded), -1)
        if logits.shape[1] not in (1, 2) or not np.isfinite(logits).all():
            raise self._unusable(f"it returns {logits.shape[1]} numbers for a text, or NaN")
        margin = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
        scores: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(margin, -50, 50)))
        return scores

    @cached_property
    def _pair_tokenizer(self) -> Tokenizer:
        tokenizer = self._read_tokenizer()
        tokenizer.no_padding()
        # Truncates the longer of the two, which is usually the text.
        tokenizer.enable_truncation(self._card.max_tokens, strategy="longest_first")
        return tokenizer


_opened: dict[tuple[EmbedSettings, str], CrossEncoder] = {}
_failed: dict[tuple[EmbedSettings, str], tuple[float, ModelUnavailable]] = {}
_lock = Lock()


def open_reranker(settings: EmbedSettings, model: str) -> CrossEncoder:
    """Return the model, loaded once for the process."""
    key = (settings, model)
    with _lock:
        if key in _opened:
            return _opened[key]
        failed_at, failure = _failed.get(key, (0.0, None))
        if failure is not None and time.monotonic() - failed_at < _RETRY_SECONDS:
            raise failure
        try:
            _opened[key] = CrossEncoder(settings, model)
        except ModelUnavailable as error:
            _failed[key] = (time.monotonic(), error)
            raise
        return _opened[key]
