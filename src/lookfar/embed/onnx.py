"""Transformers through ONNX, on this machine: any sentence-transformers model that has a file.

Takes: a folder or a name on the hub, and the settings. Gives: unit vectors, pooled as the model
says, texts of like length together. Refuses: to run without ``onnxruntime``, which is an extra,
and models whose files do not fit each other. Nothing of it is imported before a text is embedded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from lookfar import config
from lookfar.common.folders import walk_folder
from lookfar.embed import hub
from lookfar.embed.card import Card, choose_file, is_small, read_card
from lookfar.embed.tokens import read_tokenizer
from lookfar.errors import ModelUnavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Encoding, Tokenizer

    from lookfar.config import EmbedSettings

_ON_CPU = 32
_ON_GPU = 64
_TOKENIZED_AT_ONCE = 2048
_TOKENS_AT_ONCE = 1024
"""In a batch, with what fills it up: on a processor more at once no longer fits its caches."""
_TOKENS_ON_GPU = 65_536
_CUDA = "CUDAExecutionProvider"
_VERSION = "onnx 1"
"""Raise whenever the same files and settings would give other vectors."""


class OnnxEmbedder:
    """One transformer. May be shared by threads."""

    quick = False

    def __init__(self, settings: EmbedSettings, model: str) -> None:
        self._settings = settings
        self._model = model
        self._folder = _folder_of(settings, model)
        names = sorted(
            Path(entry.path).relative_to(self._folder).as_posix()
            for entry in walk_folder(self._folder)
            if ".onnx" in entry.name
        )
        files = choose_file(names, settings.precision)
        if not files:
            raise ModelUnavailable(
                f"{self._folder.name} holds no ONNX file that could be meant.",
                hint="Name it model.onnx, in the folder embed.model names or in its folder onnx.",
                details={"path": str(self._folder), "candidates": names},
            )
        self._file = self._folder / files[0]
        self._files = [self._folder / each for each in files]
        called = "" if os.path.isabs(model) else model.partition("@")[0]
        self._card: Card = read_card(self._folder, called)
        self._loading = Lock()

    @property
    def name(self) -> str:
        called = self._folder.name if os.path.isabs(self._model) else self._model
        return f"onnx/{called}{' int8' if self._is_small else ''}"

    @property
    def dimensions(self) -> int:
        return self._card.dimensions

    @property
    def _is_small(self) -> bool:
        return is_small(self._file.name) or self._settings.precision == "int8"

    @cached_property
    def fingerprint(self) -> str:
        digest = sha256(f"{_VERSION}; {self._card}; {self.max_tokens}; {self._prefixes}".encode())
        digest.update(b"made int8 here" if self._made_small else b"")
        known = hub.receipt(self._folder)
        for path in (self._folder / "tokenizer.json", *self._files):
            name = path.relative_to(self._folder).as_posix()
            digest.update((known.get(name) or hub.digest(path, sha256())).encode())
        return f"{self.name}:{self.dimensions}:{digest.hexdigest()[:16]}"

    @property
    def max_tokens(self) -> int:
        """Texts are cut to so many, with those that mark beginning and end."""
        asked = self._settings.max_tokens
        return min(asked, self._card.limit) if asked else self._card.max_tokens

    @property
    def _prefixes(self) -> tuple[str, str]:
        """Before questions, and before passages."""
        query, passage = self._settings.query_prefix, self._settings.passage_prefix
        return (
            self._card.query_prefix if query == "auto" else query,
            self._card.passage_prefix if passage == "auto" else passage,
        )

    @property
    def batch(self) -> int:
        """How many texts go through the model at once."""
        return self._settings.batch or (_ON_GPU if self._on_gpu else _ON_CPU)

    # -- texts to vectors ----------------------------------------------------

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._embed([self._prefixes[1] + text for text in texts])

    def embed_code(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.embed(texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self._embed([self._prefixes[0] + text])[0]
        return vector

    def count_tokens(self, text: str) -> int:
        return len(self._counting.encode(text, add_special_tokens=False).ids)

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for first in range(0, len(texts), _TOKENIZED_AT_ONCE):
            encoded = self._tokenizer.encode_batch(list(texts[first : first + _TOKENIZED_AT_ONCE]))
            # Neighbours in length share a batch: what is added to fill it up costs as any token.
            order = sorted(range(len(encoded)), key=lambda at: len(encoded[at].ids))
            lengths = [len(each.ids) for each in encoded]
            tokens = _TOKENS_ON_GPU if self._on_gpu else _TOKENS_AT_ONCE
            for some in batches(order, lengths, self.batch, tokens):
                vectors[[first + at for at in some]] = self._run([encoded[at] for at in some])
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, norms, out=vectors, where=norms > 0)
        return vectors

    def _run(self, encoded: Sequence[Encoding]) -> NDArray[np.float32]:
        longest = max(1, *(len(each.ids) for each in encoded)) if encoded else 1
        ids = np.full((len(encoded), longest), self._card.pad, dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, each in enumerate(encoded):
            ids[row, : len(each.ids)] = each.ids
            mask[row, : len(each.ids)] = 1
        feeds = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(ids),
            "position_ids": np.broadcast_to(np.arange(longest, dtype=np.int64), ids.shape),
        }
        session, inputs, output = self._session
        try:
            (states,) = session.run([output], {name: feeds[name] for name in inputs})
        except Exception as error:  # the runtime has a dozen kinds, none of them public
            raise self._unfit(f"onnxruntime cannot run it ({error})") from error
        found = pool(states.astype(np.float32, copy=False), mask, self._card.pooling)
        if found.shape[1] != self.dimensions or not np.isfinite(found).all():
            raise self._unfit(f"it gives {found.shape[1]} numbers, or such that are none")
        return found

    # -- what is loaded when it is needed ------------------------------------

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        tokenizer = self._read_tokenizer()
        tokenizer.no_padding()
        tokenizer.enable_truncation(self.max_tokens)
        return tokenizer

    @cached_property
    def _counting(self) -> Tokenizer:
        tokenizer = self._read_tokenizer()
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    def _read_tokenizer(self) -> Tokenizer:
        try:
            return read_tokenizer(self._folder / "tokenizer.json")
        except ModelUnavailable:
            raise
        except Exception as error:  # the library raises nothing more precise
            raise self._unfit(f"its tokenizer cannot be read ({error})") from error

    @cached_property
    def _on_gpu(self) -> bool:
        if self._settings.device == "cpu":
            return False
        there = _CUDA in _runtime().get_available_providers()
        if self._settings.device == "cuda" and not there:
            raise ModelUnavailable(
                "embed.device is cuda, and this onnxruntime cannot use one.",
                hint="Run: pip install onnxruntime-gpu, or set embed.device to cpu.",
            )
        return there

    @property
    def _session(self) -> tuple[Any, list[str], str]:
        """The model, the inputs it takes, and the output to use."""
        with self._loading:
            return self._loaded

    @cached_property
    def _loaded(self) -> tuple[Any, list[str], str]:
        runtime = _runtime()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = self._settings.threads or os.cpu_count() or 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # A model that waits must not keep the cores busy.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        path = self._small_file() if self._made_small else self._file
        where = [_CUDA, "CPUExecutionProvider"] if self._on_gpu else ["CPUExecutionProvider"]
        try:
            session = runtime.InferenceSession(str(path), options, providers=where)
        except Exception as error:  # the runtime has a dozen kinds, none of them public
            raise self._unfit(f"onnxruntime cannot load it ({error})") from error
        inputs = [each.name for each in session.get_inputs()]
        known = {"input_ids", "attention_mask", "token_type_ids", "position_ids"}
        if not known.issuperset(inputs):
            raise self._unfit(f"it wants {', '.join(sorted(set(inputs) - known))}")
        outputs = {each.name: each for each in session.get_outputs()}
        ready = outputs.get("sentence_embedding")
        if ready is None and self._card.needs:
            raise self._unfit(f"its ONNX file lacks a step of the model ({self._card.needs})")
        return session, inputs, "sentence_embedding" if ready is not None else next(iter(outputs))

    @property
    def _made_small(self) -> bool:
        """Whether int8 was asked for, and the model brings no such file."""
        return self._settings.precision == "int8" and not is_small(self._file.name)

    def _small_file(self) -> Path:
        """The model with int8 weights, made once and kept beside the fetched ones."""
        key = hub.digest(self._file, sha256())[:32]
        path = _models(self._settings) / "int8" / f"{key}.onnx"
        if not path.is_file():
            hub.made(path, lambda temporary: _quantise(self._file, temporary))
        return path

    def _unfit(self, why: str) -> ModelUnavailable:
        return ModelUnavailable(
            f"The model {self.name} cannot be used: {why}.",
            hint="Choose another ONNX file or model: embed.model.",
            details={"path": str(self._file)},
        )


def batches(
    order: Sequence[int], lengths: Sequence[int], most: int, tokens: int
) -> Iterator[list[int]]:
    """Runs of ``order``, which is by length: at most so many texts, and so many ``tokens``."""
    some: list[int] = []
    for at in order:
        if some and (len(some) == most or (len(some) + 1) * lengths[at] > tokens):
            yield some
            some = []
        some.append(at)
    if some:
        yield some


def pool(states: NDArray[np.float32], mask: NDArray[np.int64], how: str) -> NDArray[np.float32]:
    """One vector for each text from those of its tokens; ``mask`` is 0 where there is none."""
    if states.ndim == 2:
        return states
    if how == "cls":
        first: NDArray[np.float32] = states[:, 0]
        return first
    if how == "last":
        last = np.maximum(mask.sum(axis=1) - 1, 0)
        found: NDArray[np.float32] = states[np.arange(len(states)), last]
        return found
    weights = mask[:, :, None].astype(np.float32)
    if how == "max":
        highest: NDArray[np.float32] = np.where(weights > 0, states, -np.inf).max(axis=1)
        return highest
    mean: NDArray[np.float32] = (states * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)
    return mean


def _folder_of(settings: EmbedSettings, model: str) -> Path:
    if os.path.isabs(model):
        folder = Path(model)
        if not folder.is_dir():
            raise ModelUnavailable(
                f"There is no folder {model}.",
                hint="Give the folder of a model, or its name on the hub, as embed.model.",
                details={"path": model},
            )
        return folder
    kind = "fp32" if settings.precision == "fp32" else "any"
    return hub.fetched(
        model,
        _models(settings),
        partial(choose_file, precision=settings.precision),
        kind=kind,
        hub=settings.hub,
        offline=settings.offline,
        retries=settings.retries,
        timeout=settings.timeout_seconds,
    )


def _models(settings: EmbedSettings) -> Path:
    return Path(settings.models_dir) if settings.models_dir else config.data_dir() / "models"


def _runtime() -> Any:
    config.silence_telemetry()
    try:
        import onnxruntime
    except ImportError as error:
        raise ModelUnavailable(
            "Models of the kind onnx need a package that is not installed: onnxruntime.",
            hint='Run: pip install "lookfar[onnx]", or set embed.provider to static.',
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
            "To make int8 weights of a model, the package onnx is needed.",
            hint="Run: pip install onnx, choose a model that brings an int8 file, or set"
            " embed.precision to fp32.",
            developer=str(error),
        ) from error
    try:
        model = load(source)
        # Else it warns through the root logger, which then belongs to it and not to the server.
        add_pre_process_metadata(model)
        quantize_dynamic(model, to, weight_type=QuantType.QInt8, per_channel=True)
    except Exception as error:
        raise ModelUnavailable(
            f"{source.name} could not be turned into int8.",
            hint="Set embed.precision to fp32.",
            developer=f"{type(error).__name__}: {error}",
            details={"path": str(source)},
        ) from error
