"""``lookfar documents``, as people and scripts run it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lookfar.serve.cli.main import cli

Ask = Callable[..., dict[str, Any]]
Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty folder: databases do not belong to a folder."""
    folder = tmp_path / "nowhere"
    folder.mkdir()
    monkeypatch.chdir(folder)


def test_a_text_is_inserted_found_and_deleted(run: Run, ask: Ask, own_home: Path) -> None:
    made = ask("documents", "insert", "犬は走る。", "--metadata", '{"lang": "ja"}')
    assert made["chunk_count"] == 1
    ask("documents", "insert", "boats in the harbour")
    (hit,) = ask("documents", "find", "犬", "-k", "1")["results"]
    assert (hit["doc_id"], hit["text"]) == (made["doc_id"], "犬は走る。")
    assert (hit["chunk_index"], hit["metadata"]) == (0, {"lang": "ja"})
    assert ask("documents", "find", "犬", "--filter", '{"lang": "en"}')["results"] == []
    output = run("documents", "find", "boats").stdout
    assert "    boats in the harbour\n" in output
    listed = ask("documents", "list")
    assert [(database["name"], database["documents"]) for database in listed["databases"]] == [
        ("vectors", 2)
    ]
    assert own_home in Path(listed["folder"]).parents
    assert "vectors  2 documents, 2 chunks" in run("documents", "list").stdout
    assert ask("documents", "delete", made["doc_id"]) == {"deleted_chunks": 1}
    again = run("documents", "delete", made["doc_id"])
    assert again.exit_code == 3
    assert "NOT_FOUND" in again.output


def test_a_named_database_has_to_be_created(run: Run, ask: Ask) -> None:
    refused = run("documents", "insert", "a text", "--db", "notes")
    assert refused.exit_code == 3
    assert "create" in refused.output
    made = ask("documents", "create", "notes")
    assert Path(made["path"]).is_dir()
    assert ask("documents", "insert", "a text", "--db", "notes")["chunk_count"] == 1
    assert run("documents", "create", "a b").exit_code == 2
    assert run("documents", "find", "x", "--db", "../up").exit_code == 2


def test_a_database_is_exported_and_imported(run: Run, ask: Ask, tmp_path: Path) -> None:
    lines = [
        json.dumps({"text": f"text {at} \u2028 日本", "metadata": {"n": at}}) for at in range(5)
    ]
    file = tmp_path / "in.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    done = ask("documents", "import", file)
    assert done == {"added": 5, "replaced": 0, "skipped": 0, "chunks": 5}
    assert "5 skipped" in run("documents", "import", file).stdout
    out = tmp_path / "out.jsonl"
    assert ask("documents", "export", out) == {"file": str(out), "documents": 5}
    assert run("documents", "export", out).exit_code == 2
    assert run("documents", "export").stdout == out.read_text(encoding="utf-8")
    assert ask("documents", "import", out, "--db", "copy")["added"] == 5
    assert run("documents", "export", "--db", "copy").stdout == out.read_text(encoding="utf-8")
    first = json.loads(out.read_text(encoding="utf-8").split("\n")[0])
    file.write_text(json.dumps({**first, "text": "another"}), encoding="utf-8")
    refused = run("documents", "import", file)
    assert refused.exit_code == 2
    assert "--replace" in refused.output
    assert ask("documents", "import", file, "--replace")["replaced"] == 1


def test_a_long_import_shows_progress(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    lines = (json.dumps({"text": f"text {at}"}) for at in range(1_100))
    file.write_text("\n".join(lines), encoding="utf-8")
    done = run("documents", "import", file)
    assert "1,0" in done.stderr
    assert "documents" in done.stderr
    assert "1,100 added" in done.stdout
    assert run("documents", "import", file, "--quiet").output == ""


def test_wrong_input_is_reported(run: Run, ask: Ask, tmp_path: Path) -> None:
    assert run("documents", "insert", "x", "--metadata", "{").exit_code == 2
    assert run("documents", "insert", "x", "--metadata", "[]").exit_code == 2
    assert run("documents", "import", tmp_path / "none.jsonl").exit_code == 3
    file = tmp_path / "in.jsonl"
    file.write_bytes(b'{"text": "a"}\nrubbish\n')
    refused = run("documents", "import", file)
    assert refused.exit_code == 2
    assert "Line 2" in refused.output
    assert ask("documents", "list")["databases"] == []  # Nothing of it is left behind.


def test_invalid_utf8_is_refused(run: Run, ask: Ask, tmp_path: Path) -> None:
    """Once, invalid bytes were stored as question marks."""
    file = tmp_path / "in.jsonl"
    file.write_bytes(b'{"text": "a"}\n{"text": "caf\xe9"}\n')
    refused = run("documents", "import", file)
    assert refused.exit_code == 2
    assert "Line 2" in refused.output
    given = ["documents", "insert", "-", "--set", "embed.provider=hash"]
    assert CliRunner().invoke(cli, given, input=b"caf\xe9").exit_code == 2
    assert run("documents", "insert", "caf\udce9").exit_code == 2
    assert ask("documents", "find", "caf")["results"] == []


def test_import_accepts_a_byte_order_mark(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"text": "a"}\r\n{"text": "b"}\r\n')
    assert ask("documents", "import", file)["added"] == 2


def test_errors_name_the_bad_line_or_database(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text('{"text": 5}', encoding="utf-8")
    assert "text is empty" in run("documents", "import", file).output
    assert run("documents", "create", "").exit_code == 2


def test_a_search_of_databases_does_not_announce_indexing_the_folder(run: Run) -> None:
    run("documents", "insert", "boats in the harbour")
    output = run("search", "boats", "--kind", "documents")
    assert "boats in the harbour" in output.stdout
    assert "indexing it first" not in output.stderr


def test_texts_and_lines_come_from_stdin(ask: Ask) -> None:
    def piped(*arguments: str, text: str) -> Result:
        given = ["documents", *arguments, "--set", "embed.provider=hash"]
        return CliRunner().invoke(cli, given, input=text)

    assert piped("insert", "-", text="犬は\n走る。\n").exit_code == 0
    assert "1 added" in piped("import", "-", text='{"text": "boats"}\n').stdout
    (hit,) = ask("documents", "find", "犬", "-k", "1")["results"]
    assert hit["text"] == "犬は\n走る。\n"


def test_without_a_command_the_help_is_shown() -> None:
    output = CliRunner().invoke(cli, ["documents"]).stdout
    for command in ("create", "list", "insert", "find", "delete", "import", "export"):
        assert f"  {command} " in output
