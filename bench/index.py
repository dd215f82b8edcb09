"""How fast is indexing, and where does the time go?

    python bench/index.py FOLDER [--rounds 2]

Indexes FOLDER cold with all cores, again with nothing changed, and prints MB/s, peak
memory (parent and workers together), size on disk, and CPU seconds per stage on one
core. The baseline, measured in the same run, is a bare loop that only reads and
decodes the files: ratios against it survive a noisy machine, seconds do not.
"""

from __future__ import annotations

import argparse
import gc
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from lookfar import Library
from lookfar.embed.providers import open_embedder
from lookfar.index.recipe import policy_from, sizes_from
from lookfar.sources.folder.walk import walk
from lookfar.text.chunk.headings import chunk
from lookfar.text.chunk.identity import embedded_text
from lookfar.text.normalise import normalise
from lookfar.text.parse.formats import parser_for

T = TypeVar("T")


class PeakMemory:
    """The most memory that this process and its children held at once, sampled."""

    def __init__(self) -> None:
        self.bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(0.3):
            self.bytes = max(self.bytes, sum(map(_proportional, _family(os.getpid()))))


def _family(process: int) -> list[int]:
    found = [process]
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            found += [
                each for child in children.read_text().split() for each in _family(int(child))
            ]
        except OSError:
            continue
    return found


def _proportional(process: int) -> int:
    """Resident memory with shared pages counted once over all who share them."""
    try:
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def timed(run: Callable[[], T]) -> tuple[float, float, T]:
    """Wall seconds, CPU seconds of this process, and the result."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    result = run()
    return time.perf_counter() - wall, time.process_time() - cpu, result


def stages(library: Library, share: int) -> None:
    """CPU seconds of each stage on one core, over every ``share``-th file."""
    # Here, because bench/cold_index.py imports this file beside older code.
    from lookfar.index.analysis import analyse_document
    from lookfar.index.words import Words

    settings = library.settings
    files = walk(library.folder().root, policy_from(settings)).files[::share]
    known = [file for file in files if parser_for(file.uri)]
    limit = settings.sources.max_file_bytes
    embedder, sizes = open_embedder(settings.embed), sizes_from(settings)
    assert embedder is not None

    def report(name: str, run: Callable[[], T]) -> T:
        _, cpu, result = timed(run)
        print(f"  {name:12} {cpu:7.2f} CPU-s {megabytes / max(cpu, 1e-9):8.1f} MB/s")
        return result

    megabytes = sum(file.fingerprint.size for file in known) / 1e6
    gc.disable()
    print(f"\nstages, one core, {megabytes:.1f} MB")
    raws = report(
        "read", lambda: [library.folder().root.read(file.uri, limit)[0] for file in known]
    )
    texts = report("normalise", lambda: [normalise(raw)[0] for raw in raws])
    documents = report(
        "parse",
        lambda: [
            parser_for(f.uri)(f.uri, t)  # type: ignore[misc]
            for f, t in zip(known, texts, strict=True)
        ],
    )
    words = Words(embedder)
    chunks = report("chunk", lambda: [chunk(d, sizes, words.count) for d in documents])
    report(
        "analyse",
        lambda: [analyse_document(d, c, words) for d, c in zip(documents, chunks, strict=True)],
    )
    texts_of = [
        embedded_text(d, each) for d, c in zip(documents, chunks, strict=True) for each in c
    ]
    report(
        "embed",
        lambda: [embedder.embed(texts_of[at : at + 512]) for at in range(0, len(texts_of), 512)],
    )
    gc.enable()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--share", type=int, default=4, help="profile every Nth file")
    given = parser.parse_args()
    paths = [path for path in given.folder.rglob("*") if path.is_file()]
    base, _, size = timed(
        lambda: sum(len(path.read_bytes().decode("utf-8", "replace")) for path in paths)
    )
    print(f"baseline: read and decode {len(paths):,} files: {size / 1e6 / base:.0f} MB/s")
    for number in range(given.rounds):
        with TemporaryDirectory() as index, Library.open(given.folder, index_dir=index) as library:
            before = os.times()
            with PeakMemory() as peak:
                wall, _, report = timed(library.index)
            after = os.times()
            cpu = sum(after[:4]) - sum(before[:4])
            disk = library.status(check=False).disk_bytes
            speed = report.text_bytes / 1e6 / wall
            print(
                f"cold {number + 1}: {speed:5.2f} MB/s  {wall:6.2f} s wall  {cpu:6.2f} CPU-s"
                f"  peak {peak.bytes / 1e6:4.0f} MB  disk {disk / report.text_bytes:4.2f}x text"
                f"  {report.chunks_embedded:,} chunks  {wall / base:5.1f}x baseline"
            )
            again, _, _ = timed(library.index)
            print(f"again: {again:.3f} s with nothing changed  {again / base:5.2f}x baseline")
    with Library.open(given.folder) as library:
        stages(library, given.share)


if __name__ == "__main__":
    main()
