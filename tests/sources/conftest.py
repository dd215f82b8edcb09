"""Fixtures: measuring undisturbed, and acting as an ordinary user (nothing is closed to root)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lookfar.errors

_PRELUDE = """
import json, os, sys
from lookfar.errors import LookfarError
from lookfar.sources.confine import Root
from lookfar.sources.folder.policy import Policy
from lookfar.sources.folder.walk import walk
root = Root.open(sys.argv[1])
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
"""


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that every user can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def as_nobody() -> Callable[[Path, str], str]:
    """Open a root, give up all rights, run some lines on ``root``, give what they print."""

    def run(root: Path, lines: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", _PRELUDE + lines, str(root)],
            capture_output=True,
            text=True,
            env={"PYTHONPATH": str(Path(lookfar.errors.__file__).parents[1])},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
