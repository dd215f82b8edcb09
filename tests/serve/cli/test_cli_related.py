"""``lookfar related``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Ask = Callable[..., dict[str, Any]]
Run = Callable[..., Result]

KEYS = [
    "collection", "uri", "title", "heading_path", "entries", "totals", "generation", "incomplete",
]  # fmt: skip
ENTRY_KEYS = [
    "kind", "uri", "title", "target", "resolved", "relation", "count", "score", "anchor",
    "heading_path", "line", "text", "context",
]  # fmt: skip


@pytest.fixture
def linked(handbook: Path, run: Run) -> Path:
    """The handbook with a page of links, among them a ghost and an embedded page."""
    (handbook / "start.md").write_text(
        "# Start\n\nFirst [ship](operations/releases.md#Ship) it.\n\n## See also\n\n"
        "- [[Nobody's page]]\n- ![[onboarding]]\n- [keys](security/keys.md), [[keys]]\n"
    )
    assert run("index", handbook, "--quiet").exit_code == 0
    return handbook


def test_links_with_their_lines(linked: Path, run: Run) -> None:
    output = run("related", "start.md", linked, "--kind", "links").stdout.splitlines()
    assert output == [
        "start.md  Start",
        "",
        "links to  4",
        "  operations/releases.md  Releases  line 3, #Ship",
        "      First ship it.",
        "  Nobody's page  missing, related, line 7",
        "      - Nobody's page - ![[onboarding]] - [keys](security/keys.md),…",
        "  onboarding.md  Your first week  transclusion, line 8",
        "      - [[Nobody's page]] - onboarding - [keys](security/keys.md), [[keys]]",
        "  security/keys.md  Keys  related, 2 links, line 9",
        "      - [[Nobody's page]] - ![[onboarding]] - keys, [[keys]]",
    ]


def test_all_kinds_are_shown_and_counted(linked: Path, run: Run) -> None:
    output = run("related", "security/keys.md", linked, "--limit", 1).stdout
    assert "linked from  1\n  start.md:9  Start  related, 2 links\n" in output
    assert "\nlinks to  0\n" in output
    assert "\nsimilar  1\n" in output
    assert "\nsame community  1 of " in output


def test_the_json_shape(linked: Path, ask: Ask) -> None:
    shape = ask("related", "operations/releases.md", linked)
    assert list(shape) == KEYS
    assert all(list(entry) == ENTRY_KEYS for entry in shape["entries"])
    assert list(shape["totals"]) == ["links", "backlinks", "similar", "community"]
    (back,) = [entry for entry in shape["entries"] if entry["kind"] == "backlinks"]
    assert (back["uri"], back["line"], back["anchor"]) == ("start.md", 3, "Ship")
    ghost = ask("related", "start.md#See also", linked, "--kind", "links")["entries"][0]
    assert (ghost["uri"], ghost["target"], ghost["resolved"]) == ("", "Nobody's page", False)


def test_an_earlier_generation(linked: Path, run: Run, ask: Ask) -> None:
    (linked / "start.md").unlink()
    assert run("index", linked, "--quiet").exit_code == 0
    asked = ("related", "security/keys.md", linked, "--kind", "backlinks")
    assert ask(*asked)["entries"] == []
    assert [entry["uri"] for entry in ask(*asked, "--as-of", 1)["entries"]] == ["start.md"]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (("security/key.md",), 3, "Nearest: security/keys.md"),
        (("start.md#Nope",), 3, "has no section 'Nope'"),
        (("start.md", "--limit", "0"), 2, "Ask for 1 or more"),
        (("start.md", "--as-of", "99"), 2, "is not kept"),
        (("start.md", "--kind", "friends"), 2, "friends"),
    ],
)
def test_what_is_refused(
    arguments: tuple[str, ...], exit_code: int, message: str, linked: Path, run: Run
) -> None:
    target, *more = arguments
    result = run("related", target, linked, *more)
    assert result.exit_code == exit_code
    assert message in result.stderr
    assert result.stdout == ""


def test_callers_can_be_asked_for_by_name(tmp_path: Path, run: Run) -> None:
    """Seen to fail when the option was refused and its opposite was suggested."""
    code = "def moor():\n    return 1\n\n\ndef arrive():\n    return moor()\n"
    (tmp_path / "dock.py").write_text(code, encoding="utf-8")
    run("index", tmp_path)
    named = run("graph", "moor", tmp_path, "--callers")
    assert named.stdout == run("graph", "moor", tmp_path).stdout
    assert "arrive" in named.stdout
    assert "arrive" not in run("graph", "moor", tmp_path, "--callees").stdout


def test_the_way_to_another_definition(tmp_path: Path, run: Run, ask: Ask) -> None:
    code = "def moor():\n    return 1\n\n\ndef arrive():\n    return moor()\n"
    (tmp_path / "dock.py").write_text(code, encoding="utf-8")
    run("index", tmp_path)
    printed = run("graph", "arrive", tmp_path, "--to", "moor").stdout
    assert printed.startswith("dock.py:5-6  arrive\n")
    assert "complete: the index resolved each call." in printed
    assert ask("graph", "arrive", tmp_path, "--to", "moor")["steps"][0]["calls"] == [6]


def test_a_folder_never_indexed(tmp_path: Path, run: Run) -> None:
    (tmp_path / "new").mkdir()
    result = run("related", "a.md", tmp_path / "new")
    assert result.exit_code == 4
    assert "hint: Run: lookfar index" in result.stderr


def test_terminal_escapes_in_documents_are_neutralised(handbook: Path, run: Run) -> None:
    """Names, link texts and contexts come from documents."""
    (handbook / "evil.md").write_text(
        "# \x1b[31mred\n\nsee [\x07bell\x1bM](onboarding.md) \x1b[2J\n"
    )
    assert run("index", handbook, "--quiet").exit_code == 0
    output = run("related", "onboarding.md", handbook, "--kind", "backlinks").stdout
    assert "evil.md:3" in output
    assert "\x1b" not in output
    assert "\x07" not in output
