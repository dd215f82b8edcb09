"""How much slower is an answer while the second model embeds passages in the background?

    python bench/background.py FOLDER QUERIES.jsonl --model DIR [--index-dir DIR] [--rounds N]

QUERIES.jsonl holds one ``{"text": ...}`` per line. The folder is indexed, and a child process
embeds its passages as a server lets it. Rounds of questions alternate: in one the child works, in
the next it is stopped (SIGSTOP), so that other work on the machine falls on both alike. Prints p50
and p95 of both kinds of rounds, their ratios, and how many passages were embedded in a second.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import threading
import time
from pathlib import Path
from statistics import quantiles
from tempfile import mkdtemp

from lookfar.index.embed_process import EmbedProcess, run_quality_pass
from lookfar.library import Library

AT_ONCE = 25
"""Questions of one round."""


class Enough(Exception):
    pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("--model", type=Path, help="folder of the second model")
    parser.add_argument("--index-dir", type=Path)
    parser.add_argument("--rounds", type=int, default=12, help="of each kind")
    given = parser.parse_args()
    settings = {"index.check_every_searches": 100_000, "sources.max_file_bytes": "16MB"}
    if given.model is not None:
        settings["quality.model"] = str(given.model)
    index_dir = given.index_dir or Path(mkdtemp(prefix="lookfar-background-"))
    texts = [json.loads(line)["text"] for line in given.queries.open(encoding="utf-8")]
    with Library.open(given.folder, index_dir=index_dir, settings=settings) as library:
        library.index()
        measure(library, texts, given.rounds)


def measure(library: Library, texts: list[str], rounds: int) -> None:
    folder = library.folder()
    model = folder.second_model
    assert model is not None
    process = EmbedProcess(model.folder)
    process.encode(["started"])
    assert process._process is not None
    child = process._process.pid
    made, finished = 0, threading.Event()

    def note(passages: int) -> None:
        nonlocal made
        made += passages
        if finished.is_set():
            raise Enough

    def embed() -> None:
        try:
            run_quality_pass(folder.store, model, encode=process.encode, on_batch=note)
        except Enough:
            return

    thread = threading.Thread(target=embed)
    thread.start()
    questions = itertools.cycle(texts)
    taken: dict[str, list[float]] = {"idle": [], "working": []}
    worked = 0.0
    for text in itertools.islice(questions, AT_ONCE):  # Loads all that a question needs.
        library.search(text)
    for _ in range(rounds):
        for kind, how in (("idle", signal.SIGSTOP), ("working", signal.SIGCONT)):
            os.kill(child, how)
            began = time.perf_counter()
            for text in itertools.islice(questions, AT_ONCE):
                start = time.perf_counter()
                library.search(text)
                taken[kind].append(time.perf_counter() - start)
            worked += (time.perf_counter() - began) if kind == "working" else 0.0
    os.kill(child, signal.SIGCONT)
    still = thread.is_alive()
    finished.set()
    thread.join()
    process.close()
    cuts = {kind: quantiles(times, n=100, method="inclusive") for kind, times in taken.items()}
    for kind, values in cuts.items():
        print(f"{kind:8} p50 {values[49] * 1000:7.2f} ms  p95 {values[94] * 1000:7.2f} ms")
    ratio = {at: cuts["working"][at - 1] / cuts["idle"][at - 1] for at in (50, 95)}
    print(f"ratio    p50 {ratio[50]:7.2f}     p95 {ratio[95]:7.2f}")
    print(f"{made:,} passages embedded, {made / max(worked, 1e-6):.0f} per second of work"
          + ("" if still else "; it finished before the end: take a larger folder"))  # fmt: skip


if __name__ == "__main__":
    main()
