"""``lookfar snapshots``, and what a roll-back means for search, status and index."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Ask = Callable[..., dict[str, Any]]
Run = Callable[..., Result]

GENERATION_KEYS = [
    "generation", "created_at", "active", "pinned", "documents", "sections", "chunks", "links",
    "content", "model", "model_fingerprint", "added", "changed", "removed", "failed", "seconds",
]  # fmt: skip


@pytest.fixture(autouse=True)
def three(handbook: Path, run: Run) -> None:
    """Three generations: as shipped; one section edited, one file added; one file removed."""
    assert run("index", handbook, "--quiet").exit_code == 0
    keys = handbook / "security" / "keys.md"
    keys.write_text(keys.read_text().replace("every 90 days", "every 30 days"))
    (handbook / "zebra.md").write_text("# Zebra\n\nstripes and hooves\n")
    assert run("index", handbook, "--quiet").exit_code == 0
    (handbook / "onboarding.md").unlink()
    assert run("index", handbook, "--quiet").exit_code == 0


def words(ask: Ask, query: str, handbook: Path, *more: object) -> dict[str, Any]:
    return ask("search", query, handbook, "--mode", "keyword", *more)


def test_the_list(handbook: Path, run: Run, ask: Ask) -> None:
    shape = ask("snapshots", "list", handbook)
    assert list(shape) == ["held", "snapshots"]
    assert shape["held"] is None
    snapshots = shape["snapshots"]
    assert all(list(snapshot) == GENERATION_KEYS for snapshot in snapshots)
    assert [snapshot["generation"] for snapshot in snapshots] == [1, 2, 3]
    assert [snapshot["active"] for snapshot in snapshots] == [False, False, True]
    assert [snapshot["documents"] for snapshot in snapshots] == [4, 5, 4]
    changes = [
        (snapshot["added"], snapshot["changed"], snapshot["removed"]) for snapshot in snapshots
    ]
    assert changes == [(4, 0, 0), (1, 1, 0), (0, 0, 1)]
    assert len({snapshot["content"] for snapshot in snapshots}) == 3
    assert {snapshot["model"] for snapshot in snapshots} == {ask("status", handbook)["model"]}
    lines = run("snapshots", "list", handbook).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["3", "2", "1"]
    assert re.fullmatch(
        r" +3  \S+  4 documents, \d+ chunks, \+0 ~0 -1 in [\d.]+ s, \S+  active", lines[0]
    )


def test_equal_folders_have_equal_content(handbook: Path, ask: Ask, run: Run) -> None:
    run("index", handbook, "--index-dir", handbook.parent / "elsewhere", "--quiet")
    there = ask("snapshots", "list", handbook, "--index-dir", handbook.parent / "elsewhere")
    here = ask("snapshots", "list", handbook)
    assert there["snapshots"][0]["content"] == here["snapshots"][2]["content"]


def test_a_diff(handbook: Path, run: Run, ask: Ask) -> None:
    assert ask("snapshots", "diff", 1, 3, handbook) == {
        "older": 1,
        "newer": 3,
        "added": ["zebra.md"],
        "removed": ["onboarding.md"],
        "changed": [
            {
                "uri": "security/keys.md",
                "sections_added": [],
                "sections_removed": [],
                "sections_changed": [["Keys", "Signing key", "Rotation"]],
            }
        ],
    }
    assert run("snapshots", "diff", 1, 3, handbook).stdout.splitlines() == [
        "+ zebra.md",
        "- onboarding.md",
        "~ security/keys.md",
        "    ~ Keys > Signing key > Rotation",
        "1 added, 1 removed, 1 changed from generation 1 to 3",
    ]


def test_a_rollback_is_held_until_the_folder_is_indexed(handbook: Path, run: Run, ask: Ask) -> None:
    """Seen to fail when the check before a search neither looked at the hold nor was refused

    by the store for it.
    """
    result = run("snapshots", "rollback", 1, handbook)
    assert result.exit_code == 0
    assert "generation 1 of" in result.stdout
    assert f"lookfar index {handbook}" in result.stdout
    (handbook / "late.md").write_text("# Late\n\nwalrus\n")
    for query, uris in (
        ("zebra stripes", set()), ("walrus", set()), ("badge laptop", {"onboarding.md"}),
    ):  # fmt: skip
        answer = words(ask, query, handbook)
        assert answer["generation"] == 1
        assert {hit["uri"] for hit in answer["hits"]} == uris
        (held,) = (note for note in answer["incomplete"] if note["reason"] == "held")
        assert "held at generation 1" in held["detail"]
        assert "lookfar index" in held["detail"]
    assert ask("status", handbook)["held"] == 1
    assert "rolled back to generation 1" in run("status", handbook).stdout
    assert "rolled back to generation 1" in run("snapshots", "list", handbook).stdout

    report = ask("index", handbook)
    assert (report["generation"], report["added"], report["changed"]) == (4, 2, 1)
    assert report["removed"] == 1
    answer = words(ask, "walrus", handbook)
    assert [hit["uri"] for hit in answer["hits"]] == ["late.md"]
    assert answer["incomplete"] == []
    assert ask("status", handbook)["held"] is None
    numbers = [
        snapshot["generation"] for snapshot in ask("snapshots", "list", handbook)["snapshots"]
    ]
    assert numbers == [1, 4]


def test_rolling_forward_releases_the_hold(handbook: Path, run: Run, ask: Ask) -> None:
    run("snapshots", "rollback", 1, handbook)
    shape = ask("snapshots", "rollback", 2, handbook)
    assert list(shape) == ["held", "snapshot"]
    assert (shape["held"], shape["snapshot"]["generation"]) == (2, 2)
    assert shape["snapshot"]["active"]
    output = run("snapshots", "rollback", 3, handbook).stdout
    assert "held" not in output
    answer = words(ask, "zebra", handbook)
    assert (answer["generation"], answer["incomplete"]) == (3, [])


def test_indexing_without_changes_releases_the_hold(handbook: Path, run: Run, ask: Ask) -> None:
    run("snapshots", "rollback", 2, handbook)
    (handbook / "onboarding.md").write_text("# Other\n\nnarwhal\n")
    run("snapshots", "rollback", 3, handbook)
    (handbook / "onboarding.md").unlink()
    run("snapshots", "rollback", 2, handbook)
    assert ask("index", handbook)["generation"] == 4
    run("snapshots", "rollback", 4, handbook)
    assert ask("index", handbook)["generation"] == 4


def test_old_text_comes_from_the_store_and_is_marked(handbook: Path, ask: Ask) -> None:
    """Text, span and hash are of one generation; the state shows how the file differs."""
    (changed,) = words(ask, "rotate 90 days", handbook, "--as-of", 1, "-k", 1)["hits"]
    assert "every 90 days" in changed["text"]
    assert changed["state"] == "changed"
    (gone,) = words(ask, "badge laptop", handbook, "--as-of", 2, "-k", 1)["hits"]
    assert (gone["uri"], gone["state"]) == ("onboarding.md", "gone")
    assert "badge" in gone["text"]
    (now,) = words(ask, "rotate 30 days", handbook, "--as-of", 2, "-k", 1)["hits"]
    assert "every 30 days" in now["text"]
    assert now["state"] == "same"


@pytest.mark.parametrize("how", ["held", "as_of"])
def test_a_generation_of_another_model_is_not_searched_with_this_one(
    how: str, handbook: Path, run: Run
) -> None:
    """Without the check, the query vector was compared with vectors of another model."""
    apart = ("--index-dir", handbook.parent / "apart")
    run("index", handbook, *apart, model="none")
    (handbook / "late.md").write_text("# Late\n\nwalrus\n")
    run("index", handbook, *apart, model="none")
    asked = ["search", "rotate the key", handbook, *apart]
    if how == "held":
        assert run("snapshots", "rollback", 1, handbook, *apart).exit_code == 0
        result = run(*asked)
        assert result.exit_code == 0
        assert "the index was made with the model none" in result.stdout
        assert "Words only" in result.stdout
    else:
        asked += ["--as-of", 1]
        result = run(*asked)
        assert result.exit_code == 2
        assert "Generation 1 was made with the model none" in result.stderr
        assert "--mode keyword" in result.stderr
    assert "security/keys.md" in run(*asked, "--mode", "keyword").stdout
    assert "security/keys.md" in run(*asked, model="none").stdout


def test_pins_and_pruning(handbook: Path, run: Run, ask: Ask) -> None:
    assert ask("snapshots", "pin", 1, handbook)["snapshot"]["pinned"] is True
    assert "is pinned" in run("snapshots", "pin", 1, handbook).stdout
    assert ask("snapshots", "prune", handbook, "--keep", 1) == {
        "generations_purged": 1,
        "documents_purged": 0,
        "kept": [1, 3],
    }
    assert "is not pinned" in run("snapshots", "unpin", 1, handbook).stdout
    output = run("snapshots", "prune", handbook, "--keep", 1).stdout
    assert output == "1 generation and 2 document versions removed\nstored: 3\n"
    assert run("snapshots", "prune", handbook).stdout.startswith("0 generations and 0 document")
    assert run("snapshots", "prune", handbook, "--keep", 0).exit_code == 2


def test_a_pinned_newer_generation_stops_an_index(handbook: Path, run: Run) -> None:
    run("snapshots", "pin", 3, handbook)
    run("snapshots", "rollback", 1, handbook)
    result = run("index", handbook)
    assert result.exit_code == 5
    assert "error INDEX_HELD: " in result.stderr
    assert "lookfar snapshots unpin 3" in result.stderr
    assert run("search", "keys", handbook).exit_code == 0


@pytest.mark.parametrize(
    "command", [("rollback", 9), ("pin", 9), ("unpin", 9), ("diff", 1, 9), ("diff", 9, 1)]
)
def test_unknown_generations(command: tuple[object, ...], handbook: Path, run: Run) -> None:
    result = run("snapshots", *command, handbook)
    assert result.exit_code == 2
    assert "error INVALID_ARGUMENT: Generation 9 is not kept." in result.stderr
    assert "hint: Kept generations: 1, 2, 3." in result.stderr
    assert result.stdout == ""


def test_missing_names(handbook: Path, tmp_path: Path, run: Run) -> None:
    result = run("snapshots", "rolback", 1, handbook)
    assert result.exit_code == 2
    assert "Did you mean rollback?" in result.stderr
    assert run("snapshots", "rollback", "one", handbook).exit_code == 2
    (tmp_path / "new").mkdir()
    for command in (("list",), ("rollback", 1), ("pin", 1), ("diff", 1, 2), ("prune",)):
        assert run("snapshots", *command, tmp_path / "new").exit_code == 4


def test_the_group_alone_shows_its_commands(process: Callable[..., Any]) -> None:
    output = process("snapshots")
    assert output.returncode == 0
    for name in ("list", "diff", "rollback", "pin", "unpin", "prune"):
        assert f"\n  {name} " in output.stdout


# --- an index for other settings or another version ----------------------------------------------

OTHER = ("--set", "chunk.max_tokens=300")


def test_a_rebuild_says_beforehand_what_it_drops(handbook: Path, run: Run, ask: Ask) -> None:
    """Seen to fail before: the generations vanished without a word."""
    lost = "which drops generations 1, 2, 3 unless one is pinned"
    assert lost in run("status", handbook, *OTHER).stdout.replace("\n", " ")
    assert lost not in run("status", handbook).stdout
    assert lost not in run("index", handbook).stderr
    assert lost in run("index", handbook, *OTHER).stderr.replace("\n", " ")
    assert [each["generation"] for each in ask("snapshots", "list", handbook)["snapshots"]] == [4]
    assert run("index", handbook, "--rebuild").stderr.count("drops") == 0


def test_a_search_that_rebuilds_says_what_was_dropped(handbook: Path, ask: Ask) -> None:
    """Seen to fail before: the answer had no note."""
    answer = words(ask, "stripes", handbook, *OTHER)
    assert [hit["uri"] for hit in answer["hits"]] == ["zebra.md"]
    assert [note["reason"] for note in answer["incomplete"]] == ["rebuilding"]
    assert "generations 1, 2, 3" in answer["incomplete"][0]["detail"]
    assert words(ask, "stripes", handbook, *OTHER)["incomplete"] == []


def test_a_pinned_generation_is_kept_until_it_is_unpinned(
    handbook: Path, run: Run, ask: Ask
) -> None:
    """Seen to fail before: the rebuild dropped it."""
    assert run("snapshots", "pin", 1, handbook).exit_code == 0
    for given in (OTHER, ("--rebuild",)):
        refused = run("index", handbook, *given)
        assert refused.exit_code == 5
        assert "INDEX_HELD" in refused.stderr
        assert "lookfar snapshots unpin 1" in refused.stderr.replace("\n", " ")
    answer = words(ask, "stripes", handbook, *OTHER)
    assert [hit["uri"] for hit in answer["hits"]] == ["zebra.md"]
    assert [note["reason"] for note in answer["incomplete"]] == ["held"]
    earlier = words(ask, "every 90 days", handbook, "--as-of", 1)
    assert earlier["hits"][0]["uri"] == "security/keys.md"
    (handbook / "zebra.md").write_text("# Zebra\n\nstripes and mane\n")
    assert words(ask, "mane", handbook)["hits"][0]["uri"] == "zebra.md"
    assert run("snapshots", "unpin", 1, handbook).exit_code == 0
    assert run("index", handbook, *OTHER).exit_code == 0
    assert len(ask("snapshots", "list", handbook)["snapshots"]) == 1
