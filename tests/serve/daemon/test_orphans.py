"""A server whose parent dies ends, too: within five seconds, every time.

Seen to fail with a server in one process that had a thread which others wait for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from harness import amount, report
from processor_time import scale_by_load
from serve.processes import alive, end_all, marked_processes
from waiting import wait_for

pytestmark = pytest.mark.skipif(os.name == "nt", reason="kill -9 and Unix sockets")

DEATHS = {"daemon": amount(2, 50), "alone": amount(1, 50)}
"""With a daemon, and in a process of its own."""
LIMIT = 5.0

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-m", "lookfar", "mcp", *sys.argv[2:]],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
hello = ('{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
         '"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}')
child.stdin.write(hello.encode() + b"\\n")
child.stdin.flush()
child.stdout.readline()
if sys.argv[1] == "asking":
    asked = ('{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"search",'
             '"arguments":{"query":"harbour"}}}')
    child.stdin.write(asked.encode() + b"\\n")
    child.stdin.flush()
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="lf")
    monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
    monkeypatch.setenv("LOOKFAR_EMBED_PROVIDER", "hash")
    monkeypatch.setenv("LOOKFAR_INDEX_WORKERS", "1")
    yield folder
    end_all(marked_processes(f"XDG_RUNTIME_DIR={folder}"))
    shutil.rmtree(folder, ignore_errors=True)


def has_ended(process: int) -> bool:
    return not alive(process)


@pytest.mark.parametrize("way", ["daemon", "alone"])
def test_an_orphan_ends_within_five_seconds(handbook: Path, runtime: str, way: str) -> None:
    """By turns idle and with a request under way."""
    alone = ["--no-daemon"] if way == "alone" else []
    slowest = 0.0
    for death in range(DEATHS[way]):
        busy = "idle" if death % 2 else "asking"
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, busy, str(handbook), *alone],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert alive(child)
        begun = time.monotonic()
        parent.kill()
        parent.wait()
        parent.stdout.close()
        wait_for(partial(has_ended, child), f"orphan {death} ends")
        slowest = max(slowest, time.monotonic() - begun)
        assert slowest <= scale_by_load(LIMIT), f"orphan {death} ({busy}) took {slowest:.1f} s"
    # The daemon serves others, too, and ends when it has been idle; nothing else may be left.
    mark = f"XDG_RUNTIME_DIR={runtime}"
    wait_for(lambda: len(marked_processes(mark)) <= (way == "daemon"), "nothing else is left")
    note = f"slowest {slowest:.1f} s"
    report(f"parent dies ({way})", trials=DEATHS[way], faults=DEATHS[way], note=note)
