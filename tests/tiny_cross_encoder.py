"""A real ONNX cross-encoder whose verdicts can be worked out by hand.

It counts the words of the text that stand in the question, and takes two away: three shared
words are the number 1, two are 0. Words are those of its vocabulary; all others are one word.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

UNKNOWN = "[UNK]"


def write(folder: Path, words: Sequence[str], *, numbers: int = 1) -> Path:
    """The model as a folder; it gives one number for a pair, or as many as asked for."""
    folder.mkdir(parents=True)
    _tokenizer(words).save(str(folder / "tokenizer.json"))
    # What fills up a row is the first word: whoever does not mask it, counts it.
    shape = {"hidden_size": 8, "max_position_embeddings": 64, "pad_token_id": 2}
    (folder / "config.json").write_text(json.dumps(shape))
    _save(folder / "model.onnx", numbers)
    return folder


def _tokenizer(words: Sequence[str]) -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    known = {word: at for at, word in enumerate(["[PAD]", UNKNOWN, *words])}
    tokenizer = Tokenizer(WordLevel(known, unk_token=UNKNOWN))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single="$A", pair="$A:0 $B:1", special_tokens=[])
    return tokenizer


def _save(path: Path, numbers: int) -> None:
    from onnx import TensorProto, helper, save

    integers, floats = TensorProto.INT64, TensorProto.FLOAT
    node = helper.make_node
    nodes = [
        node("Unsqueeze", ["input_ids", "two"], ["down"]),
        node("Unsqueeze", ["input_ids", "one"], ["across"]),
        node("Equal", ["down", "across"], ["equal"]),
        node("Cast", ["equal"], ["same"], to=floats),
        node("Cast", ["attention_mask"], ["there"], to=floats),
        node("Cast", ["token_type_ids"], ["second"], to=floats),
        node("Sub", ["unit", "second"], ["first"]),
        # A word that is not in the vocabulary is like no other.
        node("Greater", ["input_ids", "one"], ["is_known"]),
        node("Cast", ["is_known"], ["known"], to=floats),
        node("Mul", ["there", "known"], ["counted"]),
        node("Mul", ["counted", "second"], ["text"]),
        node("Mul", ["counted", "first"], ["question"]),
        node("Unsqueeze", ["text", "two"], ["text_down"]),
        node("Unsqueeze", ["question", "one"], ["question_across"]),
        node("Mul", ["same", "text_down"], ["of_text"]),
        node("Mul", ["of_text", "question_across"], ["of_both"]),
        node("ReduceMax", ["of_both"], ["shared"], axes=[2], keepdims=0),
        node("ReduceSum", ["shared", "one"], ["count"], keepdims=1),
        node("Sub", ["count", "bias"], ["logit"]),
        node("Mul", ["logit", "spread"], ["logits"]),
    ]
    # Of several numbers each is the last one times its place from 0.
    factors = [1.0] if numbers == 1 else [float(at) for at in range(numbers)]
    graph = helper.make_graph(
        nodes,
        "overlap",
        [helper.make_tensor_value_info(name, integers, ["texts", "tokens"])
         for name in ("input_ids", "attention_mask", "token_type_ids")],
        [helper.make_tensor_value_info("logits", floats, ["texts", numbers])],
        [
            helper.make_tensor("one", integers, [1], [1]),
            helper.make_tensor("two", integers, [1], [2]),
            helper.make_tensor("unit", floats, [1], [1.0]),
            helper.make_tensor("bias", floats, [1], [2.0]),
            helper.make_tensor("spread", floats, [numbers], factors),
        ],
    )  # fmt: skip
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
