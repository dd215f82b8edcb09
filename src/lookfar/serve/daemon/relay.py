"""``lookfar mcp``: between an agent's stdin and stdout and the daemon.

Takes: lines of JSON-RPC on stdin. Gives: the daemon's lines on stdout, and nothing
else there; our own remarks go to stderr. Refuses: to outlive its client. It ends when
stdin does: at once when nothing is being answered, else when the last answer is out,
or none came for a while, and at once when nobody reads stdout any more.

One of these runs per agent session, so it imports little and holds almost nothing: the
numbers of the requests under way, and what a fresh daemon must be told again (the
``initialize`` of revision 2025-11-25, log level and subscriptions; later revisions keep
no session). When the daemon dies, requests under way are answered with an error, and the
next line from the client starts another daemon; the session goes on.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from lookfar.errors import IOFailed, LookfarError
from lookfar.serve.daemon.endpoint import (
    MAX_LINE_BYTES,
    START_SECONDS,
    ClientRequest,
    Connection,
    connect,
    make_request,
)

GRACE_SECONDS: Final = 4.0
"""After stdin has ended, wait this long for each further answer."""
_REPLAY_SECONDS: Final = 10.0
_MOST_TRIES: Final = 3
_CHUNK: Final = 65536
_SERVER_ERROR: Final = -32000
_INVALID_REQUEST: Final = -32600
_CLOSED = (-32000, "Connection closed")
"""What the library of the protocol answers for requests under way when its connection ends."""
_STDIN: Final = 0
_STDOUT: Final = 1

InProcess = Callable[[ClientRequest], int]
Message = dict[str, Any]


def run(
    paths: Sequence[str],
    options: Mapping[str, Any],
    *,
    command: Sequence[str],
    in_process: InProcess,
) -> int:
    """Serve one agent session and give the exit code.

    ``command`` starts a daemon (see ``endpoint.daemon_command``); ``in_process`` serves
    without one and is called, before anything was read, when none can be had.
    """
    if not (_is_open(_STDIN) and _is_open(_STDOUT)):
        return 0  # nobody is there; and a socket of ours would get the free number
    request = make_request("mcp", paths, options)
    try:
        try:
            connection = connect(request, command)
        except LookfarError as error:
            _remark(f"{error.message} {error.hint} Serving without the daemon.")
            return in_process(request)
        return Relay(request, command).serve(connection)
    except KeyboardInterrupt:
        return 130


class Relay:
    """Three threads: this one carries answers out, one carries lines in, one watches the client.

    A line goes either wholly to one daemon or is answered with an error, never both: who
    takes a number out of ``_pending`` under the lock answers it.
    """

    def __init__(self, request: ClientRequest, command: Sequence[str]) -> None:
        self._request = request
        self._command = command
        self._changed = threading.Condition()
        self._link: socket.socket | None = None
        self._early = b""
        self._pending: dict[str, Any] = {}
        """Requests of the client under way: key to the number as it was sent."""
        self._endless: set[str] = set()
        """Those among them that are answered only when cancelled: nobody waits for them."""
        self._asked: dict[str, Any] = {}
        """Requests of this daemon that the client has not answered yet."""
        self._swallow: set[str] = set()
        """Replayed requests, whose answers the client has had from an earlier daemon."""
        self._memory: dict[str, tuple[str, bytes]] = {}
        """What a fresh daemon must be told: by topic the request's key and the line."""
        self._starting = False
        self._ending = False
        self._hung_up = False
        self._answered = time.monotonic()
        self._out = threading.Lock()

    def serve(self, connection: Connection) -> int:
        self._adopt(connection)
        for work in (self._carry_in, self._watch_client):
            threading.Thread(target=work, daemon=True).start()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._link is not None or self._ending)
                link = self._link
            if link is None:
                return 0
            try:
                self._carry_out(link)
                self._lose(link)
            except OSError:  # stdout: nobody listens any more
                return 0
            if self._ending:
                return 0

    # --- from the daemon to the client --------------------------------------------------------

    def _carry_out(self, link: socket.socket) -> None:
        lines = _Lines()
        data = self._early
        while True:
            for line in lines.feed(data):
                self._deliver(line)
            try:
                data = link.recv(_CHUNK)
            except OSError:
                return
            if not data:
                return

    def _deliver(self, line: bytes) -> None:
        messages = list(_messages(line))
        for message in messages:
            if "method" in message and "id" in message:
                with self._changed:
                    self._asked[_key(message["id"])] = message["id"]
        answers = [message for message in messages if "method" not in message]
        if any(self._swallowed(answer) for answer in answers):
            return
        if any(_says_closed(answer) for answer in answers):
            return  # Its link ends next, and then its requests are answered as lost.
        self._write(line)
        with self._changed:
            for answer in answers:
                key = _key(answer.get("id"))
                if "error" in answer:
                    self._forget({key})
                self._endless.discard(key)
                if self._pending.pop(key, None) is not None:
                    self._answered = time.monotonic()
            self._changed.notify_all()

    def _swallowed(self, answer: Message) -> bool:
        key = _key(answer.get("id"))
        with self._changed:
            if key not in self._swallow:
                return False
            self._swallow.discard(key)
            self._changed.notify_all()
        if "error" in answer:
            _remark(f"a fresh daemon refused what the last one had accepted: {answer['error']}")
        return True

    def _lose(self, link: socket.socket) -> None:
        """The daemon is gone: answer for it, and forget what only it knew."""
        link.close()
        with self._changed:
            lost, asked = list(self._pending.values()), list(self._asked.values())
            self._forget(self._pending)
            self._pending.clear()
            self._endless.clear()
            self._asked.clear()
            self._swallow.clear()
            self._link = None
            self._changed.notify_all()
        if self._hung_up:
            return  # it was us who went
        if not self._ending:
            _remark("the daemon has gone; the next request starts another one")
        for number in asked:
            cancelled = {"requestId": number, "reason": "the daemon has gone"}
            self._write(_line({"method": "notifications/cancelled", "params": cancelled}))
        for number in lost:
            self._fail(
                number,
                "DAEMON_LOST",
                "The Lookfar daemon ended while it worked on this request.",
                "Send the request again: it starts a fresh daemon. If that happens again, "
                "read: lookfar daemon logs",
            )

    # --- from the client to the daemon --------------------------------------------------------

    def _carry_in(self) -> None:
        lines = _Lines(MAX_LINE_BYTES)
        try:
            while data := _read_stdin():
                for line in lines.feed(data):
                    self._take(line)
                if lines.refused:
                    lines.refused = False
                    self._fail(
                        None,
                        "INVALID_ARGUMENT",
                        f"The message is longer than {MAX_LINE_BYTES // 1024**2} MiB.",
                        "Send less at once.",
                        _INVALID_REQUEST,
                    )
            if rest := lines.rest():
                self._take(rest + b"\n")
        finally:
            self._end()

    def _take(self, line: bytes) -> None:
        messages = list(_messages(line))
        if messages and all(self._stale(message) for message in messages):
            return
        for message in messages:
            self._remember(message, line)
        requests = {
            _key(message["id"]): message["id"]
            for message in messages
            if "method" in message and "id" in message
        }
        if messages and not requests and self._link is None:
            return  # nothing to wake a daemon for; what matters of it is remembered
        try:
            for _ in range(_MOST_TRIES):
                link = self._linked(line)
                if link is not None and self._handed_over(link, line, requests):
                    return
            raise IOFailed(
                "The Lookfar daemon ends again and again.", hint="Read: lookfar daemon logs"
            )
        except LookfarError as error:
            with self._changed:
                self._forget(requests)
            for number in requests.values():
                self._fail(number, "DAEMON_UNAVAILABLE", error.message, error.hint)

    def _handed_over(self, link: socket.socket, line: bytes, requests: Mapping[str, Any]) -> bool:
        """Send a line; ``False`` when it is still ours to send to another daemon."""
        with self._changed:
            if self._link is not link:
                return False
            self._pending |= requests
        try:
            link.sendall(line)
        except OSError:
            # A daemon that ends just now has not read a line that could not be sent whole.
            return not self._taken_back(link, requests)
        return True

    def _taken_back(self, link: socket.socket, requests: Mapping[str, Any]) -> bool:
        """After a failed send: whether the line is still ours to send elsewhere."""
        with self._changed:
            ours = self._link is link
            for key in requests if ours else ():
                self._pending.pop(key, None)
        with suppress(OSError):
            link.shutdown(socket.SHUT_RDWR)
        with self._changed:
            self._changed.wait_for(lambda: self._link is not link)
        return ours

    def _linked(self, line: bytes) -> socket.socket | None:
        """The daemon there is, or a fresh one that has been told what the last one knew."""
        with self._changed:
            if self._link is not None:
                return self._link
            self._starting = True
        try:
            self._adopt(connect(self._request, self._command))
            self._replay(line)
        finally:
            self._starting = False
        with self._changed:
            return self._link

    def _adopt(self, connection: Connection) -> None:
        with self._changed:
            self._link, self._early = connection.socket, connection.early
            self._changed.notify_all()

    def _replay(self, waiting: bytes) -> None:
        """Say again what was said before ``waiting``, which is sent when this has been heard."""
        with self._changed:
            link = self._link
            told = [each for each in self._memory.values() if each[1] is not waiting]
        for key, line in told:
            if link is None:
                return
            with self._changed:
                if key:
                    self._swallow.add(key)
            with suppress(OSError):  # then it is lost again, and the line that waits finds out
                link.sendall(line)
            # In this order: nothing may be asked before initialize has been answered.
            deadline = time.monotonic() + _REPLAY_SECONDS
            with self._changed:
                while key in self._swallow and self._link is link:
                    if not self._changed.wait(max(deadline - time.monotonic(), 0.0)):
                        break

    def _remember(self, message: Message, line: bytes) -> None:
        method, parameters = message.get("method"), message.get("params")
        parameters = parameters if isinstance(parameters, dict) else {}
        key = _key(message["id"]) if "id" in message else ""
        with self._changed:
            if method == "subscriptions/listen":
                self._endless.add(key)
            elif method in ("initialize", "notifications/initialized", "logging/setLevel"):
                self._memory[method] = key, line
            elif method == "resources/subscribe":
                self._memory[f"subscribe {parameters.get('uri')}"] = key, line
            elif method == "resources/unsubscribe":
                self._memory.pop(f"subscribe {parameters.get('uri')}", None)
            elif method == "notifications/cancelled":
                # Whoever cancels waits for no answer, and may never get one.
                self._pending.pop(_key(parameters.get("requestId")), None)

    def _forget(self, keys: Collection[str]) -> None:
        """What was refused, or never answered, is not said again. The lock is held."""
        self._memory = {topic: each for topic, each in self._memory.items() if each[0] not in keys}

    def _stale(self, message: Message) -> bool:
        """Whether this answers a daemon that has gone: the next one may use the same numbers."""
        if "method" in message or not ("result" in message or "error" in message):
            return False
        with self._changed:
            return self._asked.pop(_key(message.get("id")), None) is None

    # --- the end ------------------------------------------------------------------------------

    def _end(self) -> None:
        """Stdin has ended: let answers under way arrive, then go.

        Our side is not closed before: a daemon takes that for the end, and cancels them.
        """
        with self._changed:
            self._ending = True
            self._answered = time.monotonic()
            link = self._link
            self._changed.notify_all()
            while self._link is not None and self._pending.keys() - self._endless:
                left = self._answered + GRACE_SECONDS - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            self._hung_up = True
        if link is not None:
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads from it

    def _watch_client(self) -> None:
        """See that the client has gone even while the other threads are stuck, and end them."""
        if not hasattr(select, "poll"):
            return  # Windows: there a closed stdin is seen by reading only
        client = select.poll()
        client.register(_STDIN, 0)
        client.register(_STDOUT, 0)
        client.poll()  # with nothing asked for, it returns when either is closed over there
        seen = time.monotonic()
        reader = select.poll()
        reader.register(_STDOUT, 0)
        while True:
            if reader.poll(1000):
                os._exit(0)  # nobody reads any more
            still = time.monotonic() - max(seen, self._answered)
            # The regular end comes first; this is for a daemon that takes no line off us,
            # and for a client that takes no answer.
            if still > GRACE_SECONDS + (START_SECONDS if self._starting else 2.0):
                os._exit(0)

    # --- writing ------------------------------------------------------------------------------

    def _fail(
        self,
        number: object,
        code: str,
        message: str,
        hint: str,
        rpc_code: int = _SERVER_ERROR,
    ) -> None:
        error = {"code": rpc_code, "message": message, "data": {"code": code, "hint": hint}}
        with suppress(OSError):
            self._write(_line({"id": number, "error": error}))

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        with self._out:
            while rest:
                try:
                    rest = rest[os.write(_STDOUT, rest) :]
                except BlockingIOError:  # whoever shares it has made it so
                    select.select([], [_STDOUT], [])


class _Lines:
    """Cuts a stream into lines without copying a long one again and again."""

    def __init__(self, most: int | None = None) -> None:
        self.refused = False
        """Set when a line was longer than allowed and has been left out."""
        self._parts: list[bytes] = []
        self._size = 0
        self._most = most
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        *whole, rest = data.split(b"\n")
        for part in whole:
            self._keep(part)
            line = self.rest()
            if not self._skipping and line.strip():
                yield line + b"\n"
            self._skipping = False
        self._keep(rest)

    def rest(self) -> bytes:
        """What came after the last line end."""
        line = b"".join(self._parts)
        self._parts, self._size = [], 0
        return line

    def _keep(self, part: bytes) -> None:
        if not part or self._skipping:
            return
        self._parts.append(part)
        self._size += len(part)
        if self._most is not None and self._size > self._most:
            self.refused = self._skipping = True
            self.rest()


def _messages(line: bytes) -> Iterator[Message]:
    """The objects in a line; what cannot be read is the daemon's to refuse."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, dict):
            yield each


def _key(number: object) -> str:
    """1 and "1" are different requests."""
    return json.dumps(number)


def _line(message: Message) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _read_stdin() -> bytes:
    while True:
        try:
            return os.read(_STDIN, _CHUNK)
        except BlockingIOError:  # whoever shares it has made it so
            select.select([_STDIN], [], [])
        except OSError:
            return b""  # a stdin that cannot be read has ended


def _says_closed(answer: Message) -> bool:
    """Whether a daemon that ends says so of its own connection."""
    error = answer.get("error")
    return isinstance(error, dict) and (error.get("code"), error.get("message")) == _CLOSED


def _remark(text: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(f"lookfar: {text}\n")
        sys.stderr.flush()
