"""A client connected in this process, once per run, and one at every transport and revision."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from serve.mcp.served import ERAS, Agent, Home, connected, http, in_memory, stdio, write_documents
from serve.processes import end_all, marked_processes

MEMORY, PROCESS, DAEMON, HTTP = "memory", "stdio", "daemon", "http"
AGENTS = [(transport, era) for transport in (MEMORY, PROCESS, DAEMON, HTTP) for era in ERAS]


@pytest.fixture(scope="session")
def portal() -> Iterator[BlockingPortal]:
    """An event loop in a thread of its own."""
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Of these tests alone; whatever still runs in it at the end is killed."""
    runtime = tempfile.mkdtemp(prefix="lf")  # Short: the names of sockets must be.
    yield Home(tmp_path_factory.mktemp("home"), Path(runtime))
    end_all(marked_processes(f"XDG_RUNTIME_DIR={runtime}"))
    shutil.rmtree(runtime, ignore_errors=True)


@pytest.fixture(scope="session")
def web(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A server over HTTP: its address and what it serves."""
    root = write_documents(tmp_path_factory.mktemp("web"))
    with http(home, root) as (address, _):
        yield address, root


@pytest.fixture(scope="session")
def agent(
    portal: BlockingPortal, home: Home, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Agent]:
    """A client in this process: what a transport or a revision changes has tests of its own."""
    root = write_documents(tmp_path_factory.mktemp("memory"))
    with in_memory(portal, home, root) as agent:
        yield agent


@pytest.fixture(params=ERAS)
def revision(
    request: pytest.FixtureRequest, portal: BlockingPortal, home: Home, docs: Path
) -> Iterator[Agent]:
    """A client in this process that speaks each revision of the protocol."""
    with in_memory(portal, home, docs, mode=request.param) as agent:
        yield agent


@pytest.fixture(params=AGENTS, ids="-".join)
def any_agent(
    request: pytest.FixtureRequest,
    portal: BlockingPortal,
    home: Home,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Agent]:
    """Each transport in each revision of the protocol."""
    transport, era = request.param
    if transport == DAEMON and os.name == "nt":
        pytest.skip("Unix sockets")
    if transport == HTTP:
        address, root = request.getfixturevalue("web")
        with connected(portal, address, root, era) as agent:
            yield agent
        return
    root = write_documents(tmp_path_factory.mktemp(transport))
    if transport == MEMORY:
        with in_memory(portal, home, root, mode=era) as agent:
            yield agent
        return
    alone = ["--no-daemon"] if transport == PROCESS else []
    with connected(portal, stdio(home, root, *alone), root, era) as agent:
        yield agent


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """The same documents, for one test alone."""
    return write_documents(tmp_path / "docs")
