"""Handlers for daemons under test: they speak JSON-RPC like the real ones and do little.

Takes: what the tests put into ``ECHO_*`` variables. Gives: ``services``, which a daemon
is started with. Like the real handler it cancels what is under way when input ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from lookfar.serve.daemon.endpoint import ClientRequest
from lookfar.serve.daemon.process import Services


def services() -> Services:
    if os.environ.get("ECHO_BROKEN"):
        raise RuntimeError("these services are broken on purpose")
    settings: dict[str, Any] = {
        name: float(os.environ[variable])
        for name in ("idle_seconds", "handshake_seconds", "linger_seconds", "close_seconds")
        if (variable := f"ECHO_{name.upper()}") in os.environ
    }
    return Services({"mcp": mcp, "call": call, "deaf": deaf}, on_close, **settings)


def on_close() -> None:
    if place := os.environ.get("ECHO_CLOSED"):
        time.sleep(0.3)
        Path(place).write_text("closed", encoding="utf-8")


async def call(
    request: ClientRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    writer.write(await reader.readline())
    await writer.drain()


async def deaf(
    request: ClientRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """A handler that does not notice when its client goes."""
    await asyncio.sleep(600)


async def mcp(
    request: ClientRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    session = _Session(request, writer)
    tasks: set[asyncio.Task[None]] = set()
    try:
        while line := await reader.readline():
            message = json.loads(line)
            session.seen.append(message.get("method", "answer"))
            task = asyncio.ensure_future(session.handle(message))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            await asyncio.sleep(0)
    finally:
        for task in list(tasks):
            task.cancel()


class _Session:
    def __init__(self, request: ClientRequest, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self.writer = writer
        self.seen: list[str] = []
        self.answers: list[Any] = []

    async def say(self, message: dict[str, Any]) -> None:
        self.writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        await self.writer.drain()

    async def handle(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            self.answers.append(message.get("result"))
            return
        if "id" not in message:
            return
        params = message.get("params", {})
        method = message["method"]
        if method == "initialize":
            if os.path.exists(params.get("fatal_when_there_is", "")):
                os.kill(os.getpid(), signal.SIGKILL)
            self.request.client = params.get("clientInfo", {}).get("name", "")
            await asyncio.sleep(params.get("seconds", 0))
        elif method in ("sleep", "subscriptions/listen"):
            await asyncio.sleep(params["seconds"])
        elif method == "block":
            time.sleep(params["seconds"])
        elif method == "close":
            # As the protocol's own library does for what it works on while its session ends.
            error = {"code": -32000, "message": "Connection closed"}
            await self.say({"id": message["id"], "error": error})
            os.kill(os.getpid(), signal.SIGKILL)
        elif method == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif method == "ask":
            await self.say({"id": 0, "method": "elicitation/create", "params": {}})
        result = {
            "pid": os.getpid(),
            "params": params if method == "echo" else None,
            "seen": self.seen,
            "answers": self.answers,
            "env": self.request.env if method == "env" else None,
            "daemon_env": dict(os.environ) if method == "env" else None,
        }
        await self.say({"id": message["id"], "result": result})
