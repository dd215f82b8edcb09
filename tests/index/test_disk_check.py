"""A query compares the folder with the disk by inventory, also a large one and in a new process.

Proved by mutation: using the inventory of another generation, not adding the documents of a small
pass to the record, or ignoring the deadline fails here.
"""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lookfar.freshness import disk
from lookfar.freshness.inventory import (
    AGREEMENT_FILE,
    INVENTORY_FILE,
    Anchor,
    DiskRecord,
    Entries,
    Inventory,
)
from lookfar.freshness.keeper import Pass
from lookfar.library import Library
from lookfar.store.sqlite.snapshot import EpochSnapshot

pytestmark = pytest.mark.usefixtures("own_home")

HASH = {"embed.provider": "hash", "index.workers": 1}
Ask = Callable[..., tuple[set[str], list[str]]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("one", "two", "three"):
        path = tmp_path / "root" / name / "page.md"
        path.parent.mkdir(parents=True)
        path.write_text(f"# {name}\n\nabout {name}\n")
    return tmp_path / "root"


@pytest.fixture(autouse=True)
def large_and_hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every folder counts as large, and timestamps settle in 10 ms."""
    monkeypatch.setattr(disk, "MOST_CHECKED", 1)
    for module in ("sources.folder.walk", "freshness.inventory", "sources.fingerprints"):
        monkeypatch.setattr(f"lookfar.{module}.SETTLING_NS", 10_000_000)


@pytest.fixture
def ask(root: Path, tmp_path: Path) -> Ask:
    """Ask in a newly opened library; return the documents with the word, and the notes."""

    def run(word: str, **settings: object) -> tuple[set[str], list[str]]:
        place = tmp_path / "index"
        with Library.open(root, index_dir=place, settings={**HASH, **settings}) as library:
            answer = library.search(word, mode="keyword")
            uris = {hit.uri for hit in answer.hits if word in hit.text}
            return uris, [note.reason for note in answer.incomplete]

    time.sleep(0.015)
    with Library.open(root, index_dir=tmp_path / "index", settings=HASH) as library:
        library.index()
    time.sleep(0.015)
    return run


@pytest.fixture
def never_walk(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def walk(*_: object, **__: object) -> None:
        raise AssertionError("the folder was walked")

    monkeypatch.setattr(disk, "walk", walk)
    monkeypatch.setattr("lookfar.index.build.walk", walk)


@pytest.mark.usefixtures("never_walk")
def test_a_new_file_an_edit_in_place_and_a_deletion_show_without_a_walk(
    ask: Ask, root: Path
) -> None:
    (root / "two" / "new.md").write_text("okapi\n")
    assert ask("okapi") == ({"two/new.md"}, [])
    before = (root / "one/page.md").stat()
    (root / "one/page.md").write_text("# emu\n\nabout emu\n")
    os.utime(root / "one/page.md", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (root / "one/page.md").stat().st_size == before.st_size
    assert ask("emu") == ({"one/page.md"}, [])
    assert ask("one") == (set(), [])
    (root / "three/page.md").unlink()
    assert ask("three") == (set(), [])
    (root / "more/deep").mkdir(parents=True)
    (root / "more/deep/x.md").write_text("quokka\n")
    assert ask("quokka") == ({"more/deep/x.md"}, [])
    assert ask("okapi") == ({"two/new.md"}, [])


@pytest.mark.usefixtures("never_walk")
def test_the_store_is_not_asked_about_files_that_did_not_change(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def known(*_: object) -> None:
        raise AssertionError("the catalogue was read")

    monkeypatch.setattr(EpochSnapshot, "known", known)
    assert ask("two") == ({"two/page.md"}, [])


def test_files_that_were_not_compared_in_time_are_reported(
    ask: Ask, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "BUDGET_SECONDS", -1.0)
    (root / "two" / "new.md").write_text("okapi\n")
    assert ask("okapi") == (set(), ["unchecked"])
    assert ask("two")[0] == {"two/page.md"}
    monkeypatch.setattr(disk, "BUDGET_SECONDS", 60.0)
    assert ask("okapi") == ({"two/new.md"}, [])


@pytest.mark.usefixtures("never_walk")
def test_many_changes_are_reported_and_not_indexed(ask: Ask, root: Path) -> None:
    for number in range(5):
        (root / "one" / f"{number}.md").write_text(f"okapi number {number}\n")
    assert ask("okapi", **{"index.max_auto_files": 4}) == (set(), ["stale"])
    assert len(ask("okapi", **{"index.max_auto_files": 5})[0]) == 5


def test_an_inventory_is_used_only_for_the_generation_it_agrees_with(tmp_path: Path) -> None:
    record = DiskRecord(tmp_path)
    nothing = Entries([], array("q"))
    inventory = Inventory("rules", time.time_ns(), nothing, nothing, nothing, {})
    first, second = Anchor("model", 1, "aa"), Anchor("model", 2, "bb")
    record.save(inventory, first)
    assert record.load(first, "rules") == (inventory, frozenset())
    assert record.load(first._replace(content="cc"), "rules") is None
    assert record.load(first, "other rules") is None
    record.add_changes(1, second, ["a.md"])
    record.add_changes(2, second._replace(generation=3), ["b.md"])
    assert record.load(first, "rules") is None
    third = second._replace(generation=3)
    assert record.load(third, "rules") == (inventory, frozenset(("a.md", "b.md")))
    # A pass that was built on another generation, after a rollback, breaks the chain.
    record.add_changes(1, second._replace(generation=4), ["c.md"])
    assert record.load(second._replace(generation=4), "rules") is None
    # After a day, and if the clock was set back, a walk looks again.
    for made_at in (time.time_ns() - 25 * 3600 * 10**9, time.time_ns() + 3600 * 10**9):
        record.save(replace(inventory, made_at=made_at), first)
        assert record.load(first, "rules") is None


@pytest.mark.parametrize("name", [INVENTORY_FILE, AGREEMENT_FILE])
@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"{}"])
def test_a_damaged_record_costs_only_time(
    ask: Ask, root: Path, tmp_path: Path, name: str, content: bytes
) -> None:
    (index,) = (tmp_path / "index").iterdir()
    (index / name).write_bytes(content)
    (root / "two" / "new.md").write_text("okapi\n")
    assert ask("okapi") == ({"two/new.md"}, [])


@pytest.mark.usefixtures("never_walk")
def test_the_first_pass_of_a_keeper_looks_and_finds_what_changed_before_it(
    root: Path, tmp_path: Path
) -> None:
    (root / "two" / "new.md").write_text("okapi\n")
    (root / "one/page.md").unlink()
    passes: list[Pass] = []
    with Library.open(root, index_dir=tmp_path / "index", settings=HASH) as library:
        library.watch(on_pass=passes.append)
        assert library.drain(30.0)
        assert [(done.error, done.result.added, done.result.removed) for done in passes] == [
            ("", 1, 1)
        ]
        assert library.search("okapi").incomplete == ()


@pytest.mark.usefixtures("never_walk")
def test_a_keeper_that_finds_nothing_opens_no_writer(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def writer(*_: object, **__: object) -> None:
        raise AssertionError("a writer was opened")

    with Library.open(root, index_dir=tmp_path / "index", settings=HASH) as library:
        monkeypatch.setattr(type(library.folder().store), "writer", writer)
        library.watch()
        assert library.drain(30.0)
        watching = library.watching()
        assert watching is not None
        assert (watching.last_error, watching.passes) == ("", 1)


def test_the_first_pass_of_a_keeper_reads_files_again_that_were_read_too_soon(
    ask: Ask, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lookfar.sources.fingerprints.SETTLING_NS", 10**15)
    (root / "two" / "new.md").write_text("okapi\n")
    assert ask("okapi")[0] == {"two/new.md"}
    monkeypatch.setattr("lookfar.sources.fingerprints.SETTLING_NS", 0)
    passes: list[Pass] = []
    with Library.open(root, index_dir=tmp_path / "index", settings=HASH) as library:
        library.watch(on_pass=passes.append)
        assert library.drain(30.0)
    assert [sorted(done.work.only or ()) for done in passes] == [[]]
    assert [done.result.unchanged for done in passes] == [1]


def test_other_rules_are_applied_at_once(ask: Ask) -> None:
    assert ask("two", **{"sources.exclude": ["two/**"]}) == (set(), [])
    assert ask("two") == ({"two/page.md"}, [])


def test_a_rollback_holds_until_the_next_pass(ask: Ask, root: Path, tmp_path: Path) -> None:
    (root / "two" / "new.md").write_text("okapi\n")
    assert ask("okapi")[0] == {"two/new.md"}
    with Library.open(root, index_dir=tmp_path / "index", settings=HASH) as library:
        library.roll_back(1)
    assert ask("okapi")[0] == set()
    with Library.open(root, index_dir=tmp_path / "index", settings=HASH) as library:
        library.index(only=["one/page.md"])
    assert ask("okapi") == ({"two/new.md"}, [])
