"""Reader processes: they answer questions for a server, which alone writes and keeps all state.

The server brings the index up to date, hands a call to an idle reader over a pipe, and gets the
finished result. If a reader cannot answer, fails or dies, the server answers the call itself, so an
answer or an error is always what one process alone would have given.
"""

from __future__ import annotations

import logging
import select
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from lookfar.collections.passes import Closing, Notes
from lookfar.common.caller import check_cancelled
from lookfar.common.frames import receive_frame, send_frame
from lookfar.common.turns import TURNS, Turns
from lookfar.model import Receipts
from lookfar.serve.daemon.reader_launch import Child, Launcher
from lookfar.serve.tools.cursor import merge_calls
from lookfar.serve.tools.tool import REACHABLE, Call, Json, Result, Session, Tool

_log = logging.getLogger(__name__)

_CHECK_SECONDS: Final = 0.1
"""How often a waiting call checks whether it was cancelled."""
_TASKS: Final = 2
"""Tasks sent to a reader at once. The second waits in the pipe, so the reader is never idle."""
_STOP_SECONDS: Final = 1.0
"""How long a reader may take to exit before it is killed."""
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 30.0
"""Limits of the pause before a reader is replaced; it doubles while readers keep dying."""
_STABLE_SECONDS: Final = 10.0
"""After this time, the death of a reader is not counted as a failed start."""
_TEND_SECONDS: Final = 1.0
"""How often idle readers are checked."""
_REST_SECONDS: Final = 120.0
"""How long readers keep their models without a call."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The first message to a reader: what to open."""

    roots: tuple[str, ...]
    settings: Mapping[str, Any]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Task:
    """A call for a reader. ``tool`` is its key, see :func:`get_key`."""

    number: int
    tool: str
    arguments: Mapping[str, Any]
    client: str
    reachable: tuple[str, ...]
    notes: Notes


@dataclass(frozen=True, slots=True)
class Rest:
    """Asks a reader to release its models and open index files."""


@dataclass(frozen=True, slots=True)
class Exit:
    """Asks a reader to end."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a task, or the reason why there is none."""

    number: int
    result: Result | None = None
    """None if the server has to answer."""
    reason: str = ""
    """Why the server has to answer."""
    unexpected: bool = False
    """Whether the reason is worth a line in the log."""
    cursors: Mapping[str, Json] | None = None
    receipts: tuple[tuple[str, Receipts], ...] = ()
    """What the answer adds to the receipts of each folder."""
    hits: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The documents of each folder that were found: the server embeds them first."""


READY: Final = "ready"
"""The message that a reader sends when it has started."""


def get_key(tool: Tool) -> str:
    """Return a name of the tool that is unique over all toolsets."""
    return f"{tool.input.__module__}:{tool.name}"


class Readers:
    """The reader processes of one server. May be shared by threads."""

    def __init__(self, opening: Opening, count: int) -> None:
        """Start ``count`` readers; until they are ready the server answers alone."""
        self._opening = opening
        self._count = count
        self._launcher = Launcher()
        most = count * _TASKS
        self._turns = Turns(most=most, beside_pass=most)
        self._lock = threading.Lock()
        self._all: list[_Reader] = []
        self._closed = threading.Event()
        self._replaced = 0
        self._answered = 0
        self._used = time.monotonic()
        self._resting = True
        self._keepers = [
            threading.Thread(target=self._keep, name="lookfar-reader", daemon=True)
            for _ in range(count)
        ]
        for keeper in self._keepers:
            keeper.start()

    # -- answering ---------------------------------------------------------------

    def answer(
        self, tool: Tool, session: Session, arguments: Mapping[str, Any], call: Call
    ) -> Result | None:
        """Have a reader answer a call; return None if the server has to do that itself."""
        if not self._all:
            return None
        with TURNS.take(session):
            notes = session.library.freshen()
        if notes is None:
            return None
        number = next(_NUMBERS)
        task = Task(number, get_key(tool), arguments, call.client, REACHABLE.get(), notes)
        with self._turns.take(session):
            outcome = self._run(task)
        if outcome is None or outcome.result is None:
            check_cancelled()
            return None
        merge_calls(session.memory, outcome.cursors or {})
        for name, receipts in outcome.receipts:
            session.library.record_answer(name, receipts.tokens, receipts.document_tokens)
        for name, uris in outcome.hits:
            if name in session.library.collections:
                session.library.folder(name).embedding.note_hits(uris)
        self._answered += 1
        return outcome.result

    def _run(self, task: Task) -> Outcome | None:
        reader = self._choose()
        if reader is None:
            return None
        try:
            outcome = reader.ask(task)
        except (EOFError, OSError) as error:
            reader.end()
            if self._closed.is_set():
                raise Closing from None
            _log.warning("reader %d died in a call of %s: %r", reader.pid, task.tool, error)
            return None
        if outcome.unexpected:
            _log.warning("reader %d could not answer: %s", reader.pid, outcome.reason)
        elif outcome.reason:
            _log.debug("reader %d passes a call back to the server: %s", reader.pid, outcome.reason)
        return outcome

    def _choose(self) -> _Reader | None:
        """Return the reader with the fewest tasks; None if none runs."""
        with self._lock:
            self._used, self._resting = time.monotonic(), False
            return min(self._all, key=lambda reader: reader.load, default=None)

    # -- processes ---------------------------------------------------------------

    def _keep(self) -> None:
        """Keep one reader running: wait until it ends, and replace it."""
        pause = _FIRST_PAUSE
        while not self._closed.is_set():
            began = time.monotonic()
            self._run_reader()
            if self._closed.is_set():
                return
            lived = time.monotonic() - began
            pause = _FIRST_PAUSE if lived > _STABLE_SECONDS else min(2 * pause, _LONGEST_PAUSE)
            self._replaced += 1
            _log.warning("a reader ended after %.0f s; it is replaced", lived)
            self._closed.wait(pause)

    def _run_reader(self) -> None:
        try:
            reader = _Reader(self._launcher.launch(), self._opening)
        except OSError as error:
            _log.warning("a reader cannot be started: %s", error)
            return
        try:
            ready = reader.wait_until_ready()
        except (EOFError, OSError):
            ready = False
        if ready:
            with self._lock:
                self._all.append(reader)
                if self._closed.is_set():
                    reader.end()
            reader.receive_outcomes(self._rest_if_unused)
        with self._lock:
            if reader in self._all:
                self._all.remove(reader)
        reader.end()

    def _rest_if_unused(self) -> None:
        """Tell the readers to release their models if there was no call for a while."""
        with self._lock:
            if self._resting or time.monotonic() - self._used < _REST_SECONDS:
                return
            self._resting = True
            readers = list(self._all)
        for reader in readers:
            with suppress(OSError):
                reader.send(Rest())

    def describe(self) -> Json:
        """Return the number of readers and of their answers, for the status."""
        with self._lock:
            pids = [reader.pid for reader in self._all]
        return {
            "wanted": self._count,
            "running": len(pids),
            "processes": pids,
            "answered": self._answered,
            "replaced": self._replaced,
        }

    def close(self) -> None:
        """End all readers; calls that wait for one raise ``Closing``."""
        self._closed.set()
        self._launcher.close()
        with self._lock:
            readers = list(self._all)
        for reader in readers:
            with suppress(OSError):
                reader.send(Exit())
        deadline = time.monotonic() + _STOP_SECONDS
        for keeper in self._keepers:
            keeper.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            late = list(self._all)
        for reader in late:
            reader.end()


_NUMBERS: Final = count(1)


class _Pending:
    """A task that a reader has not answered yet."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.outcome: Outcome | None = None
        """None if the reader died before it answered."""


class _Reader:
    """One reader process. May be shared by threads."""

    def __init__(self, child: Child, opening: Opening) -> None:
        self._child = child
        self.pid = child.pid
        self._writing = threading.Lock()
        # Two locks, so that outcomes can be received while a large task is being sent.
        self._lock = threading.Lock()
        self._pending: dict[int, _Pending] = {}
        self._gone = False
        with suppress(OSError):  # If it is dead already, wait_until_ready() notices.
            self.send(opening)

    @property
    def load(self) -> int:
        """How many tasks it has, including those whose callers were cancelled."""
        return len(self._pending)

    def send(self, message: Any) -> None:
        with self._writing:
            send_frame(self._child.input, message)

    def wait_until_ready(self) -> bool:
        return bool(receive_frame(self._child.output) == READY)

    def ask(self, task: Task) -> Outcome:
        """Return the outcome of a task; raise ``EOFError`` or ``OSError`` if the reader died."""
        pending = _Pending()
        with self._lock:
            if self._gone:
                raise EOFError
            self._pending[task.number] = pending
        self.send(task)
        while not pending.done.wait(_CHECK_SECONDS):
            check_cancelled()
        if pending.outcome is None:
            raise EOFError
        return pending.outcome

    def receive_outcomes(self, tend: Callable[[], None]) -> None:
        """Hand outcomes to the threads that wait for them, until the process ends.

        While there are none, ``tend`` is called once a second.
        """
        try:
            while True:
                self._wait_for_output(tend)
                outcome: Outcome = receive_frame(self._child.output)
                with self._lock:
                    pending = self._pending.pop(outcome.number)
                pending.outcome = outcome
                pending.done.set()
        except (EOFError, OSError):
            pass  # It ended; the caller replaces it.
        finally:
            with self._lock:
                self._gone = True
                lost, self._pending = list(self._pending.values()), {}
            for pending in lost:
                pending.done.set()

    def _wait_for_output(self, tend: Callable[[], None]) -> None:
        if sys.platform == "win32":
            return  # Pipes cannot be polled there, so readers do not rest.
        poll = select.poll()
        poll.register(self._child.output, select.POLLIN)
        while not poll.poll(_TEND_SECONDS * 1000):
            tend()

    def end(self) -> None:
        """Make sure that the process has ended."""
        with suppress(OSError):
            self._child.kill()
        self._child.wait(_STOP_SECONDS)
