"""Toolsets as their clients meet them: a real MCP client in this process.

``tests/serve/mcp/test_all_tools.py`` calls every tool over each transport. A test module names its
toolset in ``TOOLSET``. It may set ``SETTINGS`` (added to the defaults) and ``FILES`` (written
before each test), or replace the fixtures ``roots`` and ``settings``.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from lookfar.library import Library
from lookfar.serve.mcp.server import make_server
from lookfar.serve.tools.tool import Session, Tool
from lookfar.serve.toolsets import load_tools

ROOT = Path(__file__).parent.parent.parent.parent

Call = Callable[..., types.CallToolResult]
Ask = Callable[..., dict[str, Any]]
Put = Callable[..., None]

REVISION = "2026-07-28"
"""Of the protocol: the one in which a call needs no handshake."""


@pytest.fixture
def tools(request: pytest.FixtureRequest) -> tuple[Tool, ...]:
    return load_tools([request.module.TOOLSET])


@pytest.fixture
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    extra: dict[str, Any] = getattr(request.module, "SETTINGS", {})
    return {"embed.provider": "hash", "index.workers": 1, **extra}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """An empty folder."""
    folder = tmp_path / "docs"
    folder.mkdir()
    return folder


@pytest.fixture
def put(docs: Path) -> Put:
    """Write files into the folder, by path."""

    def put(files: dict[str, str], folder: Path = docs) -> None:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    return put


@pytest.fixture(autouse=True)
def written(request: pytest.FixtureRequest, put: Put) -> None:
    put(getattr(request.module, "FILES", {}))


@pytest.fixture
def roots(docs: Path) -> tuple[Path, ...]:
    return (docs,)


@pytest.fixture
def library(roots: tuple[Path, ...], settings: dict[str, Any], tmp_path: Path) -> Iterator[Library]:
    with Library.open(*roots, index_dir=tmp_path / "index", settings=settings) as opened:
        yield opened


@pytest.fixture
def session(library: Library) -> Session:
    return Session(library)


@pytest.fixture
def call(session: Session, tools: tuple[Tool, ...]) -> Call:
    """Call a tool as a client does; options are those of the client."""
    server = make_server(session, tools)

    def call(tool: str, arguments: dict[str, Any], **options: Any) -> types.CallToolResult:
        async def go() -> types.CallToolResult:
            async with Client(server, mode=REVISION, **options) as client:
                result = await client.call_tool(tool, arguments)
                assert isinstance(result, types.CallToolResult)
                return result

        return anyio.run(go)

    return call


@pytest.fixture
def call_in(tools: tuple[Tool, ...]) -> Callable[..., tuple[dict[str, Any], bool]]:
    """Call a tool in a library of its own: the object it gives, and whether it is an error."""

    def call_in(library: Any, tool: str, /, **arguments: Any) -> tuple[dict[str, Any], bool]:
        async def go() -> types.CallToolResult:
            async with Client(make_server(Session(library), tools), mode=REVISION) as client:
                result = await client.call_tool(tool, arguments)
                assert isinstance(result, types.CallToolResult)
                return result

        result = anyio.run(go)
        return the_object(result), bool(result.is_error)

    return call_in


@pytest.fixture
def ask(call: Call) -> Ask:
    """The object that a tool gives, which stands in its result once, as compact JSON."""

    def ask(tool: str, /, **arguments: Any) -> dict[str, Any]:
        result = call(tool, arguments)
        shape = the_object(result)
        assert not result.is_error, shape
        assert result.structured_content is None
        return shape

    return ask


@pytest.fixture
def refused(call: Call) -> Ask:
    """The object that a tool refuses with, in its result or in a JSON-RPC error."""

    def refused(tool: str, /, **arguments: Any) -> dict[str, Any]:
        try:
            result = call(tool, arguments)
        except (MCPError, BaseExceptionGroup) as raised:
            error: BaseException = raised
            while isinstance(error, BaseExceptionGroup):
                (error,) = error.exceptions
            assert isinstance(error, MCPError)
            return dict(error.data)
        shape = the_object(result)
        assert result.is_error, shape
        return shape

    return refused


@pytest.fixture
def listed(session: Session, tools: tuple[Tool, ...]) -> dict[str, types.Tool]:
    """The tools as the client is told of them, by name."""

    async def go() -> list[types.Tool]:
        async with Client(make_server(session, tools), mode=REVISION) as client:
            return (await client.list_tools()).tools

    return {tool.name: tool for tool in anyio.run(go)}


def the_object(result: types.CallToolResult) -> dict[str, Any]:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    shape: dict[str, Any] = json.loads(block.text)
    assert block.text == json.dumps(shape, ensure_ascii=False, separators=(",", ":"))
    return shape


@pytest.fixture
def unmet() -> Callable[..., list[str]]:
    """Result fields that a spec promises of a tool and none of the results has."""
    name = "requirements_script"
    module = sys.modules.get(name)
    if module is None:
        spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / "requirements.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    manifests = {each.spec: each for each in module.manifests()}

    def unmet(spec: str, tool: str, *results: dict[str, Any]) -> list[str]:
        found: list[str] = module.unmet(manifests[spec], tool, results)
        return found

    return unmet
