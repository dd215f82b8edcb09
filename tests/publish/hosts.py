"""A host of MCP bundles: it unpacks one and starts its server as the manifest says."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

SECONDS = 300


def unpack(bundle: Path, folder: Path) -> dict[str, Any]:
    """Unpack a bundle, and return its manifest."""
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(folder)
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return manifest


def make_command(
    manifest: Mapping[str, Any], folder: Path, chosen: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return the command line with its variables replaced; a list becomes several arguments."""
    config = manifest["server"]["mcp_config"]
    words = [config["command"]]
    for argument in config["args"]:
        name = argument.removeprefix("${user_config.").removesuffix("}")
        if argument == f"${{user_config.{name}}}":
            words += chosen[name]
        else:
            words.append(argument.replace("${__dirname}", str(folder)))
    return words


def search(command: Sequence[str], env: Mapping[str, str], folder: Path, query: str) -> str:
    """Start a server, check that it has the tools of Lookfar, and return what a search answers."""

    async def ask() -> str:
        server = StdioServerParameters(
            command=command[0], args=list(command[1:]), env=dict(env), cwd=folder
        )
        with anyio.fail_after(SECONDS):
            async with Client(stdio_client(server)) as client:
                names = [tool.name for tool in (await client.list_tools()).tools]
                assert names == ["search", "read", "related", "status"]
                result = await client.call_tool("search", {"query": query})
                return "\n".join(str(getattr(part, "text", "")) for part in result.content)

    return anyio.run(ask)
