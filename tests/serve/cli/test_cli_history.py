"""``lookfar history``: commits listed and found, as people run it.

Proved by mutation: an order by hash instead of by time, filters that are not passed on, and a hit
that is paired with another commit each fail here.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from waiting import DEADLINE

Run = Callable[..., Result]
Ask = Callable[..., dict[str, Any]]

COMMITS = (
    ("2026-01-05", "Ada", "guide.md", "Begin the guide", "It says how to install."),
    ("2026-02-05", "Grace", "cache.py", "Add a cache", "Answers were slow."),
    ("2026-03-05", "Ada", "cache.py", "Drop the cache", "It answered from before the last edit."),
    ("2026-04-05", "Grace", "guide.md", "Mend a link in the guide", ""),
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for day, author, file, title, body in COMMITS:
        (folder / file).write_text(f"# {title}\n\n{day} {body}\n")
        git(folder, "add", "-A")
        stamp = f"{day}T12:00:00Z"
        dates = {"GIT_AUTHOR_DATE": stamp, "GIT_COMMITTER_DATE": stamp}
        who = ("-c", f"user.name={author}", "-c", f"user.email={author.lower()}@example.org")
        git(folder, *who, "commit", "-q", "-m", f"{title}\n\n{body}", env=dates)
    return folder


def git(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> None:
    subprocess.run(
        ["git", "-C", str(folder), *arguments],
        check=True, capture_output=True, timeout=DEADLINE, env={**os.environ, **(env or {})},
    )  # fmt: skip


def titles(shape: dict[str, Any]) -> list[str]:
    return [commit["title"] for commit in shape["commits"]]


def test_a_question_about_changes_does_not_rename_the_documents(
    repository: Path, run: Run, tmp_path: Path
) -> None:
    """The commits that it indexes are of the same folder, so no result needs its name."""
    before = run("search", "guide", repository, "--prefix", "guide").stdout
    changed = run("search", "what changed in the guide", repository).stdout
    assert "repo" not in changed.rpartition("generation")[0]
    assert "repo@git 1" in changed
    after = run("search", "guide", repository, "--prefix", "guide").stdout
    assert before.split("\n")[:3] == after.split("\n")[:3]
    assert run("search", "cache", repository, "--mode", "literal", "--paths").stdout.split()[0] == (
        "cache.py"
    )
    commit = changed.split("\n")[0].split()[1].partition(":")[0]
    assert "guide" in run("read", commit, repository).stdout
    other = tmp_path / "other"
    other.mkdir()
    (other / "guide.md").write_text("# Guide of others\n", encoding="utf-8")
    both = run("search", "guide", repository, other).stdout
    assert "repo: guide.md" in both
    assert "other: guide.md" in both


def test_the_newest_come_first(repository: Path, ask: Ask, run: Run) -> None:
    shape = ask("history", "--path", repository)
    assert titles(shape) == [title for *_, title, _ in reversed(COMMITS)]
    first = shape["commits"][0]
    assert list(first) == ["collection", "hash", "title", "author", "committed_at", "files"]
    assert first["author"] == "Grace <grace@example.org>"
    assert first["committed_at"] == "2026-04-05T12:00:00+00:00"
    assert first["files"] == 1
    lines = run("history", "--path", repository, "-n", "2").stdout.splitlines()
    assert lines == [
        f"{first['hash'][:10]}  2026-04-05  Grace  Mend a link in the guide  1 file",
        f"{shape['commits'][1]['hash'][:10]}  2026-03-05  Ada  Drop the cache  1 file",
    ]


@pytest.mark.parametrize(
    ("narrowed", "found"),
    [
        (("--author", "ada"), ["Drop the cache", "Begin the guide"]),
        (("--touches", "*.py"), ["Drop the cache", "Add a cache"]),
        (("--touches", "*.py", "--author", "grace"), ["Add a cache"]),
        (("--since", "2026-03-01"), ["Mend a link in the guide", "Drop the cache"]),
        (("--after", "2026-03-01"), ["Mend a link in the guide", "Drop the cache"]),
        (("--before", "2026-01-31"), ["Begin the guide"]),
        (("--after", "2026-02-01", "--before", "2026-03-01"), ["Add a cache"]),
        (("--limit", "1"), ["Mend a link in the guide"]),
        (("--author", "nobody"), []),
        (("--branch", "main", "-n", "1"), ["Mend a link in the guide"]),
        (("--branch", "elsewhere"), []),
    ],
)
def test_history_filters(
    narrowed: tuple[str, ...], found: list[str], repository: Path, ask: Ask
) -> None:
    assert titles(ask("history", "--path", repository, *narrowed)) == found


def test_history_finds_commits_by_question(repository: Path, ask: Ask, run: Run) -> None:
    shape = ask("history", "drop the cache", "--path", repository, "-n", "2")
    assert shape["query"] == "drop the cache"
    best = shape["commits"][0]
    assert best["title"] == "Drop the cache"
    assert "before the last edit" in best["text"]
    assert best["score"] >= shape["commits"][1]["score"]
    assert all(commit["title"] in commit["text"] for commit in shape["commits"]), (
        "each with its own"
    )
    shown = run("history", "drop the cache", "--path", repository, "-n", "1").stdout
    assert "     It answered from before the last edit." in shown
    assert "Committer:" not in shown
    only = ask("history", "drop the cache", "--author", "grace", "--path", repository)
    assert "Drop the cache" not in titles(only)


def test_a_commit_that_is_listed_can_be_read(repository: Path, ask: Ask) -> None:
    ask("index", repository)
    first = ask("history", "--path", repository)["commits"][0]
    assert first["title"] in ask("read", first["hash"], repository)["text"]
    (entry,) = ask("related", "cache.py", repository, "--kind", "commits", "-n", "1")["entries"]
    assert entry["title"] == "Drop the cache"


def test_a_folder_without_a_repository_says_so(handbook: Path, run: Run) -> None:
    for words in ((), ("what happened",)):
        result = run("history", *words, "--path", handbook)
        assert result.exit_code == 3
        assert "No git repository was found" in result.stderr


@pytest.mark.parametrize("command", [("history",), ("search", "cache"), ("snapshots", "list")])
@pytest.mark.parametrize("option", ["--after", "--since", "--before"])
def test_a_wrong_date_is_reported_under_the_name_that_was_written(
    command: tuple[str, ...], option: str, repository: Path, run: Run
) -> None:
    refused = run(*command, option, "blurgh", "--path", repository)
    assert refused.exit_code == 2
    assert f"{option} is not a date: 'blurgh'." in refused.stderr
    both = run(*command, "--since", "monday", "--after", "monday", "--path", repository)
    assert "--after and --since are the same option." in both.stderr


@pytest.mark.parametrize("wrong", [("--after", "soon"), ("--limit", "0")])
def test_invalid_options_are_refused(wrong: tuple[str, ...], repository: Path, run: Run) -> None:
    assert run("history", *wrong, "--path", repository).exit_code == 2
