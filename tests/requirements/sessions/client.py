"""A client that knows only the protocol: it starts a real server and calls its tools.

It speaks revision 2024-11-05 as raw JSON-RPC, over stdio and over HTTP, as clients of the original
systems do. ``serving`` starts one server. Each module has one, over one transport: what transports
change is tested in ``tests/serve/mcp``.
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from forked import start_lookfar
from waiting import DEADLINE

_REVISION: Final = "2024-11-05"


class ToolError(Exception):
    """What a tool or the protocol answered instead of a result."""

    def __init__(self, shape: Any, *, protocol: bool) -> None:
        super().__init__(json.dumps(shape, ensure_ascii=False))
        self.shape = shape
        self.protocol = protocol
        """Whether it is a JSON-RPC error; otherwise a tool result with ``isError``."""


class Notes:
    """The lines that a server wrote to stderr."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._changed = threading.Condition()

    def add(self, line: str) -> None:
        with self._changed:
            self.lines.append(line)
            self._changed.notify_all()

    def wait_for(self, text: str) -> str:
        """Return the first line that contains a text, as soon as there is one."""

        def find() -> str:
            return next((line for line in self.lines if text in line), "")

        with self._changed:
            assert self._changed.wait_for(find, DEADLINE), f"no {text!r} in {self}"
            return find()

    def __str__(self) -> str:
        return "".join(self.lines)


class Client:
    """One client session with a running server."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.notes = Notes()

    def send(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """Send a message, and return the response if it is a request."""
        raise NotImplementedError

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the whole JSON-RPC response to a request."""
        message = {"jsonrpc": "2.0", "id": next(self._numbers), "method": method}
        response = self.send({**message, "params": dict(params or {})})
        assert response is not None
        assert response["id"] == message["id"], response
        return response

    def initialize(self) -> dict[str, Any]:
        info = {"name": "original-client", "version": "1"}
        params = {"protocolVersion": _REVISION, "capabilities": {}, "clientInfo": info}
        result: dict[str, Any] = self.request("initialize", params)["result"]
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def tools(self) -> dict[str, dict[str, Any]]:
        """Return the tools that the server lists, by name."""
        return {tool["name"]: tool for tool in self.request("tools/list")["result"]["tools"]}

    def result(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a tool call as the protocol shapes it."""
        response = self.request("tools/call", {"name": tool, "arguments": dict(arguments)})
        if "error" in response:
            raise ToolError(response["error"], protocol=True)
        result: dict[str, Any] = response["result"]
        return result

    def call(self, tool: str, /, **arguments: Any) -> Any:
        """Return the JSON that a tool answered with, or raise :class:`ToolError`."""
        result = self.result(tool, arguments)
        shape = json.loads(result["content"][0]["text"])
        if result.get("isError"):
            raise ToolError(shape, protocol=False)
        return shape

    def refused(self, tool: str, /, **arguments: Any) -> Any:
        """Return the error that a tool must answer with."""
        try:
            shape = self.call(tool, **arguments)
        except ToolError as error:
            return error.shape
        raise AssertionError(f"{tool} answered {json.dumps(shape)[:500]}")


class StdioClient(Client):
    """Talks to a server over its stdin and stdout."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__()
        self.process = process
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def send(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        while "id" in message:
            line = self._lines.get(timeout=DEADLINE)
            assert line, f"the server ended: {self.notes}"
            response: dict[str, Any] = json.loads(line)
            if response.get("id") == message["id"]:
                return response
        return None


class HttpClient(Client):
    """Talks to a server over HTTP: JSON-RPC at ``/mcp``, and the routes beside it."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        super().__init__()
        self.process = process
        self._port = urlsplit(address).port or 0
        self._session: dict[str, str] = {}

    def send(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        status, headers, body = self.http("POST", "/mcp", message)
        assert status < 500, body
        if session := headers.get("mcp-session-id"):
            self._session = {"Mcp-Session-Id": session}
        if "id" not in message:
            return None
        lines = [line[5:] for line in body.splitlines() if line.startswith("data:")] or [body]
        messages = [json.loads(line) for line in lines if line.strip()]
        return next(reply for reply in messages if reply.get("id") == message["id"])

    def http(self, method: str, path: str, shape: Any = None) -> tuple[int, dict[str, str], str]:
        """Return status, headers and body of a plain HTTP request."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=DEADLINE)
        headers = {"Accept": "application/json, text/event-stream", **self._session}
        body = None
        if shape is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(shape).encode()
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            received = {name.lower(): value for name, value in response.getheaders()}
            return response.status, received, response.read().decode()
        finally:
            connection.close()


def environment(home: Path, **variables: str) -> dict[str, str]:
    """Return the environment of a server that has a home of its own and no settings.

    An empty value removes a variable.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LOOKFAR_", "XDG_", "OPENAI_", "MSRL_"))
    }
    places = dict.fromkeys(("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"), str(home))
    defaults = {"LOOKFAR_EMBED_PROVIDER": "hash", "LOOKFAR_INDEX_WORKERS": "1"}
    chosen = {**inherited, **places, **defaults, "PYTHONIOENCODING": "utf-8", **variables}
    return {name: value for name, value in chosen.items() if value}


def launch(
    arguments: tuple[object, ...], home: Path, cwd: Path | None = None, **variables: str
) -> subprocess.Popen[str]:
    """Start ``lookfar`` with these arguments."""
    home.mkdir(parents=True, exist_ok=True)
    return start_lookfar(
        *arguments,
        env=environment(home, **variables),
        cwd=cwd or home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


@contextmanager
def serving(
    transport: str, *arguments: object, home: Path, cwd: Path | None = None, **variables: str
) -> Iterator[Client]:
    """Start a server with these arguments, and return an initialized client of it.

    ``arguments`` are folders and options that both ``lookfar mcp`` and ``lookfar serve`` take.
    """
    command = ("mcp", "--no-daemon") if transport == "stdio" else ("serve", "--port", "0")
    process = launch((*command, *arguments), home, cwd, **variables)
    notes = Notes()
    try:
        client: Client
        if transport == "stdio":
            client = StdioClient(process)
        else:
            client = HttpClient(process, _read_address(process, notes))
        client.notes = notes
        threading.Thread(target=_collect, args=(process, notes), daemon=True).start()
        client.initialize()
        yield client
    finally:
        end(process)


def end(process: subprocess.Popen[str]) -> None:
    """End a server that may have ended by itself, and close its streams."""
    process.kill()
    process.wait(DEADLINE)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _read_address(process: subprocess.Popen[str], notes: Notes) -> str:
    assert process.stderr
    for line in process.stderr:
        notes.add(line)
        if line.startswith("Serving "):
            return line.split()[1].rstrip(";")
    raise AssertionError(f"the server did not start: {notes}")


def _collect(process: subprocess.Popen[str], notes: Notes) -> None:
    """Read stderr until the server ends; closing it ends the thread."""
    assert process.stderr
    try:
        for line in process.stderr:
            notes.add(line)
    except ValueError:
        return
