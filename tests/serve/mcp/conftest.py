"""A connected client at every transport and in both eras of the protocol, once per run."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from processes import end_all, marked_processes
from served import ERAS, Agent, Home, connected, http, in_memory, stdio

MEMORY, PROCESS, DAEMON, HTTP = "memory", "stdio", "daemon", "http"
AGENTS = [(transport, era) for transport in (MEMORY, PROCESS, DAEMON, HTTP) for era in ERAS]

WORDS = (
    "anchor barley cobalt dynamo ember falcon glacier harbour indigo jasmine kernel lagoon"
    " marble nectar opal pepper quartz raven saffron timber umber velvet walnut yarrow zephyr"
).split()


def write_documents(root: Path) -> Path:
    """What every server of these tests serves."""
    documents = {
        "guide.md": "---\ntags: [ops]\n---\n\n# Guide\n\nHow to begin; see [the keys](keys.md) and"
        " [[Missing page]].\n\n## Install\n\nUnpack the archive and run the installer.\n\n"
        "### Linux\n\nThe tarball belongs below the opt folder.\n\n## Upgrade\n\n"
        "Stop the service before the upgrade begins.\n",
        "keys.md": "# Keys\n\nThe signing key rotates every ninety days. Back to"
        " [the guide](guide.md).\n",
        "notes.txt": "A plain note about the wheelbarrow in the shed.\n",
        "long.md": "# Long\n\n"
        + "".join(f"Line {at} of a long page about marmalade.\n\n" for at in range(6000)),
    }
    for at, word in enumerate(WORDS):
        repeated = " ".join(["lantern"] * (1 + at % 5))
        documents[f"corpus/{word}.md"] = (
            f"# The {word}\n\nA page on {word}: it holds a {repeated}.\n"
        )
    for uri, text in documents.items():
        path = root / uri
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


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


@pytest.fixture(scope="session", params=AGENTS, ids="-".join)
def agent(
    request: pytest.FixtureRequest,
    portal: BlockingPortal,
    home: Home,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Agent]:
    """Each transport in each era."""
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


@pytest.fixture(scope="module", params=ERAS)
def local(
    request: pytest.FixtureRequest,
    portal: BlockingPortal,
    home: Home,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Agent]:
    """In memory, in each era: for what no transport changes."""
    root = write_documents(tmp_path_factory.mktemp("local"))
    with in_memory(portal, home, root, mode=request.param) as agent:
        yield agent


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """The same documents, for one test alone."""
    return write_documents(tmp_path / "docs")
