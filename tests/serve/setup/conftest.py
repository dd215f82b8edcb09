"""A home of its own for every test, with no client in it and none on the search path."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lookfar.serve.cli.main import cli
from serve.processes import end_all, marked_processes

Setup = Callable[..., Result]
Report = Callable[..., dict[str, Any]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "work" / "harbour"
    folder.mkdir(parents=True)
    (folder / "package.json").write_text("{}", encoding="utf-8")
    (folder / "guide.md").write_text("# Harbour\n\nThe crane lifts containers.\n", encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def nothing_installed(own_home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = own_home.parent / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("LOOKFAR_EMBED_PROVIDER", "hash")
    for variable in ("CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(project)


@pytest.fixture(autouse=True)
def own_daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stop the daemon that a trial starts."""
    runtime = tempfile.mkdtemp(prefix="lf")  # Short: the names of sockets must be.
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    monkeypatch.setenv("LOOKFAR_INDEX_WORKERS", "1")
    yield
    end_all(marked_processes(f"XDG_RUNTIME_DIR={runtime}"))
    shutil.rmtree(runtime, ignore_errors=True)


@pytest.fixture
def setup() -> Setup:
    """Run ``lookfar setup`` without indexing and without the test search."""

    def run(*arguments: object, answers: str = "", index: bool = False) -> Result:
        given = [*map(str, arguments), *([] if index else ["--no-index"])]
        return CliRunner().invoke(cli, ["setup", *given], input=answers)

    return run


@pytest.fixture
def report(setup: Setup) -> Report:
    """Run ``lookfar setup --json --yes`` and return the object."""

    def run(*arguments: object, **more: Any) -> dict[str, Any]:
        result = setup(*arguments, "--yes", "--json", **more)
        shape: dict[str, Any] = json.loads(result.stdout)
        return shape | {"exit_code": result.exit_code}

    return run
