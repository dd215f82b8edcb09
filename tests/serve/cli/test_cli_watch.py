"""``lookfar watch`` in a process of its own: a line per pass, and a clean end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from waiting import DEADLINE

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")


@contextmanager
def watching(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "lookfar", "watch", *map(str, arguments),
         "--set", "embed.provider=hash"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    # A process that says nothing must not hold the tests.
    guard = threading.Timer(120, process.kill)
    guard.start()
    try:
        yield process
    finally:
        guard.cancel()
        process.kill()
        process.communicate()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_watch_reports_each_pass_and_stops_on_a_signal(handbook: Path, how: signal.Signals) -> None:
    with watching(handbook) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("watching ")
        assert "4 added" in process.stderr.readline()
        (handbook / "new.md").write_text("# New\n")
        line = process.stderr.readline()
        assert "1 added" in line
        assert line.endswith("(new.md)\n")
        process.send_signal(how)
        out, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, out, err) == (0, "", "stopped\n")


def test_with_json_each_pass_is_an_object_on_a_line(handbook: Path) -> None:
    with watching(handbook, "--json", "--strategy", "realtime", "--debounce-ms", 250) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert (first["added"], first["only"], first["failed"]) == (4, None, "")
        (handbook / "onboarding.md").unlink()
        second = json.loads(process.stdout.readline())
        assert (second["removed"], second["only"]) == (1, ["onboarding.md"])
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=DEADLINE) == ("", "")
    assert process.returncode == 0


def test_an_invalid_debounce_is_refused(handbook: Path) -> None:
    with watching(handbook, "--debounce-ms", 5) as process:
        _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 2
    assert "250" in err
