"""Run the command line on a terminal of its own."""

from __future__ import annotations

import os
import sys

import pytest


def on_terminal(
    *arguments: object, env: dict[str, str] | None = None, typed: str = ""
) -> tuple[int, str]:
    """Run the command on its own terminal, type the input, and return all output."""
    pty = pytest.importorskip("pty")
    pid, master = pty.fork()
    if pid == 0:
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **(env or {})}
        command = [sys.executable, "-m", "lookfar", *map(str, arguments)]
        os.execve(sys.executable, command, environment)
    os.write(master, typed.encode())
    output = b""
    while True:
        try:
            more = os.read(master, 65536)
        except OSError:
            break
        if not more:
            break
        output += more
    os.close(master)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), output.decode("utf-8", "replace")
