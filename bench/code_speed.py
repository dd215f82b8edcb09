"""How fast is a repository of source code understood and kept fresh?

    python bench/code_speed.py FOLDER [--files 10000] [--chunks 100000] [--rounds 15]

FOLDER holds checkouts of any programs. Their files are copied under varied names, each with a
line of its own, until there are enough. Prints files per second of a first index (goal 400 on
two cores), the time of a file's summary (goal 20 ms for a typical file), and the time
until an edited file is searchable, at as many chunks as asked for (goal 300 ms), each with its
ratio to a baseline of the same run: reading and parsing the same files with tree-sitter alone,
and one durable write of a small file.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from lookfar import Library
from lookfar.text.parse.languages import Language, detect_language
from lookfar.text.parse.summary import summarise
from lookfar.text.parse.syntax_tree import parse_tree

_MOST_BYTES = 200_000
_DENIED = frozenset(("node_modules", "vendor", "dist", "build", "target", "out", ".git"))


def programs(folder: Path) -> list[tuple[str, str, Language]]:
    """Name, text and language of every program below a folder."""
    found = []
    for path in sorted(folder.rglob("*")):
        uri = path.relative_to(folder).as_posix()
        language = detect_language(uri)
        if language is None or language.category != "program" or not path.is_file():
            continue
        if _DENIED.intersection(path.parts) or path.stat().st_size > _MOST_BYTES:
            continue
        try:
            found.append((uri, path.read_text(encoding="utf-8"), language))
        except UnicodeDecodeError:
            continue
    return found


def replicate(found: list[tuple[str, str, Language]], root: Path, files: int) -> int:
    """Write ``files`` files below ``root``; gives their bytes."""
    size = 0
    for number, (uri, text, language) in enumerate(cycle(found)):
        if number == files:
            return size
        mark = (language.line_comment or ("//",))[0]
        path = root / f"part{number // len(found)}" / uri
        path.parent.mkdir(parents=True, exist_ok=True)
        written = f"{text.rstrip()}\n{mark} of part {number}\n"
        path.write_text(written, encoding="utf-8")
        size += len(written.encode())
    return size


def milliseconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return (time.perf_counter() - started) * 1000


def durable_write(folder: Path) -> float:
    def write() -> None:
        with (folder / "probe").open("wb") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())

    spent = median(milliseconds(write) for _ in range(20))
    (folder / "probe").unlink()
    return spent


def verdict(value: float, goal: float, *, least: bool) -> str:
    return "reached" if (value >= goal if least else value <= goal) else "MISSED"


def first_index(root: Path, index: Path, files: int, parse_ms: float) -> Library:
    library = Library.open(root, index_dir=index)
    started = time.perf_counter()
    report = library.index()
    seconds = time.perf_counter() - started
    rate = report.added / seconds
    ratio = seconds * 1000 / (parse_ms * files)
    print(
        f"first index: {report.added:,} files, {report.chunks_embedded:,} chunks in"
        f" {seconds:.1f} s: {rate:,.0f} files/s, goal 400 {verdict(rate, 400, least=True)};"
        f" {ratio:.2f}x of parsing alone on one core"
    )
    return library


def summaries(found: list[tuple[str, str, Language]], parse_ms: float) -> None:
    full = [each for each in found if each[2].tier == "full"]
    spent = [milliseconds(lambda u=uri, t=text: summarise(u, t)) for uri, text, _ in full]  # type: ignore[misc]
    middle, p95 = median(spent), quantiles(spent, n=20)[18]
    print(
        f"summary: median {middle:.1f} ms, p95 {p95:.1f} ms over {len(full):,} files,"
        f" goal 20 {verdict(middle, 20, least=False)}; {middle / parse_ms:.1f}x of parsing alone"
    )


def edits(root: Path, library: Library, rounds: int, base: float) -> None:
    pages = [path for path in sorted(root.rglob("*.py")) if 2_000 < path.stat().st_size < 20_000]
    library.search("warm up", top_k=1)
    spent = []
    for number, path in zip(range(rounds), cycle(pages), strict=False):
        word = f"zyzzyva{number}x"
        uri = path.relative_to(root).as_posix()
        with path.open("a", encoding="utf-8") as file:
            file.write(f"\n\ndef {word}():\n    return {number}\n")

        def ask(uri: str = uri, word: str = word) -> None:
            library.index(only=[uri])
            hits = library.search(word, mode="keyword", top_k=3).hits
            assert any(hit.uri == uri and word in hit.text for hit in hits), f"{word} not found"

        spent.append(milliseconds(ask))
    middle = median(spent)
    chunks = library.status(check=False).counts.chunks
    print(
        f"edit at {chunks:,} chunks: median {middle:.0f} ms, worst {max(spent):.0f} ms, goal 300"
        f" {verdict(middle, 300, least=False)}; {middle / base:.0f}x of one durable write"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    found = programs(given.folder)
    started = time.perf_counter()
    for _, text, language in found:
        parse_tree(language, text)
    parse_ms = (time.perf_counter() - started) * 1000 / len(found)
    print(f"{len(found):,} programs; parsing alone takes {parse_ms:.2f} ms each on one core")
    summaries(found, parse_ms)
    with TemporaryDirectory() as work:
        root = Path(work, "repository")
        size = replicate(found, root, given.files)
        print(f"{given.files:,} files, {size / 1e6:.0f} MB, {size // given.files:,} bytes each")
        base = durable_write(root)
        with first_index(root, Path(work, "index"), given.files, parse_ms) as library:
            chunks = library.status(check=False).counts.chunks
            if chunks < given.chunks:
                wanted = given.files * given.chunks // chunks + 1
                replicate(found, root, wanted)
                library.index()
            edits(root, library, given.rounds, base)


if __name__ == "__main__":
    main()
