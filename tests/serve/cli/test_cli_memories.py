"""``lookfar remember`` and ``lookfar memory``, as people run them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Ask = Callable[..., dict[str, Any]]
Run = Callable[..., Result]


@pytest.fixture
def at(handbook: Path) -> tuple[str, str]:
    return ("--path", str(handbook))


def test_a_memory_is_stored_in_the_data_folder_and_found(
    run: Run, ask: Ask, handbook: Path, own_home: Path, at: tuple[str, str]
) -> None:
    """By default it is outside the project, in a folder named after the project's path."""
    made = ask(
        "remember", "In March, not in January.", "--title", "Keys rotate", "--type", "plan",
        "--tag", "keys", "--about", "security/keys.md", *at,
    )  # fmt: skip
    path = Path(made["path"])
    assert path.name == "keys-rotate.md"
    assert path.parent.name.startswith("handbook-")
    assert path.parent.parent.name == "memory"
    assert own_home in path.parents
    assert (made["type"], made["tags"], made["author"]) == ("plan", ["keys"], "command line")
    assert not [path for path in handbook.rglob("*") if "keys-rotate" in path.name]
    hits = ask("search", "march january", handbook)["hits"]
    assert (hits[0]["uri"], hits[0]["lane"]) == ("keys-rotate.md", "memory")
    related = run("related", "security/keys.md", handbook).stdout
    assert "remembered in  1" in related
    assert "plans" in related
    (entry,) = ask("related", "security/keys.md", handbook, "--kind", "memories")["entries"]
    assert (entry["uri"], entry["collection"]) == ("keys-rotate.md", "handbook@memory")


def test_a_memory_without_headings_is_shown_by_its_title(
    run: Run, handbook: Path, at: tuple[str, str]
) -> None:
    run("remember", "Zebra keys.", "--title", "Stripes", *at)
    output = run("search", "zebra", handbook, "-k", "1").stdout
    assert output.splitlines()[1].strip() == "Stripes"


def test_a_stale_memory_is_marked(run: Run, handbook: Path, at: tuple[str, str]) -> None:
    run("index", handbook, "--quiet")
    run("remember", "Zebra keys.", "--about", "security/keys.md", *at)
    assert "STALE" not in run("search", "zebra", handbook).stdout
    (handbook / "security" / "keys.md").write_text("# Keys\n\nGone.\n", encoding="utf-8")
    output = run("search", "zebra", handbook).stdout
    assert "STALE memory: changed since it was written: security/keys.md" in output


def test_memories_are_listed_changed_and_deleted(run: Run, ask: Ask, at: tuple[str, str]) -> None:
    run("remember", "One.", "--title", "one", "--tag", "a", *at)
    run("remember", "Two.", "--title", "two", "--type", "journal", *at)
    assert [memory["name"] for memory in ask("memory", "list", *at)["memories"]] == [
        "one.md",
        "two.md",
    ]
    assert [memory["name"] for memory in ask("memory", "list", "--tag", "a", *at)["memories"]] == [
        "one.md"
    ]
    journals = run("memory", "list", "--type", "journal", *at).stdout
    assert "two.md" in journals
    assert "one.md" not in journals
    assert "Added to one.md" in run("memory", "append", "one", "More.", *at).stdout
    assert run("memory", "read", "one", *at).stdout.endswith("One.\n\nMore.\n")
    assert "Restored one.md" in run("memory", "restore", "one", *at).stdout
    assert ask("memory", "read", "one", *at)["text"] == "One."
    assert "Deleted two.md" in run("memory", "delete", "two", *at).stdout
    trash = ask("memory", "list", "--trash", *at)["trash"]
    assert {(memory["name"], memory["deleted"]) for memory in trash} == {
        ("one.md", False),
        ("two.md", True),
    }
    assert "two.md  1  deleted" in run("memory", "list", "--trash", *at).stdout
    run("memory", "restore", "two", "--version", "1", *at)
    merged = run("memory", "merge", "both", "Both.", "one", "two", *at)
    assert "Merged into both.md" in merged.stdout
    stats = ask("memory", "stats", *at)
    assert (stats["total"], stats["by_tag"], stats["trashed"]) == (1, {"a": 1}, 2)
    assert "total: 1" in run("memory", "stats", *at).stdout


def test_wrong_names_have_an_error_code(run: Run, at: tuple[str, str]) -> None:
    missing = run("memory", "read", "nowhere", *at)
    assert missing.exit_code == 3
    assert "error NOT_FOUND" in missing.stderr
    path = run("memory", "delete", "../x", *at)
    assert path.exit_code == 2
    assert "OUTSIDE_ROOT" in path.stderr
    assert run("remember", " ", *at).exit_code == 2
    assert run("remember", "x", "--type", "secret", *at).exit_code == 2


def test_add_equals_remember_and_edit_changes_only_what_is_given(
    handbook: Path, ask: Ask, run: Run
) -> None:
    at = ("--path", handbook)
    made = ask("memory", "add", "Keys rotate in March.", "--title", "Keys", "--tag", "a", *at)
    short = ask("remember", "Keys rotate in May.", "--title", "May", *at)
    assert list(made) == list(short), "one shape for both"
    assert Path(made["path"]).is_file()
    changed = ask("memory", "edit", "keys", "Keys rotate in April.", *at)
    assert (changed["text"], changed["tags"], changed["type"]) == (
        *("Keys rotate in April.", ["a"], "fact"),
    )
    changed = ask("memory", "edit", "keys", "--status", "archived", "--tag", "b", *at)
    assert (changed["text"], changed["tags"], changed["status"]) == (
        *("Keys rotate in April.", ["b"], "archived"),
    )
    ask("memory", "restore", "keys", *at)
    assert ask("memory", "read", "keys", *at)["status"] != "archived"
    nothing = run("memory", "edit", "keys", *at)
    assert nothing.exit_code == 2
    assert "--status" in nothing.stderr
    assert run("memory", "list", "--trash", "--path", handbook.parent).stdout == (
        "The trash is empty.\n"
    )
