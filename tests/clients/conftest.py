"""Clients are installed only if ``REAL_CLIENTS`` names a folder for them: they are large."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.programs import User, install_clients
from script_modules import load_script
from serve.conformance.suite import Unavailable
from serve.processes import end_all, marked_processes


@pytest.fixture(scope="session")
def cache() -> Path:
    if not (folder := os.environ.get("REAL_CLIENTS")):
        pytest.skip("real clients are large; run: scripts/clients.py")
    return Path(folder)


@pytest.fixture(scope="session")
def programs(cache: Path) -> Path:
    try:
        return install_clients(cache)
    except Unavailable as reason:
        pytest.skip(f"the clients cannot be had: {reason}")


@pytest.fixture(scope="session")
def wheels(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheels")
    load_script("scripts/bundle.py").find_wheel(folder)
    return folder


@pytest.fixture
def user(programs: Path, cache: Path, wheels: Path, tmp_path: Path) -> Iterator[User]:
    runtime = Path(tempfile.mkdtemp(prefix="lf"))  # Short: the names of sockets must be.
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    (project / "guide.md").write_text("# Guide\n\nRotate the harbour keys monthly.\n", "utf-8")
    yield User(home, project, runtime, programs, cache / "uv", wheels)
    end_all(marked_processes(f"XDG_RUNTIME_DIR={runtime}"))
    shutil.rmtree(runtime, ignore_errors=True)
