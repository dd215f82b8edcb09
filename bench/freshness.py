"""How soon is a change searchable, and what does keeping fresh cost?

    python bench/freshness.py FOLDER [--rounds 10]

Works on a copy of FOLDER. Prints milliseconds from a save to the answer that holds
it, through the request path (the caller names the file) and through the watcher; for
an edit, a new document, a restructure of sixty sections, a file of 3,000
sections and an edit of one of them; the time of activation
and of a roll-back; how many passes a checkout of another branch takes that changes a
thousand files, and what it embeds; and the p95 of queries while a full rebuild runs, as
a ratio of the idle p95 of the same run. The baseline is one durable write (fsync) of a
small file.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from lookfar import Library
from lookfar.freshness.keeper import Pass

_QUESTIONS = ("how do I install it", "configure the server", "what does this error mean")
_DEADLINE = 20.0


def milliseconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return (time.perf_counter() - started) * 1000


def show(name: str, values: list[float], base: float) -> None:
    middle = median(values)
    print(f"{name:34} median {middle:7.1f} ms  worst {max(values):7.1f} ms  {middle / base:6.1f}x")


class Bench:
    """One copy of the folder, and the edits made to it."""

    def __init__(self, root: Path, library: Library) -> None:
        self.root = root
        self.library = library
        self.page = max(root.rglob("*.md"), key=lambda path: path.stat().st_size < 20_000)
        self.original = self.page.read_text(encoding="utf-8")
        self.number = 0

    def word(self) -> str:
        self.number += 1
        return f"zyzzyva{self.number}x"

    def edit(self) -> tuple[Path, str]:
        word = self.word()
        self.page.write_text(f"{self.original}\n\n## Added\n\nThe {word} is here.\n")
        return self.page, word

    def create(self) -> tuple[Path, str]:
        word = self.word()
        path = self.root / f"{word}.md"
        path.write_text(f"# New page\n\nAll about the {word}.\n")
        return path, word

    def restructure(self) -> tuple[Path, str]:
        word = self.word()
        sections = (f"## Part {n}\n\n{f'Text of {word} in part {n}. ' * 20}\n" for n in range(60))
        self.page.write_text("# Anew\n\n" + "\n".join(sections))
        return self.page, word

    def create_long(self) -> tuple[Path, str]:
        word = self.word()
        path = self.root / "long.md"
        sections = (
            f"## Part {n}\n\n{f'Text of {word} and number{n} in part {n}. ' * (3 + n % 9)}\n"
            for n in range(3_000)
        )
        path.write_text("# Long\n\n" + "\n".join(sections))
        return path, word

    def edit_long(self) -> tuple[Path, str]:
        word = self.word()
        path = self.root / "long.md"
        part = f"## Part {self.number * 97 % 3_000}\n"
        path.write_text(path.read_text().replace(part, f"{part}\nThe {word} is here.\n", 1))
        return path, word

    def finds(self, word: str, path: Path) -> bool:
        uri = path.relative_to(self.root).as_posix()
        hits = self.library.search(word, mode="keyword", top_k=3).hits
        return any(hit.uri == uri and word in hit.text for hit in hits)

    def by_request(self, change: Callable[[], tuple[Path, str]]) -> float:
        path, word = change()
        uri = path.relative_to(self.root).as_posix()

        def ask() -> None:
            self.library.index(only=[uri])
            assert self.finds(word, path), f"{word} was not found"

        return milliseconds(ask)

    def by_watcher(self, change: Callable[[], tuple[Path, str]]) -> float:
        path, word = change()
        started = time.perf_counter()
        while not self.finds(word, path):
            if time.perf_counter() - started > _DEADLINE:
                raise TimeoutError(f"{word} was not searchable after {_DEADLINE} s")
            time.sleep(0.005)
        return (time.perf_counter() - started) * 1000


def durable_write(folder: Path) -> float:
    def write() -> None:
        with (folder / "probe").open("wb") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())

    return median(milliseconds(write) for _ in range(20))


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
    quick = ("-c", "gc.auto=0", "-c", "core.autocrlf=false")
    subprocess.run(["git", *identity, *quick, *arguments], cwd=root, check=True, text=True,
                   capture_output=True)  # fmt: skip


def checkouts(root: Path, library: Library, most: int = 1_000) -> None:
    """Two branches that differ in ``most`` pages, and back and forth between them, watched."""
    pages = sorted(root.rglob("*.md"))[:most]
    git(root, "init", "-b", "one")
    git(root, "add", ".")
    git(root, "commit", "-m", "one")
    git(root, "checkout", "-b", "two")
    for number, page in enumerate(pages):
        with page.open("a", encoding="utf-8") as file:
            file.write(f"\n\n## Of the second branch\n\nPage {number} says quokka{number}.\n")
    git(root, "commit", "-am", "two")
    git(root, "checkout", "one")
    library.index()
    passes: list[Pass] = []
    library.watch(on_pass=passes.append)
    assert library.drain(_DEADLINE)
    for branch in ("two", "one", "two"):
        passes.clear()
        git(root, "checkout", branch)
        started = time.perf_counter()
        while not passes or library.watching().queued:  # type: ignore[union-attr]
            if time.perf_counter() - started > 6 * _DEADLINE:
                raise TimeoutError(f"the checkout of {branch} was never indexed")
            time.sleep(0.01)
        seconds = time.perf_counter() - started
        changed = sum(each.result.changed for each in passes)
        embedded = sum(each.result.chunks_embedded for each in passes)
        print(
            f"checkout of {changed:,} changed files: {len(passes)} pass"
            f" ({'as' if len(passes) == 1 else 'NOT as'} promised), {seconds:.2f} s after it"
            f" returned, {embedded:,} chunks embedded"
        )
        assert changed == len(pages), f"{changed} of {len(pages)} pages were seen to change"
    library.unwatch()
    git(root, "checkout", "one")
    library.index()


def during_a_rebuild(library: Library, seconds: float = 3.0) -> tuple[float, float]:
    """p95 of queries when idle, and while another thread rebuilds everything."""

    def p95(until: Callable[[], bool]) -> float:
        spent: list[float] = []
        while not until() or len(spent) < 20:
            question = _QUESTIONS[len(spent) % len(_QUESTIONS)]
            spent.append(milliseconds(lambda q=question: library.search(q)))  # type: ignore[misc]
        return quantiles(spent, n=20)[18]

    began = time.perf_counter()
    idle = p95(lambda: time.perf_counter() - began > seconds)
    builder = threading.Thread(target=lambda: library.index(rebuild=True, wait_seconds=60))
    builder.start()
    busy = p95(lambda: not builder.is_alive())
    builder.join()
    return idle, busy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    with TemporaryDirectory() as work:
        root = Path(work, "copy")
        shutil.copytree(given.folder, root)
        with Library.open(root, index_dir=Path(work, "index")) as library:
            report = library.index()
            print(f"{report.added:,} documents, {report.chunks_embedded:,} chunks")
            bench = Bench(root, library)
            base = durable_write(root)
            print(f"baseline: one durable write {base:.2f} ms")
            changes = {
                "edit": bench.edit,
                "new document": bench.create,
                "restructure": bench.restructure,
                "a file of 3,000 sections": bench.create_long,
                "one section of it": bench.edit_long,
            }
            for name, change in changes.items():
                spent = [bench.by_request(change) for _ in range(given.rounds)]
                show(f"{name}, request path", spent, base)
            numbers = library.status(check=False).generations
            back = [milliseconds(lambda n=n: library.roll_back(n)) for n in numbers]  # type: ignore[misc]
            show("roll-back", back, base)
            library.index()
            library.watch()
            for name, change in changes.items():
                spent = [bench.by_watcher(change) for _ in range(given.rounds)]
                show(f"{name}, watcher", spent, base)
            library.unwatch()
            checkouts(root, library)
            idle, busy = during_a_rebuild(library)
            print(
                f"query p95 idle {idle:.1f} ms, during a rebuild {busy:.1f} ms: {busy / idle:.2f}x"
            )


if __name__ == "__main__":
    main()
