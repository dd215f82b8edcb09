"""Write the fine-tuned transformer as an int8 ONNX file with its tokenizer and description.

    python training/export_transformer.py WEIGHTS.npz TOKENIZER.json FOLDER

Takes: what ``transformer.py run`` saved. Gives: ``model.onnx``, ``tokenizer.json`` and
``model.json`` in FOLDER; ``training/stamp.py`` then writes the fingerprint. Each row of the
vocabulary has a step of its own. Matrices are multiplied as int8 with a step for each column; their
weights have seven bits, so that the sums of older processors do not overflow. The second matrix of
each layer's inner network is only stored as int8 and multiplied as float: its inputs have outliers,
and rounding them costs more than all other rounding together (correlation of similarities with the
unrounded model .95 instead of .98). The last layer is computed for the first token only, whose
state is the vector of the text.
"""

from __future__ import annotations

import argparse
import json
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

NAME = "lookfar-quality-1"
LAYERS, HEADS, WIDTH = 6, 12, 384
EPSILON = 1e-12
OFFSET = 2
"""The row of the first position."""
PADDING, LONGEST = 1, 256
OUTLIERS = "outliers_"
"""How the products are named whose inputs are not rounded."""


class Graph:
    """Nodes and constants of a graph while it is written."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any, kind: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        array = np.ascontiguousarray(np.array(value, dtype=kind))
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def node(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        output = name or f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], name=output, **attributes))
        return output


def write_graph(weights: dict[str, Any], path: Path) -> None:
    graph = Graph()
    node, constant = graph.node, graph.constant

    def linear(x: str, weight: Any, bias: Any) -> str:
        return node("Add", node("MatMul", x, constant(weight.T)), constant(bias))

    def normalise(x: str, name: str) -> str:
        scale, bias = constant(weights[f"{name}_w"]), constant(weights[f"{name}_b"])
        return node("LayerNormalization", x, scale, bias, axis=-1, epsilon=EPSILON)

    def split_heads(x: str, perm: list[int]) -> str:
        shape = constant([0, 0, HEADS, WIDTH // HEADS], np.int64)
        return node("Transpose", node("Reshape", x, shape), perm=perm)

    x = normalise(embed_tokens(graph, weights), "emb_ln")
    mask = node("Cast", "attention_mask", to=TensorProto.FLOAT)
    mask = node("Mul", node("Sub", constant(1.0), mask), constant(-10_000.0))
    mask = node("Unsqueeze", mask, constant([1, 2], np.int64))
    for layer in range(LAYERS):
        of = {key.partition("_")[2]: value for key, value in weights.items()
              if key.startswith(f"l{layer}_")}  # fmt: skip
        asking = x
        if layer == LAYERS - 1:
            first, one = constant([0], np.int64), constant([1], np.int64)
            asking = node("Slice", x, first, one, one)
        parts = zip(np.split(of["qkv_w"], 3), np.split(of["qkv_b"], 3), strict=True)
        (qw, qb), (kw, kb), (vw, vb) = parts
        query = split_heads(linear(asking, qw, qb), [0, 2, 1, 3])
        key = split_heads(linear(x, kw, kb), [0, 2, 3, 1])
        value = split_heads(linear(x, vw, vb), [0, 2, 1, 3])
        scores = node("Div", node("MatMul", query, key), constant(sqrt(WIDTH // HEADS)))
        shares = node("Softmax", node("Add", scores, mask), axis=-1)
        seen = node("Transpose", node("MatMul", shares, value), perm=[0, 2, 1, 3])
        seen = node("Reshape", seen, constant([0, 0, WIDTH], np.int64))
        out = linear(seen, of["ao_w"], of["ao_b"])
        x = normalise(node("Add", out, asking), f"l{layer}_aln")
        inner = linear(x, of["f1_w"], of["f1_b"])
        bent = node("Erf", node("Div", inner, constant(sqrt(2.0))))
        inner = node("Mul", node("Mul", inner, node("Add", bent, constant(1.0))), constant(0.5))
        product = node("MatMul", inner, constant(of["f2_w"].T), name=f"{OUTLIERS}{layer}")
        out = node("Add", product, constant(of["f2_b"]))
        x = normalise(node("Add", out, x), f"l{layer}_fln")
    graph.nodes.append(helper.make_node("Identity", [x], ["last_hidden_state"]))
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
              for name in ("input_ids", "attention_mask")]  # fmt: skip
    output = helper.make_tensor_value_info(
        "last_hidden_state", TensorProto.FLOAT, ["batch", 1, WIDTH]
    )
    made = helper.make_graph(graph.nodes, NAME, inputs, [output], graph.constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))


def embed_tokens(graph: Graph, weights: dict[str, Any]) -> str:
    """Return the sum of the rows of token and position; rows of tokens are int8 with a step."""
    node, constant = graph.node, graph.constant
    table = weights["word_emb"].astype(np.float32) + weights["type_emb"][0].astype(np.float32)
    step = np.maximum(np.abs(table).max(1, keepdims=True), 1e-9) / 127
    rows = node("Gather", constant(np.round(table / step), np.int8), "input_ids")
    steps = node("Gather", constant(step), "input_ids")
    tokens = node("Mul", node("Cast", rows, to=TensorProto.FLOAT), steps)
    places = constant(weights["pos_emb"][OFFSET : OFFSET + LONGEST])
    length = node("Gather", node("Shape", "input_ids"), constant([1], np.int64), axis=0)
    start = constant([0], np.int64)
    return node("Add", tokens, node("Slice", places, start, length, start))


def store_as_int8(path: Path) -> None:
    """Store the weights that are still floats as int8; they become floats when they are loaded."""
    model = onnx.load(str(path))
    graph = model.graph
    by_name = {constant.name: constant for constant in graph.initializer}
    products = [node for node in graph.node if node.name.startswith(OUTLIERS)]
    for product in products:
        constant = by_name[product.input[1]]
        matrix = numpy_helper.to_array(constant)
        step = np.maximum(np.abs(matrix).max(0), 1e-9) / 127
        parts = {"int8": np.round(matrix / step).astype(np.int8), "step": step.astype(np.float32)}
        for suffix, value in parts.items():
            graph.initializer.append(numpy_helper.from_array(value, f"{constant.name}_{suffix}"))
        inputs = [f"{constant.name}_{suffix}" for suffix in parts]
        output = f"{constant.name}_float"
        restored = helper.make_node("DequantizeLinear", inputs, [output], axis=1)
        graph.node.insert(0, restored)
        product.input[1] = output
        graph.initializer.remove(constant)
    onnx.save(model, str(path))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("weights", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    weights = {name: value.astype(np.float32) for name, value in np.load(given.weights).items()}
    whole = given.folder / "whole.onnx"
    write_graph(weights, whole)
    quantize_dynamic(
        whole,
        given.folder / "model.onnx",
        op_types_to_quantize=["MatMul"],
        per_channel=True,
        reduce_range=True,
        weight_type=QuantType.QInt8,
        nodes_to_exclude=[f"{OUTLIERS}{layer}" for layer in range(LAYERS)],
        extra_options={"MatMulConstBOnly": True},
    )
    store_as_int8(given.folder / "model.onnx")
    whole.unlink()
    tokenizer = json.loads(given.tokenizer.read_text("utf-8"))
    tokenizer["truncation"] = tokenizer["padding"] = None
    text = json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":"))
    (given.folder / "tokenizer.json").write_text(text, encoding="utf-8")
    described = {
        "name": NAME,
        "dimensions": WIDTH,
        "pooling": "cls",
        "max_tokens": LONGEST,
        "pad": PADDING,
    }
    (given.folder / "model.json").write_text(json.dumps(described, indent=2) + "\n", "utf-8")
    for name in ("model.onnx", "tokenizer.json", "model.json"):
        print(f"{name}: {(given.folder / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
