"""Run a short Python program in a process of its own, such as one that lists what was imported."""

from __future__ import annotations

import subprocess
import sys

from waiting import DEADLINE


def run_python(
    program: str, *arguments: object, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return what it wrote; with ``check``, it must succeed."""
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=check,
    )
