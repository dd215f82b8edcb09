"""What does MCP cost over the library itself, and what does each session cost?

    python bench/mcp.py FOLDER [--times 20] [--against COMMIT] [--steps]

Starts ``lookfar mcp FOLDER`` as MCP clients do. Times, from the start of the process, the
answer to ``tools/list``: once cold (the daemon is started, too), then with a warm daemon;
and a warm ``search`` over stdio beside the same search in the library, both in this run.
Lets ten sessions search at once. Prints the resident memory of a relay and of the daemon,
at work and at rest (watching, model unloaded). Uses a runtime folder of its own.

First it prints what each step of a search over stdio costs, in processor time, which a busy
machine distorts least: a search in the library, what the tool asks for (more hits, with their best
sentences), the tool as a whole (with its map and its data), and the daemon and the relay for a
search and for a ping. ``--against`` prints the same steps of another commit, asked in turn, and the
ratios; ``--steps`` prints nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
QUESTIONS = (
    "how do I configure it",
    "create a new element",
    "error handling",
    "events and listeners",
    "what changed in the last version",
    "security of user input",
    "measure performance",
)


class Session:
    """One relay, and the milliseconds until its answers."""

    def __init__(self, folder: str) -> None:
        self.began = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lookfar", "mcp", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._number = 0

    def send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> float:
        """Seconds until the answer."""
        began = time.perf_counter()
        self._number += 1
        self.send({"id": self._number, "method": method, "params": params})
        assert self._process.stdout
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer or answer["result"].get("isError"):
            sys.exit(f"{method}: {answer}")
        return time.perf_counter() - began

    def search(self, query: str) -> float:
        return self.ask("tools/call", {"name": "search", "arguments": {"query": query}})

    def first(self, method: str) -> float:
        """Seconds from the start of the process to the answered ``method``."""
        self.ask("initialize", INITIALIZE)
        self.send({"method": "notifications/initialized"})
        self.ask(method, {})
        return time.perf_counter() - self.began

    @property
    def pid(self) -> int:
        return self._process.pid

    def memory(self) -> float:
        return megabytes(self._process.pid)

    def end(self) -> float:
        """Seconds from the end of input to the end of the process."""
        assert self._process.stdin
        began = time.perf_counter()
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout
        self._process.stdout.close()
        return time.perf_counter() - began


def megabytes(pid: int) -> float:
    """Resident memory, where /proc tells it; 0 elsewhere."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    except OSError:
        return 0.0
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def bare_start() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - began


_STEPS = """
import json, os, sys, time
folder, questions, bench = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
sys.path.append(bench)
sys.modules.pop("mcp", None)
import importlib.util
spec = importlib.util.spec_from_file_location("bench_mcp", bench + "/mcp.py")
bench_mcp = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bench_mcp)
from lookfar import Library
from lookfar.serve.daemon import endpoint
from lookfar.serve.http.rest import HttpCall
from lookfar.serve.tools.search import SEARCH
from lookfar.serve.tools.tool import Session

def cost(work, clock):
    before = clock()
    for question in questions:
        work(question)
    return (clock() - before) / len(questions) * 1000

with Library.open(folder) as library:
    library.index()
    library.watch()
    library.drain(60.0)
    tool = Session(library)
    asks = {
        "search in the library": lambda q: library.search(q),
        "the search of the tool": lambda q: library.search(
            q, top_k=25, commits=True, memories=True, focus=True),
        "the tool as a whole": lambda q: SEARCH.run(tool, {"query": q}, HttpCall()),
    }
    for question in questions[:20]:
        asks["the tool as a whole"](question)
    best = {}
    for name, work in asks.items():
        best[name] = min(cost(work, time.process_time) for _ in range(3))
client = bench_mcp.Session(folder)
client.first("tools/list")
daemon = (endpoint.daemon_status() or {})["pid"]
for question in questions[:20]:
    client.search(question)
both = lambda: bench_mcp.cpu_seconds(daemon) + bench_mcp.cpu_seconds(client.pid)
best["daemon and relay"] = min(cost(client.search, both) for _ in range(3))
best["  for a ping"] = min(cost(lambda _: client.ask("ping", {}), both) for _ in range(3))
client.end()
endpoint.daemon_stop()
print(json.dumps(best))
"""


def measure_steps(source: Path, folder: str, count: int) -> dict[str, float]:
    """Return the milliseconds of processor time of each step of a search, for a source tree."""
    asked = [QUESTIONS[number % len(QUESTIONS)] for number in range(count)]
    with tempfile.TemporaryDirectory(prefix="lf") as place:
        homes = dict.fromkeys(("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_DATA_HOME"), place)
        output = subprocess.run(
            [sys.executable, "-c", _STEPS, folder, json.dumps(asked), str(Path(__file__).parent)],
            env={**os.environ, **homes, "PYTHONPATH": str(source)},
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
    steps: dict[str, float] = json.loads(output.splitlines()[-1])
    return steps


def compare_steps(folder: str, count: int, against: str | None) -> None:
    root = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory(prefix="lf") as work:
        trees = {"now": root / "src"}
        if against:
            archive = subprocess.run(
                ["git", "archive", against, "src"], cwd=root, check=True, capture_output=True
            ).stdout
            subprocess.run(["tar", "x", "-C", work], input=archive, check=True)
            trees["before"] = Path(work, "src")
        rounds = [
            {name: measure_steps(tree, folder, count) for name, tree in trees.items()}
            for _ in range(2 if against else 1)
        ]
    print(f"milliseconds of processor time for a question: {', '.join(trees)}")
    for step in rounds[0]["now"]:
        best = [min(measured[name][step] for measured in rounds) for name in trees]
        ratio = f"  {best[1] / best[0]:.2f}x less" if against and best[0] else ""
        print(f"  {step:26} {'  '.join(f'{cost:6.2f}' for cost in best)}{ratio}")


def cpu_seconds(pid: int) -> float:
    """Of a process, where /proc tells it; 0 elsewhere."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(folder: str, times: int) -> None:
    from lookfar import Library
    from lookfar.serve.daemon import endpoint

    with Library.open(folder) as library:
        library.index()
        library.watch()
        library.drain(60.0)
        asked = [QUESTIONS[number % len(QUESTIONS)] for number in range(20 * times)]
        for query in asked[:20]:
            library.search(query)
        own = [clock(lambda q=query: library.search(q)) for query in asked]  # type: ignore[misc]
    bare = median(bare_start() for _ in range(times))
    cold = Session(folder)
    print(f"cold start to tools/list:  {cold.first('tools/list') * 1000:7.1f} ms")
    cold.end()
    firsts, ends, memory = [], [], 0.0
    for _ in range(times):
        session = Session(folder)
        firsts.append(session.first("tools/list"))
        memory = max(memory, session.memory())
        ends.append(session.end())
    warm = median(firsts)
    print(f"warm start to tools/list:  {warm * 1000:7.1f} ms, worst {max(firsts) * 1000:.1f},"
          f" {warm / bare:.1f} times a bare interpreter ({bare * 1000:.1f})")  # fmt: skip
    print(f"end of input to exit:      {median(ends) * 1000:7.1f} ms")
    session = Session(folder)
    session.first("tools/list")
    for query in asked[:20]:
        session.search(query)
    over = [session.search(query) for query in asked]
    print(f"search in the library:     p50 {at(own, 50):5.2f} ms, p95 {at(own, 95):5.2f}")
    print(f"search over MCP stdio:     p50 {at(over, 50):5.2f} ms, p95 {at(over, 95):5.2f},"
          f" adds {at(over, 50) - at(own, 50):.2f} ms at p50")  # fmt: skip
    together(folder, asked)
    print(f"memory of a relay:         {memory:7.1f} MB")
    print(f"memory of the daemon:      {describe_memory()} at work")
    print("waiting until it rests ...", file=sys.stderr)
    from lookfar.serve.daemon.pool import REST_SECONDS

    time.sleep(1.6 * REST_SECONDS)
    print(f"memory of the daemon:      {describe_memory()} at rest, watching")
    session.end()
    endpoint.daemon_stop()


def together(folder: str, asked: list[str]) -> None:
    from lookfar.serve.daemon import endpoint

    sessions = [Session(folder) for _ in range(10)]
    for each in sessions:
        each.first("tools/list")
    spent: list[float] = []
    threads = [
        threading.Thread(target=lambda s=each: spent.extend(s.search(q) for q in asked[:40]))  # type: ignore[misc]
        for each in sessions
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    status = endpoint.daemon_status() or {}
    print(f"ten sessions at once:      p50 {at(spent, 50):5.2f} ms, p95 {at(spent, 95):5.2f},"
          f" {len(status.get('sessions', ()))} sessions in one daemon")  # fmt: skip
    for each in sessions:
        each.end()


def clock(run: Any) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def at(seconds: list[float], percent: int) -> float:
    return sorted(seconds)[len(seconds) * percent // 100] * 1000


def describe_memory() -> str:
    """Return what only the daemon has, and what is resident together with mapped files."""
    from lookfar.serve.daemon import endpoint

    pid = (endpoint.daemon_status() or {}).get("pid")
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines[1:]}
    own, resident = kilobytes["Anonymous"] / 1024, kilobytes["Rss"] / 1024
    return f"{own:7.1f} MB of its own, {resident:.1f} with mapped files,"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--against", metavar="COMMIT", help="also measure the steps of this commit")
    parser.add_argument("--steps", action="store_true", help="measure nothing but the steps")
    given = parser.parse_args()
    work = tempfile.mkdtemp(prefix="lf")
    os.environ |= {"XDG_RUNTIME_DIR": work, "XDG_STATE_HOME": work, "XDG_DATA_HOME": work}
    try:
        compare_steps(given.folder, 5 * given.times, given.against)
        if not given.steps:
            measure(given.folder, given.times)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
