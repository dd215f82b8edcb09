"""A disk that dies or fails at its n-th write, for a process of its own.

Run as a program: it makes one transaction over three documents again and again, each time in a
fresh folder and a forked child that ends, or fails, at the next point; then it starts anew, as
the next process would, and says what it finds. Prints one JSON line for each point.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from lookfar.edit.documents import Asked, Editor
from lookfar.edit.place import Where
from lookfar.errors import LookfarError
from lookfar.model import Edit
from lookfar.sources.confine import Root
from lookfar.sources.policy import Policy

A = b"# A\r\n\r\n## Old name\r\n\r\ntext\r\n"
B = b"# B\n\nsee [[a#Old name]]\n"
WRITES = ("open", "write", "fsync", "replace", "rename", "link", "unlink", "mkdir", "rmdir")


class Disk:
    """Counts what would change the disk, and dies or fails at one of these points."""

    def __init__(self, at: int, how: str) -> None:
        self.at = at
        self.how = how
        self.count = 0
        self.real: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in WRITES}

    def install(self) -> None:
        for name in WRITES:
            setattr(os, name, self._wrapped(name))

    def remove(self) -> None:
        for name, real in self.real.items():
            setattr(os, name, real)

    def _wrapped(self, name: str) -> Callable[..., Any]:
        real = self.real[name]

        def call(*arguments: Any, **named: Any) -> Any:
            reads = name == "open" and not arguments[1] & os.O_CREAT
            if reads or (self.how == "half" and name != "write"):
                return real(*arguments, **named)
            self.count += 1
            here = self.count == self.at
            # A dead process loses nothing of what the system has, so nothing need be synced.
            run = (lambda *_: None) if name == "fsync" else real
            if not here:
                return run(*arguments, **named)
            if self.how in ("ENOSPC", "EIO", "EACCES"):
                raise OSError(getattr(errno, self.how), os.strerror(getattr(errno, self.how)))
            if self.how == "after":
                with suppress(OSError):
                    run(*arguments, **named)
            elif self.how == "half":
                real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
            os._exit(9)

        return call


def fill(folder: Path) -> None:
    (folder / "sub").mkdir(parents=True)
    (folder / "a.md").write_bytes(A)
    (folder / "sub" / "b.md").write_bytes(B)


def editor(folder: Path, edits: Path) -> Editor:
    return Editor(
        Root.open(folder),
        Policy(),
        edits,
        linking=lambda uri: [("sub/b.md", "wikilink", "a")] if uri == "a.md" else [],
        clock=lambda: 0.0,
    )


def change(made: Editor) -> None:
    made.edit(
        [
            Asked(
                Edit("rename", "a.md", heading="New name"), "a.md", Where(path=("A", "Old name"))
            ),
            Asked(Edit("create", "new/deep/c.md", heading="C"), "new/deep/c.md", Where()),
        ],
        rewrite_links=True,
    )


def seen(folder: Path) -> dict[str, str]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    folders = sorted(path for path in folder.rglob("*") if path.is_dir())
    return {
        **{str(path.relative_to(folder)): path.read_bytes().decode() for path in found},
        **{f"{path.relative_to(folder)}/": "" for path in folders},
    }


def trial(base: Path, at: int, how: str, undo: bool) -> dict[str, Any]:
    """One death or failure at one point, and what the next start makes of it."""
    folder, edits = base / "docs", base / "edits"
    shutil.rmtree(base, ignore_errors=True)
    fill(folder)
    if undo:
        change(editor(folder, edits))
    before = seen(folder)
    child = os.fork()
    if not child:
        disk = Disk(at, how)
        made = editor(folder, edits)
        disk.install()
        status = 0
        try:
            if undo:
                made.undo("a.md")
            else:
                change(made)
        except LookfarError as error:
            status = 3 if error.code in ("DISK_FULL", "IO_ERROR", "PERMISSION_DENIED") else 4
        except BaseException:
            status = 5
        os._exit(status if disk.count >= at else 7)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    unsettled = seen(folder)
    next_one = editor(folder, edits)
    next_one.transactions.recover()
    after = seen(folder)
    left = [str(path) for path in edits.rglob("*") if path.name.endswith((".tmp", "journal.json"))]
    try:
        next_one.edit([Asked(Edit("append", "a.md", text="later"), "a.md", Where())])
        works = True
    except LookfarError:
        works = False
    return {
        "at": at, "how": how, "status": status, "before": before, "unsettled": unsettled,
        "after": after, "left": left, "works": works,
    }  # fmt: skip


def main(base: Path, undo: bool, ways: list[str]) -> None:
    real = os.fsync
    os.fsync = lambda _: None  # type: ignore[assignment]
    try:
        for how in ways:
            for at in range(1, 1000):
                found = trial(base, at, how, undo)
                if found["status"] == 7:
                    break
                sys.stdout.write(f"{json.dumps(found)}\n")
    finally:
        os.fsync = real


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "undo", sys.argv[3:])
