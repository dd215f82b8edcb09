"""Fixtures: a collection on a real disk, other processes, and a disk that fills up."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.shelf import Elsewhere, Shelf, python
from waiting import DEADLINE


@pytest.fixture
def elsewhere() -> Elsewhere:
    """Run some lines in another process; return its output and exit status."""

    def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            python(code, *arguments), capture_output=True, text=True, timeout=DEADLINE, check=False
        )

    return run


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    made = Shelf(tmp_path / "index")
    yield made
    made.store.close()


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk of 2 MiB that a test may fill or make read-only, reachable by every user."""
    with tempfile.TemporaryDirectory() as name:
        disk = Path(name)
        disk.chmod(0o755)
        command = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=755", "tmpfs", name]
        try:
            subprocess.run(command, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            why = getattr(error, "stderr", "") or str(error)
            pytest.skip(f"cannot mount a small disk here: {why.strip()}")
        try:
            yield disk
        finally:
            subprocess.run(["umount", "-l", name], check=False)
