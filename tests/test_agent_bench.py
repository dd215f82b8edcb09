"""The benchmark of agents' questions finds what is there, and reports what is not."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from script_modules import load_script

agent = load_script("bench/agent.py")

GUIDE = """# Harbour guide

## Opening hours

The harbour opens at nine in the morning.

## Fees

A berth costs twelve crowns a night, and the crane is free of charge.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "harbour"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs/guide.md").write_text(GUIDE, encoding="utf-8")
    (folder / "README.md").write_text("# Harbour\n")
    (folder / "tide.py").write_text("def next_tide(now):\n    return now + 6 * 3600\n")
    run = ["git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run([*run, "init", "-q"], check=True)
    subprocess.run([*run, "add", "."], check=True)
    subprocess.run([*run, "commit", "-q", "-m", "Add the harbour guide"], check=True)
    subprocess.run([*run, "commit", "-q", "-m", "Open at nine", "--allow-empty"], check=True)
    return folder


def question(query: str, document: str, *lines: str, ripgrep: str = "true") -> Any:
    answer = agent.Answer(document, lines)
    return agent.Question("harbour", "page", (query,), (answer,), (ripgrep,))


def run(folder: Path, work: Path, *questions: Any) -> tuple[int, list[Any]]:
    checkout = agent.Checkout.open(folder)
    return asyncio.run(agent.run(checkout, questions, work, {}))


def test_answers_are_found_and_wrong_expectations_are_not(folder: Path, tmp_path: Path) -> None:
    """Protects against a benchmark that calls everything found.

    Seen to fail with ``has_lines`` that returns True, with ``line_of`` that returns 1 for what
    the checkout lacks, and with ``ask_ripgrep`` that believes its first command.
    """
    fee = "A berth costs twelve crowns a night"
    overhead, outcomes = run(
        folder,
        tmp_path / "index",
        question("what does a berth cost", "docs/guide.md", fee, ripgrep="sed -n 1,9p docs/*.md"),
        question("what does a berth cost", "docs/guide.md", "A berth is free"),
        question("what does a berth cost", "docs/gone.md", fee),
        # The guide is shown, and this line is not of the guide.
        question("what does a berth cost", "tide.py", "def next_tide", ripgrep="cat docs/guide.md"),
    )
    right, absent, gone, other = outcomes
    assert overhead > 100
    assert right.found
    assert right.full
    assert (right.calls, right.document_rank, right.problem) == (1, 1, "")
    assert right.ripgrep_found
    assert right.ripgrep_tokens == agent.count_tokens(GUIDE)
    for wrong in (absent, gone):
        assert not wrong.found
        assert "lacks the expected lines" in wrong.problem
    assert not other.ripgrep_found
    assert other.ripgrep_tokens == agent.count_tokens(GUIDE)


PASSAGES = """2 hits
[1] harbour: tide.py:1-2 | (root) | 1.2
def next_tide(now):
  12 hours later
README.md says more.
[2] harbour: docs/guide.md:7-9 | Fees | 0.9 | cut
A berth costs twelve
docs/guide.md lookfar://harbour/docs/guide.md?chars=70-140
"""
MAP = """tide.py  Tides
  1-2 next_tide: def next_tide(now):
docs/guide.md  Harbour guide
  9 Fees
    9| A berth costs twelve crowns a night
  3-5 Opening hours
"""
CITATIONS = """1. tide.py:1-2 next_tide
  2024-01-02
docs/guide.md:7-9, Fees
A berth costs twelve
"""


@pytest.mark.parametrize("text", [PASSAGES, MAP, CITATIONS], ids=["passages", "map", "citations"])
def test_places_are_read_from_the_text_of_an_answer(folder: Path, text: str) -> None:
    """Protects ranks: passages, a map by document, and texts that look like line numbers.

    Seen to fail without ``BELOW``, with ``passages`` that is never true, with a ``LISTED`` that
    knows no collections, with ``shows`` that looks into the passages of any document, and with
    places that are counted from 2.
    """
    checkout = agent.Checkout.open(folder)
    places = list(agent.list_places(text, checkout))
    answer = agent.Answer("docs/guide.md", ("A berth costs twelve",))
    assert agent.shows(places, answer, page=False)
    with_lines = [place for place in places if place.first]
    assert [place.target for place in with_lines][:1] == ["tide.py:1-2"]
    assert agent.rank_of(places, answer, 9) == (2, 2)
    assert agent.rank_of(places, agent.Answer("absent.md", ("x",)), 1) == (0, 0)
    assert not agent.shows(places, agent.Answer("tide.py", ("A berth costs twelve",)), page=False)


def test_commits_are_known_by_the_beginning_of_their_hash(folder: Path) -> None:
    """Seen to fail with ``resolve`` that looks at the first commit only."""
    checkout = agent.Checkout.open(folder)
    assert len(checkout.commits) == 2
    for commit in checkout.commits:
        assert checkout.resolve(commit[:9]) == checkout.resolve(commit) == commit
        assert checkout.resolve(commit[:8] + "x") == checkout.resolve(commit[:6]) == ""
    places = [
        checkout.line_of(agent.Answer(commit, ("Open at nine", "Ada")))
        for commit in checkout.commits
    ]
    assert sorted(places) == [0, 1]


def test_the_panel_is_whole() -> None:
    """Forty questions of every category, each with an answer and a baseline."""
    repositories, questions = agent.load_panel(agent.PANEL)
    counts = dict.fromkeys(("identifier", "message", "vague", "page", "history"), 0)
    for asked in questions:
        counts[asked.category] += 1
        assert asked.repository in repositories
        assert asked.queries
        assert asked.ripgrep
        assert all(answer.lines for answer in asked.answers)
    assert len(repositories) == 3
    assert counts == {"identifier": 8, "message": 8, "vague": 10, "page": 8, "history": 6}
