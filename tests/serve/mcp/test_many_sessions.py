"""Many client sessions search on one daemon while the index is rebuilt over MCP.

Seen to fail with ``search_docs`` that looked up pages of a generation which the rebuild had
replaced: 51 of 64 sessions were refused.

How many calls compute beside a pass is checked in ``tests/test_turns.py``; how long the rebuild
took is in the report of the lane.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from anyio.from_thread import BlockingPortal
from mcp import Client

from harness import amount, report
from serve.mcp.served import WORDS, Home, said, stdio
from serve.processes import end_all, marked_processes

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Unix sockets")

SESSIONS = amount(8, 64)
FILES = amount(120, 2_500)
CALLS = amount(2, 4)
"""Of every session, under way at once."""
START_SECONDS = 300.0
"""For all sessions to begin: 64 processes start at once."""
READ_SECONDS = 60.0
"""The read time-out of the client that rebuilds. It is the default of the TypeScript SDK, and so
of most clients."""
STATUS_SECONDS = 30.0
"""The read time-out of the client that asks for the status meanwhile."""


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[Home]:
    """A home whose daemon serves this test alone."""
    runtime = tempfile.mkdtemp(prefix="lf")
    yield Home(tmp_path, Path(runtime))
    end_all(marked_processes(f"XDG_RUNTIME_DIR={runtime}"))
    shutil.rmtree(runtime, ignore_errors=True)


def write_corpus(root: Path) -> Path:
    root.mkdir()
    for number in range(FILES):
        parts = [f"# Page {number} of the {WORDS[number % len(WORDS)]}\n"]
        for section in range(3):
            words = (WORDS[(number * 7 + section * 3 + at * at) % len(WORDS)] for at in range(50))
            parts.append(f"## Part {section}\n\nIt says {number}: {' '.join(words)}.\n")
        (root / f"page{number}.md").write_text("\n".join(parts), encoding="utf-8")
    return root


@dataclass
class Seen:
    """What the clients saw while the index was rebuilt."""

    rebuild_seconds: float = 0.0
    searches: int = 0
    statuses: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


async def rebuild_among(home: Home, root: Path) -> Seen:
    seen = Seen()
    ready = 0
    all_ready, over = anyio.Event(), anyio.Event()
    server = stdio(home, root, "--toolset", "search-mcp")

    async def search(number: int) -> None:
        nonlocal ready
        async with Client(server, mode="legacy") as client:
            query = f"{WORDS[number % len(WORDS)]} page"
            await client.call_tool("search_docs", {"query": query})
            ready += 1
            if ready == SESSIONS:
                all_ready.set()
            await all_ready.wait()
            async with anyio.create_task_group() as calls:
                for _ in range(CALLS):
                    calls.start_soon(search_on, client, query)

    async def search_on(client: Client, query: str) -> None:
        while not over.is_set():
            answer = await client.call_tool("search_docs", {"query": query})
            seen.searches += 1
            if answer.is_error:
                seen.problems.append(said(answer))
                return

    async def ask_status(client: Client) -> None:
        while not over.is_set():
            begun = time.monotonic()
            answer = await client.call_tool("get_index_status", {}, STATUS_SECONDS)
            seen.statuses.append(time.monotonic() - begun)
            if answer.is_error:
                seen.problems.append(said(answer))
            await anyio.sleep(0.05)

    async with Client(server, mode="legacy") as owner, anyio.create_task_group() as crowd:
        await owner.call_tool("create_index", {"confirm": True})
        for number in range(SESSIONS):
            crowd.start_soon(search, number)
        with anyio.fail_after(START_SECONDS):
            await all_ready.wait()
        crowd.start_soon(ask_status, owner)
        begun = time.monotonic()
        answer = await owner.call_tool("reindex_project", {"confirm": True}, READ_SECONDS)
        seen.rebuild_seconds = time.monotonic() - begun
        over.set()
        if answer.is_error:
            seen.problems.append(said(answer))
    return seen


def test_a_rebuild_ends_among_many_searching_sessions(
    crowded: Home, portal: BlockingPortal
) -> None:
    root = write_corpus(crowded.folder / "corpus")
    seen = portal.call(rebuild_among, crowded, root)
    report(
        "sessions during a rebuild", trials=SESSIONS, failures=len(seen.problems), counted=FILES,
        note=f"rebuilt in {seen.rebuild_seconds:.1f} s of {READ_SECONDS:.0f} allowed, "
        f"{seen.searches:,} searches, status in {max(seen.statuses, default=0.0):.2f} s at most",
    )  # fmt: skip
    assert seen.problems == []
    assert seen.searches, "no session searched in the meantime"
    assert seen.statuses, "the status was never answered meanwhile"
