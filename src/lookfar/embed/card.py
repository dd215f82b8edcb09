"""What a sentence-transformers model says of itself, read from its own files.

Takes: a folder. Gives: how tokens become one vector, how long a text may be, what goes before
questions and passages, and which of its ONNX files to use. Refuses: folders that are no such
model, and models that need a step which is not in their ONNX file.
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
_USUAL_LENGTH = 512
_LONGEST = 131_072
_INT8: Final = ("model_quantized", "model_int8", "model_uint8")
_INT8_BY_MACHINE: Final = {
    "arm": ("model_qint8_arm64",),
    "x86": ("model_qint8_avx512_vnni", "model_qint8_avx512", "model_quint8_avx2"),
}
_FP32: Final = ("model", "model_optimized")

# Models that were trained with prefixes and do not say so in their files.
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
    """What has to be known beside the weights."""

    pooling: Pooling
    dimensions: int
    max_tokens: int
    """What the model was made for."""
    limit: int
    """What it can take at all."""
    pad: int
    query_prefix: str
    passage_prefix: str
    needs: str
    """A module behind the pooling that has to be in the ONNX file; empty where there is none."""


def read_card(folder: Path, name: str = "") -> Card:
    """All of it; ``name`` is the model's name on the hub, by which some prefixes are known."""
    if not (folder / "tokenizer.json").is_file():
        raise _no_model(folder, "it has no tokenizer.json")
    config = _json(folder / "config.json")
    tokenizer = _json(folder / "tokenizer_config.json")
    modules = _modules(folder)
    pooling = next((path for kind, path in modules if kind == "Pooling"), "1_Pooling")
    behind = [kind for kind, _ in modules if kind not in ("Transformer", "Pooling", "Normalize")]
    pooled = _json(folder / pooling / "config.json")
    dimensions = pooled.get("word_embedding_dimension", pooled.get("embedding_dimension"))
    dimensions = dimensions or config.get("hidden_size") or config.get("dim")
    if not isinstance(dimensions, int) or dimensions < 1:
        raise _no_model(folder, "neither its config.json nor its pooling says how long vectors are")
    limit = _limit(config)
    stated = _json(folder / "sentence_bert_config.json").get("max_seq_length")
    usual = tokenizer.get("model_max_length")
    length = next((n for n in (stated, usual) if isinstance(n, int) and 0 < n < _LONGEST), limit)
    query, passage = _prefixes(folder, name or str(config.get("_name_or_path", "")))
    return Card(
        pooling=_pooling(folder, pooled),
        dimensions=dimensions,
        max_tokens=min(length, limit),
        limit=limit,
        pad=_pad(folder, config, tokenizer),
        query_prefix=query,
        passage_prefix=passage,
        needs=", ".join(behind),
    )


def choose_file(names: Sequence[str], precision: str) -> list[str]:
    """The ONNX file to use, first, and what belongs to it; nothing where none fits.

    ``auto`` and ``int8`` take int8 weights where there are any; ``int8`` without them takes the
    others, to be made smaller.
    """
    machine = "arm" if platform.machine().lower() in ("arm64", "aarch64") else "x86"
    small = (*_INT8_BY_MACHINE[machine], *_INT8)
    wanted = _FP32 if precision == "fp32" else (*small, *_FP32)
    for stem in wanted:
        for place in ("onnx/", ""):
            path = f"{place}{stem}.onnx"
            if path in names:
                return [path, *(each for each in names if each.startswith(f"{path}_data")
                                or each == f"{path}.data")]  # fmt: skip
    only = [each for each in names if each.endswith(".onnx") and each.count("/") <= 1]
    return only if len(only) == 1 else []


def is_small(path: str) -> bool:
    """Whether a file holds int8 weights, by its name."""
    return re.search(r"q?u?int8|quantized", Path(path).stem) is not None


def _modules(folder: Path) -> list[tuple[str, str]]:
    path = folder / "modules.json"
    if not path.is_file():
        return []
    try:
        told = json.loads(path.read_text("utf-8"))
        return [(str(each["type"]).rpartition(".")[2], str(each["path"])) for each in told]
    except (ValueError, KeyError, TypeError) as error:
        raise _no_model(folder, f"its modules.json makes no sense ({error})") from error


def _pooling(folder: Path, told: Mapping[str, Any]) -> Pooling:
    chosen = {kind for key, kind in _POOLINGS.items() if told.get(key)}
    newer = told.get("pooling_mode")
    if newer is not None:
        chosen = {_NEWER_NAMES[newer]} if newer in _NEWER_NAMES else set()
    if not told:
        return "mean"
    if len(chosen) != 1 or told.get("include_prompt") is False:
        raise _no_model(folder, "it pools its tokens in a way that is not supported")
    return chosen.pop()


def _limit(config: Mapping[str, Any]) -> int:
    positions = config.get("max_position_embeddings")
    if not isinstance(positions, int) or positions < 8:
        return _USUAL_LENGTH
    # The RoBERTa family counts positions from behind the padding token.
    offset = int(config.get("pad_token_id") or 0) + 1
    return positions - offset if "roberta" in str(config.get("model_type")) else positions


def _pad(folder: Path, config: Mapping[str, Any], tokenizer: Mapping[str, Any]) -> int:
    given = config.get("pad_token_id")
    if isinstance(given, int):
        return given
    token = tokenizer.get("pad_token") or ""
    token = token.get("content", "") if isinstance(token, Mapping) else token
    added = _json(folder / "tokenizer.json").get("added_tokens") or []
    return next((int(each["id"]) for each in added if each.get("content") == token), 0)


def _prefixes(folder: Path, name: str) -> tuple[str, str]:
    told = _json(folder / "config_sentence_transformers.json")
    prompts = told.get("prompts")
    if isinstance(prompts, Mapping) and prompts:
        passage = next(
            (prompts[key] for key in ("passage", "document", "corpus") if key in prompts), ""
        )
        return str(prompts.get("query") or ""), str(passage or "")
    for known, prefixes in _KNOWN_PREFIXES:
        if known.search(name.lower()) or known.search(folder.name.lower()):
            return prefixes
    return "", ""


def _json(path: Path) -> dict[str, Any]:
    """A small file of the model; empty where there is none."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _no_model(path.parent, f"{path.name} cannot be read ({error})") from error
    return found if isinstance(found, dict) else {}


def _no_model(folder: Path, why: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"{folder.name} is not a model that can be used: {why}.",
        hint="Give the folder of a sentence-transformers model with an ONNX file as embed.model.",
        details={"path": str(folder)},
    )
