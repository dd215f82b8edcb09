"""How much does a first index cost, compared with another commit?

    python bench/cold_index.py FOLDER [FOLDER ...] [--against e533d48] [--rounds 3]

Indexes each folder with this working tree and with the commit, in turn, each in a process of its
own. Prints CPU seconds (of the process and its workers), wall seconds, MB/s, peak memory and the
ratios. The best of all rounds counts: on a shared machine only CPU time is worth comparing. Then
compares the indexes: documents, chunks, links, vectors and keyword files of the two commits must be
equal, and those of two rounds with one commit must be, too.
"""

from __future__ import annotations

import argparse
import compileall
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

_ROOT = Path(__file__).parent.parent
_TIMED = ("generations", "seals")
"""Tables that are not compared: when a generation was made and how long that took, and a hash of
it. All other rows and files are the same between two runs."""
# As installed, where the bytecode of all modules is on disk.
_ENVIRONMENT = {key: os.environ[key] for key in os.environ.keys() - {"PYTHONDONTWRITEBYTECODE"}}
_MEASURE = """
import json, os, sys, time
sys.path.insert(0, sys.argv[3])
from index import PeakMemory
from lookfar import Library
from lookfar.index.prepare import CheckpointTimer
# How many checkpoints there are, and so the segments of the keyword index, depends on the time.
CheckpointTimer.run_if_due = lambda self, checkpoint: None
with Library.open(sys.argv[1], index_dir=sys.argv[2]) as library:
    started, before = time.perf_counter(), os.times()
    with PeakMemory() as peak:
        report = library.index()
    wall, after = time.perf_counter() - started, os.times()
cpu = sum(after[:4]) - sum(before[:4])
print(json.dumps([cpu, wall, peak.bytes, report.text_bytes, report.chunks_embedded]))
"""


@dataclass(frozen=True, slots=True)
class Cost:
    cpu: float
    wall: float
    peak: int
    size: int
    chunks: int

    def best(self, other: Cost) -> Cost:
        cpu, wall = min(self.cpu, other.cpu), min(self.wall, other.wall)
        return Cost(cpu, wall, max(self.peak, other.peak), self.size, self.chunks)

    def __str__(self) -> str:
        speed = self.size / 1e6 / self.wall
        return (
            f"{self.cpu:6.2f} CPU-s {self.wall:6.2f} s wall {speed:6.2f} MB/s"
            f"  peak {self.peak / 1e6:4.0f} MB  {self.chunks:,} chunks"
        )


def measure(source: Path, folder: Path, index: Path) -> Cost:
    """Index a folder with the program below ``source``, in a new process."""
    output = subprocess.run(
        [sys.executable, "-c", _MEASURE, folder, index, str(Path(__file__).parent)],
        env=_ENVIRONMENT | {"PYTHONPATH": str(source)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return Cost(*json.loads(output.splitlines()[-1]))


def hash_parts(index: Path) -> Iterator[tuple[str, str]]:
    """Yield the parts of an index with a hash of each."""
    (catalogue,) = index.glob("*/epoch-*/catalogue.db")
    connection = sqlite3.connect(catalogue)
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")
    for (table,) in names.fetchall():
        if table not in _TIMED and not table.startswith("sqlite_"):
            rows = sorted(map(repr, connection.execute(f"SELECT * FROM {table}")))
            yield table, hashlib.sha256("\n".join(rows).encode()).hexdigest()
    connection.close()
    for name in ("vectors.f16", "signatures.bits"):
        yield name, hashlib.sha256((catalogue.parent / name).read_bytes()).hexdigest()
    for path in sorted((catalogue.parent / "words").glob("*.*")):
        yield f"words/{path.name}", hashlib.sha256(path.read_bytes()).hexdigest()


def compare(folder: Path, trees: dict[str, Path], rounds: int, work: Path) -> None:
    costs: dict[str, Cost] = {}
    parts: dict[str, list[dict[str, str]]] = {name: [] for name in trees}
    for tree in trees.values():
        compileall.compile_dir(tree / "src", quiet=2)
    for number in range(rounds):
        for name, tree in trees.items():
            index = work / f"{name}-{folder.name}-{number}"
            cost = measure(tree / "src", folder, index)
            costs[name] = costs[name].best(cost) if name in costs else cost
            parts[name].append(dict(hash_parts(index)))
            shutil.rmtree(index)
    print(f"{folder}, best of {rounds}")
    for name, cost in costs.items():
        print(f"  {name:8} {cost}")
    before, after = costs.values()
    print(f"  {before.cpu / after.cpu:.2f}x less CPU, {before.wall / after.wall:.2f}x faster")
    first, second = parts.values()
    print(f"  both commits: {describe_difference(first[-1], second[-1])}")
    for name, made in parts.items():
        for other in made[1:]:
            print(f"  {name}, two rounds: {describe_difference(made[0], other)}")


def describe_difference(first: dict[str, str], second: dict[str, str]) -> str:
    names = sorted(first.keys() | second.keys())
    different = [name for name in names if first.get(name) != second.get(name)]
    return f"DIFFERENT in {', '.join(different)}" if different else "the same index"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--against", default="e533d48", metavar="COMMIT")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with TemporaryDirectory() as work:
        before = Path(work, "before")
        before.mkdir()
        archive = subprocess.run(
            ["git", "archive", given.against, "src"], cwd=_ROOT, check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "x", "-C", before], input=archive, check=True)
        for folder in given.folders:
            trees = {"before": before, "now": _ROOT}
            compare(folder, trees, given.rounds, Path(work))


if __name__ == "__main__":
    main()
