"""Fuzz what the daemon's socket and the relay's pipes receive.

The first byte of the input sets the size of the pieces that the rest, the stream, is cut into.
The result holds the lines, the messages in them, and how each reads as a request, as a message
and as a call. Lines that cannot be read give a value, never an exception.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fuzz.common import Target
from lookfar.errors import LookfarError
from lookfar.serve.daemon import process, relay, services
from lookfar.serve.daemon.endpoint import ClientRequest

_MOST = 1024


class _Listener:
    """The attributes of a listener that a request is checked against."""

    token = "the token"
    build = ""


class _Library:
    """A library whose methods return the names of their arguments."""

    collections: tuple[str, ...] = ()
    indexed = True

    def __getattr__(self, name: str) -> Any:
        if name not in services.METHODS:
            raise AttributeError(name)
        return lambda **given: sorted(given)


def work(data: bytes) -> tuple[Any, ...]:
    step = 1 + (data[0] if data else 0)
    stream = data[1:]
    cut = relay._Lines(_MOST)
    lines: list[bytes] = []
    for at in range(0, len(stream), step):
        lines.extend(cut.feed(stream[at : at + step]))
    rest = cut.rest()
    heard = [list(relay._parse_messages(line)) for line in lines]
    keys = [relay._make_key(message.get("id")) for messages in heard for message in messages]
    return step, cut.too_long, lines, rest, keys, [_read(line) for line in lines[:20]]


def _read(line: bytes) -> tuple[str, ...]:
    """Read the same line as a request, as a message of a session, and as a call."""
    try:
        ClientRequest.parse(line)
        request = "a request"
    except ValueError as error:
        request = str(error)
    message = type(services._parse_message(line)).__name__
    return request, asyncio.run(_open_session(line)), message, _call(line)


async def _open_session(line: bytes) -> str:
    reader = asyncio.StreamReader()
    reader.feed_data(line)
    reader.feed_eof()
    host = process.Daemon(process.Services(handlers={}), _Listener())  # type: ignore[arg-type]
    try:
        return "nothing" if await host._read_request(reader) is None else "let in"
    except process._Refusal as refusal:
        return refusal.shape["code"]


def _call(line: bytes) -> str:
    try:
        call = services._parse_call(line)
        return json.dumps(services._run_call(_Library(), call))  # type: ignore[arg-type]
    except LookfarError as error:
        return error.code


def check(data: bytes, result: tuple[Any, ...]) -> None:
    _, refused, lines, rest, keys, _ = result
    stream = data[1:]
    whole = [line for line in stream.split(b"\n")[:-1] if line.strip()]
    short = [line + b"\n" for line in whole if len(line) <= _MOST]
    assert lines == short, "lines were lost or made up"
    assert rest in (b"", stream.rpartition(b"\n")[2])
    assert refused == any(len(line) > _MOST for line in stream.split(b"\n"))
    assert all(isinstance(key, str) for key in keys)


TARGET = Target(
    work,
    check,
    words=(
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}\n', '"lookfar":"0.1.0"',
        '{"kind":"mcp","cwd":"","paths":[],"options":{},"env":{},"token":"the token"}\n',
        '{"kind":"control"', '"token":"\\ud800"', '"id":', '"result":', '"error":', "null", "[",
        "]", "{", "}", ",", ":", '"', "\n", "\\u0000", "1e999", "NaN", "-0", "\xff",
        '{"method":"search","arguments":{"query":"x","filters":{}}}\n', '"filters":{"uris":["a"]}',
        '{"method":"about"}\n', '{"method":"read","arguments":{"target":"x"}}\n',
    ),
)  # fmt: skip
