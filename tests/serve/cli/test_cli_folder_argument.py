"""The folder of a command: the last argument and ``--path`` mean the same for every command.

Proved by mutation: a command without ``--path``, one without the argument, ``--path`` ignored, and
both accepted at once each fail here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result

from lookfar.serve.cli.main import cli

Run = Callable[..., Result]
Ask = Callable[..., dict[str, Any]]

VARIADIC = {"doc validate", "memory merge", "config show", "eval"}
"""Commands whose last argument may be repeated; they split the folder off it themselves."""
WITHOUT_FOLDER = {"completion", "copy", "logs"}


def list_commands(group: click.Group, above: str = "") -> dict[str, click.Command]:
    commands: dict[str, click.Command] = {}
    for name, command in group.commands.items():
        full_name = f"{above} {name}".strip()
        if isinstance(command, click.Group):
            commands |= list_commands(command, full_name)
        elif not command.hidden and full_name.split()[0] not in (
            "daemon",
            "tokens",
            "documents",
            "sources",
            "update",
            "pack",
        ):
            commands[full_name] = command
    return commands


COMMANDS = {
    name: command for name, command in list_commands(cli).items() if name not in WITHOUT_FOLDER
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_its_folder_both_ways(name: str) -> None:
    parameters = COMMANDS[name].params
    assert "--path" in {option for parameter in parameters for option in parameter.opts}
    if name not in VARIADIC:
        arguments = [one for one in parameters if isinstance(one, click.Argument)]
        assert arguments[-1].name in ("path", "root")
        assert not arguments[-1].required


def test_memories_are_written_and_read_in_the_named_folder(
    run: Run, ask: Ask, handbook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert run("remember", "Keys rotate in March.", handbook, "--title", "Keys").exit_code == 0
    assert run("memory", "add", "Ask Ada.", "--title", "Ada", "--path", handbook).exit_code == 0
    listed = [ask("memory", "list", handbook), ask("memory", "list", "--path", handbook)]
    assert listed[0] == listed[1]
    names = [memory["name"] for memory in listed[0]["memories"]]
    assert len(names) == 2
    assert ask("memory", "list")["memories"] == []
    merged = run("memory", "merge", "both", "All of it.", *names, handbook)
    assert merged.exit_code == 0, merged.output
    assert ask("memory", "stats", handbook)["total"] == 1


def test_documents_are_edited_and_undone_in_the_named_folder(
    run: Run, ask: Ask, handbook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (handbook / "new.md").write_text("# New\n\nA text.\n", encoding="utf-8")
    assert run("doc", "append", "new.md", handbook, "--text", "More.").exit_code == 0
    assert "More." in (handbook / "new.md").read_text(encoding="utf-8")
    assert ask("undo", "--list", handbook) == ask("undo", "--list", "--path", handbook)
    assert len(ask("undo", "--list", handbook)["steps"]) == 1
    assert run("undo", "new.md", handbook).exit_code == 0
    assert "More." not in (handbook / "new.md").read_text(encoding="utf-8")
    validated = ask("doc", "validate", "new.md", handbook)
    assert validated == ask("doc", "validate", "new.md", "--path", handbook)


def test_one_folder_or_several_may_be_given_as_options(
    run: Run, ask: Ask, handbook: Path, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("# A\n\nSigning keys.\n", encoding="utf-8")
    assert run("index", "--path", handbook, "--path", notes, "--quiet").exit_code == 0
    # Both are indexed now: reindex refuses a folder that is not.
    assert run("reindex", notes, handbook, "--quiet").exit_code == 0
    found = ask("search", "signing keys", "--path", notes)
    assert {hit["uri"] for hit in found["hits"]} == {"a.md"}
    assert ask("read", "a.md", "--path", notes)["text"] == ask("read", "a.md", notes)["text"]


def test_a_folder_is_not_given_twice(run: Run, handbook: Path) -> None:
    for command in (("status",), ("read", "a.md"), ("memory", "list"), ("eval",)):
        refused = run(*command, handbook, "--path", handbook)
        assert refused.exit_code == 2, command
        assert "given twice" in refused.stderr


def test_an_empty_folder_name_is_refused(run: Run) -> None:
    for command in (("status",), ("memory", "list"), ("history", "keys")):
        refused = run(*command, "--path", "")
        assert refused.exit_code == 2, command
        assert "PATH is empty" in refused.stderr


def test_a_name_wins_over_a_folder_of_that_name(
    run: Run, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "search").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "lookfar.toml").write_text("search.top_k = 3\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    shown = {one["key"]: one["value"] for one in ask("config", "show", "search")["settings"]}
    assert all(key.startswith("search") for key in shown)
    for where in (("docs",), ("--path", "docs"), (os.path.join(".", "docs"),)):
        shown = {
            one["key"]: one["value"] for one in ask("config", "show", "search", *where)["settings"]
        }
        assert shown["search.top_k"] == 3


def test_a_search_by_filters_alone_takes_its_folder(
    ask: Ask, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if the folder is asked for as words, or if a word with the name of a folder is not."""
    monkeypatch.chdir(handbook)
    (handbook / "backup").mkdir()
    everything = ask("search", "--glob", "**", "--path", handbook)["documents"]
    assert everything
    for folder in (".", str(handbook)):
        assert ask("search", "--glob", "**", folder)["documents"] == everything
    assert ask("search", "--glob", "**", "backup")["hits"]
