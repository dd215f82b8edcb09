"""``lookfar eval``: measured, compared, drawn, kept, and judged for CI."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import Result

import tiny_transformer
from lookfar.evaluate import Comparison, advise_tiers, read_results
from lookfar.evaluate.metrics import METRICS
from lookfar.serve.cli.eval import _METRICS
from python_programs import run_python

Ask = Callable[..., dict[str, Any]]
Run = Callable[..., Result]

QUESTIONS: list[dict[str, Any]] = [
    {"query": "rotate the signing key", "relevant": ["security/keys.md"], "category": "security"},
    {"query": "undo a migration", "relevant": ["operations/migrations.md#Undo a migration"]},
    {"query": "ship a release", "relevant": ["operations/releases.md"], "category": "releases"},
    {
        "query": "the first week",
        "relevant": [{"uri": "onboarding.md", "grade": 2}],
        "filters": {"glob": "*.md"},
    },
]
MISSED = {"query": "ship a release", "relevant": ["onboarding.md"]}
"""Words that the page which should be found does not have."""


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return write_questions(tmp_path / "questions.jsonl", *QUESTIONS)


def write_questions(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def steady(shape: dict[str, Any]) -> dict[str, Any]:
    """Return the result without times, which differ between runs."""
    for result in shape["results"]:
        result.pop("latency_ms")
        for query in result["queries"]:
            query.pop("took_ms")
    return shape


# --- with and without the second model ---------------------------------------------------------


def test_tiers_are_compared_with_advice(
    handbook: Path, questions: Path, run: Run, ask: Ask, tmp_path: Path
) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    model = tiny_transformer.write(tmp_path / "model", ["rotate", "undo", "ship release", "week"])
    both = ("--tiers", "--set", f"quality.model={model}", "--set", "quality.enabled=on")
    shape = ask("eval", questions, handbook, *both)
    first, second = shape["results"]
    assert first["label"].startswith("both models")
    assert second["settings"]["quality.enabled"] == "off"
    assert shape["comparison"]["ndcg"]["queries"] == len(QUESTIONS)
    assert "ndcg changes by" in shape["advice"]
    text = run("eval", questions, handbook, *both).stdout
    assert text.rstrip().endswith((".", "sure."))
    assert "second model" in text.splitlines()[-1]
    assert "No advice" not in text
    assert "No advice" in run("eval", handbook, *both).stdout


def test_tiers_need_a_second_model_and_nothing_else_to_compare_with(
    handbook: Path, questions: Path, run: Run
) -> None:
    off = run("eval", questions, handbook, "--tiers", "--set", "quality.enabled=off")
    assert off.exit_code != 0
    assert "second model" in off.stderr
    twice = run("eval", questions, handbook, "--tiers", "--against", "search.mode=keyword")
    assert twice.exit_code != 0
    assert "Give one of them" in twice.stderr


@pytest.mark.parametrize(
    ("delta", "p", "advice"),
    [
        (0.1, 0.001, "Keep the second model"),
        (-0.1, 0.001, "Turn the second model off"),
        (0.01, 0.6, "No significant difference"),
    ],
)
def test_advice_follows_the_comparison(
    handbook: Path, questions: Path, delta: float, p: float, advice: str, ask: Ask, tmp_path: Path
) -> None:
    saved = tmp_path / "saved.json"
    ask("eval", questions, handbook, "--mode", "keyword", "--save", saved)
    results = read_results(saved)
    comparison = Comparison(
        "ndcg", 200, 0, 0.5, 0.5 + delta, delta, delta - 0.05, delta + 0.05, p, 1, 1, 1, ()
    )
    assert advise_tiers(comparison, results, results).startswith(advice)
    of_generated = advise_tiers(comparison, results, results, generated=True)
    assert of_generated.startswith("Keep" if delta > 0.05 else "No advice"), (
        "questions in the words of the documents cannot show what the second model gains"
    )


# --- measuring --------------------------------------------------------------------------------


def test_judged_questions(handbook: Path, questions: Path, run: Run, ask: Ask) -> None:
    shape = ask("eval", questions, handbook, "--mode", "keyword")
    assert list(shape) == ["source", "results", "comparison", "failures", "passed"]
    assert (shape["source"], shape["passed"]) == ("from questions.jsonl", True)
    assert (shape["comparison"], shape["failures"]) == ({}, [])
    (result,) = shape["results"]
    assert (result["mode"], result["k"], result["model"]) == ("keyword", 10, "hash")
    assert result["metrics"]["recall"]["mean"] == 1.0
    assert result["settings"] == {"embed.provider": "hash", "search.mode": "keyword"}
    assert [question["query"] for question in result["queries"]] == [
        question["query"] for question in QUESTIONS
    ]
    assert {name: category["queries"] for name, category in result["categories"].items()} == {
        "": 2,
        "releases": 1,
        "security": 1,
    }
    output = run("eval", questions, handbook).stdout
    assert output.startswith("4 questions from questions.jsonl, first 10 answers\n")
    for text in ("ndcg@10", "mrr@10", "recall@10", "success@1", "█", "p50 ", "p95 ", "releases"):
        assert text in output
    assert "\x1b" not in output


def test_the_json_is_the_same_every_time(handbook: Path, questions: Path, ask: Ask) -> None:
    given = ("eval", questions, handbook, "--against", "search.mode=keyword")
    assert steady(ask(*given)) == steady(ask(*given))


def test_questions_made_from_the_folder(handbook: Path, tmp_path: Path, ask: Ask) -> None:
    saved = tmp_path / "made.jsonl"
    first = ask("eval", handbook, "--known", 6, "--save-queries", saved)
    assert first["source"] == "made from the folder itself (seed 0)"
    (result,) = first["results"]
    assert len(result["queries"]) == 6
    assert {"heading", "opening"} <= set(result["categories"])
    assert result["missing"] == []
    # What was kept asks the same again.
    again = ask("eval", saved, handbook)
    assert [question["mark"] for question in again["results"][0]["queries"]] == [
        question["mark"] for question in result["queries"]
    ]
    other = ask("eval", handbook, "--known", 6, "--seed", 5)
    assert other["results"][0]["queries"] != result["queries"]


def test_the_current_folder_is_the_default(
    handbook: Path, questions: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(handbook)
    assert len(ask("eval", questions)["results"][0]["queries"]) == 4
    assert ask("eval", "--known", 2)["source"].startswith("made from")


def test_each_mode(handbook: Path, questions: Path, ask: Ask, run: Run) -> None:
    modes = ("--mode", "hybrid", "--mode", "keyword", "--mode", "vector")
    shape = ask("eval", questions, handbook, *modes)
    assert [result["mode"] for result in shape["results"]] == ["hybrid", "keyword", "vector"]
    output = run("eval", questions, handbook, *modes).stdout
    assert output.count("ndcg@10") >= 3


def test_k_is_the_depth(handbook: Path, tmp_path: Path, ask: Ask) -> None:
    file = write_questions(
        tmp_path / "q.jsonl", {"query": "release", "relevant": ["onboarding.md"]}
    )
    deep = ask("eval", file, handbook, "--mode", "keyword", "-k", 10)["results"][0]
    flat = ask("eval", file, handbook, "--mode", "keyword", "-k", 1)["results"][0]
    assert flat["k"] == 1
    assert flat["queries"][0]["rank"] == 0
    assert deep["queries"][0]["rank"] != 1


def test_documents_missing_from_the_index_are_reported(
    handbook: Path, tmp_path: Path, run: Run
) -> None:
    line = {"query": "keys", "relevant": ["security/keys.md", "gone\x1b[31m.md"]}
    output = run("eval", write_questions(tmp_path / "q.jsonl", line), handbook).stdout
    assert "expected, but not in the index: 1 (gone\\x1b[31m.md)" in output


# --- comparing --------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--against", "--diff"])
def test_two_configurations(handbook: Path, questions: Path, ask: Ask, option: str) -> None:
    shape = ask("eval", questions, handbook, option, "search.mode=keyword")
    assert [result["mode"] for result in shape["results"]] == ["hybrid", "keyword"]
    assert shape["results"][1]["label"] == "against search.mode=keyword"
    assert list(shape["comparison"]) == ["ndcg", "mrr", "recall", "success"]
    comparison = shape["comparison"]["ndcg"]
    assert (comparison["queries"], comparison["unpaired"]) == (4, 0)
    assert comparison["wins"] + comparison["losses"] + comparison["ties"] == 4
    before, after = (shape["results"][at]["metrics"]["ndcg"]["mean"] for at in (1, 0))
    assert comparison["delta"] == pytest.approx(after - before, abs=1e-5)


def test_a_configuration_equals_itself(handbook: Path, questions: Path, ask: Ask, run: Run) -> None:
    shape = ask("eval", questions, handbook, "--against", "search.mode=hybrid")
    for comparison in shape["comparison"].values():
        assert (comparison["delta"], comparison["p"], comparison["ties"], comparison["moved"]) == (
            0.0,
            1.0,
            4,
            [],
        )
    output = run("eval", questions, handbook, "--against", "search.mode=hybrid").stdout
    assert "No significant difference (ndcg, p >= 0.05)." in output


def test_two_models_leave_the_index_as_it_is(
    handbook: Path, questions: Path, tmp_path: Path, ask: Ask, run: Run
) -> None:
    run("index", handbook, "--quiet")
    before = ask("status", handbook)
    work = tmp_path / "work"
    shape = ask(
        "eval", questions, handbook, "--against", "embed.provider=none",
        "--against", "chunk.max_tokens=64", "--work", work,
    )  # fmt: skip
    assert [result["model"] for result in shape["results"]] == ["hash", "none"]
    assert list(work.iterdir())
    after = ask("status", handbook)
    for key in ("generation", "generations", "model", "current", "created_at", "chunks"):
        assert after[key] == before[key], key


def test_two_generations(handbook: Path, tmp_path: Path, ask: Ask, run: Run) -> None:
    run("index", handbook, "--quiet")
    (handbook / "security" / "keys.md").write_text("# Keys\n\nNothing here any more.\n")
    run("index", handbook, "--quiet")
    line = {"query": "hardware module", "relevant": ["security/keys.md"]}
    file = write_questions(tmp_path / "q.jsonl", line)
    given = ("eval", file, handbook, "--mode", "keyword", "-k", 1)
    shape = ask(*given, "--against", "as_of=1")
    assert [result["generations"] for result in shape["results"]] == [
        {"handbook": 2},
        {"handbook": 1},
    ]
    (moved,) = shape["comparison"]["ndcg"]["moved"]
    assert (moved["rank_before"], moved["rank_after"]) == (1, 0)
    turned = ask(*given, "--as-of", 1, "--against", "as-of=2")
    assert turned["comparison"]["ndcg"]["delta"] == -shape["comparison"]["ndcg"]["delta"]
    output = run(*given, "--against", "as_of=1").stdout
    assert "  -1.000     1 -> -  hardware module\n" in output


# --- for CI -----------------------------------------------------------------------------------


def test_a_target_that_is_met(handbook: Path, questions: Path, run: Run) -> None:
    result = run("eval", questions, handbook, "--fail-under", "recall=1", "--fail-under", "mrr=0.1")
    assert result.exit_code == 0
    assert "target missed" not in result.stderr


def test_a_target_that_is_missed(handbook: Path, tmp_path: Path, run: Run, ask: Ask) -> None:
    file = write_questions(tmp_path / "q.jsonl", MISSED)
    given = ("eval", file, handbook, "--mode", "keyword", "-k", 1, "--fail-under", "ndcg=0.8")
    result = run(*given)
    assert result.exit_code == 9
    assert result.stderr.splitlines()[-1] == "target missed: ndcg is 0.0000, under 0.8"
    assert "ndcg@1" in result.stdout
    shape = ask(*given)
    assert (shape["passed"], shape["failures"]) == (False, ["ndcg is 0.0000, under 0.8"])


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A folder of pages on one topic each, and a question about each."""
    folder = tmp_path / "many"
    folder.mkdir()
    things = "anchor bucket candle dagger engine feather girder hammer island jacket".split()
    lines = []
    # The name of a file must not say what it is about: names are searched too.
    for number, thing in enumerate(things):
        (folder / f"{number}.md").write_text(f"# {thing.title()}\n\nAll about one {thing}.\n")
        lines.append({"query": f"one {thing}", "relevant": [f"{number}.md"]})
    write_questions(tmp_path / "many.jsonl", *lines)
    return folder


def test_worse_than_a_baseline(many: Path, tmp_path: Path, run: Run, ask: Ask) -> None:
    saved = tmp_path / "kept.json"
    given = ("eval", tmp_path / "many.jsonl", many, "--mode", "keyword")
    assert run(*given, "--save", saved).exit_code == 0
    same = run(*given, "--baseline", saved, "--fail-if-worse")
    assert same.exit_code == 0
    for page in many.iterdir():
        page.write_text("# Nothing\n\nNothing is left.\n")
    worse = run(*given, "--baseline", saved, "--fail-if-worse")
    assert worse.exit_code == 9
    assert "Significantly worse (ndcg, p < 0.05)." in worse.stdout
    assert worse.stderr.splitlines()[-1].startswith("target missed: ndcg fell from 1.0000 to ")
    # Without the flag it is only told.
    assert run(*given, "--baseline", saved).exit_code == 0
    comparison = ask(*given, "--baseline", saved)["comparison"]["success"]
    assert (comparison["before"], comparison["losses"]) == (1.0, 10)
    assert comparison["p"] == pytest.approx(2 / 2**10, abs=1e-6)


def test_better_than_the_baseline_is_not_a_failure(many: Path, tmp_path: Path, run: Run) -> None:
    text = {page: page.read_text() for page in many.iterdir()}
    for page in many.iterdir():
        page.write_text("# Nothing\n\nNothing is left.\n")
    saved = tmp_path / "kept.json"
    given = ("eval", tmp_path / "many.jsonl", many, "--mode", "keyword")
    run(*given, "--save", saved)
    for page, before in text.items():
        page.write_text(before)
    result = run(*given, "--baseline", saved, "--fail-if-worse")
    assert result.exit_code == 0
    assert "Significantly better (ndcg, p < 0.05)." in result.stdout


def test_the_deciding_metric_can_be_chosen(many: Path, tmp_path: Path, run: Run) -> None:
    saved = tmp_path / "kept.json"
    given = ("eval", tmp_path / "many.jsonl", many, "--mode", "keyword")
    run(*given, "--save", saved)
    output = run(*given, "--baseline", saved, "--metric", "recall").stdout
    assert "No significant difference (recall, p >= 0.05)." in output


# --- files ------------------------------------------------------------------------------------


def test_a_plot(handbook: Path, questions: Path, tmp_path: Path, run: Run) -> None:
    drawn = []
    for name in ("a.svg", "b.svg", "c.html"):
        given = ("eval", questions, handbook, "--against", "search.mode=keyword")
        assert run(*given, "--plot", tmp_path / name).exit_code == 0
        drawn.append((tmp_path / name).read_text(encoding="utf-8"))
    assert drawn[0] == drawn[1]
    assert "change of ndcg for each question" in drawn[0]
    assert ElementTree.fromstring(drawn[0]).tag.endswith("svg")
    assert drawn[0] in drawn[2]


def test_a_plot_without_a_comparison(
    handbook: Path, questions: Path, tmp_path: Path, run: Run
) -> None:
    run("eval", questions, handbook, "--plot", tmp_path / "a.svg")
    assert "nDCG@10 of each question" in (tmp_path / "a.svg").read_text(encoding="utf-8")


# --- what is refused --------------------------------------------------------------------------

REFUSED = [
    (("--fail-under", "ndcg"), "is not a metric and a number"),
    (("--fail-under", "speed=0.5"), "is not a metric and a number"),
    (("--fail-under", "ndcg=2"), "is not a metric and a number"),
    (("--fail-under", "ndcg=nan"), "is not a metric and a number"),
    (("--fail-if-worse",), "nothing to compare with"),
    (("--against", "search.mode=keyword", "--baseline", "x.json"), "cannot be combined"),
    (
        ("--mode", "hybrid", "--mode", "vector", "--against", "search.top_k=3"),
        "only one --mode",
    ),
    (("--against", "as_of=latest"), "does not name a generation"),
    (("--against", "search.mode"), "not of the form KEY=VALUE"),
    (("--against", "search.mood=x"), "search.mood"),
    (("--known", "3"), "FILE already contains some"),
    (("-k", "0"), "-k is 0"),
    (("--plot", "picture.png"), "is not an SVG or HTML file"),
    (("--plot", "absent/picture.svg"), "cannot be written"),
    (("--save", "absent/kept.json"), "cannot be written"),
    (("--save", "."), "cannot be written"),
    (("--as-of", "99"), "99"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_contradictions_are_refused(
    handbook: Path, questions: Path, run: Run, given: tuple[str, ...], message: str
) -> None:
    run("index", handbook, "--quiet")
    result = run("eval", questions, handbook, *given)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "hint: " in result.stderr
    assert result.stdout == ""


def test_files_that_are_not_there(handbook: Path, questions: Path, run: Run) -> None:
    assert run("eval", "absent.jsonl", handbook).exit_code == 3
    assert run("eval", questions, handbook / "absent").exit_code == 3
    assert run("eval", questions, handbook, "--baseline", "absent.json").exit_code == 3
    assert run("eval", "", handbook).exit_code == 2
    late = run("eval", handbook, questions)
    assert late.exit_code == 2
    assert "only the first argument may be one" in late.stderr


def test_a_bad_line_is_named(handbook: Path, tmp_path: Path, run: Run, ask: Ask) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text('{"query": "a", "relevant": ["a.md"]}\n{"query": 5}\n')
    result = run("eval", file, handbook)
    assert result.exit_code == 2
    assert "bad.jsonl, line 2:" in result.stderr
    assert ask("eval", file, handbook)["error"]["details"]["line"] == 2


def test_questions_about_another_folder(handbook: Path, tmp_path: Path, run: Run) -> None:
    file = write_questions(tmp_path / "q.jsonl", {"query": "keys", "relevant": ["other.md"]})
    result = run("eval", file, handbook)
    assert result.exit_code == 3
    assert "None of the relevant documents are in the index" in result.stderr


def test_the_command_knows_every_metric() -> None:
    assert _METRICS == METRICS


def test_the_command_line_does_not_load_what_measures() -> None:
    program = "import sys, lookfar.serve.cli.main, lookfar.serve.cli.eval; print(*sys.modules)"
    output = run_python(program).stdout.split()
    assert not {"numpy", "lookfar.library", "lookfar.evaluate"} & set(output)
