"""Fixtures: a collection on a real disk, other processes, and a disk that fills up."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from shelf import Elsewhere, Shelf, python

@pytest.fixture
def elsewhere() -> Elsewhere:
    """Run some lines in another process; its output and exit status."""

    def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            python(code, *arguments), capture_output=True, text=True, timeout=60, check=False
        )

    return run


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    made = Shelf(tmp_path / "index")
    yield made
    made.store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MiB that a test may fill or make read-only."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)],
        capture_output=True,
        text=True,
        check=False,
    ) if os.name == "posix" else None  # fmt: skip
    if mounted is None or mounted.returncode:
        pytest.skip(f"cannot mount a small disk here: {mounted and mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=False)
