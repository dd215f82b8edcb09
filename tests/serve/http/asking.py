"""A real ``lookfar serve`` in a process of its own, and clients that send exactly what they say.

Takes: folders, options and an environment. Gives: :class:`Served`, its address, its answers
and its log, line by line. Refuses: to wait for ever, and to leave a process behind.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forked import run_lookfar, start_lookfar
from sample_files import write_files
from waiting import DEADLINE, wait_for

DOCUMENTS = {
    "guide.md": "# Guide\n\nHow to begin.\n\n## Install\n\nUnpack the archive and run the"
    " installer.\n\n## Upgrade\n\nStop the service before the upgrade begins.\n",
    "keys.md": "# Keys\n\nThe signing key rotates every ninety days.\n",
    "deep/lantern.md": "# Lantern\n\nA lantern hangs in the harbour.\n",
    **{
        f"corpus/page{at}.md": f"# Page {at}\n\nThe harbour keeps {at} boats.\n" for at in range(12)
    },
}


@dataclass
class Answer:
    """A response, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The error, which has the one shape of all errors."""
        assert self.headers["content-type"] == "application/json", self.body[:200]
        shape = self.json
        assert set(shape) == {"error"}
        assert set(shape["error"]) == {"code", "message", "hint", "details"}
        assert shape["error"]["message"]
        assert shape["error"]["hint"]
        found: dict[str, Any] = shape["error"]
        return found


@dataclass
class Served:
    """A server that runs."""

    port: int
    process: subprocess.Popen[bytes]
    root: Path
    home: Path
    lines: list[str] = field(default_factory=list)
    """What it wrote to stderr."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in list(self.lines) if line.startswith("{")]

    def logged(self, **wanted: Any) -> dict[str, Any]:
        """The line that has these, once it is written."""

        def found() -> dict[str, Any] | None:
            having = (each for each in self.log if wanted.items() <= each.items())
            return next(having, None)

        line: dict[str, Any] = wait_for(found, f"a line of the log with {wanted}")
        return line

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        raw: bytes | Iterator[bytes] | None = None,
        token: str = "",
    ) -> Answer:
        """One request; an iterator as ``raw`` is sent in chunks, without a length."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        sent = dict(headers or {})
        if token:
            sent["Authorization"] = f"Bearer {token}"
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
            raw = json.dumps(body).encode()
        try:
            connection.request(method, path, raw, sent, encode_chunked=not isinstance(raw, bytes))
            answer = connection.getresponse()
            held = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, held, answer.read())
        finally:
            connection.close()

    def tool(self, name: str, /, token: str = "", **arguments: Any) -> Answer:
        return self.ask("POST", f"/tools/{name}", arguments, token=token)


def environment(home: Path, **more: str) -> dict[str, str]:
    """A fresh home without settings, indexes, tokens or daemon."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LOOKFAR_", "XDG_", "OTEL_"))}
    places = dict.fromkeys(("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"), str(home))
    quick = {"LOOKFAR_EMBED_PROVIDER": "hash", "LOOKFAR_INDEX_WORKERS": "1"}
    return {**kept, **places, **quick, "PYTHONIOENCODING": "utf-8", **more}


def write_documents(root: Path) -> Path:
    return write_files(root, DOCUMENTS)


def command(home: Path, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
    """A command line that ends by itself."""
    return run_lookfar(
        *arguments, env=environment(home, **more), encoding="utf-8", timeout=DEADLINE
    )


@contextmanager
def serving(
    folder: Path,
    *arguments: object,
    env: Mapping[str, str] | None = None,
    start: Sequence[str] = (),
    access_log: bool = True,
) -> Iterator[Served]:
    """``lookfar serve --http`` at a free port, over documents below ``folder``.

    ``start`` has options of Python that start another program than ``lookfar``.
    """
    options = [*map(str, arguments), *(["--access-log"] if access_log else [])]
    home, root = folder / "home", folder / "docs"
    home.mkdir(exist_ok=True)
    if not root.exists():
        write_documents(root)
    command = ["serve", "--http", str(root), "--port", "0", *options]
    variables = environment(home, **(env or {}))
    if start:
        program = [sys.executable, *start, *command]
        process = subprocess.Popen(program, env=variables, stderr=subprocess.PIPE)
    else:
        process = start_lookfar(*command, env=variables, stderr=subprocess.PIPE)
    assert process.stderr is not None
    stderr = process.stderr
    lines: list[str] = []

    def collect() -> None:
        for line in stderr:
            lines.append(line.decode("utf-8", "replace").rstrip("\n"))  # noqa: PERF401

    reader = threading.Thread(target=collect, daemon=True)
    reader.start()
    try:
        deadline = time.monotonic() + DEADLINE
        while not any(line.startswith("Serving http") for line in lines):
            assert process.poll() is None, "\n".join(lines)
            assert time.monotonic() < deadline, "\n".join(lines)
            time.sleep(0.01)
        line = next(line for line in lines if line.startswith("Serving http"))
        port = int(line.split()[1].rstrip(";").removesuffix("/mcp").rpartition(":")[2])
        yield Served(port, process, root, home, lines)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(DEADLINE)
        reader.join(DEADLINE)
        stderr.close()


def events(body: bytes) -> list[tuple[str, Any]]:
    """The server-sent events of a stream, without comments."""
    found = []
    for block in body.decode("utf-8").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "event" in fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found
