"""How fast are texts inserted, found and deleted?

    python bench/documents.py [--chunks 10000] [--set key=value ...]

Fills a database with so many chunks of made-up sentences, Japanese and English, through an
import; then inserts, finds and deletes one by one, in this process, as a server would.
Everything is timed with the model loaded. The baseline, measured in the same run, is a write
of the same text with fsync: ratios against it survive a noisy machine, seconds do not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from lookfar.library import Library

WORDS = (
    "犬 猫 設定 検索 文書 索引 言語 港 船 山 川 接続 更新 削除 データベース サーバー ファイル "
    "boat harbour index cache token signal window thread parser config engine mirror lantern"
).split()
CHARACTERS = 650
ONE_BY_ONE = 50
QUESTIONS = 200
DELETIONS = 5


def text(chance: random.Random) -> str:
    found = ""
    while len(found) < CHARACTERS:
        found += "".join(chance.choices(WORDS, k=6)) + chance.choice(("。", ". "))
    return found


def timed(what: str, times: int, one: Callable[[int], object]) -> float:
    taken = []
    for at in range(times):
        started = time.perf_counter()
        one(at)
        taken.append((time.perf_counter() - started) * 1000)
    p50, p95 = statistics.median(taken), statistics.quantiles(taken, n=20)[-1]
    print(f"{what:28} p50 {p50:8.2f} ms   p95 {p95:8.2f} ms   ({times} times)", flush=True)
    return p50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    settings = dict(each.split("=", 1) for each in given.set)
    chance = random.Random(1)
    with TemporaryDirectory() as name:
        base = Path(name)
        (base / "project").mkdir()
        settings |= {"documents.dir": str(base / "db")}
        with Library.open(base / "project", index_dir=base / "index", settings=settings) as library:
            measure(library, given.chunks, chance, base)


def measure(library: Library, chunks: int, chance: random.Random, base: Path) -> None:
    database = library.database()

    def lines() -> Iterator[str]:
        for _ in range(chunks):
            yield json.dumps({"text": text(chance)})

    started = time.perf_counter()
    done = database.import_lines(lines())
    took = time.perf_counter() - started
    print(f"import: {done.chunks:,} chunks in {took:.1f} s, {done.chunks / took:,.0f} a second")

    def write(at: int) -> None:
        with (base / f"{at}.txt").open("w", encoding="utf-8") as file:
            file.write(text(chance))
            file.flush()
            os.fsync(file.fileno())

    plain = timed("write and fsync", ONE_BY_ONE, write)
    names: list[str] = []
    insert = timed(
        "insert", ONE_BY_ONE, lambda _: names.append(database.insert(text(chance)).doc_id)
    )
    print(f"an insert takes {insert / plain:.1f} times as long as a write")
    timed("find", QUESTIONS, lambda _: library.find_similar(text(chance)[:40]))
    timed("delete", DELETIONS, lambda at: database.delete(names[at]))
    print(f"{database.status().disk_bytes / 1e6:.0f} MB on the disk")


if __name__ == "__main__":
    main()
