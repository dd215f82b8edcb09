"""Style, types and the README's commands, so that one test run covers all checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


# Tests are imported with their own folder as a base. They return decoded JSON as what it should be.
# The looser options do not count for the package, which pyproject.toml names. Checking both at once
# takes little longer than the package alone.
MYPY = (
    *("mypy", "--explicit-package-bases", "--implicit-reexport", "--no-warn-unreachable"),
    *("--no-warn-return-any", "src/lookfar", "tests"),
)


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments,
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )


@pytest.mark.parametrize(
    "tool",
    [
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "."),
        MYPY,
        # Code after a check of the platform is unreachable on another one, and rightly so.
        ("mypy", "--platform", "win32", "--disable-error-code", "unreachable"),
        ("mypy", "--platform", "darwin", "--disable-error-code", "unreachable"),
    ],
    ids=" ".join,
)
def test_tool_finds_nothing(tool: tuple[str, ...]) -> None:
    # One cache for each set of options: mypy would throw away that of another.
    name = tool[2] if "--platform" in tool else "tests" if tool is MYPY else ""
    cache = ("--cache-dir", f".mypy_cache/{name}") if name else ()
    bases = os.pathsep.join(("tests", "src", ".")) if tool is MYPY else ""
    result = run(sys.executable, "-m", *tool, *cache, MYPYPATH=bases)
    assert result.returncode == 0, result.stdout + result.stderr


def test_tools_can_find_something(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("import os\nx: int = 'text'\n", encoding="utf-8")
    config = str(ROOT / "pyproject.toml")
    assert run(sys.executable, "-m", "ruff", "check", "--config", config, str(bad)).returncode == 1
    assert run(sys.executable, "-m", "ruff", "format", "--check", str(bad)).returncode == 1
    cache = str(tmp_path / "cache")
    assert (
        run(sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, str(bad)).returncode
        == 1
    )


@pytest.mark.skipif(os.name == "nt", reason="the script is for POSIX shells")
def test_the_build_runs_the_command_of_the_readme() -> None:
    printed = run("bash", ".ci/run", "--print").stdout.strip()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    after_mark = readme.split("<!-- test-command -->", 1)[1]
    assert printed == after_mark.split("```")[1].removeprefix("sh").strip()
    assert "\n" not in printed
    assert "requirements-dev.lock" in printed
    assert printed.endswith("pytest -q -n auto --dist loadfile --no-loadscope-reorder")


def test_the_lock_pins_and_hashes_everything() -> None:
    lock = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
    entries = lock.replace("\\\n", " ").splitlines()
    pinned = [line for line in entries if line.strip() and not line.lstrip().startswith("#")]
    assert pinned
    assert not [line for line in pinned if "==" not in line or "--hash=sha256:" not in line]
    assert "://" not in lock
