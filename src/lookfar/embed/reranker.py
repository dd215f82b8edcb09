"""A cross-encoder: a transformer that reads a question and a text together, through ONNX.

Takes: a folder or a name on the hub, and the settings of local models. Gives: for each text how
well it answers, 0 to 1. Refuses: what the models of :mod:`lookfar.embed.onnx` refuse, whose
files, tokenizer and session these are, and models that give no such number.
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

_AGAIN_SECONDS = 60.0
"""A model that cannot be had is not looked for at every question."""


class CrossEncoder(OnnxEmbedder):
    """One cross-encoder. May be shared by threads."""

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """How well each text answers; one number of the model through a sigmoid, or the second
        of two through a softmax."""
        if not texts:
            return []
        encoded = self._pairing.encode_batch([(question, text) for text in texts])
        order = sorted(range(len(encoded)), key=lambda at: len(encoded[at].ids))
        found = np.zeros(len(texts))
        for start in range(0, len(order), self.batch):
            some = order[start : start + self.batch]
            found[some] = self._judged([encoded[at] for at in some])
        return [float(value) for value in found]

    def _judged(self, encoded: Sequence[Encoding]) -> NDArray[np.float64]:
        longest = max(len(each.ids) for each in encoded)
        ids = np.full((len(encoded), longest), self._card.pad, dtype=np.int64)
        mask, kinds = np.zeros_like(ids), np.zeros_like(ids)
        for row, each in enumerate(encoded):
            length = len(each.ids)
            ids[row, :length], mask[row, :length], kinds[row, :length] = each.ids, 1, each.type_ids
        feeds = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": kinds,
            "position_ids": np.broadcast_to(np.arange(longest, dtype=np.int64), ids.shape),
        }
        session, inputs, output = self._session
        try:
            (given,) = session.run([output], {name: feeds[name] for name in inputs})
        except Exception as error:  # the runtime has a dozen kinds, none of them public
            raise self._unfit(f"onnxruntime cannot run it ({error})") from error
        logits = given.astype(np.float64).reshape(len(encoded), -1)
        if logits.shape[1] not in (1, 2) or not np.isfinite(logits).all():
            raise self._unfit(f"it gives {logits.shape[1]} numbers for a text, or such as are none")
        apart = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
        judged: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(apart, -50, 50)))
        return judged

    @cached_property
    def _pairing(self) -> Tokenizer:
        tokenizer = self._read_tokenizer()
        tokenizer.no_padding()
        # The longer of both is cut, which is the text unless somebody asks a whole page.
        tokenizer.enable_truncation(self._card.max_tokens, strategy="longest_first")
        return tokenizer


_opened: dict[tuple[EmbedSettings, str], CrossEncoder] = {}
_failed: dict[tuple[EmbedSettings, str], tuple[float, ModelUnavailable]] = {}
_opening = Lock()


def open_reranker(settings: EmbedSettings, model: str) -> CrossEncoder:
    """The model, loaded once for the process."""
    key = (settings, model)
    with _opening:
        if key in _opened:
            return _opened[key]
        when, failure = _failed.get(key, (0.0, None))
        if failure is not None and time.monotonic() - when < _AGAIN_SECONDS:
            raise failure
        try:
            _opened[key] = CrossEncoder(settings, model)
        except ModelUnavailable as error:
            _failed[key] = (time.monotonic(), error)
            raise
        return _opened[key]
