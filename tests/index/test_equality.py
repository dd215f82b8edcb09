"""Whatever happened to a folder, its index equals a fresh one."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from index.visible_state import SETTINGS, VOCABULARY, visible_state
from lookfar.library import Library
from lookfar.store.ground import files


def text(chance: random.Random) -> bytes:
    if chance.random() < 0.1:
        return b"binary\0"
    parts = [
        f"## {chance.choice(VOCABULARY)}\n\n{' '.join(chance.choices(VOCABULARY, k=20))}\n\n"
        for _ in range(chance.randint(0, 4))
    ]
    return "".join(parts).encode()


def change(root: Path, chance: random.Random) -> None:
    """Add, edit, copy, rename or delete something."""
    files = sorted(path for path in root.rglob("*.md") if path.is_file())
    for _ in range(chance.randint(1, 4)):
        target = root / f"{chance.choice(('', 'a/', 'a/b/'))}{chance.randrange(12)}.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        one = chance.choice(files) if files else None
        what = chance.choice(("write", "write", "copy", "rename", "delete", "folder"))
        if what == "write" or one is None or not one.exists():
            target.write_bytes(text(chance))
        elif what == "copy":
            target.write_bytes(one.read_bytes())
        elif what == "rename":
            one.rename(target)
        elif what == "delete":
            one.unlink()
        elif (root / "a" / "b").exists():
            shutil.rmtree(root / "a" / "b")


def fail(what: str, name: str, size: int) -> int:
    if (what, name) == ("commit", "catalogue.db"):
        raise RuntimeError("after the keywords, before the catalogue")
    return size


@pytest.mark.parametrize("seed", range(6))
def test_an_index_equals_a_rebuild(root: Path, tmp_path: Path, seed: int) -> None:
    """Seen to fail when a dead writer's whole-document entries stayed, and when a purge took texts

    that another document still has.
    """
    chance = random.Random(seed)
    with Library.open(root, index_dir=tmp_path / "index", settings=SETTINGS) as library:
        for _ in range(12):
            change(root, chance)
            if chance.random() < 0.25:
                with pytest.MonkeyPatch.context() as patched:
                    patched.setattr(files, "on_fault_point", fail)
                    try:
                        library.index()
                    except RuntimeError:
                        continue
            library.index()
            if chance.random() < 0.3:
                library.close()
        library.index()
        assert library.verify() == []
        fresh = tmp_path / "fresh"
        with Library.open(root, index_dir=fresh, settings=SETTINGS) as other:
            other.index()
            assert visible_state(library) == visible_state(other)
