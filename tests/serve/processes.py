"""Real relays and daemons for tests, and the certainty that none outlives its test."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from waiting import DEADLINE

"""Generous: these machines are busy. Nothing below waits this long when all is well."""

RELAY = """
import os, sys
from lookfar.serve.daemon import endpoint, relay

relay.GRACE_SECONDS = float(os.environ.get("ECHO_GRACE", relay.GRACE_SECONDS))

def in_process(hello):
    sys.stdout.write('{"in_process": true}\\n')
    return 7

command = endpoint.daemon_command("echo_services:services")
sys.exit(relay.run(sys.argv[1:], {}, command=command, in_process=in_process))
"""


def alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not.

    A process whose first thread is a zombie still has its sockets open while others exit.
    """
    try:
        os.kill(pid, 0)
        if sys.platform != "linux":
            return True
        is_zombie = ") Z " in Path(f"/proc/{pid}/stat").read_text()
        return not is_zombie or len(os.listdir(f"/proc/{pid}/task")) > 1
    except (ProcessLookupError, FileNotFoundError):
        return False


class Client:
    """An agent: starts a relay, writes lines to it and reads what comes back."""

    def __init__(self, *arguments: str, program: str = RELAY, **more: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **more,
        )
        self._lines: queue.Queue[bytes] = queue.Queue()
        self.remarks: list[bytes] = []
        threading.Thread(target=self._collect, daemon=True).start()
        threading.Thread(target=self._listen, daemon=True).start()

    def _collect(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def _listen(self) -> None:
        assert self.process.stderr
        self.remarks.extend(self.process.stderr)

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, number: Any, method: str, **params: Any) -> None:
        self.send({"id": number, "method": method, "params": params})

    def receive(self) -> dict[str, Any] | None:
        """The next line, or ``None`` when the relay has ended its output."""
        line = self._lines.get(timeout=DEADLINE)
        return json.loads(line) if line else None

    def ask(self, number: Any, method: str, **params: Any) -> dict[str, Any]:
        self.request(number, method, **params)
        answer = self.receive()
        assert answer is not None
        assert answer["id"] == number, answer
        return answer

    def pid(self, number: Any) -> int:
        """The process that answers: the daemon's."""
        return int(self.ask(number, "where")["result"]["pid"])

    def end_input(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()

    def wait(self) -> int:
        return self.process.wait(DEADLINE)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with suppress(OSError, AttributeError):
                stream.close()  # type: ignore[union-attr]


def marked_processes(mark: str) -> list[int]:
    """Processes whose environment holds ``mark``; on Linux, where that can be seen."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (entry / "environ").read_bytes() and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found


def end_all(pids: Sequence[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
