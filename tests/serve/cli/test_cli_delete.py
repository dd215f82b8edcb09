"""``lookfar delete`` removes the index and nothing else, and only after confirmation.

Proved by mutation: deleting without asking, deleting the memories or their folder, and leaving a
daemon to follow what is gone each fail here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lookfar.serve.cli.main import cli
from lookfar.serve.daemon import endpoint
from lookfar.serve.daemon.client_session import SERVICES
from waiting import DEADLINE

Run = Callable[..., Result]
Ask = Callable[..., dict[str, Any]]
Process = Callable[..., Any]

HASH = ("--set", "embed.provider=hash")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_delete_removes_the_index_and_keeps_the_files(handbook: Path, ask: Ask) -> None:
    place = Path(ask("index", handbook)["index_dir"])
    before = contents(handbook)
    shape = ask("delete", handbook, "--yes")
    assert shape["removed"] == [str(place)]
    assert shape["bytes"] > 1000
    assert shape["dry_run"] is False
    assert not place.exists()
    assert contents(handbook) == before
    assert ask("status", handbook)["indexed"] is False
    assert ask("search", "keys", handbook)["hits"], "the next search indexes it again"


def test_delete_needs_confirmation(handbook: Path, run: Run, ask: Ask) -> None:
    place = Path(ask("index", handbook)["index_dir"])
    for refused in (run("delete", handbook), run("delete", handbook, "--json")):
        assert refused.exit_code == 2
        assert "CONFIRMATION_REQUIRED" in refused.output
        assert "--yes" in refused.output
    would = run("delete", handbook, "--dry-run")
    assert would.stdout == f"Would remove {place}\n"
    assert ask("delete", handbook, "--dry-run")["dry_run"] is True
    assert place.exists()


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(("answer", "code"), [("n\n", 130), ("y\n", 0)])
def test_delete_asks_on_a_terminal(
    handbook: Path, ask: Ask, answer: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Path(ask("index", handbook)["index_dir"])
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    result = CliRunner().invoke(cli, ["delete", str(handbook), *HASH], input=answer)
    assert "Its files stay." in result.stderr
    assert result.exit_code == code
    assert place.exists() == (code != 0)


def test_deleting_an_unindexed_folder_is_an_error(handbook: Path, run: Run) -> None:
    result = run("delete", handbook, "--yes")
    assert result.exit_code == 4
    assert "There is no index" in result.stderr


def test_memories_and_databases_stay(handbook: Path, run: Run, ask: Ask, own_home: Path) -> None:
    run("remember", "Keys rotate in March.", "--path", handbook)
    run("documents", "create", "notes")
    run("documents", "insert", "A text to keep.", "--db", "notes")
    ask("search", "keys", handbook)
    memories = ask("memory", "list", "--path", handbook)
    removed = ask("delete", handbook, "--yes")["removed"]
    assert len(removed) == 2, "of the folder, and of what is remembered of it"
    assert ask("memory", "list", "--path", handbook) == memories
    assert len(memories["memories"]) == 1
    (database,) = ask("documents", "list")["databases"]
    assert (database["name"], database["documents"]) == ("notes", 1)
    assert Path(database["path"]).is_relative_to(own_home)


def test_user_memories_survive_deleting_a_folder(handbook: Path, ask: Ask) -> None:
    scope = ("--set", "memory.scope=user")
    ask("memory", "add", "Keys rotate in March.", "--path", handbook, *scope)
    ask("search", "keys", handbook, *scope)
    assert len(ask("delete", handbook, "--yes", *scope)["removed"]) == 1


def test_a_damaged_index_can_be_deleted(handbook: Path, ask: Ask) -> None:
    place = Path(ask("index", handbook)["index_dir"])
    (place / "epoch-1" / "catalogue.db").write_bytes(b"garbage" * 1000)
    assert ask("delete", handbook, "--yes")["removed"] == [str(place)]
    assert not place.exists()


@pytest.mark.skipif(os.name == "nt", reason="the daemon is started by a POSIX session here")
def test_the_daemon_releases_a_deleted_folder(handbook: Path, process: Process) -> None:
    """The daemon has the folder open, and must stop watching it."""
    options = {"index_dir": "", "settings": {"embed.provider": "hash"}}
    request = endpoint.make_request("call", [str(handbook)], options)
    connection = endpoint.connect(request, endpoint.daemon_command(SERVICES), timeout=DEADLINE)
    try:
        asked = json.dumps({"method": "statuses", "arguments": {}}).encode() + b"\n"
        connection.socket.sendall(asked)
        connection.socket.recv(1 << 16)
        answer = json.loads(process("search", "keys", handbook, "--json", *HASH).stdout)
        assert answer["hits"]
        shape = json.loads(process("delete", handbook, "--yes", "--json", *HASH).stdout)
        (place,) = shape["removed"]
        assert not Path(place).exists()
        (handbook / "new.md").write_text("# New\n\nA word: xylophone.\n")
        status = json.loads(process("status", handbook, "--json", *HASH).stdout)
        assert status["indexed"] is False, "it was not rebuilt"
        answer = json.loads(process("search", "xylophone", handbook, "--json", *HASH).stdout)
        assert answer["hits"][0]["uri"] == "new.md"
    finally:
        connection.socket.close()
        endpoint.daemon_stop()
