"""The tool search_git_history of ragdocs, driven by a real client over a real repository."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TOOLSET = "ragdocs"
Ask = Callable[..., dict[str, Any]]
Unmet = Callable[..., list[str]]

TOOL = "search_git_history"


@pytest.fixture
def hashes(repository: Callable[..., Any], docs: Path) -> dict[str, str]:
    """A repository in the folder that is served: its commits by their title."""
    repo = repository(docs.name)
    long = "".join(f"row {number}\n" for number in range(400))
    made = {
        "Feed the zebras": {"zoo/zebra.py": "hay = 1\n", "notes.md": "# Zebras\n\nThey eat.\n"},
        "Wash the zebras": {"zoo/zebra.py": "hay = 2\n"},
        "Import the register": {"data/register.csv": long},
    }
    found = {
        title: repo.commit(f"{title}\n\nBecause of {title.split()[0].lower()}ing.", files)
        for title, files in made.items()
    }
    found["Sing"] = repo.commit("Sing", {"song.md": "la\n"}, "--author=Bob <bob@example.com>")
    return found


def test_every_promised_field_is_there(
    ask: Ask, unmet: Unmet, hashes: dict[str, str], docs: Path
) -> None:
    found = ask(TOOL, query="feed the zebras")
    assert unmet("ragdocs", TOOL, found) == []
    first = found["results"][0]
    assert first == {
        "hash": hashes["Feed the zebras"],
        "title": "Feed the zebras",
        "author": "Ada Lovelace <ada@example.org>",
        "committer": "Charles Babbage <charles@example.org>",
        "timestamp": 1_600_086_400,
        "message": "Because of feeding.",
        "files_changed": ["notes.md", "zoo/zebra.py"],
        "delta_truncated": first["delta_truncated"],
        "score": first["score"],
        "repo_path": str(docs),
    }
    assert "+hay = 1" in first["delta_truncated"]


def test_a_long_diff_reports_how_much_was_cut(ask: Ask, hashes: dict[str, str]) -> None:
    first = ask(TOOL, query="import the register", top_n=1)["results"][0]
    assert first["hash"] == hashes["Import the register"]
    lines = first["delta_truncated"].split("\n")
    assert (len(lines), lines[-1]) == (201, "... (206 lines omitted)")


def test_words_of_a_diff_are_found(ask: Ask, hashes: dict[str, str]) -> None:
    assert ask(TOOL, query="hay", top_n=2)["results"][0]["hash"] in hashes.values()
    titles = {each["title"] for each in ask(TOOL, query="hay", top_n=2)["results"]}
    assert titles == {"Feed the zebras", "Wash the zebras"}


def test_filters_narrow_the_commits(ask: Ask, hashes: dict[str, str]) -> None:
    """Protects against filters that are applied after the best were chosen, or not at all."""

    def titles(**filters: Any) -> set[str]:
        found = ask(TOOL, query="zebras sing register", top_n=1, **filters)["results"]
        return {each["title"] for each in found}

    assert titles(author="BOB@") == {"Sing"}
    assert titles(author="nobody") == set()
    assert titles(file_pattern="data/*.csv") == {"Import the register"}
    assert titles(file_pattern="no/such/*") == set()
    assert titles(after=1_600_000_000 + 4 * 86_400) == {"Sing"}
    assert titles(before=1_600_000_000 + 86_401, file_pattern="zoo/**") == {"Feed the zebras"}
    assert titles(before=0) == set()


def test_scores_fall_and_can_be_cut(ask: Ask, hashes: dict[str, str]) -> None:
    everything = ask(TOOL, query="wash the zebras")["results"]
    scores = [each["score"] for each in everything]
    assert scores[0] > 0.9
    assert scores == sorted(scores, reverse=True)
    assert everything[0]["hash"] == hashes["Wash the zebras"]
    least = (scores[0] + scores[1]) / 2
    assert len(ask(TOOL, query="wash the zebras", min_score=least)["results"]) == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "query"),
        ({"query": ""}, "query"),
        ({"query": " "}, "query"),
        ({"query": "x", "top_n": 0}, "top_n"),
        ({"query": "x", "top_n": 101}, "top_n"),
        ({"query": "x", "min_score": -0.1}, "min_score"),
        ({"query": "x", "min_score": 1.1}, "min_score"),
        ({"query": "x", "after": "yesterday"}, "after"),
        ({"query": "x", "before": None}, "before"),
    ],
)
def test_wrong_arguments_are_refused(refused: Ask, arguments: dict[str, Any], named: str) -> None:
    """Protects against guessing: nothing is clamped, converted or taken for not given."""
    shape = refused(TOOL, **arguments)
    assert (shape["code"], shape["details"]["field"]) == ("INVALID_ARGUMENT", named)


@pytest.mark.parametrize(
    "given", [{"top_n": 1}, {"top_n": 100}, {"min_score": 0.0}, {"min_score": 0.9}]
)
def test_limits_are_accepted(ask: Ask, hashes: dict[str, str], given: dict[str, Any]) -> None:
    assert ask(TOOL, query="zebras", **given)["results"]


def test_a_folder_without_a_repository_says_so(ask: Ask) -> None:
    found = ask(TOOL, query="zebras")
    assert found["results"] == []
    assert "no git repository" in found["note"]


class TestTurnedOff:
    @pytest.fixture
    def settings(self) -> dict[str, Any]:
        return {"embed.provider": "hash", "index.workers": 1, "git.history": False}

    def test_history_that_is_turned_off_is_called_so(
        self, ask: Ask, hashes: dict[str, str]
    ) -> None:
        assert "turned off (git.history)" in ask(TOOL, query="zebras")["note"]
