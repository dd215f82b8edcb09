"""Static models in a folder: their vectors, their tokens, and what is no such model."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from lookfar.embed import local, static
from lookfar.embed.static import StaticEmbedder
from lookfar.errors import ModelUnavailable
from processor_time import processor_time_below
from waiting import DEADLINE

TEXTS = [
    "How do I configure the cache?",
    "getUserById returns HTTPServer errors",
    "設定ファイルを開く",
    "año así café",
    "x",
    "The quick brown fox jumps over the lazy dog. " * 40,
]


def make_model(folder: Path) -> Path:
    """A vocabulary of all bytes and some words, each with a direction of its own."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    folder.mkdir()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([text.lower() for text in TEXTS], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    rows = np.random.default_rng(1).normal(size=(600, 64)).astype("<f2")
    entry = {"dtype": "F16", "shape": rows.shape, "data_offsets": [0, rows.nbytes]}
    header = json.dumps({"embedding.weight": entry}).encode()
    raw = len(header).to_bytes(8, "little") + header + rows.tobytes()
    (folder / "model.safetensors").write_bytes(raw)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("static") / "small")


@pytest.fixture(scope="module")
def embedder(model: Path) -> StaticEmbedder:
    return StaticEmbedder(model)


def test_vectors_have_unit_length(embedder: StaticEmbedder) -> None:
    vectors = embedder.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), embedder.dimensions)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("text", ["", " \n", "... — 🎉 ___"])
def test_a_text_without_words_has_a_zero_vector(embedder: StaticEmbedder, text: str) -> None:
    vectors = embedder.embed([text, "word"])
    assert not vectors[0].any()
    assert vectors[1].any()
    assert embedder.count_tokens(text) == 0


def test_no_texts_give_no_vectors(embedder: StaticEmbedder) -> None:
    assert embedder.embed([]).shape == (0, embedder.dimensions)


def test_a_query_and_a_batch_give_the_same_vector(model: Path) -> None:
    one, many = StaticEmbedder(model), StaticEmbedder(model)
    alone = np.vstack([one.embed([text]) for text in TEXTS])
    bulk = many.embed(TEXTS * 20)
    assert one._full is None
    assert many._full is not None
    assert np.array_equal(np.vstack([alone] * 20), bulk)


PROGRAM = """
import socket, sys
def refuse(*_): raise SystemExit("the network was asked for")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
from hashlib import sha256
from pathlib import Path
from lookfar.embed.static import StaticEmbedder
embedder = StaticEmbedder(Path({model!r}))
vectors = embedder.embed({texts!r})
print(sha256(vectors.tobytes()).hexdigest(), embedder.fingerprint)
"""


def test_another_process_gives_the_same(embedder: StaticEmbedder, model: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(texts=TEXTS, model=str(model))],
        capture_output=True, text=True, timeout=DEADLINE, check=True,
    )  # fmt: skip
    digest = sha256(embedder.embed(TEXTS).tobytes()).hexdigest()
    assert result.stdout.split() == [digest, embedder.fingerprint]


def nearness(embedder: StaticEmbedder, one: str, other: str) -> float:
    left, right = embedder.embed([one, other])
    return float(left @ right)


def test_identifiers_are_the_words_in_them(embedder: StaticEmbedder) -> None:
    assert nearness(embedder, "getUserById", "get user by id") == pytest.approx(1, abs=1e-6)
    assert nearness(embedder, "get_user-by.ID", "Get User By Id") == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("Word", ["word"]),
        ("HTTPServer", ["http", "server"]),
        ("getUserByID", ["get", "user", "by", "id"]),
        ("utf8", ["utf8"]),
        ("UTF8", ["utf", "8"]),
        ("café", ["café"]),
        ("Äpfel", ["äpfel"]),
        ("caféBar", ["café", "bar"]),
        ("Привет", ["привет"]),
        ("Kubernetesの設定", ["kubernetes", "の", "設", "定"]),
        ("x" * 70, ["x" * 32, "x" * 32, "x" * 6]),
        ("٣", []),
    ],
)
def test_words_fall_into_parts(word: str, parts: list[str]) -> None:
    assert static._parts(word) == parts


def test_the_quick_words_are_those_of_the_pattern() -> None:
    text = "".join(map(chr, range(128))) * 2
    assert static._words(text) == static._WORD.findall(text)


def test_hostile_texts_are_quick(embedder: StaticEmbedder) -> None:
    for text in ("x" * 300_000, "é" * 300_000, "漢" * 300_000, "aB" * 150_000, "9" * 300_000):
        with processor_time_below(10.0):
            assert embedder.count_tokens(text) > 1_000
            assert np.isfinite(embedder.embed([text])).all()


def test_the_token_cache_is_bounded(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_MAX_CACHED_WORDS", 100)
    embedder = StaticEmbedder(model)
    text = " ".join(f"w{number}" for number in range(1_000)) + " " + "y" * 5_000
    first = embedder.embed([text])
    assert len(embedder._tokens) <= 100
    assert max(map(len, embedder._tokens)) < 100
    assert np.array_equal(first, embedder.embed([text]))


# --- models that cannot be used -----------------------------------------------------------------


def test_an_empty_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable) as caught:
        StaticEmbedder(tmp_path)
    assert caught.value.details["path"].startswith(str(tmp_path))
    assert caught.value.hint


def table(rows: int = 4, kind: str = "F16", shape: tuple[int, ...] | None = None) -> bytes:
    entry = {"dtype": kind, "shape": shape or (rows, 8), "data_offsets": [0, rows * 16]}
    header = json.dumps({"__metadata__": {"a": "b"}, "embedding.weight": entry}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(range(rows * 16))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        b"PK\x03\x04 not a model at all",
        b"\xff" * 100,
        (4).to_bytes(8, "little") + b"nope",
        (2).to_bytes(8, "little") + b"[]",
        (2).to_bytes(8, "little") + b"{}",
        (8).to_bytes(8, "little") + b'{"a": 1}',
        table(kind="F32"),
        table(shape=(8,)),
        table()[:-10],
    ],
)
def test_a_wrong_file_is_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelUnavailable):
        StaticEmbedder(tmp_path)


def test_a_wrong_tokenizer_is_rejected(tmp_path: Path, embedder: StaticEmbedder) -> None:
    (tmp_path / "model.safetensors").write_bytes(table())
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelUnavailable):
        StaticEmbedder(tmp_path).embed(["word"])
    shutil.copy(embedder._tokenizer_path, tmp_path / "tokenizer.json")
    with pytest.raises(ModelUnavailable, match="more tokens than"):
        StaticEmbedder(tmp_path).embed(["word"])


def copy_of(embedder: StaticEmbedder, folder: Path) -> Path:
    folder.mkdir()
    shutil.copy(embedder._table_path, folder / "model.safetensors")
    shutil.copy(embedder._tokenizer_path, folder / "tokenizer.json")
    return folder


def test_a_model_in_a_folder_gives_the_same_vectors(
    tmp_path: Path, embedder: StaticEmbedder
) -> None:
    copied = StaticEmbedder(copy_of(embedder, tmp_path / "model"))
    assert np.array_equal(copied.embed(TEXTS), embedder.embed(TEXTS))
    assert copied.name == "static/model"


def test_the_fingerprint_changes_with_any_byte(tmp_path: Path, embedder: StaticEmbedder) -> None:
    folder = copy_of(embedder, tmp_path / "model")
    seen = {StaticEmbedder(folder).fingerprint}
    for name, offset in (("model.safetensors", -5_001), ("tokenizer.json", -100)):
        path = folder / name
        data = bytearray(path.read_bytes())
        data[offset] ^= 1
        path.write_bytes(data)
        seen.add(StaticEmbedder(folder).fingerprint)
    assert len(seen) == 3


def test_without_the_tokenizer_library_it_says_what_is_missing(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ModelUnavailable, match="tokenizers") as caught:
        StaticEmbedder(model).embed(["zebras"])
    assert "lookfar[onnx]" in caught.value.hint
