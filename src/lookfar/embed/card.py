"""Read the configuration of a sentence-transformers model from its folder.

This covers pooling, maximum length, prefixes for questions and passages, and the choice among its
ONNX files.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from lookfar.errors import ModelUnavailable

Pooling = Literal["mean", "cls", "last", "max"]

_POOLINGS: Final[Mapping[str, Pooling]] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "last",
    "pooling_mode_max_tokens": "max",
}
_NEWER_NAMES: Final[Mapping[str, Pooling]] = {
    "mean": "mean", "cls": "cls", "lasttoken": "last", "max": "max",
}  # fmt: skip
_DEFAULT_LENGTH = 512
_MAX_LENGTH = 131_072
_INT8: Final = ("model_quantized", "model_int8", "model_uint8")
_INT8_BY_MACHINE: Final = {
    "arm": ("model_qint8_arm64",),
    "x86": ("model_qint8_avx512_vnni", "model_qint8_avx512", "model_quint8_avx2"),
}
_FP32: Final = ("model", "model_optimized")

# Models that were trained with prefixes but do not list them in their files.
_KNOWN_PREFIXES: Final = (
    (re.compile(r"(^|[-_/])e5-(?!.*instruct)|multilingual-e5-(small|base|large)$"),
     ("query: ", "passage: ")),
    (re.compile(r"bge-(small|base|large)-en"),
     ("Represent this sentence for searching relevant passages: ", "")),
    (re.compile(r"bge-(small|base|large)-zh"), ("为这个句子生成表示以用于检索相关文章：", "")),
    (re.compile(r"nomic-embed-text"), ("search_query: ", "search_document: ")),
    (re.compile(r"mxbai-embed|snowflake-arctic-embed-(xs|s|m|l)$"),
     ("Represent this sentence for searching relevant passages: ", "")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Card:
    """What must be known apart from the weights."""

    pooling: Pooling
    dimensions: int
    max_tokens: int
    """Length that the model was trained for."""
    limit: int
    """Longest input that it accepts."""
    pad: int
    query_prefix: str
    passage_prefix: str
    needs: str
    """Modules after the pooling, which the ONNX file must include; usually empty."""

    def __str__(self) -> str:
        """Return the text of which the fingerprint of every vector has a hash."""
        return (
            f"Card(pooling={self.pooling!r}, dimensions={self.dimensions},"
            f" max_tokens={self.max_tokens}, limit={self.limit}, pad={self.pad},"
            f" query_prefix={self.query_prefix!r}, passage_prefix={self.passage_prefix!r},"
            f" needs={self.needs!r})"
        )


def read_card(folder: Path, name: str = "") -> Card:
    """Read the configuration; some prefixes are known by the model's ``name`` on the hub."""
    if not (folder / "tokenizer.json").is_file():
        raise _unsupported(folder, "it has no tokenizer.json")
    config = _read_json(folder / "config.json")
    tokenizer = _read_json(folder / "tokenizer_config.json")
    modules = _modules(folder)
    pooling = next((path for kind, path in modules if kind == "Pooling"), "1_Pooling")
    after_pooling = [
        kind for kind, _ in modules if kind not in ("Transformer", "Pooling", "Normalize")
    ]
    pooled = _read_json(folder / pooling / "config.json")
    dimensions = pooled.get("word_embedding_dimension", pooled.get("embedding_dimension"))
    dimensions = dimensions or config.get("hidden_size") or config.get("dim")
    if not isinstance(dimensions, int) or dimensions < 1:
        raise _unsupported(
            folder, "neither its config.json nor its pooling states the vector length"
        )
    limit = _limit(config)
    lengths = (
        _read_json(folder / "sentence_bert_config.json").get("max_seq_length"),
        tokenizer.get("model_max_length"),
    )
    length = next((n for n in lengths if isinstance(n, int) and 0 < n < _MAX_LENGTH), limit)
    query, passage = _prefixes(folder, name or str(config.get("_name_or_path", "")))
    return Card(
        pooling=_pooling(folder, pooled),
        dimensions=dimensions,
        max_tokens=min(length, limit),
        limit=limit,
        pad=_pad(folder, config, tokenizer),
        query_prefix=query,
        passage_prefix=passage,
        needs=", ".join(after_pooling),
    )


def choose_file(names: Sequence[str], precision: str) -> list[str]:
    """Return the ONNX file to use, followed by its data files; empty if none fits.

    ``auto`` and ``int8`` prefer int8 weights; without them, ``int8`` takes others to quantise.
    """
    machine = "arm" if platform.machine().lower() in ("arm64", "aarch64") else "x86"
    int8 = (*_INT8_BY_MACHINE[machine], *_INT8)
    for stem in _FP32 if precision == "fp32" else (*int8, *_FP32):
        for folder in ("onnx/", ""):
            path = f"{folder}{stem}.onnx"
            if path in names:
                data = (f"{path}_data", f"{path}.data")
                return [path, *(n for n in names if n.startswith(data[0]) or n == data[1])]
    onnx_files = [name for name in names if name.endswith(".onnx") and name.count("/") <= 1]
    return onnx_files if len(onnx_files) == 1 else []


def is_int8(path: str) -> bool:
    """Tell by its name whether a file has int8 weights."""
    return re.search(r"q?u?int8|quantized", Path(path).stem) is not None


def _modules(folder: Path) -> list[tuple[str, str]]:
    path = folder / "modules.json"
    if not path.is_file():
        return []
    try:
        modules = json.loads(path.read_text("utf-8"))
        return [(str(module["type"]).rpartition(".")[2], str(module["path"])) for module in modules]
    except (ValueError, KeyError, TypeError) as error:
        raise _unsupported(folder, f"its modules.json is invalid ({error})") from error


def _pooling(folder: Path, options: Mapping[str, Any]) -> Pooling:
    chosen = {kind for key, kind in _POOLINGS.items() if options.get(key)}
    newer = options.get("pooling_mode")
    if newer is not None:
        chosen = {_NEWER_NAMES[newer]} if newer in _NEWER_NAMES else set()
    if not options:
        return "mean"
    if len(chosen) != 1 or options.get("include_prompt") is False:
        raise _unsupported(folder, "its pooling is not supported")
    return chosen.pop()


def _limit(config: Mapping[str, Any]) -> int:
    positions = config.get("max_position_embeddings")
    if not isinstance(positions, int) or positions < 8:
        return _DEFAULT_LENGTH
    # RoBERTa models number positions from after the padding token.
    offset = int(config.get("pad_token_id") or 0) + 1
    return positions - offset if "roberta" in str(config.get("model_type")) else positions


def _pad(folder: Path, config: Mapping[str, Any], tokenizer: Mapping[str, Any]) -> int:
    pad_id = config.get("pad_token_id")
    if isinstance(pad_id, int):
        return pad_id
    token = tokenizer.get("pad_token") or ""
    token = token.get("content", "") if isinstance(token, Mapping) else token
    added = _read_json(folder / "tokenizer.json").get("added_tokens") or []
    return next((int(entry["id"]) for entry in added if entry.get("content") == token), 0)


def _prefixes(folder: Path, name: str) -> tuple[str, str]:
    prompts = _read_json(folder / "config_sentence_transformers.json").get("prompts")
    if isinstance(prompts, Mapping) and prompts:
        passage = next(
            (prompts[key] for key in ("passage", "document", "corpus") if key in prompts), ""
        )
        return str(prompts.get("query") or ""), str(passage or "")
    for pattern, prefixes in _KNOWN_PREFIXES:
        if pattern.search(name.lower()) or pattern.search(folder.name.lower()):
            return prefixes
    return "", ""


def _read_json(path: Path) -> dict[str, Any]:
    """Read a small file of the model; empty if it does not exist."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _unsupported(path.parent, f"{path.name} cannot be read ({error})") from error
    return content if isinstance(content, dict) else {}


def _unsupported(folder: Path, reason: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"{folder.name} is not a model that can be used: {reason}.",
        hint="Set embed.model to the folder of a sentence-transformers model with an ONNX file.",
        details={"path": str(folder)},
    )
