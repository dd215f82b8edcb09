"""Sources that vanish, shrink or change while a pass reads them, or cannot be read at all.

The pass is never stopped by it: each document is shown as it was before or as it is now, the
others are as the disk has them, and the next pass equals an index made from scratch.

Seen to fail when `Root.read` let the `OSError` of a file that cannot be read through, and when
one failure kept the others from being read.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faults.scenarios import FIRST, SECOND, SETTINGS, lay_out, state
from harness import report
from lookfar.library import Library


def removed(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def replaced(path: Path) -> None:
    fresh = path.with_suffix(".fresh")
    fresh.write_text("# Fresh\n\nbirch\n")
    os.replace(fresh, path)


def grown(path: Path) -> None:
    with path.open("a") as file:
        file.write("\nember ember\n")


def unreadable(path: Path) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))


WAYS = (removed, cut, replaced, grown, unreadable)


class Meanwhile:
    """Does something to the file whose bytes are about to be read, the n-th time some are."""

    def __init__(self, root: Path, at: int, way: Callable[[Path], None]) -> None:
        self.root = root
        self.at = at
        self.way = way
        self.count = 0
        self.hit = ""
        self.read = os.read

    def __call__(self, descriptor: int, size: int) -> bytes:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if self.root in path.parents:
            self.count += 1
            if self.count == self.at:
                self.hit = path.relative_to(self.root).as_posix()
                self.way(path)
        return self.read(descriptor, size)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names of descriptors")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("own_home")
def test_a_source_that_changes_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Callable[[Path], None]
) -> None:
    trials = 0
    for at in (1, 2, 5):
        base = tmp_path / str(at)
        (base / "root").mkdir(parents=True)
        lay_out(base / "root", FIRST)
        with Library.open(base / "root", index_dir=base / "index", settings=SETTINGS) as library:
            library.index()
            lay_out(base / "root", SECOND)
            with monkeypatch.context() as patched:
                meanwhile = Meanwhile(base / "root", at, way)
                patched.setattr(os, "read", meanwhile)
                report_of_pass = library.index()
            assert meanwhile.count >= at, "the fault was not reached"
            assert library.verify() == []
            now = texts(base / "root")
            here = shown(library)["content"]["texts"]
            hit = meanwhile.hit
            assert here.pop(hit, None) in (FIRST.get(hit), SECOND.get(hit), now.pop(hit, None))
            assert here == now
            if way is unreadable:
                assert len(report_of_pass.failures) == 1
            library.index()
            with Library.open(base / "root", index_dir=base / "new", settings=SETTINGS) as fresh:
                fresh.index()
                assert shown(library)["content"] == shown(fresh)["content"]
        trials += 1
    report(f"sources {way.__name__} while they are read", trials=trials, faults=trials)


def texts(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text().removesuffix("\n") + "\n"
        for path in root.rglob("*")
        if path.is_file()
    }


def shown(library: Library) -> dict[str, Any]:
    found: dict[str, Any] = state(library)["folder"]
    return found
