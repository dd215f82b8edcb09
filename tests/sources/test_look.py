"""A look by inventory finds what a walk finds, with one stat call per entry.

Proved by mutation: leaving inode or ctime out of a file's numbers, trusting a folder that was
listed within its settling time, not examining files whose folder did not change, keeping the files
of a folder that is skipped now, or ignoring an added ignore file all fail here.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import amount
from lookfar.freshness import disk as disk_module
from lookfar.freshness.disk import Differences, look
from lookfar.freshness.inventory import Inventory, take_inventory
from lookfar.model import SourceFile
from lookfar.sources.confine import Root
from lookfar.sources.folder.policy import Policy
from lookfar.sources.folder.walk import FolderListing, Walk, Walker, walk

POLICY = Policy(max_file_bytes=64)


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timestamps settle in 10 ms, so that a test need not wait for two seconds."""
    for module in ("sources.folder.walk", "freshness.inventory", "sources.fingerprints"):
        monkeypatch.setattr(f"lookfar.{module}.SETTLING_NS", 10_000_000)


def settle() -> None:
    time.sleep(0.015)


def plant(root: Path, *uris: str, text: str = "x") -> None:
    for uri in uris:
        path = root / uri
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def take(root: Path, policy: Policy = POLICY) -> tuple[Walk, Inventory]:
    """Walk when all timestamps are settled, and read the inventory back from bytes."""
    settle()
    opened = Root.open(root)
    walked = walk(opened, policy)
    inventory = take_inventory(walked, opened)
    assert inventory is not None
    settle()
    return walked, Inventory.from_bytes(inventory.to_bytes())


def ask(root: Path, inventory: Inventory, policy: Policy = POLICY) -> Differences:
    differing = look(Root.open(root), policy, inventory)
    assert differing is not None
    return differing


def merge(before: Walk, differing: Differences) -> dict[str, SourceFile]:
    """Return the files that should be on disk, by what was and what differs."""
    files = {file.uri: file for file in before.files if file.uri not in differing.names}
    return files | {file.uri: file for file in differing.walk.files}


def test_nothing_changed_names_nothing(tmp_path: Path) -> None:
    plant(tmp_path, "a.md", "b/c.md", "b/d/e.md", "b/big.md", "build/x.md")
    (tmp_path / "b/big.md").write_text("x" * 100)
    _, inventory = take(tmp_path)
    differing = ask(tmp_path, inventory)
    assert (differing.names, differing.unexamined) == (frozenset(), 0)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not change ctime")
def test_an_edit_that_keeps_size_and_mtime_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "a.md", "b/c.md")
    _, inventory = take(tmp_path)
    before = os.stat(tmp_path / "b/c.md")
    folder = os.stat(tmp_path / "b").st_mtime_ns
    (tmp_path / "b/c.md").write_text("y")
    os.utime(tmp_path / "b/c.md", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.stat(tmp_path / "b").st_mtime_ns == folder
    assert ask(tmp_path, inventory).names == {"b/c.md"}


def test_a_file_that_was_too_large_is_found_when_it_shrinks(tmp_path: Path) -> None:
    plant(tmp_path, "a.md", text="x" * 100)
    _, inventory = take(tmp_path)
    with (tmp_path / "a.md").open("r+") as file:
        file.truncate(5)
    assert [file.uri for file in ask(tmp_path, inventory).walk.files] == ["a.md"]


def test_a_folder_listed_too_soon_after_a_change_is_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path, "a/b.md")
    _, trusted = take(tmp_path)
    monkeypatch.setattr("lookfar.freshness.inventory.SETTLING_NS", 10**15)
    _, inventory = take(tmp_path)
    listed: list[str] = []
    list_folder = Walker.list_folder

    def record(self: Walker, uri: str, *more: Any) -> FolderListing:
        listed.append(uri)
        return list_folder(self, uri, *more)

    monkeypatch.setattr(Walker, "list_folder", record)
    ask(tmp_path, trusted)
    assert listed == []
    ask(tmp_path, inventory)
    assert listed == ["", "a"]


def test_further_names_are_examined_though_nothing_shows_a_change(tmp_path: Path) -> None:
    plant(tmp_path, "a.md", "b.md")
    _, inventory = take(tmp_path)
    differing = look(Root.open(tmp_path), POLICY, inventory, besides=("a.md", "gone.md"))
    assert differing is not None
    assert differing.names == {"a.md", "gone.md"}
    assert [file.uri for file in differing.walk.files] == ["a.md"]


def test_other_ignore_rules_ask_for_a_walk(tmp_path: Path) -> None:
    plant(tmp_path, "a/b.md", "a/c.md")
    _, inventory = take(tmp_path)
    plant(tmp_path, "a/.gitignore", text="b.md\n")
    assert look(Root.open(tmp_path), POLICY, inventory) is None
    _, inventory = take(tmp_path)
    plant(tmp_path, "a/.gitignore", text="c.md\n")
    assert look(Root.open(tmp_path), POLICY, inventory) is None
    (tmp_path / "a/.gitignore").unlink()
    assert look(Root.open(tmp_path), POLICY, inventory) is None


def test_the_newest_files_are_examined_first_and_the_rest_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_module, "_BATCH", 1)
    plant(tmp_path, *(f"{number}.md" for number in range(10)))
    settle()
    (tmp_path / "7.md").write_text("newer")
    _, inventory = take(tmp_path)
    (tmp_path / "7.md").write_text("edited")
    (tmp_path / "3.md").write_text("edited")
    ticks = iter(range(100))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(ticks)))
    # One look at the clock for the root folder, and one before each file.
    differing = look(Root.open(tmp_path), POLICY, inventory, deadline=1.5)
    assert differing is not None
    assert (differing.names, differing.unexamined) == (frozenset({"7.md"}), 9)


@pytest.mark.parametrize("at", [0, 5, 30, -1])
def test_a_damaged_inventory_is_refused(tmp_path: Path, at: int) -> None:
    plant(tmp_path, "a.md")
    data = bytearray(take(tmp_path)[1].to_bytes())
    data[at] ^= 1
    with pytest.raises(ValueError, match="damaged"):
        Inventory.from_bytes(bytes(data))
    with pytest.raises(ValueError, match="damaged"):
        Inventory.from_bytes(bytes(data[: len(data) // 2]))


# -- against walks --------------------------------------------------------------------


def _pick(chance: random.Random, root: Path, folders: bool) -> Path:
    entries = [
        path
        for path in sorted(root.rglob("*"))
        if path.is_dir() == folders and not path.is_symlink() and path.name != ".gitignore"
    ]
    return chance.choice(entries) if entries else root / "none"


def _edit(chance: random.Random, root: Path) -> None:
    path = _pick(chance, root, folders=False)
    if path.exists():
        path.write_text("y" * chance.choice([1, 5, 90]))


def _create(chance: random.Random, root: Path) -> None:
    folder = _pick(chance, root, folders=True)
    plant(root, f"{folder.relative_to(root).as_posix()}/n{chance.randrange(99)}.md")


def _create_folder(chance: random.Random, root: Path) -> None:
    name = chance.choice(["n", "build", "target", "node_modules", "é"])
    plant(root, f"{name}/{chance.randrange(9)}/deep.md", f"{name}/top.md")


def _remove(chance: random.Random, root: Path) -> None:
    path = _pick(chance, root, folders=chance.random() < 0.4)
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()


def _rename(chance: random.Random, root: Path) -> None:
    path = _pick(chance, root, folders=chance.random() < 0.5)
    to = path.with_name(f"r{chance.randrange(99)}{path.suffix}")
    if path.exists() and not to.exists():
        path.rename(to)


def _link(chance: random.Random, root: Path) -> None:
    path = _pick(chance, root, folders=chance.random() < 0.5)
    if path.exists():
        aside = root.parent / f"aside{chance.randrange(10**9)}"
        path.rename(aside)
        path.symlink_to(aside)


def _hard_link(chance: random.Random, root: Path) -> None:
    path = _pick(chance, root, folders=False)
    if path.exists():
        os.link(path, root.parent / f"linked{chance.randrange(10**9)}")


def _mark_output(chance: random.Random, root: Path) -> None:
    name = chance.choice(
        ["Cargo.toml", "package.json", "build/CACHEDIR.TAG", "target/.rustc_info.json"]
    )
    if (root / name).exists():
        (root / name).unlink()
    else:
        plant(root, name)


CHANGES: list[Callable[[random.Random, Path], None]] = [
    *(_edit, _create, _create_folder, _remove, _rename, _link, _hard_link, _mark_output)
]


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_a_look_agrees_with_a_walk_after_any_changes(tmp_path: Path) -> None:
    trials = amount(40, 1_500)
    for seed in range(trials):
        chance = random.Random(seed)
        root = tmp_path / str(seed) / "root"
        plant(root, "a.md", "b/c.md", "b/d/e.md", "b/d/f.md", "build/x.md", "target/y.md", "g/h.md")
        plant(root, "b/.gitignore", text="ignored*\n")
        before, inventory = take(root)
        for _ in range(chance.randrange(1, 6)):
            chance.choice(CHANGES)(chance, root)
        differing = look(Root.open(root), POLICY, inventory)
        after = walk(Root.open(root), POLICY)
        if differing is None:  # The ignore file was removed with its folder, or moved.
            assert not (root / "b/.gitignore").exists(), seed
            continue
        assert merge(before, differing) == {file.uri: file for file in after.files}, seed
        shutil.rmtree(root.parent)
