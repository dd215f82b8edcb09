"""A forked ``lookfar`` is like one that was started: same output, status, streams and parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import forked
from forked import run_lookfar, start_lookfar
from waiting import DEADLINE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a subreaper adopts the process")


def environment(home: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "HOME": str(home), "PYTHONIOENCODING": "utf-8", **more}


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("nonsense",),
        ("search", "grüße ✓", "docs", "--json", "--set", "embed.provider=hash"),
        ("read", "absent.md", "docs"),
    ],
    ids=" ".join,
)
def test_both_ways_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# Grüße\n\nAlles gut ✓\n", encoding="utf-8")
    env = environment(tmp_path, LOOKFAR_EMBED_PROVIDER="hash")

    def run() -> tuple[int, str, str]:
        done = run_lookfar(*arguments, env=env, cwd=tmp_path, encoding="utf-8", timeout=DEADLINE)
        lines = [line for line in done.stdout.splitlines() if "took_ms" not in line]
        return done.returncode, "\n".join(lines), done.stderr

    run()  # The first search builds the index.
    one = run()
    monkeypatch.setattr(forked, "_can_fork", lambda _: False)
    assert run() == one


def test_it_is_a_child_that_can_be_ended(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n", encoding="utf-8")
    process = start_lookfar(
        *("mcp", "--no-daemon", tmp_path),
        env=environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    assert isinstance(process, forked._Forked)
    status = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    assert int(status[1]) == os.getpid()
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    assert process.wait(DEADLINE) == -signal.SIGKILL
    assert process.stdin is not None
    process.stdin.close()


def test_other_options_of_python_start_an_ordinary_process(tmp_path: Path) -> None:
    env = environment(tmp_path, PYTHONIOENCODING="ascii")
    with start_lookfar("--version", env=env, stdout=subprocess.DEVNULL) as process:
        assert not isinstance(process, forked._Forked)
        assert process.wait(DEADLINE) == 0


def test_where_a_process_cannot_adopt_another_an_ordinary_one_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forked, "_SUBREAPER", 0)
    forked._start_forking.cache_clear()
    try:
        assert forked._start_forking() is None
        env = environment(tmp_path)
        done = run_lookfar("--version", env=env, encoding="utf-8", timeout=DEADLINE)
        assert (done.returncode, done.stdout.split()[0]) == (0, "lookfar")
    finally:
        forked._start_forking.cache_clear()
