"""``lookfar logs``: both ways in which we log are read, followed and made safe to show.

Proved by mutation: a follower that keeps its file after a rotation, one that hands on half a line,
and an entry that loses its stack trace each fail here.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lookfar.serve.cli.logs import Log, _Tail, parse_entries
from lookfar.serve.cli.main import cli
from waiting import DEADLINE

DAEMON = """2026-11-15 20:04:31,120 INFO lookfar.daemon: session 3 (mcp) begins in /home/me
2026-11-15 20:05:02,907 ERROR lookfar.daemon: a session failed
Traceback (most recent call last):
  File "x.py", line 1
ValueError: \x1b[31mred
2026-11-15 20:05:03,000 WARNING lookfar.serve.daemon.pool: closing took long
"""
SERVER = (
    '{"time":"2026-11-15T20:04:31.120+00:00","level":"info","component":"http",'
    '"message":"answered","status":200,"ms":3.5}\n'
    '{"time":"2026-11-15T20:04:32.000+00:00","level":"error","component":"http",'
    '"message":"failed","exception":"Traceback\\nValueError: no"}\n'
)


@pytest.fixture
def daemon_log() -> Path:
    path = Path(ask_json("daemon", "--where")["logs"][0]["path"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(DAEMON)
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["logs", *map(str, arguments)])


def ask_json(*arguments: object) -> Any:
    return json.loads(run(*arguments, "--json").stdout)


def test_where_shows_the_log_files(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = ask_json("--where")["logs"]
    assert [log["name"] for log in output] == ["daemon", "server"]
    assert Path(output[0]["path"]).is_relative_to(own_home)
    assert (output[0]["exists"], output[0]["bytes"]) == (False, 0)
    assert output[1]["path"] == "", "a server logs to its stderr"
    assert "nothing logged yet" in run("--where").stdout
    assert "set serve.log_file" in run("--where").stdout
    monkeypatch.setenv("LOOKFAR_SERVE_LOG_FILE", str(own_home / "serve.log"))
    assert str(own_home / "serve.log") in run("--where").stdout


def test_the_last_entries_of_the_daemon(daemon_log: Path) -> None:
    result = run("daemon", "-n", "2")
    assert result.stderr == f"daemon: {daemon_log} ({len(DAEMON):,} bytes)\n"
    lines = result.stdout.splitlines()
    assert lines[0].endswith("error   daemon: a session failed")
    assert lines[1:4] == [
        *("Traceback (most recent call last):", '  File "x.py", line 1'),
        "ValueError: \\x1b[31mred",
    ]
    assert len(lines) == 5
    shape = ask_json("daemon")["logs"][0]["entries"]
    assert [entry["level"] for entry in shape] == ["info", "error", "warning"]
    assert shape[1]["message"].endswith("ValueError: \x1b[31mred")
    assert shape[2] == {
        "time": "2026-11-15 20:05:03,000", "level": "warning", "component": "serve.daemon.pool",
        "message": "closing took long",
    }  # fmt: skip


def test_the_level_filters_entries(daemon_log: Path) -> None:
    assert daemon_log.exists()
    entries = ask_json("daemon", "--level", "warning")["logs"][0]["entries"]
    assert [entry["level"] for entry in entries] == ["error", "warning"]


def test_the_log_of_a_server(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = own_home / "serve.log"
    file.write_text(SERVER)
    monkeypatch.setenv("LOOKFAR_SERVE_LOG_FILE", str(file))
    entries = ask_json("server")["logs"][0]["entries"]
    assert [entry["message"] for entry in entries] == [
        *("answered status=200 ms=3.5", "failed\nTraceback\nValueError: no"),
    ]


def test_rotated_files_are_read_if_needed(daemon_log: Path) -> None:
    Path(f"{daemon_log}.1").write_text("2026-11-14 01:00:00,000 INFO lookfar.daemon: yesterday\n")
    assert ask_json("daemon", "-n", "9")["logs"][0]["entries"][0]["message"] == "yesterday"
    assert "yesterday" not in run("daemon", "-n", "2").stdout


def test_lines_that_are_not_entries_are_shown_unchanged() -> None:
    entries = list(parse_entries('no entry\n{"a": 1}\n{broken\n'))
    assert [entry.message for entry in entries] == ['no entry\n{"a": 1}\n{broken']
    assert list(parse_entries("")) == []


@pytest.mark.parametrize("lines", ["0", "-3"])
def test_an_invalid_number_of_lines(lines: str) -> None:
    assert run("-n", lines).exit_code == 2


def test_stderr_cannot_be_followed() -> None:
    result = run("server", "--follow")
    assert result.exit_code == 2
    assert "lookfar config set serve.log_file" in result.stderr


def test_daemon_logs_shows_the_same(daemon_log: Path) -> None:
    output = CliRunner().invoke(cli, ["daemon", "logs", "-n", "1"])
    assert output.stdout == run("daemon", "-n", "1").stdout
    assert str(daemon_log) in output.stderr


# --- following ------------------------------------------------------------------------------------


def test_only_complete_lines_are_returned(daemon_log: Path) -> None:
    tail = _Tail(Log("daemon", str(daemon_log)))
    assert tail.read_new() == "", "what was there was shown already"
    with daemon_log.open("a") as file:
        file.write("2026-11-15 21:00:00,000 INFO lookfar.daemon: ha")
        file.flush()
        assert tail.read_new() == ""
        file.write("lf\n")
    assert [entry.message for entry in parse_entries(tail.read_new())] == ["half"]


def test_a_rotation_loses_nothing(daemon_log: Path) -> None:
    tail = _Tail(Log("daemon", str(daemon_log)))
    with daemon_log.open("a") as file:
        file.write("2026-11-15 21:00:00,000 INFO lookfar.daemon: the last\n")
    daemon_log.replace(f"{daemon_log}.1")
    daemon_log.write_text("2026-11-15 21:00:01,000 INFO lookfar.daemon: the first\n")
    assert [entry.message for entry in parse_entries(tail.read_new())] == ["the last", "the first"]
    daemon_log.write_text("2026-11-15 21:00:02,000 INFO lookfar.daemon: again\n")
    assert [entry.message for entry in parse_entries(tail.read_new())] == ["again"]


def test_a_log_created_later_is_followed_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "later.log"
    tail = _Tail(Log("daemon", str(path)))
    assert tail.read_new() == ""
    path.write_text(DAEMON)
    assert len(list(parse_entries(tail.read_new()))) == 3


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_following_continues_until_interrupted(daemon_log: Path) -> None:
    command = [sys.executable, "-m", "lookfar", "logs", "daemon", "-n", "1", "--follow", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = _lines(process)
    try:
        assert json.loads(next(lines))["message"] == "closing took long"
        with daemon_log.open("a") as file:
            file.write("2026-11-15 21:00:00,000 INFO lookfar.daemon: news\n")
        came = json.loads(next(lines))
        assert (came["log"], came["message"]) == ("daemon", "news")
    finally:
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    assert "Traceback" not in stderr


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    ends = time.monotonic() + 60
    while time.monotonic() < ends and (line := process.stdout.readline()):
        yield line
