"""Results as data and as a file that can be kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lookfar.errors import InvalidArgument, NotFound
from lookfar.evaluate.metrics import METRICS
from lookfar.evaluate.results import Results, Scored, read_results, results_as_json


def scored(name: str, value: float, category: str = "", took: float = 1.0) -> Scored:
    return Scored(
        name, f"query {name}", category, f"mark-{name}", dict.fromkeys(METRICS, value),
        int(value > 0), took, ("a.md:1-2",), ("gone.md",) if value == 0 else (),
    )  # fmt: skip


MADE = Results(
    "mine", 5, "hybrid", "hash", {"docs": 3},
    (
        scored("1", 1.0, "x", 4.0),
        scored("2", 0.0, "y", 1.0),
        scored("3", 0.5, "x", 2.0),
        scored("4", 0.0, "", 3.0),
    ),
    {"search.mode": "hybrid", "sources.exclude": ("a", "b")},
    ("stale: two files",),
)  # fmt: skip


def test_means_categories_and_times_by_hand() -> None:
    assert MADE.means() == dict.fromkeys(METRICS, 0.375)
    assert MADE.categories() == {
        "": (1, dict.fromkeys(METRICS, 0.0)),
        "x": (2, dict.fromkeys(METRICS, 0.75)),
        "y": (1, dict.fromkeys(METRICS, 0.0)),
    }
    assert MADE.latency() == {"p50": 2.0, "p95": 4.0}
    assert MADE.missing == ("gone.md",)


def test_without_categories_there_are_none() -> None:
    assert Results("", 5, "hybrid", "hash", {}, (scored("1", 1.0),)).categories() == {}


def test_saved_results_read_back_equal(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_text(json.dumps(results_as_json(MADE)), encoding="utf-8")
    again = read_results(path)
    assert again.queries == MADE.queries
    assert (again.label, again.k, again.mode) == ("mine", 5, "hybrid")
    assert results_as_json(again) == results_as_json(MADE)


def test_the_shape() -> None:
    made = results_as_json(MADE)
    assert list(made) == [
        "kind", "format", "label", "k", "mode", "model", "generations", "settings", "metrics",
        "latency_ms", "categories", "missing", "notes", "queries",
    ]  # fmt: skip
    assert list(made["metrics"]) == list(METRICS)
    assert made["metrics"]["ndcg"]["mean"] == 0.375
    assert made["metrics"]["ndcg"]["low"] <= 0.375 <= made["metrics"]["ndcg"]["high"]
    assert made["categories"]["x"] == {"queries": 2, **dict.fromkeys(METRICS, 0.75)}
    assert list(made["queries"][0]) == [
        "id", "query", "category", "ndcg", "mrr", "recall", "success", "rank", "took_ms",
        "found", "missing", "mark",
    ]  # fmt: skip


def damaged(**changes: Any) -> str:
    return json.dumps({**results_as_json(MADE), **changes})


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "5",
        '"text"',
        "{}",
        "{",
        "[" * 100_000,
        damaged(kind="another"),
        damaged(format=2),
        damaged(queries=[]),
        damaged(queries=[{}]),
        damaged(queries=5),
        damaged(k="many"),
        damaged(generations=[]),
        damaged(queries=[{**results_as_json(MADE)["queries"][0], "ndcg": "high"}]),
        damaged(queries=[{**results_as_json(MADE)["queries"][0], "mrr": 2}]),
        damaged(queries=[{**results_as_json(MADE)["queries"][0], "mrr": float("nan")}]),
    ],
)
def test_another_file_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "kept.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidArgument, match=r"kept\.json does not contain results"):
        read_results(path)


def test_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_results(tmp_path / "absent.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidArgument):
        read_results(tmp_path / "binary.json")
