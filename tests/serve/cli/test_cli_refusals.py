"""Bad values are refused before any work: nothing is indexed or stored for them.

Proved by mutation: without the check of the question, without the check of all lines, and without
the translated import error, each test fails.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lookfar.serve.cli.main import cli
from waiting import DEADLINE

Run = Callable[..., Result]
Ask = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    "arguments",
    [
        ("keys", "-k", "0"),
        ("keys", "-k", "5000000"),
        ("",),
        ("  ",),
        ("", "--mode", "literal"),
        ("(", "--mode", "regex"),
    ],
)
def test_a_bad_question_does_not_announce_indexing(
    run: Run, handbook: Path, arguments: tuple[str, ...]
) -> None:
    refused = run("search", *arguments, "--path", handbook)
    assert refused.exit_code == 2
    assert refused.stderr.startswith("error INVALID_ARGUMENT")
    assert run("reindex", handbook).exit_code != 0, "it has not been indexed"


def test_a_filter_without_words_still_lists_documents(run: Run, handbook: Path) -> None:
    assert run("search", "", handbook, "--glob", "**/*.md").exit_code == 0


def test_a_bad_limit_is_refused_before_a_repository_is_looked_for(run: Run, handbook: Path) -> None:
    for arguments in (("keys",), ("",)):
        refused = run("history", *arguments, handbook, "-n", "-1")
        assert refused.exit_code == 2
        assert "--limit" in refused.stderr


def test_a_wrong_line_late_in_a_file_stores_nothing(run: Run, ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "notes.jsonl"
    lines = [json.dumps({"text": f"Text number {number}."}) for number in range(3000)]
    file.write_text("\n".join([*lines, "garbage"]), encoding="utf-8")
    refused = run("documents", "import", file, "--db", "notes", "--quiet")
    assert refused.exit_code == 2
    assert "Line 3001" in refused.stderr
    assert ask("documents", "list")["databases"] == []


def test_a_folder_is_not_imported(run: Run, ask: Ask, tmp_path: Path) -> None:
    refused = run("documents", "import", tmp_path, "--db", "notes")
    assert refused.exit_code == 2
    assert "is a folder" in refused.stderr
    assert ask("documents", "list")["databases"] == []


def test_an_empty_place_is_not_copied() -> None:
    refused = CliRunner().invoke(cli, ["copy", "", "local"])
    assert refused.exit_code == 2
    assert "is empty" in refused.stderr


@pytest.mark.parametrize("command", [("index",), ("search", "keys"), ("status",), ("delete",)])
def test_a_missing_driver_says_what_to_install(
    run: Run, handbook: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    for name in [name for name in sys.modules if name.startswith("lookfar.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)  # Importing it now raises ImportError.
    monkeypatch.setenv("LOOKFAR_STORE_URL", "postgresql://reader@localhost/library")
    refused = run(*command, handbook)
    assert "error INVALID_CONFIG" in refused.stderr
    assert 'pip install "lookfar[postgres]"' in refused.stderr


Bound = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def short_home(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home whose path is short enough for the daemon's socket."""
    with tempfile.TemporaryDirectory(prefix="lf") as folder:
        monkeypatch.setenv("HOME", folder)
        yield Path(folder)


@pytest.fixture
def bound(short_home: Path) -> Iterator[Bound]:
    """Run a command with a home that cannot be written to, also if the tests are run by root."""
    prefix = []
    if os.name == "nt" or (os.geteuid() == 0 and not shutil.which("setpriv")):
        pytest.skip("needs modes of files that bind this user")
    if os.geteuid() == 0:
        prefix = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]

    def bound(*arguments: object, asked: str = "") -> subprocess.CompletedProcess[str]:
        hashed = ("--set", "embed.provider=hash")
        return subprocess.run(
            [*prefix, sys.executable, "-m", "lookfar", *map(str, arguments), *hashed],
            input=asked, capture_output=True, text=True, timeout=DEADLINE, check=False,
        )  # fmt: skip

    short_home.chmod(0o555)
    yield bound
    short_home.chmod(0o755)


def test_an_index_folder_is_enough_where_the_home_is_read_only(
    bound: Bound, handbook: Path, tmp_path: Path, short_home: Path
) -> None:
    """Seen to fail when looking for a daemon created the daemon's folder: no question was answered,
    and the hint named the option that was given already."""
    place = ("--index-dir", tmp_path / "indexes")
    assert bound("search", "keys", handbook, *place).returncode == 0
    assert bound("index", handbook, *place).returncode == 0
    assert "up to date" in bound("status", handbook, *place).stdout
    assert list(short_home.iterdir()) == []


@pytest.mark.parametrize("alone", [("--no-daemon",), ()], ids=["alone", "daemon"])
def test_agents_are_served_where_the_home_is_read_only(
    bound: Bound, handbook: Path, tmp_path: Path, alone: tuple[str, ...]
) -> None:
    call = {"name": "search", "arguments": {"query": "keys"}}
    about = {"name": "agent", "version": "1"}
    begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    assert bound("index", handbook, "--index-dir", tmp_path / "indexes").returncode == 0
    given = "".join(json.dumps(line) + "\n" for line in lines)
    served = bound("mcp", handbook, "--index-dir", tmp_path / "indexes", *alone, asked=given)
    assert json.loads(served.stdout.splitlines()[0])["id"] == 1
    assert alone or "Serving without the daemon" in served.stderr


def test_a_read_only_home_is_explained(
    bound: Bound, handbook: Path, short_home: Path, tmp_path: Path
) -> None:
    """Seen to fail when the hint led in a circle, and when doctor took the error for a bug."""
    for command in ("search keys", "index"):
        refused = bound(*command.split(), handbook)
        assert f"creating the folder {short_home}" in refused.stderr
        assert "--index-dir" in refused.stderr
        assert "LOOKFAR_DATA_DIR" in refused.stderr
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LOOKFAR_DATA_DIR", str(tmp_path / "data"))
        assert bound("search", "keys", handbook).returncode == 0
    explained = bound("doctor", handbook)
    assert explained.returncode == 9
    assert f"{short_home} is not writable" in explained.stdout
    assert "XDG_STATE_HOME" in explained.stdout
    assert "Report it" not in explained.stdout
