"""The bundled model: its vectors, its tokens, and what happens without it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from lookfar.embed import static, tokens
from lookfar.embed.static import StaticEmbedder
from lookfar.errors import ModelUnavailable

pytest.importorskip("wordllama", reason="the bundled model has no wheel for this platform")

TEXTS = [
    "How do I configure the cache?",
    "getUserById returns HTTPServer errors",
    "設定ファイルを開く",
    "año así café",
    "x",
    "The quick brown fox jumps over the lazy dog. " * 40,
]


@pytest.fixture(scope="module")
def embedder() -> StaticEmbedder:
    return StaticEmbedder()


def test_vectors_have_unit_length(embedder: StaticEmbedder) -> None:
    vectors = embedder.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), embedder.dimensions)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("text", ["", " \n", "... — 🎉 ___"])
def test_a_text_without_words_has_no_direction(embedder: StaticEmbedder, text: str) -> None:
    vectors = embedder.embed([text, "word"])
    assert not vectors[0].any()
    assert vectors[1].any()
    assert embedder.count_tokens(text) == 0


def test_no_texts_give_no_vectors(embedder: StaticEmbedder) -> None:
    assert embedder.embed([]).shape == (0, embedder.dimensions)


def test_alone_and_in_bulk_a_text_has_the_same_vector() -> None:
    one, many = StaticEmbedder(), StaticEmbedder()
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
from lookfar.embed.static import StaticEmbedder
embedder = StaticEmbedder()
vectors = embedder.embed({texts!r})
print(sha256(vectors.tobytes()).hexdigest(), embedder.fingerprint)
print(*({{"wordllama", "tokenizers", "requests"}} & sys.modules.keys()))
"""


def test_another_process_gives_the_same_and_imports_no_package(embedder: StaticEmbedder) -> None:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(texts=TEXTS)],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    digest, packages = result.stdout.splitlines()
    assert digest == f"{sha256(embedder.embed(TEXTS).tobytes()).hexdigest()} {embedder.fingerprint}"
    assert packages == ""


def nearness(embedder: StaticEmbedder, one: str, other: str) -> float:
    left, right = embedder.embed([one, other])
    return float(left @ right)


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("delete a file", "remove the document from disk", "a recipe for apple pie"),
        ("the cat sat", "a kitten was sitting", "stock prices fell"),
        ("getUserById", "get user by id", "parse xml stream"),
        ("HTTP_RETRY_COUNT", "http retry count", "green grass"),
        ("año nuevo", "nuevo año", "stock prices"),
    ],
)
def test_related_texts_are_nearer(embedder: StaticEmbedder, text: str, near: str, far: str) -> None:
    assert nearness(embedder, text, near) > nearness(embedder, text, far) + 0.1


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


def test_the_vocabulary_and_the_library_agree(embedder: StaticEmbedder) -> None:
    path, rows = embedder._tokenizer_path, embedder._half.shape[0]
    ours, theirs = tokens.bundled(path, rows), tokens.from_library(path, rows)
    vocabulary = json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"]
    stems = [word.strip("▁").lower() for word in vocabulary]
    words = {stem for stem in stems if stem and "<" not in stem and "▁" not in stem}
    joined = (left + right for left, right in zip(stems[::3], stems[1::3], strict=False))
    words |= {word for word in joined if word.isalnum()}
    words |= {"año", "naïve", "привет", "हिन्दी", "𝒳", "ﬁ", "x" * 32, "qzxv" * 8, "12345678901"}
    assert len(words) > 20_000
    assert [word for word in sorted(words) if ours(word, True) != theirs(word, True)] == []
    characters = "漢字設定ア한の龘𠀀"
    assert [ours(each, False) for each in characters] == [
        theirs(each, False) for each in characters
    ]


def test_hostile_texts_are_quick(embedder: StaticEmbedder) -> None:
    for text in ("x" * 300_000, "é" * 300_000, "漢" * 300_000, "aB" * 150_000, "9" * 300_000):
        started = time.process_time()
        assert embedder.count_tokens(text) > 1_000
        assert np.isfinite(embedder.embed([text])).all()
        assert time.process_time() - started < 10.0


def test_tokens_are_remembered_but_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "_REMEMBERED_WORDS", 100)
    embedder = StaticEmbedder()
    text = " ".join(f"w{number}" for number in range(1_000)) + " " + "y" * 5_000
    first = embedder.embed([text])
    assert len(embedder._tokens) <= 100
    assert max(map(len, embedder._tokens)) < 100
    assert np.array_equal(first, embedder.embed([text]))


# --- models that cannot be used -----------------------------------------------------------------


def test_without_the_package_the_model_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "find_spec", lambda name: None)
    with pytest.raises(ModelUnavailable) as caught:
        StaticEmbedder()
    assert "pip install" in caught.value.hint


def test_an_empty_folder_is_no_model(tmp_path: Path) -> None:
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
def test_a_wrong_file_is_no_model(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelUnavailable):
        StaticEmbedder(tmp_path)


def test_a_wrong_tokenizer_is_no_model(tmp_path: Path, embedder: StaticEmbedder) -> None:
    (tmp_path / "model.safetensors").write_bytes(table())
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelUnavailable):
        StaticEmbedder(tmp_path).embed(["word"])
    shutil.copy(embedder._tokenizer_path, tmp_path / "tokenizer.json")
    with pytest.raises(ModelUnavailable, match="more tokens than"):
        StaticEmbedder(tmp_path).embed(["word"])
    with pytest.raises(ModelUnavailable):
        tokens.bundled(tmp_path / "model.safetensors", 32_000)


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
    for name, offset in (("model.safetensors", -5_001), ("tokenizer.json", 200_000)):
        path = folder / name
        data = bytearray(path.read_bytes())
        data[offset] ^= 1
        path.write_bytes(data)
        seen.add(StaticEmbedder(folder).fingerprint)
    assert len(seen) == 3
    assert StaticEmbedder().fingerprint == embedder.fingerprint
