"""What does HTTP cost over the library itself, alone, with many clients, and with workers?

    python bench/http.py [FOLDER] [--times 400] [--clients 32] [--workers 2] [--against COMMIT]

Serves FOLDER (or documents made here: about 10,000 chunks) with the bundled model by
``lookfar serve``, in a process of its own. Times a search in the library, over HTTP by one
client, and by many at once: first with a pause after each answer, as agents make, then
without any, which measures how much the server does in a second. With ``--workers``, a second
server answers with so many processes; with ``--against``, a third one is that of another commit.
All are asked in turn, round by round, and the best round of each counts, since only ratios mean
something on a machine that does other things, too. Beside the wall clock it gives processor time:
"possible" is how many questions a second the busiest process, and all together on two cores, allow.

Asked for: p95 under 15 ms end to end at 10,000 chunks; many clients without errors, and
their p99 under 5 times the p99 of one; two workers at least 1.8 times the throughput of one
process; a further worker under 60 MB of its own.
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


def own_megabytes(pid: int) -> float:
    """Memory that a process shares with no other, where /proc tells it; 0 elsewhere."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0.0
    rows = dict(line.split(":", 1) for line in text.splitlines()[1:])
    return sum(int(rows[name].split()[0]) for name in ("Private_Clean", "Private_Dirty")) / 1024


class Server:
    """A running ``lookfar serve`` of some source tree, and its best figures."""

    def __init__(self, name: str, source: Path, folder: str, place: Path, workers: int) -> None:
        self.name = name
        place.mkdir(exist_ok=True)
        homes = dict.fromkeys(("XDG_STATE_HOME", "XDG_DATA_HOME"), str(place))
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "lookfar", "serve", folder, "--port", "0"),
                *("--log-file", str(place / "serve.log")),
                *("--set", "serve.requests_per_second=0"),
                *(("--workers", str(workers)) if workers > 1 else ()),
            ],
            env={**os.environ, **homes, "PYTHONPATH": str(source)},
            stderr=subprocess.PIPE,
        )
        assert self._process.stderr is not None
        announced = self._process.stderr.readline().decode().split()
        self.port = int(announced[1].removesuffix(";").removesuffix("/mcp").rpartition(":")[2])
        self.single: list[float] = []
        self.documents: list[float] = []
        self.paced: list[float] = []
        self.flat: list[float] = []
        self.errors = 0
        self.per_second = 0.0
        self.alone_cpu = self.total_cpu = self.busiest_cpu = float("inf")
        """Seconds of processor time for a question: of one client; of many, in all processes; and
        in the busiest one."""

    @property
    def processes(self) -> list[int]:
        """The server, and its workers with the process that forked them."""
        found = [self._process.pid]
        for pid in found:  # Grows while it is iterated.
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                found += map(int, task.read_text(encoding="ascii").split())
        return found

    def warm_up(self, asked: list[str], workers: int) -> None:
        deadline = time.monotonic() + 120
        asyncio.run(one(self.port, "/tools/search", "top_k", asked[:5]))
        while workers > 1 and len(self.processes) < workers + 2 and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(1.0)
        asyncio.run(many(self.port, 4, asked[:60], 0))

    def ask_alone(self, asked: list[str]) -> None:
        before = sum(map(cpu_seconds, self.processes))
        spent = asyncio.run(one(self.port, "/tools/search", "top_k", asked))
        self.alone_cpu = min(
            self.alone_cpu, (sum(map(cpu_seconds, self.processes)) - before) / len(asked)
        )
        self.single = _better(self.single, spent)

    def ask_many(self, asked: list[str], clients: int) -> None:
        before = {pid: cpu_seconds(pid) for pid in self.processes}
        spent, errors, took = asyncio.run(many(self.port, clients, asked, 0))
        used = [cpu_seconds(pid) - before.get(pid, 0.0) for pid in self.processes]
        self.errors += errors
        self.per_second = max(self.per_second, len(spent) / took)
        self.total_cpu = min(self.total_cpu, sum(used) / len(spent))
        self.busiest_cpu = min(self.busiest_cpu, max(used) / len(spent))
        self.flat = _better(self.flat, spent)

    @property
    def possible(self) -> float:
        """Questions a second that the busiest process, and two cores, allow."""
        return 1 / max(self.busiest_cpu, self.total_cpu / 2)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()


def _better(first: list[float], second: list[float]) -> list[float]:
    return second if not first or at(second, 50) < at(first, 50) else first


def line(name: str, spent: list[float], more: str = "") -> None:
    print(f"{name:34} p50 {at(spent, 50):7.2f} ms, p95 {at(spent, 95):7.2f}, p99"
          f" {at(spent, 99):7.2f}{more}")  # fmt: skip


def ask_library(folder: str, asked: list[str], rounds: int) -> tuple[list[float], float]:
    """Return the seconds of each search in the library, and its processor time."""
    from lookfar import Library

    best: list[float] = []
    worked = float("inf")
    with Library.open(folder) as library:
        library.index()
        library.watch()
        library.drain(60.0)
        print(f"{library.status(check=False).counts.chunks:,} chunks, {len(asked)} questions")
        for query in asked[:30]:
            library.search(query)
        for _ in range(rounds):
            spent, before = [], time.process_time()
            for query in asked:
                began = time.perf_counter()
                library.search(query, commits=True, memories=True)
                spent.append(time.perf_counter() - began)
            worked = min(worked, (time.process_time() - before) / len(asked))
            best = _better(best, spent)
    return best, worked


def measure(folder: str, given: argparse.Namespace, trees: dict[str, Path], work: Path) -> None:
    asked = questions(given.times)
    own, worked = ask_library(folder, asked, given.rounds)
    servers: list[Server] = []
    try:
        for name, tree in trees.items():
            place = work if name == "now" else work / name
            servers.append(Server(name, tree, folder, place, 1))
        if given.workers > 1:
            name = f"now, {given.workers} workers"
            servers.append(Server(name, trees["now"], folder, work, given.workers))
        for server in servers:
            server.warm_up(asked, given.workers if "workers" in server.name else 1)
        for _ in range(given.rounds):
            for server in servers:
                server.ask_alone(asked)
            for server in servers:
                server.ask_many(asked * 2, given.clients)
        for server in servers:
            server.documents = asyncio.run(one(server.port, "/query_documents", "top_n", asked))
            server.paced, bad, _ = asyncio.run(many(server.port, given.clients, asked, given.pause))
            server.errors += bad
        report(servers, own, worked, given)
    finally:
        for server in servers:
            server.close()


def report(
    servers: list[Server], own: list[float], worked: float, given: argparse.Namespace
) -> None:
    line("search in the library", own, f", {worked * 1000:.2f} ms of processor time")
    for server in servers:
        print(server.name)
        ratio = f", {at(server.single, 50) / at(own, 50):.2f} times the library"
        line("  POST /tools/search", server.single, ratio)
        line("  POST /query_documents", server.documents)
        single = at(server.single, 99)
        line(f"  {given.clients} clients, {given.pause:g} s between", server.paced,
             f", {at(server.paced, 99) / single:.1f} times the p99 of one")  # fmt: skip
        line(f"  {given.clients} clients, no pause", server.flat,
             f", {server.errors} errors, {server.per_second:.0f} a second")  # fmt: skip
        print(f"  processor time of a question: {server.alone_cpu * 1000:.2f} ms alone,"
              f" {server.total_cpu * 1000:.2f} with many clients, {server.busiest_cpu * 1000:.2f}"
              f" in the busiest process; possible: {server.possible:.0f} a second")  # fmt: skip
        memory = [own_megabytes(pid) for pid in server.processes]
        print(f"  memory of its own: {', '.join(f'{size:.0f}' for size in memory)} MB")
    now = next(server for server in servers if server.name == "now")
    for server in servers:
        if server is not now:
            base, other = (server, now) if server.name == "before" else (now, server)
            print(f"{other.name} against {base.name}: {other.per_second / base.per_second:.2f}x the"
                  f" throughput, {other.possible / base.possible:.2f}x possible,"
                  f" {base.total_cpu / other.total_cpu:.2f}x less processor time, one client"
                  f" {at(base.single, 50) / at(other.single, 50):.2f}x faster")  # fmt: skip
    verdict = "holds" if at(now.single, 95) < 15 else "does not hold"
    print(f"p95 under 15 ms over HTTP: {verdict}")


def extract(commit: str, place: Path) -> Path:
    """Return the source folder of another commit."""
    place.mkdir()
    root = Path(__file__).resolve().parent.parent
    archive = subprocess.run(
        ["git", "archive", commit, "src"], cwd=root, check=True, capture_output=True
    ).stdout
    subprocess.run(["tar", "x", "-C", place], input=archive, check=True)
    return place / "src"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--times", type=int, default=400)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--pause", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2, help="1 leaves that server out")
    parser.add_argument("--against", metavar="COMMIT", help="also serve with this commit")
    given = parser.parse_args()
    work = tempfile.mkdtemp(prefix="lf")
    os.environ |= {"XDG_RUNTIME_DIR": work, "XDG_STATE_HOME": work, "XDG_DATA_HOME": work}
    try:
        trees = {"now": Path(__file__).resolve().parent.parent / "src"}
        if given.against:
            trees["before"] = extract(given.against, Path(work) / "tree")
        folder = given.folder
        if folder is None:
            folder = str(Path(work) / "pages")
            write_documents(Path(folder))
        measure(folder, given, trees, Path(work))
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
