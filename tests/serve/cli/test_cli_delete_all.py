"""``lookfar delete --all`` removes what Lookfar stored, and only copies only if that is confirmed.

Proved by mutation: removing databases or memories with ``--yes`` alone, removing folders of others
from the index folder, and removing backups of setup that are still needed each fail here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lookfar import config
from lookfar.serve.cli.main import cli
from lookfar.serve.daemon import endpoint
from serve.terminal import on_terminal

Run = Callable[..., Result]
Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def stored(run: Run, handbook: Path, own_home: Path) -> Path:
    """Something of every kind; returns the folder with all data."""
    assert run("index", handbook, "--quiet").exit_code == 0
    assert run("remember", "Keys rotate in March.", handbook).exit_code == 0
    assert run("documents", "create", "notes").exit_code == 0
    assert run("documents", "insert", "An only copy.", "--db", "notes").exit_code == 0
    assert run("add", handbook, handbook, "--name", "manual").exit_code == 0
    assert CliRunner().invoke(cli, ["tokens", "add", "ci"]).exit_code == 0
    assert CliRunner().invoke(cli, ["config", "set", "search.top_k", "5"]).exit_code == 0
    data = config.data_dir()
    assert data.is_relative_to(own_home)
    (data / "models").mkdir()
    (data / "models" / "weights.bin").write_bytes(b"0" * 100)
    (data / "not-ours").mkdir()
    (data / "not-ours" / "thesis.txt").write_text("Years of work.", encoding="utf-8")
    return data


def list_files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_dry_run_removes_nothing(stored: Path, handbook: Path, ask: Ask) -> None:
    before = list_files(stored)
    shape = ask("delete", "--all", "--dry-run")
    assert shape["dry_run"] is True
    kinds = {entry["kind"] for entry in shape["removed"]}
    assert {"index", "source", "tokens", "models"} <= kinds
    assert not kinds & {"database", "memories"}
    assert list_files(stored) == before


def test_databases_and_memories_survive_yes(stored: Path, handbook: Path, ask: Ask) -> None:
    sources = list_files(handbook)
    shape = ask("delete", "--all", "--yes")
    left = list_files(stored)
    assert any("notes" in name for name in left)
    assert any("Keys rotate" in text.decode("utf-8", "replace") for text in left.values())
    assert not (stored / "tokens.json").exists()
    assert not (stored / "models").exists()
    for entry in shape["removed"]:
        assert not Path(entry["path"]).exists()
    kept = {entry["path"]: entry["reason"] for entry in shape["kept"]}
    assert "--databases" in kept[str(stored / "documents" / "notes")]
    assert str(config.config_file()) in kept
    assert config.config_file().exists()
    assert list_files(handbook) == sources
    assert ask("documents", "list")["databases"][0]["documents"] == 1


def test_copies_of_collections_on_a_server_go(stored: Path, ask: Ask) -> None:
    """Seen to fail while only the indexes beside them were removed."""
    copies = stored / "copies"
    for name in ("handbook-0123456789abcdef", "documents/notes"):
        (copies / "0123456789abcdef" / name).mkdir(parents=True)
        (copies / "0123456789abcdef" / name / "CURRENT").write_text("epoch-1")
    removed = [place["path"] for place in ask("delete", "--all", "--yes")["removed"]]
    assert len([path for path in removed if path.startswith(str(copies))]) == 2
    assert not copies.exists()


def test_a_folder_with_edits_but_no_index_goes(run: Run, handbook: Path, ask: Ask) -> None:
    """An undo in a folder that was never indexed creates a folder for its edits."""
    assert run("undo", "onboarding.md", handbook).exit_code != 0
    assert list_files(config.data_dir())
    ask("delete", "--all", "--yes")
    assert not list_files(config.data_dir())


def test_everything_goes_if_it_is_confirmed(stored: Path, handbook: Path, ask: Ask) -> None:
    ask("delete", "--all", "--yes", "--databases", "--memories")
    assert list_files(stored) == {str(stored / "not-ours" / "thesis.txt"): b"Years of work."}
    assert [path.name for path in stored.iterdir()] == ["not-ours"]
    assert not endpoint.runtime_path().exists()
    assert not endpoint.daemon_log_path().parent.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_on_a_terminal_only_copies_are_asked_for_separately(stored: Path) -> None:
    code, output = on_terminal("delete", "--all", typed="y\nn\ny\n")
    assert code == 0, output
    assert output.count("[y/N]") == 3
    assert "the only copy of their documents" in output
    assert (stored / "documents" / "notes").exists()
    assert not (stored / "memory").exists()


def test_without_a_terminal_confirmation_is_required(stored: Path, run: Run) -> None:
    before = list_files(stored)
    refused = run("delete", "--all")
    assert "CONFIRMATION_REQUIRED" in refused.stderr
    assert list_files(stored) == before


def test_backups_that_setup_still_needs_stay(
    stored: Path, own_home: Path, ask: Ask, handbook: Path
) -> None:
    client = own_home / ".cursor" / "mcp.json"
    client.parent.mkdir()
    client.write_text("{}", encoding="utf-8")
    arguments = ["setup", str(handbook), "--client", "cursor", "--yes", "--no-index"]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    shape = ask("delete", "--all", "--yes")
    assert any("setup --undo" in entry["reason"] for entry in shape["kept"])
    assert CliRunner().invoke(cli, ["setup", "--undo", "--yes"]).exit_code == 0
    assert client.read_text(encoding="utf-8") == "{}"


def test_a_folder_and_all_contradict_each_other(run: Run, handbook: Path) -> None:
    assert "Omit the folder" in run("delete", handbook, "--all", "--yes").stderr
    assert "Add --all" in run("delete", handbook, "--databases", "--yes").stderr
