"""An edit that dies or fails at one of its fault points, for a process of its own.

Run as a program: it makes one transaction over three documents again and again, each time in a
fresh folder and a forked child that ends, or fails, at the next point (see `points.py`); then it
starts again, as the next process would, and reports what it finds. Prints one JSON line for each.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from lookfar.edit.editor import Editor
from lookfar.errors import LookfarError
from lookfar.model import Edit
from lookfar.sources.confine import Root
from lookfar.sources.folder.policy import Policy
from points import Points

A = b"# A\r\n\r\n## Old name\r\n\r\ntext\r\n"
B = b"# B\n\nsee [[a#Old name]]\n"


def fill(folder: Path) -> None:
    (folder / "sub").mkdir(parents=True)
    (folder / "a.md").write_bytes(A)
    (folder / "sub" / "b.md").write_bytes(B)


def editor(folder: Path, edits: Path) -> Editor:
    return Editor(
        Root.open(folder),
        Policy(),
        edits,
        backlinks=lambda uri: [("sub/b.md", "wikilink", "a")] if uri == "a.md" else [],
        clock=lambda: 0.0,
    )


def change(made: Editor) -> None:
    made.edit(
        [
            Edit("rename", "a.md", path=("A", "Old name"), heading="New name"),
            Edit("create", "new/deep/c.md", heading="C"),
        ],
        rewrite_links=True,
    )


def seen(folder: Path) -> dict[str, str]:
    result = sorted(path for path in folder.rglob("*") if path.is_file())
    folders = sorted(path for path in folder.rglob("*") if path.is_dir())
    return {
        **{str(path.relative_to(folder)): path.read_bytes().decode() for path in result},
        **{f"{path.relative_to(folder)}/": "" for path in folders},
    }


def asked(made: Editor, undo: bool) -> None:
    if undo:
        made.undo("a.md")
    else:
        change(made)


def prepared(base: Path, undo: bool) -> tuple[Path, Path]:
    folder, edits = base / "docs", base / "edits"
    shutil.rmtree(base, ignore_errors=True)
    fill(folder)
    if undo:
        change(editor(folder, edits))
    return folder, edits


def counted(base: Path, undo: bool) -> list[tuple[str, str]]:
    """The points that it passes where nothing goes wrong."""
    folder, edits = prepared(base, undo)
    with Points().watching() as points:
        asked(editor(folder, edits), undo)
    return points.seen


def trial(base: Path, at: int, how: str, undo: bool) -> dict[str, Any]:
    """One death or failure at one point, and what the next start makes of it."""
    folder, edits = prepared(base, undo)
    before = seen(folder)
    child = os.fork()
    if not child:
        status = 0
        try:
            with Points(at, how).watching():
                asked(editor(folder, edits), undo)
        except LookfarError as error:
            status = 3 if error.code in ("DISK_FULL", "IO_ERROR", "PERMISSION_DENIED") else 4
        except BaseException:
            status = 5
        os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    unsettled = seen(folder)
    next_one = editor(folder, edits)
    next_one.transactions.recover()
    after = seen(folder)
    left = [str(path) for path in edits.rglob("*") if path.name.endswith((".tmp", "journal.json"))]
    try:
        next_one.edit([Edit("append", "a.md", text="later")])
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
        points = counted(base, undo)
        for how in ways:
            for at, (what, _) in enumerate(points, 1):
                if what == "write" or not how.startswith("short"):
                    sys.stdout.write(f"{json.dumps(trial(base, at, how, undo))}\n")
    finally:
        os.fsync = real


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "undo", sys.argv[3:])
