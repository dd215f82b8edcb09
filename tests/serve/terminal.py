"""Run the command line on a terminal of its own."""

from __future__ import annotations

import os

import pytest

from forked import start_lookfar
from waiting import DEADLINE


def on_terminal(
    *arguments: object, env: dict[str, str] | None = None, typed: str = ""
) -> tuple[int, str]:
    """Run the command on its own terminal, type the input, and return all output."""
    pty = pytest.importorskip("pty")
    master, terminal = pty.openpty()
    given = {"TERM": "xterm-256color", "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"}
    ends = dict.fromkeys(("stdin", "stdout", "stderr"), terminal)
    process = start_lookfar(*arguments, env={**os.environ, **given, **(env or {})}, **ends)
    os.close(terminal)
    os.write(master, typed.encode())
    output = b""
    while True:
        try:
            more = os.read(master, 65536)
        except OSError:  # The other end is closed.
            break
        if not more:
            break
        output += more
    os.close(master)
    return process.wait(DEADLINE), output.decode("utf-8", "replace")
