"""The command line as people run it: in this process, in its own, and on a terminal."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from forked import run_lookfar
from lookfar.serve.cli.main import cli
from waiting import DEADLINE

HANDBOOK = Path(__file__).parent.parent.parent / "examples" / "handbook"

Run = Callable[..., Result]
Process = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nobody's configuration and nobody's indexes."""
    home = tmp_path / "home"
    home.mkdir()
    for variable in [name for name in os.environ if name.startswith(("LOOKFAR_", "XDG_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("LOOKFAR_QUALITY_ENABLED", "off")  # See tests/conftest.py.
    for variable in ("HOME", "USERPROFILE", "LOCALAPPDATA", "APPDATA"):
        monkeypatch.setenv(variable, str(home))
    for variable in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(variable, raising=False)
    return home


@pytest.fixture
def all_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send every report of progress, however long a client on a busy machine takes to read it."""
    monkeypatch.setattr("lookfar.serve.mcp.server._PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr("lookfar.serve.mcp.server._PROGRESS_SHARE", 1e9)
    monkeypatch.setattr("lookfar.serve.mcp.server._PROGRESS_PATIENCE", DEADLINE)


@pytest.fixture
def handbook(tmp_path: Path) -> Path:
    """A small folder of documents that a test may change."""
    return Path(shutil.copytree(HANDBOOK, tmp_path / "handbook"))


@pytest.fixture
def run() -> Run:
    """Run a command in this process with the quick embedder."""

    def run(*arguments: object, model: str = "hash") -> Result:
        given = [str(argument) for argument in arguments]
        return CliRunner().invoke(cli, [*given, "--set", f"embed.provider={model}"])

    return run


@pytest.fixture
def ask(run: Run) -> Callable[..., dict[str, Any]]:
    """The object that a command prints with --json."""

    def ask(*arguments: object, **more: str) -> dict[str, Any]:
        result = run(*arguments, "--json", **more)
        shape: dict[str, Any] = json.loads(result.stdout)
        return shape

    return ask


@pytest.fixture
def process() -> Process:
    """Run ``python -m lookfar`` in a process of its own."""

    def process(
        *arguments: object, env: dict[str, str] | None = None, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, "PYTHONIOENCODING": "utf-8", **(env or {})}
        return run_lookfar(*arguments, env=variables, encoding="utf-8", timeout=DEADLINE, **more)

    return process
