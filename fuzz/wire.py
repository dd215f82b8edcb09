"""What comes over the daemon's socket and the relay's pipes, from anybody.

Takes: a byte that says into which pieces the stream is cut, and the stream. Gives: its lines,
the messages in them, and how each reads as a hello, as a message and as a question. Refuses:
nothing: whatever cannot be read is told by a value.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fuzz.common import Target
from lookfar.errors import LookfarError
from lookfar.serve.daemon import process, relay, services
from lookfar.serve.daemon.endpoint import Hello

_MOST = 1024


class _Listener:
    """As much of a listener as a hello is compared with."""

    token = "the token"
    build = ""


class _Asked:
    """A library that only says what it was asked."""

    collections: tuple[str, ...] = ()
    indexed = True

    def __getattr__(self, name: str) -> Any:
        if name not in services.QUESTIONS:
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
    heard = [list(relay._messages(line)) for line in lines]
    keys = [relay._key(message.get("id")) for messages in heard for message in messages]
    return step, cut.refused, lines, rest, keys, [_read(line) for line in lines[:20]]


def _read(line: bytes) -> tuple[str, ...]:
    """The same line as a hello, as a message of a session, and as a question."""
    try:
        Hello.parse(line)
        hello = "a hello"
    except ValueError as error:
        hello = str(error)
    parsed = services._parsed(line)
    message = type(parsed).__name__
    return hello, asyncio.run(_greeted(line)), message, _asked(line)


async def _greeted(line: bytes) -> str:
    reader = asyncio.StreamReader()
    reader.feed_data(line)
    reader.feed_eof()
    host = process.Daemon(process.Services(handlers={}), _Listener())  # type: ignore[arg-type]
    try:
        return "nothing" if await host._hello(reader) is None else "let in"
    except process._Refused as refusal:
        return refusal.shape["code"]


def _asked(line: bytes) -> str:
    try:
        asked = services._question(line)
        return json.dumps(services._ask(_Asked(), asked, str))  # type: ignore[arg-type]
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
