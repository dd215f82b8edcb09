"""What does HTTP cost over the library itself, alone and with many clients?

    python bench/http.py [FOLDER] [--times 400] [--clients 32]

Serves FOLDER (or documents made here: about 10,000 chunks) with the bundled model by
``lookfar serve``, in a process of its own. Times a search in the library, over HTTP by one
client, and by many at once: first with a pause after each answer, as agents make, then
without any, which measures how much the server does in a second. All in one run, since
only ratios mean something on a machine that does other things, too.

Asked for: p95 under 20 ms end to end at 10,000 chunks; many clients without errors, and
their p99 under 5 times the p99 of one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import accumulate
from pathlib import Path
from typing import Any

# This file has the name of a module of Python, which must not find it first.
sys.path[:] = [each for each in sys.path if Path(each or ".").resolve() != Path(__file__).parent]

_CHUNKS = 10_000
_SECTIONS = 10
_VOCABULARY = 20_000


def vocabulary() -> list[str]:
    """Words of two to four syllables, the same in every run."""
    chosen = random.Random(5)
    syllables = [a + b for a in "bcdfghklmnprstvw" for b in ("a", "e", "i", "o", "u", "an", "er")]
    made = ("".join(chosen.choices(syllables, k=chosen.randint(2, 4))) for _ in range(3 * 10**5))
    return list(dict.fromkeys(made))[:_VOCABULARY]


def write_documents(folder: Path) -> None:
    """About so many chunks, in which words are as frequent as in a language (Zipf)."""
    chosen, words = random.Random(7), vocabulary()
    often = list(accumulate(1 / (rank + 3) for rank in range(len(words))))

    def sentence() -> str:
        said = chosen.choices(words, cum_weights=often, k=chosen.randint(6, 14))
        return " ".join(said).capitalize() + "."

    for number in range(_CHUNKS // _SECTIONS):
        parts = [f"# {' '.join(chosen.choices(words, k=3)).title()}\n"]
        for _ in range(_SECTIONS):
            text = " ".join(sentence() for _ in range(22))
            parts.append(f"## {' '.join(chosen.choices(words, k=2)).title()}\n\n{text}\n")
        path = folder / f"part{number % 40}" / f"page{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(parts), encoding="utf-8")


def questions(count: int) -> list[str]:
    """Of a frequent word or two and some rarer ones."""
    chosen, words = random.Random(11), vocabulary()
    return [
        " ".join(chosen.sample(words[20:200], chosen.randint(1, 2))
                 + chosen.sample(words[200:5000], chosen.randint(1, 3)))
        for _ in range(count)
    ]  # fmt: skip


class Client:
    """One connection that is kept; speaks just enough HTTP to cost next to nothing itself."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.errors = 0

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def ask(self, path: str, shape: Any) -> float:
        """Seconds until the whole answer is here."""
        body = json.dumps(shape).encode()
        began = time.perf_counter()
        self._writer.write(
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await self._reader.readexactly(length)
        self.errors += not head.startswith(b"HTTP/1.1 200")
        return time.perf_counter() - began

    def close(self) -> None:
        self._writer.close()


async def one(port: int, path: str, key: str, asked: list[str]) -> list[float]:
    client = Client(port)
    await client.open()
    spent = [await client.ask(path, {"query": query, key: 10}) for query in asked]
    client.close()
    if client.errors:
        sys.exit(f"{client.errors} errors at {path}")
    return spent


async def many(
    port: int, clients: int, asked: list[str], pause: float
) -> tuple[list[float], int, float]:
    """Seconds of each answer, errors, and seconds of it all."""
    spent: list[float] = []
    errors = 0

    async def run(number: int) -> None:
        nonlocal errors
        client = Client(port)
        await client.open()
        chosen = random.Random(number)
        for query in asked[number::clients]:
            if pause:
                await asyncio.sleep(chosen.uniform(0.5 * pause, 1.5 * pause))
            spent.append(await client.ask("/tools/search", {"query": query, "top_k": 10}))
        errors += client.errors
        client.close()

    began = time.perf_counter()
    await asyncio.gather(*(run(number) for number in range(clients)))
    return spent, errors, time.perf_counter() - began


def at(seconds: list[float], percent: int) -> float:
    return sorted(seconds)[min(len(seconds) * percent // 100, len(seconds) - 1)] * 1000


def cpu_seconds(pid: int) -> float:
    """Of a process, where /proc tells it; 0 elsewhere."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def line(what: str, spent: list[float], more: str = "") -> None:
    print(f"{what:32} p50 {at(spent, 50):7.2f} ms, p95 {at(spent, 95):7.2f}, p99"
          f" {at(spent, 99):7.2f}{more}")  # fmt: skip


def measure(folder: str, times: int, clients: int, pause: float) -> None:
    from lookfar import Library

    asked = questions(times)
    with Library.open(folder) as library:
        library.index()
        library.watch()
        library.drain(60.0)
        print(f"{library.status(check=False).counts.chunks:,} chunks, {times} questions")
        for query in asked[:30]:
            library.search(query)
        own, worked = [], time.process_time()
        for query in asked:
            began = time.perf_counter()
            library.search(query, commits=True, memories=True)
            own.append(time.perf_counter() - began)
        worked = (time.process_time() - worked) / len(asked)
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "lookfar", "serve", folder, "--port", "0"),
            *("--log-file", str(Path(os.environ["XDG_STATE_HOME"]) / "serve.log")),
            *("--set", "serve.requests_per_second=0"),
        ],
        stderr=subprocess.PIPE,
    )
    try:
        assert server.stderr is not None
        told = server.stderr.readline().decode().split()
        port = int(told[1].removesuffix(";").removesuffix("/mcp").rpartition(":")[2])
        asyncio.run(one(port, "/tools/search", "top_k", asked[:30]))
        before = cpu_seconds(server.pid)
        over = asyncio.run(one(port, "/tools/search", "top_k", asked))
        served = (cpu_seconds(server.pid) - before) / len(asked)
        documents = asyncio.run(one(port, "/query_documents", "top_n", asked))
        paced, bad, _ = asyncio.run(many(port, clients, asked * 2, pause))
        flat, worse, took = asyncio.run(many(port, clients, asked * 2, 0))
    finally:
        server.terminate()
        server.wait()
        assert server.stderr is not None
        server.stderr.close()
    line("search in the library", own)
    ratio = f", {at(over, 50) / at(own, 50):.2f} times the library at p50"
    line("POST /tools/search", over, ratio)
    line("POST /query_documents", documents)
    single = at(over, 99)
    line(f"{clients} clients, {pause:g} s between", paced,
         f", {at(paced, 99) / single:.1f} times the p99 of one, {bad} errors")  # fmt: skip
    busy = f", {at(flat, 99) / single:.1f} times, {worse} errors, {len(flat) / took:.0f} a second"
    line(f"{clients} clients, no pause", flat, busy)
    print(f"processor time of a search: {worked * 1000:.2f} ms in the library,"
          f" {served * 1000:.2f} ms in the server")  # fmt: skip
    verdict = "holds" if at(over, 95) < 20 else "does not hold"
    print(f"p95 under 20 ms over HTTP: {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--times", type=int, default=400)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--pause", type=float, default=2.0)
    given = parser.parse_args()
    work = tempfile.mkdtemp(prefix="lf")
    os.environ |= {"XDG_RUNTIME_DIR": work, "XDG_STATE_HOME": work, "XDG_DATA_HOME": work}
    try:
        folder = given.folder
        if folder is None:
            folder = str(Path(work) / "pages")
            write_documents(Path(folder))
        measure(folder, given.times, given.clients, given.pause)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
