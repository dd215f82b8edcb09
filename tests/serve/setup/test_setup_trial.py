"""The end of a setup: the project is indexed, and the written command answers a question."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from lookfar.serve.setup.trial import run_trial
from serve.processes import marked_processes
from serve.setup.configs import LINUX
from waiting import wait_for

Setup = Callable[..., Result]
Report = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the paths are those of Linux")


def test_the_written_commands_answer(own_home: Path, project: Path, report: Report) -> None:
    named = [word for name in ("codex", "cursor", "zed") for word in ("--client", name)]
    shape = report(*named, index=True)
    assert shape["exit_code"] == 0, shape
    assert shape["index"]["added"] == 2
    assert [trial["ok"] for trial in shape["trials"]] == [True, True], "each command once"
    in_project, named_folder = shape["trials"]
    assert in_project["command"] == [*shape["command"]]
    assert in_project["folder"] == str(project)
    assert named_folder["command"] == [*shape["command"], str(project)]
    assert named_folder["folder"] == str(own_home)
    for trial in shape["trials"]:
        assert trial["passages"] > 0
        assert trial["first"].startswith("guide.md:")


def test_the_result_of_the_trial_is_printed(own_home: Path, setup: Setup) -> None:
    text = '{"mcpServers": {"lookfar": {"command": "x", "args": ["mcp", "--no-daemon"]}}}'
    for name, key in (("gemini", "mcpServers"), ("zed", "context_servers")):
        path = own_home / LINUX[name]
        path.parent.mkdir(parents=True)
        path.write_text(text.replace("mcpServers", key), encoding="utf-8")
    result = setup("--yes", index=True)
    assert result.exit_code == 0, result.output
    assert "1 added" in result.stdout or "2 added" in result.stdout
    assert "Zed: updated in ~/.config/zed/settings.json." in result.stdout
    assert "Test search as Gemini CLI: " in result.stdout
    assert result.stdout.count("Test search as") == 1, "one command is asked once"
    assert "the best in guide.md:" in result.stdout
    mark = f"HOME={own_home}"
    wait_for(lambda: not marked_processes(mark), "without a daemon, all processes end")


def test_a_failing_command_is_reported(own_home: Path, setup: Setup) -> None:
    text = '{"mcpServers": {"lookfar": {"command": "x", "args": ["mcp", "--no-such-option"]}}}'
    path = own_home / LINUX["gemini"]
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    result = setup("--yes", index=True)
    assert result.exit_code == 1
    assert "The test search with the settings of Gemini CLI failed." in result.stderr
    assert "--no-such-option" in result.stderr
    assert "hint: Run it by hand to see more: " in result.stderr


def test_failed_indexing_is_reported_and_skips_the_trial(
    own_home: Path, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOKFAR_EMBED_PROVIDER", "static")
    monkeypatch.setenv("LOOKFAR_EMBED_MODEL", str(own_home / "no-model"))
    shape = report("--client", "gemini", index=True)
    assert shape["exit_code"] == 7
    assert shape["trials"] == []
    assert [step["state"] for step in shape["changes"]] == ["added", "failed"]
    assert shape["changes"][1]["error"]["code"] == "MODEL_UNAVAILABLE"


def test_a_command_that_cannot_be_started(project: Path) -> None:
    trial = run_trial(["/no/such/lookfar", "mcp"], {}, project, "x")
    assert not trial.ok
    assert "/no/such/lookfar cannot be started" in trial.problem
    assert "lookfar setup" in trial.hint


def test_a_server_that_never_answers(project: Path) -> None:
    silent = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    trial = run_trial(silent, {}, project, "x", seconds=1.0)
    assert not trial.ok
    assert "did not answer within 1 s" in trial.problem


def test_a_server_that_ends_with_a_message(project: Path) -> None:
    dying = [sys.executable, "-c", "import sys; sys.exit('the disk is full')"]
    trial = run_trial(dying, {}, project, "x", seconds=60.0)
    assert not trial.ok
    assert trial.problem == "The server ended: the disk is full"


def test_a_failed_search_is_a_failed_trial(own_home: Path) -> None:
    words = [sys.executable, "-m", "lookfar", "mcp", "--no-daemon"]
    env = {"LOOKFAR_EMBED_PROVIDER": "hash", "HOME": str(own_home)}
    trial = run_trial(words, env, own_home, "x")
    assert not trial.ok
    assert "project" in trial.problem, "a home is none"


def test_a_toolset_without_search_passes(project: Path) -> None:
    words = [sys.executable, "-m", "lookfar", "mcp", "--no-daemon", "--toolset", "msrl"]
    trial = run_trial(words, {"LOOKFAR_EMBED_PROVIDER": "hash"}, project, "x")
    assert trial.ok, trial.problem
    assert trial.passages == 0
