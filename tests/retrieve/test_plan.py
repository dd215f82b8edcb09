"""Plans made from questions."""

from __future__ import annotations

import pytest

from lookfar.embed.bundled import BundledEmbedder
from lookfar.embed.hashed import HashedEmbedder
from lookfar.errors import InvalidArgument, ModelUnavailable
from lookfar.model import Filters, Mode
from lookfar.ports import Embedder
from lookfar.retrieve.question.plan import make_plan
from lookfar.retrieve.ranking import Plan


def plan(
    text: str, mode: Mode = "hybrid", top_k: int = 10, embedder: Embedder | None = None
) -> Plan:
    return make_plan(text, mode=mode, top_k=top_k, filters=Filters(), embedder=embedder)


def test_stop_words_are_dropped_unless_nothing_else_remains() -> None:
    assert plan("how do I configure the cluster").terms == ("configur", "cluster")
    assert plan("to be or not to be").terms == ("to", "be", "or", "not")


def test_names_are_separate_from_their_parts() -> None:
    assert plan("convert i32x4 to get_user").names == {
        "i32x4": ("i", "32", "x", "4"),
        "get_user": ("get", "user"),
    }
    assert plan("user of get_user").names["get_user"] == ("get",)
    assert plan("設定方法 plain words").names == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": None},
        {"text": b"x"},
        {"mode": "zz"},
        {"top_k": "3"},
        {"top_k": 2.5},
        {"filters": {"prefix": "a"}},
        {"filters": Filters(uris="a.md")},  # type: ignore[arg-type]
    ],
)
def test_wrong_types_are_rejected(wrong: dict[str, object]) -> None:
    good = {"text": "word", "mode": "hybrid", "top_k": 3, "filters": Filters()}
    with pytest.raises(InvalidArgument):
        make_plan(**good | wrong, embedder=None)  # type: ignore[arg-type]


def test_single_kana_are_dropped_but_pairs_are_not() -> None:
    terms = plan("設定のしかた").terms
    assert "の" not in terms
    assert {"設", "設定", "しか"} <= set(terms)


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_empty_question_is_rejected(text: str) -> None:
    with pytest.raises(InvalidArgument, match="empty"):
        plan(text)


@pytest.mark.parametrize("top_k", [0, -1, 1001])
def test_top_k_out_of_range_is_rejected(top_k: int) -> None:
    with pytest.raises(InvalidArgument, match="top_k"):
        plan("word", top_k=top_k)


def test_too_long_and_invalid_questions_are_rejected() -> None:
    with pytest.raises(InvalidArgument, match="characters"):
        plan("a" * 50_001)
    with pytest.raises(InvalidArgument, match="lone surrogate"):
        plan("word \ud800")


def test_vector_search_without_a_model_is_rejected() -> None:
    with pytest.raises(ModelUnavailable, match="needs an embedding model"):
        plan("word", mode="vector")


def test_keyword_search_embeds_nothing() -> None:
    embedder = HashedEmbedder()
    assert plan("word", mode="keyword", embedder=embedder).vector is None
    assert embedder.embedded == []


def test_question_without_words_has_no_vector() -> None:
    assert plan("!!! ???", embedder=HashedEmbedder()).vector is None


def test_model_is_trusted_only_if_it_knows_the_words() -> None:
    bundled = BundledEmbedder()
    assert plan("how do I drain a node", embedder=bundled).vector_trust == 1.0
    assert plan("コンテナーのネットワーク", embedder=bundled).vector_trust == 1.0
    assert plan("გამარჯობა მსოფლიო", embedder=bundled).vector_trust == 0.0


@pytest.mark.parametrize(
    "filters",
    [Filters(uris=("a/\udcff.md",)), Filters(prefix="\ud800"), Filters(authors=("\udfff",))],
)
def test_lone_surrogate_in_a_filter_is_rejected(filters: Filters) -> None:
    """SQLite cannot store it; it was an internal error."""
    with pytest.raises(InvalidArgument, match="lone surrogate"):
        make_plan("word", mode="keyword", top_k=1, filters=filters, embedder=None)
