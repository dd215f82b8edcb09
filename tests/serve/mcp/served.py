"""Clients of the official SDK at every transport, for tests that are written without async.

Takes: a folder to serve and a home of the tests' own. Gives: :class:`Agent`, a connected
client whose calls block. Refuses: to wait for ever, and to leave a process behind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import anyio
import mcp_types as types
from anyio.from_thread import BlockingPortal
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from forked import run_lookfar, start_lookfar
from lookfar.serve.daemon.pool import Pool
from lookfar.serve.mcp.changes import Changes
from lookfar.serve.mcp.server import Results, make_server
from lookfar.serve.toolsets import load_tools
from sample_files import write_files
from waiting import DEADLINE

LEGACY = "legacy"
MODERN = "2026-07-28"
ERAS = (LEGACY, MODERN)

T = TypeVar("T")


@dataclass
class Home:
    """A home for the servers of a test run, without settings, indexes or daemon."""

    folder: Path
    runtime: Path

    @property
    def env(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("LOOKFAR_", "XDG_"))
        }
        places = dict.fromkeys(("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"), str(self.folder))
        return {
            **kept,
            **places,
            "XDG_RUNTIME_DIR": str(self.runtime),
            "LOOKFAR_EMBED_PROVIDER": "hash",
            "LOOKFAR_INDEX_WORKERS": "2",
            "PYTHONIOENCODING": "utf-8",
        }

    @property
    def settings(self) -> dict[str, Any]:
        """The same for a server in this process."""
        return {
            "embed.provider": "hash",
            "index.workers": 2,
            "index.dir": str(self.folder / "in-memory"),
        }

    def command(self, *arguments: object, **more: Any) -> subprocess.CompletedProcess[str]:
        """A command line that ends by itself."""
        env = {**self.env, **more.pop("env", {})}
        return run_lookfar(*arguments, env=env, encoding="utf-8", timeout=DEADLINE, **more)


class Agent:
    """A connected client whose calls block."""

    def __init__(self, portal: BlockingPortal, client: Client, root: Path, heard: list[Any]):
        self._portal = portal
        self.client = client
        self.root = root
        self.heard = heard
        """Notifications that came."""

    @property
    def collection(self) -> str:
        return self.root.name

    @property
    def modern(self) -> bool:
        return self.client.protocol_version == MODERN

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        async def within() -> T:
            with anyio.fail_after(DEADLINE):
                return await work()

        return self._portal.call(within)

    def call(self, tool: str, /, **arguments: Any) -> types.CallToolResult:
        """The result of a call that went well."""
        result = self.raw(tool, arguments)
        assert not result.is_error, said(result)
        return result

    def raw(self, tool: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Call a tool; an error of the protocol is returned like one of the tool."""
        try:
            return self.run(lambda: self.client.call_tool(tool, dict(arguments)))
        except MCPError as error:
            text = json.dumps({"message": error.error.message, "data": error.error.data})
            block = types.TextContent(type="text", text=text)
            return types.CallToolResult(content=[block], is_error=True)

    def refused(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The error of a call that did not."""
        result = self.raw(tool, arguments)
        assert result.is_error, said(result)
        assert result.structured_content is None
        [block] = result.content
        assert isinstance(block, types.TextContent)
        shape: dict[str, Any] = json.loads(block.text)
        assert shape["hint"]
        return shape

    def error(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """The protocol error that some request ends with."""
        try:
            found = self.run(work)
        except MCPError as error:
            return error.error
        raise AssertionError(f"it went well: {found}")

    def write(self, uri: str, text: str) -> Path:
        path = self.root / uri
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


def texts(result: types.CallToolResult) -> list[str]:
    return [block.text for block in result.content if isinstance(block, types.TextContent)]


def links(result: types.CallToolResult) -> list[str]:
    return [str(each.uri) for each in result.content if isinstance(each, types.ResourceLink)]


def said(result: types.CallToolResult) -> str:
    return "\n".join(texts(result))


@asynccontextmanager
async def _connected(
    server: Any, mode: str, name: str, heard: list[Any], **more: Any
) -> AsyncIterator[Client]:
    async def hear(message: Any) -> None:
        heard.append(message)

    async with Client(
        server,
        mode=mode,
        client_info=types.Implementation(name=name, version="1"),
        message_handler=hear,
        **more,
    ) as client:
        yield client


@contextmanager
def connected(
    portal: BlockingPortal,
    server: Any,
    root: Path,
    mode: str = LEGACY,
    name: str = "tester",
    **more: Any,
) -> Iterator[Agent]:
    """A client at a server: an object, an address, or a process to start."""
    heard: list[Any] = []
    opened = _connected(server, mode, name, heard, **more)
    with portal.wrap_async_context_manager(opened) as client:
        yield Agent(portal, client, root, heard)


@contextmanager
def in_memory(
    portal: BlockingPortal,
    home: Home,
    *roots: Path,
    mode: str = LEGACY,
    name: str = "tester",
    results: Results = "auto",
    toolset: tuple[str, ...] = ("default",),
    settings: Mapping[str, Any] | None = None,
    pool: Pool | None = None,
) -> Iterator[Agent]:
    """A client at a server object in this process."""
    own = pool or Pool()
    changes = Changes()
    portal.call(changes.bind_loop)
    try:
        with own.session(
            [str(root) for root in roots],
            settings={**home.settings, **(settings or {})},
            environ={},
            changes=changes,
        ) as session:
            server = make_server(session, load_tools(toolset), results=results, changes=changes)
            with connected(portal, server, roots[0], mode, name) as agent:
                yield agent
    finally:
        if pool is None:
            own.close()


def stdio(home: Home, *arguments: object, cwd: Path | None = None) -> StdioServerParameters:
    """``lookfar mcp ARGUMENTS`` as a client starts it."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "lookfar", "mcp", *map(str, arguments)],
        env=home.env,
        cwd=cwd,
    )


@contextmanager
def http(home: Home, *arguments: object) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """``lookfar serve ARGUMENTS`` at a free port: its address and its process."""
    process = start_lookfar(
        "serve", *arguments, "--port", "0", env=home.env, stderr=subprocess.PIPE
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline().decode()
        assert line.startswith("Serving http"), line + process.stderr.read().decode()
        yield line.split()[1].rstrip(";"), process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE)
        assert process.stderr is not None
        process.stderr.close()


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
    return write_files(root, documents)
