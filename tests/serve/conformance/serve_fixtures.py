"""Serve a low-level server together with the suite's fixtures, until it is ended.

Takes: `module:function` that builds the server, then `stdio`, or `http` and a port.
Gives: the protocol on stdin and stdout, or at http://127.0.0.1:PORT/mcp.
Refuses: nothing; a wrong argument ends it with a traceback.
"""

from __future__ import annotations

import atexit
import importlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from lookfar import config
from lookfar.errors import NotFound
from lookfar.library import Library
from lookfar.serve.http.app import make_app
from lookfar.serve.http.tokens import Tokens
from lookfar.serve.http.visits import Watch
from lookfar.serve.mcp.server import make_server
from lookfar.serve.tools.tool import Session
from lookfar.serve.toolsets import load_tools

# This file is run as a program, which does not find the other helpers by itself.
sys.path.insert(0, str(Path(__file__).parents[2]))

from serve.conformance import fixtures


def bare() -> Server[dict[str, Any]]:
    """A server with nothing of its own: it shows what the SDK and the fixtures do alone."""
    return Server("bare", version="1.0.0")


def lookfar() -> Server[Any]:
    """Lookfar's own server over a folder with one document."""
    folder = Path(tempfile.mkdtemp(prefix="conformance-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "docs").mkdir()
    (folder / "docs" / "guide.md").write_text("# Guide\n\nSome words.\n", encoding="utf-8")
    quick = {"embed.provider": "hash", "index.dir": str(folder / "index")}
    library = Library.open(folder / "docs", settings=quick)
    library.index()
    return make_server(Session(library), load_tools(["default"]))


async def over_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def main(builder: str, way: str, port: str = "0") -> None:
    module, _, function = builder.partition(":")
    server = getattr(importlib.import_module(module), function)()
    fixtures.install(server)
    if way == "stdio":
        anyio.run(over_stdio, server)
    else:
        nothing = Session(NotFound("Nothing is served.", hint="This is a test."))
        chosen = config.load(None, environ={}).serve
        app = make_app(server, nothing, {}, chosen, tokens=Tokens(), watch=Watch())
        uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    main(*sys.argv[1:])
