"""How fast is an answer, in process and from a cold command?

    python bench/query.py FOLDER QUERIES.jsonl [--index-dir DIR] [--against COMMIT]

QUERIES.jsonl holds one ``{"text": ...}`` per line. With ``--against``, two processes answer each
question in turn, one with this working tree and one with the commit; ``--both-models`` first embeds
every passage with the second model. The best CPU and wall time of all rounds and the ratios are
printed, the CPU time of the first round, and how many answers differ: on a shared machine only
these ratios are worth comparing.

Otherwise prints p50, p95 and p99 of the whole query path without and with the freshness check, per
mode; what each step costs at p50; and the wall time of ``lookfar search`` as a fresh process. The
baseline of the same run is a bare interpreter start (for the process) and a plain numpy scan of as
many vectors (for the query).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, TypeVar

import numpy as np

from lookfar import Filters, Library
from lookfar.retrieve.answer.choose import choose_passages
from lookfar.retrieve.answer.excerpt import cite
from lookfar.retrieve.question.plan import make_plan
from lookfar.retrieve.ranking import Plan, Source
from lookfar.retrieve.search import apply_stages, collect_candidates, search

T = TypeVar("T")
_ANSWER = """
import json, sys, time
from lookfar import Library
# Without the look at the disk, which has a bench of its own.
once = {"index.check_every_searches": 100}
with Library.open(sys.argv[1], index_dir=sys.argv[2], settings=once) as library:
    library.index()
    if sys.argv[3]:
        from lookfar.index.embed_process import run_quality_pass
        run_quality_pass(library.folder().store, library.folder().second_model)
    for line in sys.stdin:
        cpu, wall = time.process_time(), time.perf_counter()
        answer = library.search(json.loads(line))
        cost = [time.process_time() - cpu, time.perf_counter() - wall]
        hits = [[hit.uri, hit.span.start, hit.span.end, hit.score] for hit in answer.hits]
        print(json.dumps([*cost, hits]), flush=True)
"""


def percentiles(seconds: list[float]) -> str:
    cuts = quantiles(seconds, n=100, method="inclusive")
    return "  ".join(f"p{at} {cuts[at - 1] * 1000:6.2f} ms" for at in (50, 95, 99))


def clock(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def in_process(library: Library, queries: list[str]) -> None:
    chosen, folder = library.settings.search, library.folder()

    def ask(text: str, mode: str) -> None:
        plan = _plan(library, text, mode)
        with folder.store.snapshot() as snapshot:
            search([Source("bench", plan, snapshot, folder.readable)], chosen, explain=False)

    for mode in ("keyword", "vector", "hybrid"):
        for text in queries[:20]:
            ask(text, mode)
        print(f"{mode:8} {percentiles([clock(partial(ask, text, mode)) for text in queries])}")
    full = [clock(partial(library.search, text)) for text in queries]
    print(f"library  {percentiles(full)}  (with the freshness check)")
    steps(library, queries)


def _plan(library: Library, text: str, mode: str) -> Plan:
    return make_plan(
        text,
        mode=mode,  # type: ignore[arg-type]
        top_k=10,
        filters=Filters(),
        embedder=library.folder().embedder,
    )


def steps(library: Library, queries: list[str]) -> None:
    """What each step of a hybrid query costs."""
    spent: dict[str, list[float]] = defaultdict(list)

    def step(name: str, run: Callable[..., T], *given: Any, **named: Any) -> T:
        started = time.perf_counter()
        result = run(*given, **named)
        spent[name].append(time.perf_counter() - started)
        return result

    chosen = library.settings.search
    for text in queries:
        plan = step("plan", _plan, library, text, "hybrid")
        with library.folder().store.snapshot() as snapshot:
            asked = [Source("bench", plan, snapshot, library.folder().readable)]
            ranking = step("candidates", collect_candidates, asked, chosen)
            ranking = step("stages", apply_stages, ranking)
            best, _ = step("choose", choose_passages, ranking, asked, chosen)
            step("excerpt", cite, best, asked, max_chars=4000, explain=None)
    for name, seconds in spent.items():
        print(f"  {name:16} {percentiles(seconds)}")


class Answering:
    """A process that answers questions with the program in ``tree``."""

    def __init__(self, name: str, tree: Path, folder: Path, index: Path, both: bool) -> None:
        self.name = name
        self.cpu: list[float] = []
        self.wall: list[float] = []
        self._process = subprocess.Popen(
            [sys.executable, "-c", _ANSWER, folder, index, "both" if both else ""],
            # One seed for both: some older commits add up numbers in the order of a set.
            # The second model was once a distribution of its own, below ``quality``.
            env={
                **os.environ,
                "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree / 'quality' / 'src'}",
                "PYTHONHASHSEED": "0",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, text: str) -> object:
        """Return the hits of an answer, and note what it cost."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(text), file=self._process.stdin, flush=True)
        cpu, wall, hits = json.loads(self._process.stdout.readline())
        self.cpu.append(cpu)
        self.wall.append(wall)
        return hits

    def close(self) -> None:
        self._process.communicate()


def best_of_rounds(seconds: list[float], count: int) -> list[float]:
    """Return the least that each question took: what it took more is due to other programs."""
    return [min(seconds[at::count]) for at in range(count)]


def compare(
    folder: Path, index: Path, queries: list[str], against: str, rounds: int, both_models: bool
) -> None:
    """Print what questions cost now and with another commit, measured in the same minutes."""
    with TemporaryDirectory() as work:
        root = Path(__file__).parent.parent
        archive = subprocess.run(
            ["git", "archive", against], cwd=root, check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "x", "-C", work], input=archive, check=True)
        trees = {against[:9]: Path(work), "now": root}
        # An index of its own for each, since one of them may be of another format.
        both = [
            Answering(name, tree, folder, index / name, both_models) for name, tree in trees.items()
        ]
        differing = 0
        for text in queries * rounds:
            first, second = (answering.ask(text) for answering in both)
            differing += first != second
        for answering in both:
            answering.close()
    for unit in ("cpu", "wall"):
        before, after = (
            best_of_rounds(getattr(answering, unit), len(queries)) for answering in both
        )
        for answering, seconds in zip(both, (before, after), strict=True):
            print(f"{answering.name:10} {unit:4} {percentiles(seconds)}")
        ratios = sorted(old / new for old, new in zip(before, after, strict=True))
        print(f"{'':10} {unit:4} ratio at the median {ratios[len(ratios) // 2]:.2f}")
    # Caches fill while each question is asked for the first time.
    for answering in both:
        print(f"{answering.name:10} cpu, asked once  {percentiles(answering.cpu[: len(queries)])}")
    print(f"{differing} answers differ")


def scan_baseline(library: Library, rounds: int = 20) -> None:
    with library.folder().store.snapshot() as snapshot:
        rows = snapshot.counts().chunks
    matrix = np.random.default_rng(0).standard_normal((rows, 256), dtype=np.float32)
    query = matrix[0]
    print(f"baseline numpy scan of {rows:,} float32 vectors: "
          f"{percentiles([clock(lambda: matrix @ query) for _ in range(rounds)])}")  # fmt: skip


def cold_process(folder: Path, index: Path, queries: list[str], rounds: int = 10) -> None:
    def spawn(*arguments: str) -> Callable[[], object]:
        command = [sys.executable, *arguments]
        return partial(subprocess.run, command, check=True, capture_output=True)

    search_in = ("-m", "lookfar", "search", "--json", "--index-dir", str(index))
    runs = {
        "python -c pass": [clock(spawn("-c", "pass")) for _ in range(rounds)],
        "lookfar --help": [clock(spawn("-m", "lookfar", "--help")) for _ in range(rounds)],
        "lookfar search": [clock(spawn(*search_in, q, str(folder))) for q in queries[:rounds]],
    }
    bare = sorted(runs["python -c pass"])[rounds // 2]
    for name, seconds in runs.items():
        middle, worst = sorted(seconds)[len(seconds) // 2], max(seconds)
        print(
            f"{name:15} median {middle * 1000:5.0f} ms  worst {worst * 1000:5.0f} ms"
            f"  {middle / bare:4.1f}x a bare interpreter"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("--index-dir", type=Path)
    parser.add_argument("--most", type=int, default=200)
    parser.add_argument("--against", metavar="COMMIT")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--both-models", action="store_true", help="only with --against")
    given = parser.parse_args()
    index = given.index_dir or Path(mkdtemp(prefix="lookfar-query-"))
    queries = [json.loads(line)["text"] for line in given.queries.open(encoding="utf-8")][
        : given.most
    ]
    if given.against:
        compare(given.folder, index, queries, given.against, given.rounds, given.both_models)
        return
    with Library.open(given.folder, index_dir=index) as library:
        library.index()
        scan_baseline(library)
        in_process(library, queries)
    cold_process(given.folder, index, queries)


if __name__ == "__main__":
    main()
