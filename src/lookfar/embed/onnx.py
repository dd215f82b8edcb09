"""Local transformers through ONNX: any sentence-transformers model with an ONNX file; rerankers.

Texts of similar length share a batch. ``onnxruntime`` is large and not available everywhere, so it
is only imported when the first text is embedded.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from lookfar import config
from lookfar.common.folders import walk_folder
from lookfar.embed import hub
from lookfar.embed.card import Card, choose_file, is_int8, read_card
from lookfar.embed.local import SingleModel, normalise_rows, read_tokenizer
from lookfar.errors import ModelUnavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Encoding, Tokenizer

    from lookfar.config import EmbedSettings


Encoded = Sequence[Sequence[int]]
"""The IDs of the tokens of each text."""

_CPU_BATCH = 32
_GPU_BATCH = 64
_TOKENIZER_BATCH = 2048
_CPU_BATCH_TOKENS = 512
"""Tokens in a batch, with padding; larger batches do not fit the CPU caches."""
_GPU_BATCH_TOKENS = 65_536
_CUDA = "CUDAExecutionProvider"
_VERSION = "onnx 1"
"""Increase whenever the same files and settings would give other vectors."""
_RETRY_SECONDS = 60.0
"""Pause before a model that failed to load is tried again."""
_opened: dict[tuple[EmbedSettings, str], CrossEncoder] = {}
_failed: dict[tuple[EmbedSettings, str], tuple[float, ModelUnavailable]] = {}
_lock = Lock()


class OnnxEmbedder(SingleModel):
    """A transformer. Thread-safe."""

    quick = False

    def __init__(self, settings: EmbedSettings, model: str) -> None:
        self._settings = settings
        self._model = model
        self._folder = _find_folder(settings, model)
        names = sorted(
            Path(entry.path).relative_to(self._folder).as_posix()
            for entry in walk_folder(self._folder)
            if ".onnx" in entry.name
        )
        files = choose_file(names, settings.precision)
        if not files:
            raise ModelUnavailable(
                f"{self._folder.name} has no ONNX file, or several to choose from.",
                hint="Name it model.onnx, in the folder of embed.model or in its subfolder onnx.",
                details={"path": str(self._folder), "candidates": names},
            )
        self._file = self._folder / files[0]
        self._files = [self._folder / file for file in files]
        hub_name = "" if os.path.isabs(model) else model.partition("@")[0]
        self._card: Card = read_card(self._folder, hub_name)
        self._loading = Lock()

    @property
    def name(self) -> str:
        name = self._folder.name if os.path.isabs(self._model) else self._model
        return f"onnx/{name}{' int8' if self._is_int8 else ''}"

    @property
    def dimensions(self) -> int:
        return self._card.dimensions

    @property
    def _is_int8(self) -> bool:
        return is_int8(self._file.name) or self._settings.precision == "int8"

    @cached_property
    def fingerprint(self) -> str:
        digest = sha256(f"{_VERSION}; {self._card}; {self.max_tokens}; {self._prefixes}".encode())
        digest.update(b"made int8 here" if self._must_quantise else b"")
        hashes = hub.read_receipt(self._folder)
        for path in (self._folder / "tokenizer.json", *self._files):
            name = path.relative_to(self._folder).as_posix()
            digest.update((hashes.get(name) or hub.hash_file(path, sha256())).encode())
        return f"{self.name}:{self.dimensions}:{digest.hexdigest()[:16]}"

    @property
    def max_tokens(self) -> int:
        """Longer texts are truncated; special tokens count."""
        chosen = self._settings.max_tokens
        return min(chosen, self._card.limit) if chosen else self._card.max_tokens

    @property
    def _prefixes(self) -> tuple[str, str]:
        query, passage = self._settings.query_prefix, self._settings.passage_prefix
        return (
            self._card.query_prefix if query == "auto" else query,
            self._card.passage_prefix if passage == "auto" else passage,
        )

    @property
    def batch(self) -> int:
        return self._settings.batch or (_GPU_BATCH if self._on_gpu else _CPU_BATCH)

    # -- texts to vectors ----------------------------------------------------

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._embed([self._prefixes[1] + text for text in texts])

    def embed_query(self, text: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self._embed([self._prefixes[0] + text])[0]
        return vector

    def count_tokens(self, text: str) -> int:
        return len(self._full_tokenizer.encode(text, add_special_tokens=False).ids)

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for first in range(0, len(texts), _TOKENIZER_BATCH):
            encoded = self._encode(texts[first : first + _TOKENIZER_BATCH])
            # Texts of similar length share a batch, because padding costs as much as tokens.
            lengths = [len(ids) for ids in encoded]
            order = sorted(range(len(encoded)), key=lengths.__getitem__)
            tokens = _GPU_BATCH_TOKENS if self._on_gpu else _CPU_BATCH_TOKENS

            def run(batch: list[int], first: int = first, encoded: Encoded = encoded) -> None:
                rows = [first + index for index in batch]
                vectors[rows] = self._run([encoded[index] for index in batch])

            self._run_all(run, batches(order, lengths, self.batch, tokens))
        return normalise_rows(vectors)

    def _encode(self, texts: Sequence[str]) -> Encoded:
        return [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]

    def _run_all(self, run: Callable[[list[int]], None], some: Iterator[list[int]]) -> None:
        for batch in some:
            run(batch)

    def _run(self, encoded: Encoded) -> NDArray[np.float32]:
        states, mask = self._infer(encoded)
        vectors = pool(states.astype(np.float32, copy=False), mask, self._card.pooling)
        if vectors.shape[1] != self.dimensions or not np.isfinite(vectors).all():
            raise self._unusable(f"it returns vectors of {vectors.shape[1]} dimensions, or NaN")
        return vectors

    def _infer(
        self, encoded: Encoded, types: Encoded | None = None
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Run the model on a batch; return its output, and a mask that is 0 for padding.

        ``types`` tell the parts of a pair of texts apart.
        """
        longest = max(1, *map(len, encoded)) if encoded else 1
        ids = np.full((len(encoded), longest), self._card.pad, dtype=np.int64)
        mask, type_ids = np.zeros_like(ids), np.zeros_like(ids)
        for row, known in enumerate(encoded):
            ids[row, : len(known)], mask[row, : len(known)] = known, 1
            if types is not None:
                type_ids[row, : len(known)] = types[row]
        feeds = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": type_ids,
            "position_ids": np.broadcast_to(np.arange(longest, dtype=np.int64), ids.shape),
        }
        session, inputs, output = self._session
        try:
            (states,) = session.run([output], {name: feeds[name] for name in inputs})
        except Exception as error:  # onnxruntime's exceptions are not public
            raise self._unusable(f"onnxruntime cannot run it ({error})") from error
        return states, mask

    # -- loaded on first use -------------------------------------------------

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        tokenizer = self._read_tokenizer()
        tokenizer.no_padding()
        tokenizer.enable_truncation(self.max_tokens)
        return tokenizer

    @cached_property
    def _full_tokenizer(self) -> Tokenizer:
        tokenizer = self._read_tokenizer()
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    def _read_tokenizer(self) -> Tokenizer:
        try:
            return read_tokenizer(self._folder / "tokenizer.json")
        except ModelUnavailable:
            raise
        except Exception as error:  # the library has no specific exception
            raise self._unusable(f"its tokenizer cannot be read ({error})") from error

    @cached_property
    def _on_gpu(self) -> bool:
        if self._settings.device == "cpu":
            return False
        has_cuda = _CUDA in _runtime().get_available_providers()
        if self._settings.device == "cuda" and not has_cuda:
            raise ModelUnavailable(
                "embed.device is cuda, but the installed onnxruntime does not support CUDA.",
                hint="Run: pip install onnxruntime-gpu, or set embed.device to cpu.",
            )
        return has_cuda

    @property
    def _session(self) -> tuple[Any, list[str], str]:
        """The session, its input names, and the output to use."""
        with self._loading:
            return self._loaded

    @cached_property
    def _loaded(self) -> tuple[Any, list[str], str]:
        return self._load_session()

    def _load_session(self) -> tuple[Any, list[str], str]:
        runtime = _runtime()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = self._settings.threads or os.cpu_count() or 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # An idle model must not keep the cores busy.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        path = self._quantised_file() if self._must_quantise else self._file
        providers = [_CUDA, "CPUExecutionProvider"] if self._on_gpu else ["CPUExecutionProvider"]
        try:
            session = runtime.InferenceSession(str(path), options, providers=providers)
        except Exception as error:  # onnxruntime's exceptions are not public
            raise self._unusable(f"onnxruntime cannot load it ({error})") from error
        inputs = [item.name for item in session.get_inputs()]
        known = {"input_ids", "attention_mask", "token_type_ids", "position_ids"}
        if not known.issuperset(inputs):
            raise self._unusable(
                f"it needs unknown inputs: {', '.join(sorted(set(inputs) - known))}"
            )
        outputs = [item.name for item in session.get_outputs()]
        pooled = "sentence_embedding" in outputs
        if not pooled and self._card.needs:
            raise self._unusable(f"its ONNX file does not include {self._card.needs}")
        return session, inputs, "sentence_embedding" if pooled else outputs[0]

    @property
    def _must_quantise(self) -> bool:
        """Whether int8 is requested but the model has no such file."""
        return self._settings.precision == "int8" and not is_int8(self._file.name)

    def _quantised_file(self) -> Path:
        """Return the model quantised to int8, which is done once and stored."""
        key = hub.hash_file(self._file, sha256())[:32]
        path = _models_folder(self._settings) / "int8" / f"{key}.onnx"
        if not path.is_file():
            hub.write_atomically(path, lambda temporary: _quantise(self._file, temporary))
        return path

    def _unusable(self, reason: str) -> ModelUnavailable:
        return ModelUnavailable(
            f"The model {self.name} cannot be used: {reason}.",
            hint="Choose another ONNX file or model: embed.model.",
            details={"path": str(self._file)},
        )


def batches(
    order: Sequence[int], lengths: Sequence[int], max_texts: int, max_tokens: int
) -> Iterator[list[int]]:
    """Split ``order``, which is sorted by length, into batches within both limits."""
    batch: list[int] = []
    for index in order:
        full = len(batch) == max_texts or (len(batch) + 1) * lengths[index] > max_tokens
        if batch and full:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def pool(states: NDArray[np.float32], mask: NDArray[np.int64], method: str) -> NDArray[np.float32]:
    """Pool the token vectors of each text; ``mask`` is 0 for padding."""
    if states.ndim == 2:
        return states
    if method == "cls":
        first: NDArray[np.float32] = states[:, 0]
        return first
    if method == "last":
        last = np.maximum(mask.sum(axis=1) - 1, 0)
        final: NDArray[np.float32] = states[np.arange(len(states)), last]
        return final
    weights = mask[:, :, None].astype(np.float32)
    if method == "max":
        highest: NDArray[np.float32] = np.where(weights > 0, states, np.float32(-np.inf)).max(
            axis=1
        )
        return highest
    mean = (states * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)
    return np.asarray(mean, np.float32)


def _find_folder(settings: EmbedSettings, model: str) -> Path:
    if os.path.isabs(model):
        folder = Path(model)
        if not folder.is_dir():
            raise ModelUnavailable(
                f"There is no folder {model}.",
                hint="Set embed.model to the folder of a model, or to its name on the hub.",
                details={"path": model},
            )
        return folder
    kind = "fp32" if settings.precision == "fp32" else "any"
    return hub.fetch(
        model,
        _models_folder(settings),
        partial(choose_file, precision=settings.precision),
        kind=kind,
        hub=settings.hub,
        offline=settings.offline,
        retries=settings.retries,
        timeout=settings.timeout_seconds,
    )


def _models_folder(settings: EmbedSettings) -> Path:
    return Path(settings.models_dir) if settings.models_dir else config.data_dir() / "models"


def _runtime() -> Any:
    config.silence_telemetry()
    try:
        import onnxruntime
    except ImportError as error:
        raise ModelUnavailable(
            "The package onnxruntime, which transformers need, is not installed.",
            hint="Run: pip install onnxruntime, if it has a wheel for this system, or set"
            " embed.provider to static.",
            developer=str(error),
        ) from error
    return onnxruntime


def _quantise(source: Path, to: Path) -> None:
    _runtime()
    try:
        from onnx import load
        from onnxruntime.quantization import QuantType, quantize_dynamic
        from onnxruntime.quantization.quant_utils import add_pre_process_metadata
    except ImportError as error:
        raise ModelUnavailable(
            "The package onnx, which is needed to quantise a model to int8, is not installed.",
            hint="Run: pip install onnx, choose a model with an int8 file, or set"
            " embed.precision to fp32.",
            developer=str(error),
        ) from error
    try:
        model = load(source)
        # Otherwise it logs a warning, which configures the root logger before the server does.
        add_pre_process_metadata(model)
        quantize_dynamic(model, to, weight_type=QuantType.QInt8, per_channel=True)
    except Exception as error:
        raise ModelUnavailable(
            f"{source.name} could not be quantised to int8.",
            hint="Set embed.precision to fp32.",
            developer=f"{type(error).__name__}: {error}",
            details={"path": str(source)},
        ) from error


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
