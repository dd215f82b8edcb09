"""How fast is an answer, in process and from a cold command?

    python bench/query.py FOLDER QUERIES.jsonl [--index-dir DIR]

QUERIES.jsonl holds one ``{"text": ...}`` per line. Prints p50, p95 and p99 of the
whole query path without and with the freshness check, per mode; what each step
costs at p50; and the wall time of ``lookfar search`` as a fresh process. The
baseline of the same run is a bare interpreter start (for the process) and a plain
numpy scan of as many vectors (for the query).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from tempfile import mkdtemp

import numpy as np

from lookfar import Filters, Library
from lookfar.retrieve.candidates import gather
from lookfar.retrieve.diversify import passages
from lookfar.retrieve.excerpt import cite
from lookfar.retrieve.plan import make_plan
from lookfar.retrieve.search import search, stages


def percentiles(seconds: list[float]) -> str:
    cuts = quantiles(seconds, n=100, method="inclusive")
    return "  ".join(f"p{at} {cuts[at - 1] * 1000:6.2f} ms" for at in (50, 95, 99))


def clock(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def in_process(library: Library, queries: list[str]) -> None:
    chosen = library.settings.search

    def ask(text: str, mode: str) -> None:
        plan = make_plan(
            text, mode=mode, top_k=10, filters=Filters(), embedder=library._embedder  # type: ignore[arg-type]
        )
        with library._store.snapshot() as snapshot:
            search(plan, snapshot, chosen, library._source, collection="bench", explain=False)

    for mode in ("keyword", "vector", "hybrid"):
        for text in queries[:20]:
            ask(text, mode)
        print(f"{mode:8} {percentiles([clock(lambda t=text: ask(t, mode)) for text in queries])}")  # type: ignore[misc]
    full = [clock(lambda t=text: library.search(t)) for text in queries]  # type: ignore[misc]
    print(f"library  {percentiles(full)}  (with the freshness check)")
    steps(library, queries)


def steps(library: Library, queries: list[str]) -> None:
    spent: dict[str, list[float]] = {}

    def step(name: str, run: Callable[[], object]) -> object:
        started = time.perf_counter()
        result = run()
        spent.setdefault(name, []).append(time.perf_counter() - started)
        return result

    chosen = library.settings.search
    for text in queries:
        plan = step("plan", lambda: make_plan(text, mode="hybrid", top_k=10, filters=Filters(), embedder=library._embedder))  # noqa: B023, E501
        with library._store.snapshot() as snapshot:
            ranking = step("candidates", lambda: gather(plan, snapshot, chosen.candidates))  # type: ignore[arg-type] # noqa: B023
            for stage in stages(chosen):
                ranking = step("stages", lambda: stage(ranking))  # type: ignore[arg-type] # noqa: B023
            best = step("diversify", lambda: passages(ranking, per_document=3, merge_gap=200))  # type: ignore[arg-type] # noqa: B023
            step("excerpt", lambda: cite(best, snapshot, library._source, collection="", max_chars=4000, explain=None))  # type: ignore[arg-type] # noqa: B023, E501
    for name, seconds in spent.items():
        print(f"  {name:12} {percentiles(seconds)}")


def scan_baseline(library: Library, rounds: int = 20) -> None:
    with library._store.snapshot() as snapshot:
        rows = snapshot.counts().chunks
    matrix = np.random.default_rng(0).standard_normal((rows, 256), dtype=np.float32)
    query = matrix[0]
    print(f"baseline numpy scan of {rows:,} float32 vectors: "
          f"{percentiles([clock(lambda: matrix @ query) for _ in range(rounds)])}")  # fmt: skip


def cold_process(folder: Path, index: Path, queries: list[str], rounds: int = 10) -> None:
    bare = [clock(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)) for _ in range(rounds)]
    command = [sys.executable, "-m", "lookfar", "search", "--json", "--index-dir", str(index)]
    asked = [
        clock(lambda q=query: subprocess.run([*command, q, str(folder)], check=True, capture_output=True))  # type: ignore[misc]  # noqa: E501
        for query in queries[:rounds]
    ]
    helped = [
        clock(lambda: subprocess.run([sys.executable, "-m", "lookfar", "--help"], check=True, capture_output=True))
        for _ in range(rounds)
    ]
    middle = sorted(bare)[rounds // 2]
    for name, seconds in (("python -c pass", bare), ("lookfar --help", helped), ("lookfar search", asked)):
        ranked = sorted(seconds)
        print(f"{name:15} median {ranked[len(ranked) // 2] * 1000:5.0f} ms  worst {ranked[-1] * 1000:5.0f} ms"
              f"  {ranked[len(ranked) // 2] / middle:4.1f}x a bare interpreter")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("--index-dir", type=Path)
    parser.add_argument("--most", type=int, default=200)
    given = parser.parse_args()
    index = given.index_dir or Path(mkdtemp(prefix="lookfar-query-"))
    queries = [json.loads(line)["text"] for line in given.queries.open(encoding="utf-8")][: given.most]
    with Library.open(given.folder, index_dir=index) as library:
        library.index()
        scan_baseline(library)
        in_process(library, queries)
    cold_process(given.folder, index, queries)


if __name__ == "__main__":
    main()
