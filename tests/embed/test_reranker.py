"""A cross-encoder through a real ONNX runtime, with verdicts that can be worked out by hand."""

from __future__ import annotations

import sys
from math import exp
from pathlib import Path

import pytest

from lookfar.config import EmbedSettings, load
from lookfar.embed import onnx
from lookfar.embed.onnx import CrossEncoder, open_reranker
from lookfar.errors import ModelUnavailable

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
import tiny_cross_encoder

WORDS = ("how", "do", "zebras", "sleep", "standing", "lions", "run")
SETTINGS = EmbedSettings(threads=1, offline=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_cross_encoder.write(tmp_path / "tiny", WORDS)


def sigmoid(number: float) -> float:
    return 1 / (1 + exp(-number))


def test_a_score_is_the_sigmoid_of_the_models_number(folder: Path) -> None:
    texts = [
        "zebras sleep standing",  # 2 shared words
        "lions run",  # none
        "how do zebras sleep",  # 4
        "zebras zebras zebras",  # 3
        "nobody knows",  # none, and unknown words are like no other
    ]
    values = CrossEncoder(SETTINGS, str(folder)).scores("How do zebras sleep", texts)
    assert values == pytest.approx([sigmoid(n - 2) for n in (2, 0, 4, 3, 0)], abs=1e-6)


def test_two_logits_use_their_difference(tmp_path: Path) -> None:
    folder = tiny_cross_encoder.write(tmp_path / "two", WORDS, numbers=2)
    values = CrossEncoder(SETTINGS, str(folder)).scores("zebras sleep", ["zebras", "lions"])
    # 0 against -1, and 0 against -2.
    assert values == pytest.approx([sigmoid(-1), sigmoid(-2)], abs=1e-6)


def test_a_score_is_independent_of_the_batch(folder: Path) -> None:
    """Caught: padding that is counted as words."""
    model = CrossEncoder(SETTINGS, str(folder))
    texts = ["zebras", "zebras sleep standing " * 9, "how do lions"]
    together = model.scores("how do zebras sleep", texts)
    alone = [model.scores("how do zebras sleep", [text])[0] for text in texts]
    assert together == pytest.approx(alone, abs=1e-6)
    batches = EmbedSettings(threads=1, offline=True, batch=1)
    assert CrossEncoder(batches, str(folder)).scores("how do zebras sleep", texts) == alone
    # The padding is "how": in the question it would make the second text a better one.
    pair = model.scores("zebras", ["zebras sleep standing", "how"])
    assert pair == pytest.approx([sigmoid(-1), sigmoid(-2)], abs=1e-6)


def test_a_long_text_is_cut_and_a_long_question_too(folder: Path) -> None:
    model = CrossEncoder(SETTINGS, str(folder))
    (cut,) = model.scores("zebras", ["lions " * 100 + "zebras"])
    assert cut == pytest.approx(sigmoid(-2), abs=1e-6)
    assert len(model.scores("zebras sleep " * 100, ["zebras " * 100])) == 1
    assert model.scores("zebras", []) == []


def test_a_model_without_a_score_is_rejected(tmp_path: Path) -> None:
    folder = tiny_cross_encoder.write(tmp_path / "three", WORDS, numbers=3)
    with pytest.raises(ModelUnavailable, match="3 numbers"):
        CrossEncoder(SETTINGS, str(folder)).scores("zebras", ["zebras"])


def test_a_model_is_loaded_once(folder: Path) -> None:
    assert open_reranker(SETTINGS, str(folder)) is open_reranker(SETTINGS, str(folder))


def test_a_failed_model_is_not_retried_at_every_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "later"
    with pytest.raises(ModelUnavailable):
        open_reranker(SETTINGS, str(place))
    tiny_cross_encoder.write(place, WORDS)
    with pytest.raises(ModelUnavailable):
        open_reranker(SETTINGS, str(place))
    monkeypatch.setattr(onnx, "_RETRY_SECONDS", 0.0)
    assert open_reranker(SETTINGS, str(place)).scores("zebras", ["zebras"])


def test_a_model_is_a_name_on_the_hub_or_a_folder(tmp_path: Path) -> None:
    def chosen(**given: str) -> str:
        return load(None, given, {"HOME": str(tmp_path)}).search.rerank_model

    assert chosen() == "cross-encoder/ms-marco-MiniLM-L-6-v2"
    assert chosen(**{"search.rerank_model": "owner/name"}) == "owner/name"
    assert chosen(**{"search.rerank_model": "./owner/name"}) == str(Path("owner/name").resolve())


def test_offline_nothing_is_fetched(tmp_path: Path) -> None:
    settings = EmbedSettings(offline=True, models_dir=str(tmp_path / "models"))
    with pytest.raises(ModelUnavailable, match="offline"):
        open_reranker(settings, "cross-encoder/ms-marco-MiniLM-L-6-v2")
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers"])
def test_without_the_extra_it_says_which_package_is_missing(
    package: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModelUnavailable, match=package):
        CrossEncoder(SETTINGS, str(folder)).scores("zebras", ["zebras"])
