"""A real ONNX model for the second tier whose similarities can be worked out by hand.

Words of one group have the same vector, and those of two groups are nearly orthogonal; all other
words count for nothing. So "cat" is as near to "feline" as to itself if a group says so.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

UNKNOWN = "[UNK]"
DIMENSIONS = 16
WIDTH = 24
"""What the graph returns; the first ``DIMENSIONS`` numbers are used."""


def write(folder: Path, groups: Sequence[str], *, seed: int = 7, name: str = "tiny") -> Path:
    """Write the model of these groups of words into a folder, as the bundled one is."""
    from onnx import TensorProto, helper, numpy_helper, save
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace

    folder.mkdir(parents=True, exist_ok=True)
    vectors = np.random.default_rng(seed).normal(size=(len(groups), WIDTH)).astype(np.float32)
    known, rows = {"[PAD]": 0, UNKNOWN: 1}, [np.zeros(WIDTH), np.full(WIDTH, 1e-4)]
    for group, vector in zip(groups, vectors, strict=True):
        for word in group.split():
            known[word] = len(rows)
            rows.append(vector)
    tokenizer = Tokenizer(WordLevel(known, unk_token=UNKNOWN))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    table = numpy_helper.from_array(np.array(rows, dtype=np.float32), "table")
    sizes: list[str | int | None] = ["texts", "tokens"]
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
        "words",
        [helper.make_tensor_value_info(name, TensorProto.INT64, sizes)
         for name in ("input_ids", "attention_mask")],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*sizes, WIDTH])],
        [table],
    )  # fmt: skip
    opset = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=opset, ir_version=8), folder / "model.onnx")
    about = {"name": name, "dimensions": DIMENSIONS, "pooling": "mean", "max_tokens": 64}
    (folder / "model.json").write_text(json.dumps(about))
    return folder
