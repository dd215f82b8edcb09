"""Bytes of a database of inserted documents change under it: it answers completely or says so.

Takes: databases with 60 and with 5,000 documents (1,200 in the quick lane), closed, and as a killed
process leaves them with a log. Gives: a figure for each size. Refuses: an answer that lacks
anything (an empty one to a database that had documents, most of all) without a word of damage, an
insert into a database that lost something, a hint that sends people to a folder to rebuild from,
and a repair after which one document is missing: each is stored twice, and only one place is
damaged.

Every page of the catalogue is filled with zeros in turn, up to half of the trials; the others
change a bit, a byte, a page or any 4,096 bytes of any file, cut it or remove it. Each trial asks,
inserts, and then repairs what is there, so that nothing that was asked before may have removed
anything. Of the larger database each trial asks for one thing, and a repair is carried out in one
of 50; in the others the documents that it would save are compared. The last commit of a log is let
be, as in ``test_corruption``: damaged, it looks like one that a loss of power left torn.

Seen to fail with ``Watch.check`` doing nothing (7 of 48 trials of 60 documents), and when the
catalogue without its broken ``catalogue.db-wal`` was believed about where the journal ends (both
trials of such a log: documents were lost).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness import amount, report

SPOIL = Path(__file__).with_name("spoil_database.py")
SIZES = {60: (amount(24, 1_000), 4), amount(1_200, 5_000): (amount(4, 1_000), 50)}
"""Documents, with the number of trials and of how many of them one is repaired in full."""
ASKED = ("find", "list", "export", "read", "insert")
SECONDS = 600 if SIZES[60][0] < 1_000 else 5_400

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="trials are forked")


def tried(count: int, home: Path) -> list[dict[str, Any]]:
    """Return the result of each trial; run in memory where the system has such a disk."""
    shared = Path("/dev/shm")
    named = f"lookfar-damage-{count}-{os.getpid()}"
    folder = shared / named if os.access(shared, os.W_OK) else home / "w"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("LOOKFAR_")}
    paths = filter(None, (str(SPOIL.parents[1]), environ.get("PYTHONPATH")))
    environ |= {"HOME": str(home), "RUST_BACKTRACE": "0", "PYTHONPATH": os.pathsep.join(paths)}
    trials, repaired = SIZES[count]
    try:
        done = subprocess.run(
            [sys.executable, str(SPOIL), str(folder), "1", str(count), str(trials), str(repaired)],
            env=environ, capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("count", SIZES)
def test_a_damaged_database_answers_completely_or_says_so(count: int, tmp_path: Path) -> None:
    trials = tried(count, tmp_path)
    silent, lost = [], []
    told: Counter[str] = Counter()
    for each in trials:
        asked = {name: each[name] for name in ASKED if name in each}
        if "crash" in each or not {*asked.values()} <= {"right", "healed", "reported"}:
            silent.append(each)
            continue
        told["reported" if "reported" in asked.values() else "answered completely"] += 1
        if each["repair"] not in ("complete", "salvaged"):
            lost.append(each)
    report(
        f"damaged databases: {count:,} documents", trials=len(trials), faults=len(trials),
        failures=len(silent) + len(lost),
        note=", ".join(f"{number:,} {name}" for name, number in sorted(told.items())),
    )  # fmt: skip
    assert len(trials) == SIZES[count][0]
    assert silent == []
    assert lost == []
    assert told["reported"] > len(trials) / 5, told
