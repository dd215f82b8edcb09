"""How well is code found? NDCG@10 over judged repositories, per repository and category.

    python bench/code_search.py SET CHECKOUTS [--only click,gin] [--set key=value ...] [--misses]

SET holds ``repos.json`` (name to language, root) and ``annotations/NAME.json``; CHECKOUTS one
folder per repository. Each repository's ``root`` is indexed as a user would index it and asked
through ``Library.search``. A target counts at the first of the ten passages that lies in its
file (and touches its lines, where it names lines); others of the same file gain nothing. The
figure is the mean over repositories of the mean over their questions. Nothing is tuned per set.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

from lookfar import Library
from lookfar.model import Filters
from lookfar.serve.daemon.session_options import parse_settings

TOP = 10
Found = list[tuple[str, int, int]]


def ndcg(hits: Found, task: dict[str, Any]) -> float:
    """Binary gains at the first passage that reaches each target."""
    targets = [_target(each) for each in [*task["relevant"], *task.get("secondary", [])]]
    gains = [0.0] * TOP
    for path, first, last in targets:
        for rank, (uri, start, end) in enumerate(hits[:TOP]):
            if _same(uri, path) and (
                first is None or last is None or (start <= last and first <= end)
            ):
                gains[rank] = 1.0
                break
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(TOP, len(targets))))
    gained = sum(gain / math.log2(rank + 2) for rank, gain in enumerate(gains))
    return gained / ideal if ideal else 0.0


def _target(target: str | dict[str, Any]) -> tuple[str, int | None, int | None]:
    if isinstance(target, str):
        return target, None, None
    return target["path"], target.get("start_line"), target.get("end_line")


def _same(uri: str, path: str) -> bool:
    return uri == path or uri.endswith("/" + path) or path.endswith("/" + uri)


def ask(library: Library, query: str, mode: str, lanes: tuple[Any, ...]) -> Found:
    answer = library.search(query, top_k=TOP, mode=mode, filters=Filters(lanes=lanes))  # type: ignore[arg-type]
    return [(hit.uri, hit.span.start_line, hit.span.end_line) for hit in answer.hits]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("set", type=Path)
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--modes", default="keyword,vector,hybrid")
    parser.add_argument("--kinds", default="", help="ask only for these lanes, such as code")
    parser.add_argument("--work", type=Path, help="keep indexes here between runs")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--misses", action="store_true", help="show the questions that lost most")
    given = parser.parse_args()
    repositories = json.loads((given.set / "repos.json").read_text(encoding="utf-8"))
    names = [name for name in repositories if not given.only or name in given.only.split(",")]
    modes = given.modes.split(",")
    lanes = tuple(filter(None, given.kinds.split(",")))
    work = given.work or Path(tempfile.mkdtemp())
    settings = parse_settings(tuple(given.settings))
    by_repository: dict[str, dict[str, float]] = {}
    by_category: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    losses: list[tuple[float, str, str, Any, Found]] = []
    print(
        f"{'repository':14}{'language':12}{'files':>6}{'sec':>6}  "
        + "".join(f"{m:>9}" for m in modes)
    )
    for name in names:
        root = given.checkouts / name / (repositories[name]["root"] or "")
        tasks = json.loads((given.set / "annotations" / f"{name}.json").read_text(encoding="utf-8"))
        with Library.open(root, index_dir=work / name, settings=settings) as library:
            began = time.perf_counter()
            library.index()
            seconds = time.perf_counter() - began
            files = library.status(check=False).counts.documents
            scores = {}
            for mode in modes:
                found = [ask(library, task["query"], mode, lanes) for task in tasks]
                each = [ndcg(hits, task) for hits, task in zip(found, tasks, strict=True)]
                scores[mode] = mean(each)
                for task, score in zip(tasks, each, strict=True):
                    by_category[task.get("category", "")][mode].append(score)
                if mode == modes[-1]:
                    losses += [
                        (score, name, task["query"], task, hits)
                        for score, task, hits in zip(each, tasks, found, strict=True)
                    ]
        by_repository[name] = scores
        language = repositories[name]["language"]
        print(f"{name:14}{language:12}{files:6}{seconds:6.1f}  "
              + "".join(f"{scores[mode]:9.3f}" for mode in modes), flush=True)  # fmt: skip
    overall = {mode: mean(each[mode] for each in by_repository.values()) for mode in modes}
    print(f"{'mean':14}{'':12}{'':6}{'':6}  " + "".join(f"{overall[m]:9.4f}" for m in modes))
    for category, columns in sorted(by_category.items()):
        count = len(columns[modes[0]])
        print(f"  {category:24}{count:6}{'':8}  "
              + "".join(f"{mean(columns[m]):9.3f}" for m in modes))  # fmt: skip
    if given.misses:
        for score, name, query, task, hits in sorted(losses, key=lambda each: each[0])[:60]:
            wanted = [_target(t)[0] for t in task["relevant"]]
            print(f"\n{score:.2f} {name}: {query}\n   wanted {wanted}\n   found  "
                  + "\n          ".join(f"{uri}:{a}-{b}" for uri, a, b in hits[:5]))  # fmt: skip


if __name__ == "__main__":
    main()
