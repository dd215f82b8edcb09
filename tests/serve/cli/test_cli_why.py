"""``lookfar why``, and what the other commands do with source code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Ask = Callable[..., dict[str, Any]]
Run = Callable[..., Result]

CODE = '''class Shelf:
    """Holds books."""

    def put(self, book):
        return book
'''


@pytest.fixture
def project(handbook: Path) -> Path:
    (handbook / "src").mkdir()
    (handbook / "src/shelf.py").write_text(CODE, encoding="utf-8")
    (handbook / "src/use.py").write_text("shelf.put(1)\n", encoding="utf-8")
    (handbook / "src/.gitignore").write_text("# made\n*.gen.py\n!own.gen.py\n", encoding="utf-8")
    for name in ("a.gen.py", "own.gen.py"):
        (handbook / "src" / name).write_text("A = 1\n", encoding="utf-8")
    return handbook


def test_the_json_shape_of_a_ruling(project: Path, run: Run, ask: Ask) -> None:
    """A stable object, without an index and with one, by relative and absolute paths."""
    shape = ask("why", "src/a.gen.py", project)
    assert shape == {
        "collection": "handbook",
        "uri": "src/a.gen.py",
        "admitted": False,
        "reason": "ignored",
        "rule": "*.gen.py",
        "place": "src/.gitignore:2",
        "decided": "src/a.gen.py",
        "indexed": False,
    }
    back = ask("why", str(project / "src/own.gen.py"), project)
    assert (back["admitted"], back["place"]) == (True, "src/.gitignore:3")
    assert back["indexed"] is False
    assert run("index", project, "--quiet").exit_code == 0
    assert ask("why", "./src/own.gen.py", project)["indexed"] is True


def test_a_ruling_as_text(project: Path, run: Run) -> None:
    """It shows the verdict, the reason, and the rule with its position."""
    out = run("why", "src/a.gen.py", project)
    assert out.exit_code == 0
    assert out.stdout.splitlines() == [
        "src/a.gen.py  skipped", "ignored", "  src/.gitignore:2: *.gen.py",
    ]  # fmt: skip
    denied = run("why", "x/node_modules/y.md", project).stdout.splitlines()
    assert denied[1] == "always skipped, whatever the settings say (x/node_modules)"
    admitted = run("why", "src/shelf.py", project).stdout
    assert "no rule excludes it" in admitted
    assert "not in the index yet" in admitted
    excluded = run("why", "src/shelf.py", project, "--set", "sources.exclude=*.py").stdout
    assert "sources.exclude: *.py" in excluded


def test_a_path_outside_is_refused(project: Path, run: Run) -> None:
    assert run("why", "../x.md", project).exit_code != 0


def test_commands_take_names_of_definitions(project: Path, run: Run, ask: Ask) -> None:
    """read, outline and related, for people and in JSON."""
    assert run("index", project, "--quiet").exit_code == 0
    assert run("read", "Shelf.put", project).stdout.startswith("    def put(self, book):")
    tree = run("outline", "src/shelf.py", project).stdout.splitlines()
    assert tree[1:] == ["1  class Shelf", "4    def put(self, book)  method"]
    assert ask("outline", "src/shelf.py", project)["sections"][1]["kind"] == "method"
    related = ask("related", "Shelf.put", project)
    assert related["totals"]["definitions"] == 1
    mentions = [(e["uri"], e["line"]) for e in related["entries"] if e["kind"] == "mentions"]
    assert mentions == [("src/use.py", 1)]
    output = run("related", "Shelf.put", project, "--kind", "mentions").stdout
    assert "src/use.py:1" in output
    assert "shelf.put(1)" in output


def test_why_a_document_is_not_among_the_hits(project: Path, run: Run, ask: Ask) -> None:
    """The verdict has rank and score; for an ignored file, the rule is still shown."""
    assert run("index", project).exit_code == 0
    shape = ask("why", "src/shelf.py", project, "--query", "Shelf put")
    assert shape["verdict"] == "shown"
    assert shape["rank"] >= 1
    assert {step["stage"] for step in shape["explanation"]} >= {"definition"}
    ignored = ask("why", "src/a.gen.py", project, "--query", "Shelf put")
    assert ignored["admitted"] is False
    output = run("why", "src/shelf.py", project, "--query", "Shelf put").output
    assert output.startswith("src/shelf.py  shown\nIt is hit ")


def test_query_indexes_new_files_first(project: Path, ask: Ask) -> None:
    """For a new document, only the rules were shown although a search found it."""
    (project / "new.md").write_text("# New\n\nA zebra on the shelf.\n", encoding="utf-8")
    assert ask("why", "new.md", project, "--query", "zebra")["verdict"] == "shown"


def test_a_missing_file_does_not_exist_and_is_not_skipped(project: Path, run: Run) -> None:
    assert run("why", "missing.md", project).stdout.splitlines() == [
        "missing.md  does not exist", "no rule excludes this path",
    ]  # fmt: skip
    (project / "notes.md").write_text("# Notes\n", encoding="utf-8")
    assert run("why", "notes.md/missing.md", project).stdout.splitlines() == [
        "notes.md/missing.md  does not exist", "notes.md is not a folder",
    ]  # fmt: skip
