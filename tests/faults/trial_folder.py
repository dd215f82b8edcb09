"""Where trials are made, and how their programs are run: shared by the tests of this folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lookfar.errors

HERE = Path(__file__).parent
_SOURCE = Path(lookfar.errors.__file__).parents[1]
_SECONDS = 3_000


@contextmanager
def trial_folder() -> Iterator[Path]:
    """A folder in memory where there is one: thousands of small files come and go."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="lookfar-", dir=memory if os.access(memory, os.W_OK) else None
    ) as name:
        yield Path(name)


def run(program: str, *arguments: object) -> list[dict[str, Any]]:
    """The lines of JSON that a program of this folder prints, in a home of its own."""
    with trial_folder() as base:
        (base / "home").mkdir()
        left_out = ("LOOKFAR_", "XDG_", "PYTEST_")
        environ = {name: v for name, v in os.environ.items() if not name.startswith(left_out)}
        paths = (_SOURCE, HERE, HERE.parent)
        done = subprocess.run(
            [sys.executable, str(HERE / program), str(base), *map(str, arguments)],
            env={
                **environ,
                "HOME": str(base / "home"),
                "PYTHONPATH": os.pathsep.join(map(str, paths)),
                "OPENBLAS_NUM_THREADS": "1",
            },
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def can_trace() -> bool:
    """Whether strace is there and may look at other processes."""
    if shutil.which("strace") is None:
        return False
    command = ["strace", "-f", "-o", os.devnull, "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
