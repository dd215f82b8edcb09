"""Bad values are refused before any work: nothing is indexed or stored for them.

Proved by mutation: without the check of the question, without the check of all lines, and without
the translated import error, each test fails.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lookfar.serve.cli.main import cli

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
