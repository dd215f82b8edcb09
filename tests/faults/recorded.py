"""Goes through a scenario while strace looks on; a program of its own, run by `power.py`.

Takes: the folder of the trials and the scenario. Gives: marks among its system calls that say
which step begins, is done, and which line of the product a sync comes from. Refuses: nothing.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType

from faults.disk import MARK
from faults.scenarios import SCENARIOS, lay_out, opened
from lookfar.store.ground import files


def mark(word: str) -> None:
    os.access(f"{MARK}{word}", os.F_OK)


def site() -> str:
    """The calls that lead to the sync, up to the first outside the door."""
    frame: FrameType | None = sys._getframe(2)
    names = []
    while frame is not None:
        module = Path(frame.f_code.co_filename).stem
        names.append(f"{module}.{frame.f_code.co_name}")
        if module != "files" and "contextlib" not in module:
            return "<".join((*names[1:-1], f"{names[-1]}:{frame.f_lineno}"))
        frame = frame.f_back
    raise AssertionError("a sync that nobody asked for")


def pointed(what: str, name: str, size: int) -> int:
    if what == "sync":
        mark(f"sync:{site()}")
    return size


def main(base: Path, scenario: str) -> None:
    (base / "root").mkdir(parents=True, exist_ok=True)
    (base / "index").mkdir()
    files.on_fault_point = pointed
    for number, step in enumerate(SCENARIOS[scenario]):
        lay_out(base / "root", step.sources)
        if step.before is not None:
            mark("between")  # What happens outside the store does not count as its loss.
            step.before(base / "index")
            mark("settled")
        mark(f"begin:{number}")
        with opened(base, step) as library:
            step.act(library)
            mark(f"done:{number}")
    mark("end")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
