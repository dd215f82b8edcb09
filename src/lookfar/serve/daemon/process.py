"""The one process per user that holds libraries, models and watchers for every session.

Takes: connections to the socket of ``endpoint``, each beginning with a request. Gives
each to the handler of its kind, answers ``control`` itself (status, stop, retire), and
leaves after an idle time. Refuses: a request that is malformed, too long, too late, of
another build or without the token; one bad client never harms another.

    python -m lookfar.serve.daemon.process --services MODULE:FUNCTION

The lock is taken and the socket listens before anything heavy is imported, so of many
daemons that start at once all but one leave within milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import inspect
import json
import logging
import os
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
from lookfar.errors import IndexBusy, LookfarError
from lookfar.serve.daemon.endpoint import (
    ANOTHER_SERVES,
    LEAVING,
    MAX_LINE_BYTES,
    MAX_REQUEST_BYTES,
    OTHER_BUILD,
    ClientRequest,
    build,
    daemon_log_path,
    runtime_folder,
)
from lookfar.store.ground.files import WriterLock, make_folder, write_atomic

Handler = Callable[[ClientRequest, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

log = logging.getLogger("lookfar.daemon")

_LOG_BYTES: Final = 1_000_000
_LOG_FILES: Final = 3
_BACKLOG: Final = 128


def _nothing() -> None:
    return None


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Services:
    """What a daemon serves: who handles which kind of session, and how it ends."""

    handlers: Mapping[str, Handler]
    on_close: Callable[[], Awaitable[None] | None] = _nothing
    """Called once when the daemon leaves; off the event loop when it is a plain function."""
    busy: Callable[[], bool] = _never
    """Whether work goes on that nobody waits for, such as a build: then idle time runs on."""
    idle_seconds: float = 900.0
    handshake_seconds: float = 10.0
    linger_seconds: float = 10.0
    """How long a handler may go on after its client has ended its side."""
    close_seconds: float = 10.0
    """How long sessions, and then ``on_close``, may take when the daemon leaves."""


@dataclass(slots=True)
class _Session:
    request: ClientRequest
    task: asyncio.Task[None]
    since: float = field(default_factory=time.time)


class _Refused(Exception):
    """A client that gets an error instead of a session."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.shape = {"code": code, "message": message, "hint": hint}


class _Reader(asyncio.StreamReader):
    """A reader that tells when the client has ended its side, whoever is reading."""

    def __init__(self) -> None:
        super().__init__(limit=MAX_LINE_BYTES)
        self.ended = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.ended.set()


# --- the place it listens at ------------------------------------------------------------------


class Listener:
    """The lock, the socket and ``daemon.json``: had by one daemon at a time, and given up whole."""

    def __init__(self, folder: Path) -> None:
        """Raises ``IndexBusy`` when another daemon listens."""
        self.build = build()
        self._folder = folder
        self._lock = WriterLock(folder / "daemon.lock")
        self._lock.acquire()
        self._address = folder / "daemon.sock"
        self._identity: tuple[int, int] | None = None
        self._named = True
        self.token = ""
        self.socket = self._listening()

    def _listening(self) -> socket.socket:
        if sys.platform == "win32":
            import secrets

            self.token = secrets.token_hex(32)
            listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
            listening.bind(("127.0.0.1", 0))
            listening.listen(_BACKLOG)
            return listening
        # Ours to remove: whoever made them no longer holds the lock.
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
        """Say in ``daemon.json`` who listens; after this process has its final number."""
        shape: dict[str, Any] = {"pid": os.getpid(), "lookfar": lookfar.__version__}
        if self.token:
            shape |= {"port": self.socket.getsockname()[1], "token": self.token}
        path = self._folder / "daemon.json"
        write_atomic(path, json.dumps(shape).encode())
        os.chmod(path, 0o600)

    def vanish(self) -> None:
        """Take our names away. What a successor made after our folder had vanished stays."""
        if self._named and self._still_ours():
            for path in (self._address, self._folder / "daemon.json"):
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        self._named = False

    def give_up(self) -> None:
        """Let another daemon listen."""
        self.vanish()
        self.socket.close()
        self._lock.release()

    def _still_ours(self) -> bool:
        if self._identity is None:
            return True
        try:
            status = os.lstat(self._address)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity


# --- serving ----------------------------------------------------------------------------------


class Daemon:
    """Accepts, greets, hands on, and knows when to leave."""

    def __init__(self, services: Services, listener: Listener) -> None:
        self._services = services
        self._listener = listener
        self._connections: set[asyncio.Task[None]] = set()
        self._sessions: dict[int, _Session] = {}
        self._farewells: list[asyncio.StreamWriter] = []
        """Those who asked us to leave: their connection ends with this process."""
        self._served = 0
        self._started = time.monotonic()
        self._quiet_since = time.monotonic()
        self._changed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._listening = True
        self._server: asyncio.Server | None = None

    async def run(self) -> None:
        """Serve until told to leave, idle, or retired and without sessions."""
        loop = asyncio.get_running_loop()
        self._heed_signals(loop)

        def protocol() -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(_Reader(), self._accept, loop=loop)

        if sys.platform == "win32":
            self._server = await loop.create_server(protocol, sock=self._listener.socket)
        else:
            self._server = await loop.create_unix_server(protocol, sock=self._listener.socket)
        idle = loop.create_task(self._leave_when_idle())
        log.info("serving lookfar %s as process %d", lookfar.__version__, os.getpid())
        await self._stopping.wait()
        idle.cancel()
        self._stop_listening()
        await self._end_sessions()
        await self._close_services()
        log.info("left")

    def stop(self, reason: str) -> None:
        if not self._stopping.is_set():
            log.info("leaving: %s", reason)
            self._stopping.set()

    def _heed_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        if sys.platform == "win32":
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGBREAK):
                signal.signal(
                    number, lambda *_: loop.call_soon_threadsafe(self.stop, "asked by a signal")
                )
            return
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, f"asked by {number.name}")
        # The terminal of the client that started us is not ours.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _stop_listening(self) -> None:
        if self._listening:
            self._listening = False
            # First, as from Python 3.13 on closing the server removes the socket's name.
            self._listener.vanish()
            if self._server is not None:
                self._server.close()
            self._listener.give_up()

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

    async def _leave_when_idle(self) -> None:
        while True:
            self._changed.clear()
            left: float | None = None
            if not self._sessions:
                if not self._listening:
                    self.stop("replaced by another build, and the last session has ended")
                    return
                left = self._quiet_since + self._services.idle_seconds - time.monotonic()
                if left <= 0 and not self._services.busy():
                    self.stop("nobody needs it")
                    return
                left = max(left, 1.0)
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()

    # --- one connection -----------------------------------------------------------------------

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._converse(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await self._read_request(reader)
            if request is None:
                return
            if request.kind == "control":
                reply = self._controlled(request.options)
                if self._stopping.is_set():
                    self._farewells.append(writer)
                self._changed.set()
                await _say(writer, reply)
                return
            handler = self._handler(request)
            await _say(writer, {"ok": True, "pid": os.getpid(), "lookfar": lookfar.__version__})
            await self._serve(request, handler, reader, writer)
        except _Refused as refusal:
            log.info("refused a client: %s", refusal)
            with suppress(OSError):
                await _say(writer, {"error": refusal.shape, "build": self._listener.build})
        except (ConnectionError, TimeoutError) as error:
            log.info("a client left: %s", error)
        except Exception:
            log.exception("a session failed")
        finally:
            if writer not in self._farewells:
                await _hang_up(writer)

    async def _read_request(self, reader: asyncio.StreamReader) -> ClientRequest | None:
        received = b""
        try:
            async with asyncio.timeout(self._services.handshake_seconds):
                while b"\n" not in received:
                    chunk = await reader.read(MAX_REQUEST_BYTES)
                    if not chunk:
                        return None  # somebody looked whether we listen
                    received += chunk
                    if len(received) > MAX_REQUEST_BYTES:
                        raise _bad_request("it is too long")
        except TimeoutError:
            raise _bad_request("it did not come") from None
        line, _, rest = received.partition(b"\n")
        if rest:
            raise _bad_request("more came before the answer")
        try:
            request = ClientRequest.parse(line)
        except ValueError as error:
            raise _bad_request(str(error)) from None
        # Half a character, which JSON can say, is a wrong token and no failure of ours.
        token = request.token.encode("utf-8", "surrogatepass")
        if not hmac.compare_digest(token, self._listener.token.encode()):
            raise _Refused("PERMISSION_DENIED", "The token is wrong.", "Start the client again.")
        return request

    def _handler(self, request: ClientRequest) -> Handler:
        if not self._listening:
            raise _Refused(LEAVING, "This daemon is leaving.", "Connect again.")
        if request.build != self._listener.build:
            raise _Refused(
                OTHER_BUILD,
                f"This daemon is another build of Lookfar ({lookfar.__version__}).",
                "End it with: lookfar daemon stop",
            )
        handler = self._services.handlers.get(request.kind)
        if handler is None:
            known = ", ".join(sorted(self._services.handlers))
            raise _Refused(
                "INVALID_ARGUMENT", f"There is no session {request.kind[:40]!r}.", f"Use: {known}."
            )
        return handler

    async def _serve(
        self,
        request: ClientRequest,
        handler: Handler,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._served += 1
        number = self._served
        # A task of its own, so that ending it is not taken for ending this connection.
        task = asyncio.ensure_future(_finish(handler(request, reader, writer)))
        lingering = asyncio.ensure_future(self._outlast(reader, task))
        self._sessions[number] = _Session(request, task)
        self._changed.set()
        log.info("session %d (%s) begins in %s", number, request.kind, request.cwd)
        try:
            await asyncio.wait([task])
            if task.cancelled():
                log.info("session %d was ended: its client had gone", number)
            else:
                task.result()
        finally:
            lingering.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=self._services.close_seconds)
            del self._sessions[number]
            self._quiet_since = time.monotonic()
            self._changed.set()
            log.info("session %d ends", number)

    async def _outlast(self, reader: asyncio.StreamReader, task: asyncio.Task[None]) -> None:
        """End a handler that works on for a client who has long gone."""
        if isinstance(reader, _Reader):
            await reader.ended.wait()
            await asyncio.sleep(self._services.linger_seconds)
            task.cancel()

    # --- control ------------------------------------------------------------------------------

    def _controlled(self, options: dict[str, Any]) -> dict[str, Any]:
        action = options.get("action")
        reply: dict[str, Any] = {"ok": True, "pid": os.getpid()}
        if action == "status":
            reply["status"] = self._status()
        elif action == "stop":
            self.stop("asked to")
        elif action == "retire":
            if options.get("build") == self._listener.build and self._listening:
                log.info("another build takes over; %d sessions go on here", len(self._sessions))
                self._stop_listening()
        else:
            raise _Refused(
                "INVALID_ARGUMENT", "There is no such action.", "Use status, stop or retire."
            )
        return reply

    def _status(self) -> dict[str, Any]:
        now = time.time()
        sessions = [
            {
                "kind": each.request.kind,
                "client": each.request.client,
                "cwd": each.request.cwd,
                "paths": list(each.request.paths),
                "seconds": round(now - each.since, 1),
            }
            for each in self._sessions.values()
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


async def _say(writer: asyncio.StreamWriter, shape: dict[str, Any]) -> None:
    writer.write(json.dumps(shape).encode() + b"\n")
    await writer.drain()


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    """Close, and do not wait long for a client that does not read."""
    writer.close()
    try:
        async with asyncio.timeout(2):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()


def _bad_request(why: str) -> _Refused:
    return _Refused(
        "INVALID_ARGUMENT", f"This is no request: {why}.", "Talk to the daemon through lookfar mcp."
    )


def _memory_bytes() -> int | None:
    """Return the resident memory of this process, or None where the system does not report it."""
    if sys.platform == "win32":
        return None
    try:
        fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    except OSError:
        return None
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


# --- the process ------------------------------------------------------------------------------


class _OwnLog(RotatingFileHandler):
    """A log that only its owner reads: it names folders and their errors."""

    def _open(self) -> TextIOWrapper:
        stream = super()._open()
        with suppress(OSError):
            os.chmod(self.baseFilename, 0o600)
        return stream


def _begin_log() -> None:
    path = daemon_log_path()
    make_folder(path.parent)
    handler = _OwnLog(
        path,
        maxBytes=_LOG_BYTES,
        backupCount=_LOG_FILES,
        encoding="utf-8",
        # Names of folders need not be valid text.
        errors="backslashreplace",
    )
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    # Whatever else is written, by native code or at a crash, is found there, too.
    if handler.stream is not None:
        for standard in (1, 2):
            os.dup2(handler.stream.fileno(), standard)


def _load(named: str) -> Services:
    module, _, function = named.partition(":")
    services = getattr(import_module(module), function)()
    if not isinstance(services, Services):
        raise TypeError(f"{named} gave {type(services).__name__}, not Services")
    return services


def _detach() -> Callable[[], None]:
    """Go on in a child, so that no client is our parent; gives what to call when ready.

    The process that was started ends then, and by its exit code tells whether all is well.
    """
    if sys.platform == "win32":
        return _nothing
    told, tell = os.pipe()
    if os.fork():
        os.close(tell)
        os._exit(0 if os.read(told, 1) else 1)
    os.close(told)

    def ready() -> None:
        os.write(tell, b"+")
        os.close(tell)

    return ready


def main(arguments: list[str] | None = None) -> int:
    """Serve, unless another daemon does."""
    parser = argparse.ArgumentParser(prog="python -m lookfar.serve.daemon.process")
    parser.add_argument("--services", required=True, metavar="MODULE:FUNCTION")
    parser.add_argument("--foreground", action="store_true", help="stay the process it is")
    given = parser.parse_args(arguments)
    try:
        listener = Listener(runtime_folder())
    except IndexBusy:
        return ANOTHER_SERVES
    try:
        ready = _nothing if given.foreground else _detach()
        _begin_log()
        services = _load(given.services)
        listener.announce()
        ready()
        # Not asyncio.run: it would wait minutes for a thread that never ends.
        asyncio.new_event_loop().run_until_complete(_serve(services, listener))
    except Exception as error:
        log.exception("the daemon failed")
        return error.exit_code if isinstance(error, LookfarError) else 1
    finally:
        listener.give_up()
    return 0


async def _serve(services: Services, listener: Listener) -> None:
    await Daemon(services, listener).run()


if __name__ == "__main__":
    # Under its own name: services are made of that module's classes, not of __main__'s.
    from lookfar.serve.daemon import process

    code = process.main()
    logging.shutdown()
    # A thread that never ends must not keep a daemon that has left.
    os._exit(code)
