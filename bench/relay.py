"""How soon does an agent have its first answer, and what does each session cost?

    python bench/relay.py [--services MODULE:FUNCTION] [--method tools/list] [--times 20]

Starts relays one after the other as MCP clients do and times, from the start of the
process, the answer to the first request: once cold (the daemon is started, too), then
with a warm daemon. Prints the resident memory of a relay that has answered and of the
daemon, the time a request takes through a running relay, and as the baseline of the same
run the start of a bare interpreter. Without --services the daemon echoes, so the figures
are those of relay and socket alone. Uses a runtime folder of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

ECHO = "echo_services:services"
RELAY = """
import sys
from lookfar.serve import endpoint, relay

def in_process(hello):
    sys.exit("no daemon could be started")

command = endpoint.daemon_command(sys.argv[1])
sys.exit(relay.run(sys.argv[2:], {}, command=command, in_process=in_process))
"""
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class Session:
    """One relay, and the milliseconds until its answers."""

    def __init__(self, services: str) -> None:
        self.began = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-c", RELAY, services], stdin=subprocess.PIPE, stdout=subprocess.PIPE
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
        if "error" in answer:
            sys.exit(f"{method}: {answer['error']}")
        return time.perf_counter() - began

    def first(self, method: str) -> float:
        """Seconds from the start of the process to the answered ``method``."""
        self.ask("initialize", INITIALIZE)
        self.send({"method": "notifications/initialized"})
        self.ask(method, {})
        return time.perf_counter() - self.began

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


def measure(services: str, method: str, times: int) -> None:
    from lookfar.serve import endpoint

    bare = median(bare_start() for _ in range(times))
    cold = Session(services)
    seconds = cold.first(method)
    print(f"cold start to answered {method}: {seconds * 1000:7.1f} ms")
    cold.end()
    firsts, ends, memory = [], [], 0.0
    for _ in range(times):
        session = Session(services)
        firsts.append(session.first(method))
        memory = max(memory, session.memory())
        ends.append(session.end())
    warm = median(firsts)
    print(f"warm start to answered {method}: {warm * 1000:7.1f} ms, worst {max(firsts) * 1000:.1f}")
    print(f"  bare interpreter start:  {bare * 1000:7.1f} ms, ratio {warm / bare:.1f}")
    print(f"end of input to exit:      {median(ends) * 1000:7.1f} ms")
    session = Session(services)
    session.first(method)
    rounds = sorted(session.ask(method, {}) for _ in range(500))
    p50, p99 = rounds[250] * 1000, rounds[495] * 1000
    print(f"{method} through a relay:  p50 {p50:.2f} ms, p99 {p99:.2f} ms")
    session.end()
    status = endpoint.daemon_status()
    print(f"memory of a relay:         {memory:7.1f} MB")
    print(f"memory of the daemon:      {(status or {}).get('memory_bytes', 0) / 1e6:7.1f} MB")
    endpoint.daemon_stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--services", default=ECHO)
    parser.add_argument("--method", default="tools/list")
    parser.add_argument("--times", type=int, default=20)
    given = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="lf")
    os.environ |= {"XDG_RUNTIME_DIR": folder, "XDG_STATE_HOME": folder}
    if given.services == ECHO:
        os.environ["PYTHONPATH"] = str(Path(__file__).parent.parent / "tests" / "serve")
    try:
        measure(given.services, given.method, given.times)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
