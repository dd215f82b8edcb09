"""Two models at once: each text in the space of its own, and a question in both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lookfar.config import EmbedSettings, load
from lookfar.embed.bundled import BundledEmbedder
from lookfar.embed.hashed import HashedEmbedder
from lookfar.embed.pair import PairEmbedder
from lookfar.embed.providers import in_workers, open_embedder
from lookfar.errors import InvalidConfig
from lookfar.library import Library
from lookfar.model import Filters
from lookfar.store.sqlite.snapshot import EpochSnapshot


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def test_texts_of_two_models_have_similarity_zero() -> None:
    docs, code = HashedEmbedder(384), HashedEmbedder(768)
    pair = PairEmbedder(docs, code)
    assert pair.dimensions == 384 + 768
    (prose,), (program,) = pair.embed(["red apple"]), pair.embed_code(["red apple"])
    assert prose @ program == 0
    assert np.array_equal(prose[:384], docs.embed(["red apple"])[0])
    assert np.array_equal(program[384:], code.embed(["red apple"])[0])
    question = pair.embed_query("apple")
    assert question.shape == (2, 1152)
    assert np.isclose(question[0] @ prose, docs.embed(["apple"])[0] @ docs.embed(["red apple"])[0])
    assert question[1] @ prose == 0
    assert question[0] @ program == 0


def test_either_model_changes_the_fingerprint() -> None:
    prints = {
        PairEmbedder(HashedEmbedder(a), HashedEmbedder(b)).fingerprint
        for a, b in ((4, 8), (8, 4), (4, 4), (8, 8))
    }
    assert len(prints) == 4


def test_the_settings_ask_for_a_second_model() -> None:
    pair = open_embedder(EmbedSettings("hash", code_provider="static"))
    assert isinstance(pair, PairEmbedder)
    assert isinstance(pair._docs, HashedEmbedder)
    assert isinstance(pair._code, BundledEmbedder)
    assert pair.dimensions == 64 + 256
    assert pair.quick
    assert not in_workers(EmbedSettings("hash", code_provider="onnx", code_model="a/b"))
    with pytest.raises(InvalidConfig, match="contradict"):
        load(None, {"embed.provider": "none", "embed.code_provider": "hash"}, {})
    with pytest.raises(InvalidConfig, match="contradict"):
        load(None, {"embed.code_provider": "onnx"}, {})
    chosen = load(
        None, {"embed.provider": "remote", "embed.model": "a", "embed.code_model": "b/c"}, {}
    ).embed
    assert (chosen.model, chosen.code_model) == ("a", "b/c")


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    """Documents by a model of 384 dimensions, code by one of 768."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "guide.md").write_text("# Guide\n\nhow to parse a date\n")
    (root / "other.md").write_text("# Other\n\nnothing of the kind\n")
    (root / "dates.py").write_text('def parse(text):\n    """parse a date"""\n    return text\n')
    (root / "more.py").write_text("def unrelated(x):\n    return x\n")

    def two(_: Any) -> PairEmbedder:
        return PairEmbedder(HashedEmbedder(384), HashedEmbedder(768))

    monkeypatch.setattr("lookfar.embed.providers.open_embedder", two)
    chosen = {"embed.provider": "hash", "index.workers": 1, "git.history": False}
    with Library.open(root, index_dir=tmp_path / "index", settings=chosen) as opened:
        yield opened


def test_code_and_documents_are_embedded_each_by_its_own(library: Library) -> None:
    """Seen to fail when ``prepare.embed`` gave everything to the first model."""
    library.index()
    folder = library.folder()
    pair = folder.embedder
    assert isinstance(pair, PairEmbedder)
    assert isinstance(pair._docs, HashedEmbedder)
    assert isinstance(pair._code, HashedEmbedder)
    assert any("how to parse" in text for text in pair._docs.embedded)
    assert not any("def " in text for text in pair._docs.embedded)
    assert any("def parse" in text for text in pair._code.embedded)
    assert not any("how to" in text for text in pair._code.embedded)
    with folder.store.snapshot() as snapshot:
        assert isinstance(snapshot, EpochSnapshot)
        rows = np.asarray(snapshot._rows, dtype=np.float32)
        for place in (*snapshot.chunks("guide.md"), *snapshot.chunks("dates.py")):
            row = rows[place.vector or 0]
            is_code = place.uri.endswith(".py")
            assert bool(row[:384].any()) is not is_code
            assert bool(row[384:].any()) is is_code


def test_a_question_finds_both_by_meaning(library: Library) -> None:
    answer = library.search("parse a date", mode="vector")
    assert {hit.uri for hit in answer.hits[:2]} == {"guide.md", "dates.py"}
    code = library.search("parse a date", mode="vector", filters=Filters(lanes=("code",)))
    assert code.hits[0].uri == "dates.py"
    assert not [hit for hit in code.hits if hit.uri.endswith(".md")]
    assert library.search("parse a date").hits
    assert library.status().dimensions == 1152


def test_each_model_finds_its_own_nearest(library: Library) -> None:
    """Else the one that calls everything near would fill the list: here that of the code."""
    library.index()
    folder = library.folder()
    pair = folder.embedder
    assert pair is not None
    question = pair.embed_query("parse a date")
    question[1] *= 100
    with folder.store.snapshot() as snapshot:
        nearest = snapshot.vector_search(question, 1, Filters())
        assert {place.uri for place, _ in nearest} == {"guide.md", "dates.py"}
        assert [score for _, score in nearest] == sorted((s for _, s in nearest), reverse=True)
        scores = snapshot.vector_scores(question, [place for place, _ in nearest])
        assert np.allclose(scores, [score for _, score in nearest], rtol=1e-3)
