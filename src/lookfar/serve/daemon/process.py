"""The daemon: one process per user that holds libraries, models and watchers for all sessions.

Each connection begins with a :class:`~lookfar.serve.daemon.endpoint.ClientRequest`, which is
checked and passed to the handler of its kind. The daemon answers ``control`` requests itself
(status, stop, retire), and exits after an idle time. It takes its lock before it imports anything
heavy, so when many daemons start at once, all but one exit within milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import inspect
import json
import logging
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

import lookfar
from lookfar.common.garbage import collect_seldom
from lookfar.errors import IndexBusy, LookfarError
from lookfar.serve.daemon import endpoint
from lookfar.store.ground.files import WriterLock, make_folder, write_atomic

Handler = Callable[
    [endpoint.ClientRequest, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]
]

log = logging.getLogger("lookfar.daemon")

_LOG_BYTES: Final = 1_000_000
_LOG_FILES: Final = 3
_BACKLOG: Final = 128


def _do_nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Services:
    """What a daemon serves: a handler per kind of session, and its time limits."""

    handlers: Mapping[str, Handler]
    on_close: Callable[[], Awaitable[None] | None] = _do_nothing
    """Called once when the daemon exits; in a thread if it is a plain function."""
    busy: Callable[[], bool] = lambda: False
    """Whether background work such as indexing is running, which keeps an idle daemon alive."""
    idle_seconds: float = 900.0
    handshake_seconds: float = 10.0
    linger_seconds: float = 10.0
    """How long a handler may continue after its client has closed its side."""
    close_seconds: float = 10.0
    """How long sessions, and then ``on_close``, may take when the daemon exits."""


@dataclass(slots=True)
class _Session:
    request: endpoint.ClientRequest
    task: asyncio.Task[None]
    since: float = field(default_factory=time.time)


class _Refusal(Exception):
    """Raised to reply to a client with an error."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.shape = {"code": code, "message": message, "hint": hint}


class _Reader(asyncio.StreamReader):
    """A stream reader with an event for the end of input, which any task can await."""

    def __init__(self) -> None:
        super().__init__(limit=endpoint.MAX_LINE_BYTES)
        self.ended = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.ended.set()


# --- listening --------------------------------------------------------------------------------


class Listener:
    """The lock, the socket and ``daemon.json``, owned by one daemon at a time."""

    def __init__(self, folder: Path) -> None:
        """Start listening; raise ``IndexBusy`` if another daemon does."""
        self.build = endpoint.build()
        self._folder = folder
        self._lock = WriterLock(folder / "daemon.lock")
        self._lock.acquire()
        self._address = folder / "daemon.sock"
        self._identity: tuple[int, int] | None = None
        self._published = True
        self.token = ""
        self.socket = self._listen()

    def _listen(self) -> socket.socket:
        if sys.platform == "win32":
            import secrets

            self.token = secrets.token_hex(32)
            listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
            listening.bind(("127.0.0.1", 0))
            listening.listen(_BACKLOG)
            return listening
        # Left behind by a daemon that no longer holds the lock.
        (self._folder / "daemon.json").unlink(missing_ok=True)
        self._address.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            listening.bind(str(self._address))
        finally:
            os.umask(before)
        listening.listen(_BACKLOG)
        status = os.lstat(self._address)
        self._identity = status.st_dev, status.st_ino
        return listening

    def announce(self) -> None:
        """Write ``daemon.json``; call it once this process has its final process id."""
        shape: dict[str, Any] = {"pid": os.getpid(), "lookfar": lookfar.__version__}
        if self.token:
            shape |= {"port": self.socket.getsockname()[1], "token": self.token}
        path = self._folder / "daemon.json"
        write_atomic(path, json.dumps(shape).encode())
        os.chmod(path, 0o600)

    def unpublish(self) -> None:
        """Remove the socket and ``daemon.json``, unless a successor has replaced them."""
        if self._published and self._owns_socket():
            for path in (self._address, self._folder / "daemon.json"):
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        self._published = False

    def release(self) -> None:
        """Stop listening and let another daemon take over."""
        self.unpublish()
        self.socket.close()
        self._lock.release()

    def _owns_socket(self) -> bool:
        if self._identity is None:
            return True
        try:
            status = os.lstat(self._address)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity


# --- serving ----------------------------------------------------------------------------------


class Daemon:
    """Accept connections, pass each to its handler, and exit when idle."""

    def __init__(self, services: Services, listener: Listener) -> None:
        self._services = services
        self._listener = listener
        self._connections: set[asyncio.Task[None]] = set()
        self._sessions: dict[int, _Session] = {}
        self._stop_requesters: list[asyncio.StreamWriter] = []
        """Clients that asked the daemon to stop: their connections stay open until it exits."""
        self._served = 0
        self._started = time.monotonic()
        self._idle_since = time.monotonic()
        self._changed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._listening = True
        self._server: asyncio.Server | None = None

    async def run(self) -> None:
        """Serve until stopped, idle, or retired with no sessions left."""
        loop = asyncio.get_running_loop()
        self._handle_signals(loop)

        def protocol() -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(_Reader(), self._accept, loop=loop)

        if sys.platform == "win32":
            self._server = await loop.create_server(protocol, sock=self._listener.socket)
        else:
            self._server = await loop.create_unix_server(protocol, sock=self._listener.socket)
        idle = loop.create_task(self._stop_when_idle())
        log.info("serving lookfar %s as process %d", lookfar.__version__, os.getpid())
        await self._stopping.wait()
        idle.cancel()
        self._stop_listening()
        await self._end_sessions()
        await self._close_services()
        log.info("stopped")

    def stop(self, reason: str) -> None:
        if not self._stopping.is_set():
            log.info("stopping: %s", reason)
            self._stopping.set()

    def _handle_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        if sys.platform == "win32":
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGBREAK):
                signal.signal(
                    number, lambda *_: loop.call_soon_threadsafe(self.stop, "received a signal")
                )
            return
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, f"received {number.name}")
        # The terminal belongs to the client that started the daemon.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _stop_listening(self) -> None:
        if self._listening:
            self._listening = False
            # First: since Python 3.13 closing the server removes the socket's path.
            self._listener.unpublish()
            if self._server is not None:
                self._server.close()
            self._listener.release()

    async def _end_sessions(self) -> None:
        if not self._connections:
            return
        for task in self._connections:
            task.cancel()
        _, late = await asyncio.wait(self._connections, timeout=self._services.close_seconds)
        if late:
            log.warning("%d sessions did not end in time", len(late))

    async def _close_services(self) -> None:
        close = self._services.on_close
        try:
            async with asyncio.timeout(self._services.close_seconds):
                if inspect.iscoroutinefunction(close):
                    await close()
                else:
                    await asyncio.to_thread(close)
        except TimeoutError:
            log.warning("closing took longer than %.0f s", self._services.close_seconds)
        except Exception:
            log.exception("closing failed")

    async def _stop_when_idle(self) -> None:
        while True:
            self._changed.clear()
            remaining: float | None = None
            if not self._sessions:
                if not self._listening:
                    self.stop("another build took over, and the last session has ended")
                    return
                remaining = self._idle_since + self._services.idle_seconds - time.monotonic()
                if remaining <= 0 and not self._services.busy():
                    self.stop("idle")
                    return
                remaining = max(remaining, 1.0)
            with suppress(TimeoutError):
                async with asyncio.timeout(remaining):
                    await self._changed.wait()

    # --- one connection -----------------------------------------------------------------------

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._handle(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await self._read_request(reader)
            if request is None:
                return
            if request.kind == "control":
                reply = self._control(request.options)
                if self._stopping.is_set():
                    self._stop_requesters.append(writer)
                self._changed.set()
                await _send(writer, reply)
                return
            handler = self._find_handler(request)
            await _send(writer, {"ok": True, "pid": os.getpid(), "lookfar": lookfar.__version__})
            await self._serve(request, handler, reader, writer)
        except _Refusal as refusal:
            log.info("refused a client: %s", refusal)
            with suppress(OSError):
                await _send(writer, {"error": refusal.shape, "build": self._listener.build})
        except (ConnectionError, TimeoutError) as error:
            log.info("a client disconnected: %s", error)
        except Exception:
            log.exception("a session failed")
        finally:
            if writer not in self._stop_requesters:
                await _close(writer)

    async def _read_request(self, reader: asyncio.StreamReader) -> endpoint.ClientRequest | None:
        received = b""
        try:
            async with asyncio.timeout(self._services.handshake_seconds):
                while b"\n" not in received:
                    chunk = await reader.read(endpoint.MAX_REQUEST_BYTES)
                    if not chunk:
                        return None  # A client only checked whether the daemon listens.
                    received += chunk
                    if len(received) > endpoint.MAX_REQUEST_BYTES:
                        raise _bad_request("it is too long")
        except TimeoutError:
            raise _bad_request("it did not arrive in time") from None
        line, _, rest = received.partition(b"\n")
        if rest:
            raise _bad_request("more data came before the reply")
        try:
            request = endpoint.ClientRequest.parse(line)
        except ValueError as error:
            raise _bad_request(str(error)) from None
        # JSON may hold a lone surrogate, which is a wrong token and not an internal error.
        token = request.token.encode("utf-8", "surrogatepass")
        if not hmac.compare_digest(token, self._listener.token.encode()):
            raise _Refusal("PERMISSION_DENIED", "The token is wrong.", "Restart the client.")
        return request

    def _find_handler(self, request: endpoint.ClientRequest) -> Handler:
        if not self._listening:
            raise _Refusal(endpoint.LEAVING, "This daemon is shutting down.", "Connect again.")
        if request.build != self._listener.build:
            raise _Refusal(
                endpoint.OTHER_BUILD,
                f"The daemon runs a different build of Lookfar ({lookfar.__version__}).",
                "Stop it with: lookfar daemon stop",
            )
        handler = self._services.handlers.get(request.kind)
        if handler is None:
            known = ", ".join(sorted(self._services.handlers))
            raise _Refusal(
                "INVALID_ARGUMENT",
                f"There is no session kind {request.kind[:40]!r}.",
                f"Use: {known}.",
            )
        return handler

    async def _serve(
        self,
        request: endpoint.ClientRequest,
        handler: Handler,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._served += 1
        number = self._served
        # A separate task, so that cancelling it does not cancel this connection.
        task = asyncio.ensure_future(_finish(handler(request, reader, writer)))
        lingering = asyncio.ensure_future(self._cancel_abandoned(reader, task))
        self._sessions[number] = _Session(request, task)
        self._changed.set()
        log.info("session %d (%s) started in %s", number, request.kind, request.cwd)
        try:
            await asyncio.wait([task])
            if task.cancelled():
                log.info("session %d was cancelled: its client had disconnected", number)
            else:
                task.result()
        finally:
            lingering.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=self._services.close_seconds)
            del self._sessions[number]
            self._idle_since = time.monotonic()
            self._changed.set()
            log.info("session %d ended", number)

    async def _cancel_abandoned(
        self, reader: asyncio.StreamReader, task: asyncio.Task[None]
    ) -> None:
        """Cancel a handler whose client disconnected some time ago."""
        if isinstance(reader, _Reader):
            await reader.ended.wait()
            await asyncio.sleep(self._services.linger_seconds)
            task.cancel()

    # --- control ------------------------------------------------------------------------------

    def _control(self, options: dict[str, Any]) -> dict[str, Any]:
        action = options.get("action")
        reply: dict[str, Any] = {"ok": True, "pid": os.getpid()}
        if action == "status":
            reply["status"] = self._status()
        elif action == "stop":
            self.stop("requested by a client")
        elif action == "retire":
            if options.get("build") == self._listener.build and self._listening:
                log.info("another build takes over; %d sessions continue here", len(self._sessions))
                self._stop_listening()
        else:
            raise _Refusal(
                "INVALID_ARGUMENT", "Unknown control action.", "Use status, stop or retire."
            )
        return reply

    def _status(self) -> dict[str, Any]:
        now = time.time()
        sessions = [
            {
                "kind": session.request.kind,
                "client": session.request.client,
                "cwd": session.request.cwd,
                "paths": list(session.request.paths),
                "seconds": round(now - session.since, 1),
            }
            for session in self._sessions.values()
        ]
        return {
            "pid": os.getpid(),
            "version": lookfar.__version__,
            "build": self._listener.build,
            "uptime_seconds": round(time.monotonic() - self._started, 1),
            "idle_seconds": self._services.idle_seconds,
            "sessions": sessions,
            "served": self._served,
            "memory_bytes": _memory_bytes(),
        }


async def _finish(work: Awaitable[None]) -> None:
    await work


async def _send(writer: asyncio.StreamWriter, shape: dict[str, Any]) -> None:
    writer.write(json.dumps(shape).encode() + b"\n")
    await writer.drain()


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close the connection without waiting long for a client that does not read."""
    writer.close()
    try:
        async with asyncio.timeout(2):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()


def _bad_request(why: str) -> _Refusal:
    return _Refusal(
        "INVALID_ARGUMENT",
        f"The daemon cannot read the request: {why}.",
        "Connect with: lookfar mcp",
    )


def _memory_bytes() -> int | None:
    """Return the resident memory of this process, or None where the system does not report it."""
    # Imported here, so that a daemon that finds another one ends at once.
    from lookfar.index.child_memory import THIS_PROCESS, resident_bytes

    return resident_bytes(os.getpid(), THIS_PROCESS) or None


# --- the process ------------------------------------------------------------------------------


class PrivateLog(RotatingFileHandler):
    """A log file readable by its owner only: it contains folder names and errors."""

    def _open(self) -> TextIOWrapper:
        stream = super()._open()
        with suppress(OSError):
            os.chmod(self.baseFilename, 0o600)
        return stream

    def rotate(self, source: str, dest: str) -> None:
        """Move the log to ``dest``; on Windows by copying, as stdout and stderr have it open."""
        if sys.platform != "win32":
            super().rotate(source, dest)
        elif os.path.exists(source):
            shutil.copyfile(source, dest)
            os.truncate(source, 0)


def _start_log() -> None:
    path = endpoint.daemon_log_path()
    make_folder(path.parent)
    handler = PrivateLog(
        path,
        maxBytes=_LOG_BYTES,
        backupCount=_LOG_FILES,
        encoding="utf-8",
        # Folder names are not always valid Unicode.
        errors="backslashreplace",
    )
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    # Also capture what native code or a crash writes to stdout and stderr.
    if handler.stream is not None:
        for standard in (1, 2):
            os.dup2(handler.stream.fileno(), standard)


def _load_services(name: str) -> Services:
    module, _, function = name.partition(":")
    services = getattr(import_module(module), function)()
    if not isinstance(services, Services):
        raise TypeError(f"{name} returned {type(services).__name__}, not Services")
    return services


def _detach() -> Callable[[], None]:
    """Continue in a child process and return a function to call when it is ready.

    The process that was started then exits; its exit code says whether the child is ready.
    """
    if sys.platform == "win32":
        return _do_nothing
    read_end, write_end = os.pipe()
    if os.fork():
        os.close(write_end)
        os._exit(0 if os.read(read_end, 1) else 1)
    os.close(read_end)

    def ready() -> None:
        os.write(write_end, b"+")
        os.close(write_end)

    return ready


def main(arguments: list[str] | None = None) -> int:
    """Run the daemon, unless another one is running."""
    parser = argparse.ArgumentParser(prog="python -m lookfar.serve.daemon.process")
    parser.add_argument("--services", required=True, metavar="MODULE:FUNCTION")
    parser.add_argument("--foreground", action="store_true", help="do not detach")
    given = parser.parse_args(arguments)
    try:
        listener = Listener(endpoint.runtime_folder())
    except IndexBusy:
        return endpoint.ANOTHER_SERVES
    try:
        ready = _do_nothing if given.foreground else _detach()
        _start_log()
        services = _load_services(given.services)
        collect_seldom()
        listener.announce()
        ready()
        # Not asyncio.run, which would wait minutes for a thread that does not end.
        asyncio.new_event_loop().run_until_complete(_serve(services, listener))
    except Exception as error:
        log.exception("the daemon failed")
        return error.exit_code if isinstance(error, LookfarError) else 1
    finally:
        listener.release()
    return 0


async def _serve(services: Services, listener: Listener) -> None:
    await Daemon(services, listener).run()


if __name__ == "__main__":
    # Import the module by name: services use its classes, not those of __main__.
    from lookfar.serve.daemon import process

    code = process.main()
    logging.shutdown()
    # A thread that does not end must not keep the process alive.
    os._exit(code)
