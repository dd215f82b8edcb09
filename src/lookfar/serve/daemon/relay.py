"""``lookfar mcp``: carry JSON-RPC lines between an agent's stdin and stdout and the daemon.

The relay exits when stdin ends and the pending requests are answered, or when stdout is closed.
When the daemon dies, pending requests are answered with an error, and the next line from the client
starts another daemon, to which the messages that set up the session are replayed.

One relay runs per agent session, so it imports little and stores almost nothing.
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
"""How long to wait for each further answer after stdin has ended."""
_REPLAY_SECONDS: Final = 10.0
_MOST_TRIES: Final = 3
_CHUNK: Final = 65536
_SERVER_ERROR: Final = -32000
_INVALID_REQUEST: Final = -32600
_CLOSED = (-32000, "Connection closed")
"""The error the MCP SDK sends for pending requests when its connection closes."""
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
    """Serve one agent session and return the exit code.

    ``command`` starts a daemon (see ``endpoint.daemon_command``). If none can be reached or
    started, ``in_process`` serves the session instead; nothing has been read from stdin by then.
    """
    if not (_is_open(_STDIN) and _is_open(_STDOUT)):
        return 0  # There is no client. A socket would get the descriptor 0 or 1.
    request = make_request("mcp", paths, options)
    try:
        try:
            connection = connect(request, command)
        except LookfarError as error:
            _warn(f"{error.message} {error.hint} Serving without the daemon.")
            return in_process(request)
        return Relay(request, command).serve(connection)
    except KeyboardInterrupt:
        return 130


class Relay:
    """Three threads: this one forwards answers, one forwards requests, one watches the client.

    A request is either sent to one daemon or answered with an error, never both: the thread that
    removes its id from ``_pending`` under the lock answers it.
    """

    def __init__(self, request: ClientRequest, command: Sequence[str]) -> None:
        self._request = request
        self._command = command
        self._changed = threading.Condition()
        self._link: socket.socket | None = None
        self._early = b""
        self._pending: dict[str, Any] = {}
        """Pending requests of the client: key to id as it was sent."""
        self._endless: set[str] = set()
        """Pending requests that are answered only when cancelled, so the end does not wait."""
        self._asked: dict[str, Any] = {}
        """Requests of the daemon that the client has not answered yet."""
        self._replayed: set[str] = set()
        """Replayed requests, whose answers are dropped: the client had them from an old daemon."""
        self._to_replay: dict[str, tuple[str, bytes]] = {}
        """What to send to a new daemon, by topic: the request's key and the line."""
        self._starting = False
        self._ending = False
        self._closed_by_us = False
        self._answered = time.monotonic()
        self._out = threading.Lock()

    def serve(self, connection: Connection) -> int:
        self._adopt(connection)
        for work in (self._forward_requests, self._watch_client):
            threading.Thread(target=work, daemon=True).start()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._link is not None or self._ending)
                link = self._link
            if link is None:
                return 0
            try:
                self._forward_answers(link)
                self._handle_lost_daemon(link)
            except OSError:  # The client has closed stdout.
                return 0
            if self._ending:
                return 0

    # --- from the daemon to the client --------------------------------------------------------

    def _forward_answers(self, link: socket.socket) -> None:
        lines = _Lines()
        data = self._early
        while True:
            for line in lines.feed(data):
                self._forward_answer(line)
            try:
                data = link.recv(_CHUNK)
            except OSError:
                return
            if not data:
                return

    def _forward_answer(self, line: bytes) -> None:
        messages = list(_parse_messages(line))
        for message in messages:
            if "method" in message and "id" in message:
                with self._changed:
                    self._asked[_make_key(message["id"])] = message["id"]
        answers = [message for message in messages if "method" not in message]
        if any(self._drop_replayed(answer) for answer in answers):
            return
        if any(_is_closing_error(answer) for answer in answers):
            return  # The connection closes next, and then the requests are answered as lost.
        self._write(line)
        with self._changed:
            for answer in answers:
                key = _make_key(answer.get("id"))
                if "error" in answer:
                    self._forget({key})
                self._endless.discard(key)
                if self._pending.pop(key, None) is not None:
                    self._answered = time.monotonic()
            self._changed.notify_all()

    def _drop_replayed(self, answer: Message) -> bool:
        key = _make_key(answer.get("id"))
        with self._changed:
            if key not in self._replayed:
                return False
            self._replayed.discard(key)
            self._changed.notify_all()
        if "error" in answer:
            _warn(f"the new daemon refused what the old one had accepted: {answer['error']}")
        return True

    def _handle_lost_daemon(self, link: socket.socket) -> None:
        """Answer the pending requests of a daemon that died, and reset its state."""
        link.close()
        with self._changed:
            lost, asked = list(self._pending.values()), list(self._asked.values())
            self._forget(self._pending)
            self._pending.clear()
            self._endless.clear()
            self._asked.clear()
            self._replayed.clear()
            self._link = None
            self._changed.notify_all()
        if self._closed_by_us:
            return  # The relay closed the connection itself.
        if not self._ending:
            _warn("the daemon has exited; the next request starts another one")
        for request_id in asked:
            cancelled = {"requestId": request_id, "reason": "the daemon has exited"}
            self._write(_encode({"method": "notifications/cancelled", "params": cancelled}))
        for request_id in lost:
            self._fail(
                request_id,
                "DAEMON_LOST",
                "The Lookfar daemon exited while it worked on this request.",
                "Send the request again: it starts a new daemon. If this happens again, "
                "see: lookfar daemon logs",
            )

    # --- from the client to the daemon --------------------------------------------------------

    def _forward_requests(self) -> None:
        lines = _Lines(MAX_LINE_BYTES)
        try:
            while data := _read_stdin():
                for line in lines.feed(data):
                    self._forward_request(line)
                if lines.too_long:
                    lines.too_long = False
                    self._fail(
                        None,
                        "INVALID_ARGUMENT",
                        f"The message is longer than {MAX_LINE_BYTES // 1024**2} MiB.",
                        "Send a shorter message.",
                        _INVALID_REQUEST,
                    )
            if rest := lines.rest():
                self._forward_request(rest + b"\n")
        finally:
            self._end()

    def _forward_request(self, line: bytes) -> None:
        messages = list(_parse_messages(line))
        if messages and all(self._answers_old_daemon(message) for message in messages):
            return
        for message in messages:
            self._remember(message, line)
        requests = {
            _make_key(message["id"]): message["id"]
            for message in messages
            if "method" in message and "id" in message
        }
        if messages and not requests and self._link is None:
            return  # No reason to start a daemon; messages to replay are stored.
        try:
            for _ in range(_MOST_TRIES):
                link = self._connect(line)
                if link is not None and self._send(link, line, requests):
                    return
            raise IOFailed("The Lookfar daemon keeps exiting.", hint="See: lookfar daemon logs")
        except LookfarError as error:
            with self._changed:
                self._forget(requests)
            for request_id in requests.values():
                self._fail(request_id, "DAEMON_UNAVAILABLE", error.message, error.hint)

    def _send(self, link: socket.socket, line: bytes, requests: Mapping[str, Any]) -> bool:
        """Send a line; return ``False`` if it must be sent to another daemon."""
        with self._changed:
            if self._link is not link:
                return False
            self._pending |= requests
        try:
            link.sendall(line)
        except OSError:
            # A daemon that is exiting has not read a line that was only partly sent.
            return not self._take_back(link, requests)
        return True

    def _take_back(self, link: socket.socket, requests: Mapping[str, Any]) -> bool:
        """After a failed send, return whether the line may be sent to another daemon."""
        with self._changed:
            current = self._link is link
            for key in requests if current else ():
                self._pending.pop(key, None)
        with suppress(OSError):
            link.shutdown(socket.SHUT_RDWR)
        with self._changed:
            self._changed.wait_for(lambda: self._link is not link)
        return current

    def _connect(self, line: bytes) -> socket.socket | None:
        """Return the connection to the daemon; if it was lost, reconnect and replay the session."""
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
        """Send the stored messages to a new daemon, apart from ``waiting``, which is sent next."""
        with self._changed:
            link = self._link
            stored = [entry for entry in self._to_replay.values() if entry[1] is not waiting]
        for key, line in stored:
            if link is None:
                return
            with self._changed:
                if key:
                    self._replayed.add(key)
            with suppress(OSError):  # The daemon died again; sending ``waiting`` fails, too.
                link.sendall(line)
            # One by one: nothing may be sent before initialize has been answered.
            deadline = time.monotonic() + _REPLAY_SECONDS
            with self._changed:
                while key in self._replayed and self._link is link:
                    if not self._changed.wait(max(deadline - time.monotonic(), 0.0)):
                        break

    def _remember(self, message: Message, line: bytes) -> None:
        method, parameters = message.get("method"), message.get("params")
        parameters = parameters if isinstance(parameters, dict) else {}
        key = _make_key(message["id"]) if "id" in message else ""
        with self._changed:
            if method == "subscriptions/listen":
                self._endless.add(key)
            elif method in ("initialize", "notifications/initialized", "logging/setLevel"):
                self._to_replay[method] = key, line
            elif method == "resources/subscribe":
                self._to_replay[f"subscribe {parameters.get('uri')}"] = key, line
            elif method == "resources/unsubscribe":
                self._to_replay.pop(f"subscribe {parameters.get('uri')}", None)
            elif method == "notifications/cancelled":
                # A cancelled request may never be answered, so the end does not wait for it.
                self._pending.pop(_make_key(parameters.get("requestId")), None)

    def _forget(self, keys: Collection[str]) -> None:
        """Do not replay requests that were refused or never answered. The lock must be held."""
        self._to_replay = {
            topic: entry for topic, entry in self._to_replay.items() if entry[0] not in keys
        }

    def _answers_old_daemon(self, message: Message) -> bool:
        """Return whether a message answers a dead daemon; a new daemon may reuse request ids."""
        if "method" in message or not ("result" in message or "error" in message):
            return False
        with self._changed:
            return self._asked.pop(_make_key(message.get("id")), None) is None

    # --- the end ------------------------------------------------------------------------------

    def _end(self) -> None:
        """After stdin has ended, wait for pending answers and close the connection.

        Closing it earlier would make the daemon cancel the pending requests.
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
            self._closed_by_us = True
        if link is not None:
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)  # Wakes the thread that reads from it.

    def _watch_client(self) -> None:
        """Exit when the client has gone, even while the other threads are blocked."""
        if not hasattr(select, "poll"):
            return  # On Windows only reading notices that stdin was closed.
        client = select.poll()
        client.register(_STDIN, 0)
        client.register(_STDOUT, 0)
        client.poll()  # With no events requested, it returns when the other end is closed.
        closed_at = time.monotonic()
        reader = select.poll()
        reader.register(_STDOUT, 0)
        while True:
            if reader.poll(1000):
                os._exit(0)  # The client no longer reads.
            idle = time.monotonic() - max(closed_at, self._answered)
            # Usually _end() has ended the process by now, unless a daemon or client that does not
            # read blocks the other threads.
            if idle > GRACE_SECONDS + (START_SECONDS if self._starting else 2.0):
                os._exit(0)

    # --- writing ------------------------------------------------------------------------------

    def _fail(
        self,
        request_id: object,
        code: str,
        message: str,
        hint: str,
        rpc_code: int = _SERVER_ERROR,
    ) -> None:
        error = {"code": rpc_code, "message": message, "data": {"code": code, "hint": hint}}
        with suppress(OSError):
            self._write(_encode({"id": request_id, "error": error}))

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        with self._out:
            while rest:
                try:
                    rest = rest[os.write(_STDOUT, rest) :]
                except BlockingIOError:  # Another process made the shared descriptor non-blocking.
                    select.select([], [_STDOUT], [])


class _Lines:
    """Split a stream into lines without copying a long line repeatedly."""

    def __init__(self, most: int | None = None) -> None:
        self.too_long = False
        """Set when a line was dropped because it was too long."""
        self._parts: list[bytes] = []
        self._size = 0
        self._most = most
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        *complete, rest = data.split(b"\n")
        for part in complete:
            self._append(part)
            line = self.rest()
            if not self._skipping and line.strip():
                yield line + b"\n"
            self._skipping = False
        self._append(rest)

    def rest(self) -> bytes:
        """Return and clear the bytes after the last line end."""
        line = b"".join(self._parts)
        self._parts, self._size = [], 0
        return line

    def _append(self, part: bytes) -> None:
        if not part or self._skipping:
            return
        self._parts.append(part)
        self._size += len(part)
        if self._most is not None and self._size > self._most:
            self.too_long = self._skipping = True
            self.rest()


def _parse_messages(line: bytes) -> Iterator[Message]:
    """Yield the messages in a line; malformed lines are left for the daemon to refuse."""
    try:
        value = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return
    for message in value if isinstance(value, list) else [value]:
        if isinstance(message, dict):
            yield message


def _make_key(request_id: object) -> str:
    """Return a key that tells the id 1 from the id "1"."""
    return json.dumps(request_id)


def _encode(message: Message) -> bytes:
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
        except BlockingIOError:  # Another process made the shared descriptor non-blocking.
            select.select([_STDIN], [], [])
        except OSError:
            return b""  # An unreadable stdin counts as ended.


def _is_closing_error(answer: Message) -> bool:
    """Return whether this is the SDK's error for a connection that is closing."""
    error = answer.get("error")
    return isinstance(error, dict) and (error.get("code"), error.get("message")) == _CLOSED


def _warn(text: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(f"lookfar: {text}\n")
        sys.stderr.flush()
