"""What does the start cost, and how soon is an edit visible from the first second on?

    python bench/start.py FOLDER [--against 3f6e07d] [--rounds 5]

Works on a copy of FOLDER, indexed once per program. Measures this working tree and the commit in
turn, each time in a new process, and prints the best of all rounds with the ratio:

- the comparison with the disk for one query, without a watcher (CPU), and beside it the bare stat
  calls that it cannot do without;
- one search by the command line without a daemon (CPU);
- from the moment a watched library is opened: how long until a saved edit is found (median and
  worst of all edits in the first three seconds);
- memory of a process that follows the folder, after a search and at rest.

CPU time is what can be compared on a shared machine. Waiting times are as the machine has them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

_ROOT = Path(__file__).parent.parent
_QUESTION = "how is it configured"
_OPEN = """
import gc, json, os, sys, time
from pathlib import Path
from lookfar import Library
library = Library.open(sys.argv[1], index_dir=sys.argv[2])
"""
_COMPARE = (
    _OPEN
    + """
folder, spent = library.folder(), []
folder.freshen()
for _ in range(20):
    started = time.process_time()
    notes = folder.freshen()
    spent.append((time.process_time() - started) * 1000)
paths = [str(path) for path in Path(sys.argv[1]).rglob("*")]
bare = []
for _ in range(20):
    started = time.process_time()
    for path in paths:
        os.lstat(path)
    bare.append((time.process_time() - started) * 1000)
print(json.dumps([min(spent), min(bare), [note.detail for note in notes]]))
"""
)
_EDITS = (
    _OPEN
    + """
page = min(Path(sys.argv[1]).rglob("*.md"))
text, spent, number = page.read_text(), [], 0
opened = time.monotonic()
library.watch()
while time.monotonic() - opened < 3 or len(spent) < 5:
    number += 1
    word = f"zyzzyva{number}x{os.getpid()}"
    page.write_text(f"{text}\\n\\nThe {word} is here.\\n")
    started = time.perf_counter()
    while not any(word in hit.text for hit in library.search(word, mode="keyword", top_k=3).hits):
        assert time.perf_counter() - started < 30, "never found"
    spent.append((time.perf_counter() - started) * 1000)
page.write_text(text)
library.close()
print(json.dumps(spent))
"""
)
_MEMORY = (
    _OPEN
    + """
def resident():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    kinds = {line.split(":")[0]: int(line.split()[1]) for line in lines[1:]}
    return [kinds["Rss"] / 1024, (kinds["Private_Clean"] + kinds["Private_Dirty"]) / 1024]
library.watch()
library.drain(60)
library.search("how is it configured")
busy = resident()
library.folder().rest()
gc.collect()
print(json.dumps([*busy, *resident()]))
"""
)


def run(program: str, tree: Path, folder: Path, index: Path) -> list[float]:
    """Run a program with the source code of a tree, and return the numbers it prints."""
    output = subprocess.run(
        [sys.executable, "-c", program, folder, index],
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    numbers: list[float] = json.loads(output.splitlines()[-1])
    return numbers


def search_once(tree: Path, folder: Path, index: Path) -> float:
    """Return the CPU milliseconds of one search by the command line."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "lookfar", "search", _QUESTION, folder, "--index-dir", index],
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        check=True,
        capture_output=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def measure(trees: dict[str, Path], folder: Path, work: Path, rounds: int) -> None:
    results: dict[str, dict[str, list[float]]] = {name: {} for name in trees}

    def add(name: str, what: str, *values: float) -> None:
        results[name].setdefault(what, []).extend(values)

    for name, tree in trees.items():
        subprocess.run([sys.executable, "-m", "compileall", "-q", tree / "src"], check=True)
        run(_OPEN + "library.index(); print([])", tree, folder, work / name)
    for _ in range(rounds):
        for name, tree in trees.items():
            index = work / name
            compared, bare, notes = run(_COMPARE, tree, folder, index)
            if notes:
                print(f"{name}: not compared: {notes}")
            else:
                add(name, "comparison with the disk, CPU ms", compared)
            add(name, "bare stat calls, CPU ms", bare)
            add(name, "search by the command line, CPU ms", search_once(tree, folder, index))
            add(name, "edit visible, ms", *run(_EDITS, tree, folder, index))
            busy, _, rest, rest_private = run(_MEMORY, tree, folder, index)
            add(name, "resident after a search, MB", busy)
            add(name, "resident at rest, MB", rest)
            add(name, "private at rest, MB", rest_private)
    before, now = results.values()
    for what, values in now.items():
        edits = what.startswith("edit")
        mine, theirs = (
            (median(some) if edits else min(some)) if some else float("nan")
            for some in (values, before.get(what, []))
        )
        line = f"{what:38} before {theirs:8.1f}  now {mine:8.1f}  {theirs / mine:5.2f}x"
        if edits:
            line += f"  worst before {max(before[what]):.0f}, now {max(values):.0f}"
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--against", default="3f6e07d", metavar="COMMIT")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with TemporaryDirectory() as work:
        before, folder = Path(work, "tree"), Path(work, "copy")
        before.mkdir()
        shutil.copytree(given.folder, folder)
        archive = subprocess.run(
            ["git", "archive", given.against, "src"], cwd=_ROOT, check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "x", "-C", before], input=archive, check=True)
        measure({"before": before, "now": _ROOT}, folder, Path(work), given.rounds)


if __name__ == "__main__":
    main()
