"""The process of a reader: open the same folders as the server, and answer its calls one by one.

It reads messages from stdin, writes outcomes to stdout, and exits when its input ends, so it does
not outlive the server. It never indexes, repairs or edits anything.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from io import FileIO
from pathlib import Path
from typing import IO, Any

from lookfar import config
from lookfar.collections.databases import Databases
from lookfar.collections.folder import Folder
from lookfar.collections.passes import WriterNeeded, read_only
from lookfar.collections.receipts import PassedOnReceipts
from lookfar.common.caller import Progress
from lookfar.common.frames import receive_frame, send_frame
from lookfar.common.garbage import collect_seldom
from lookfar.errors import LookfarError
from lookfar.library import Library
from lookfar.model import Receipts
from lookfar.serve.daemon.reader_launch import PID_BYTES
from lookfar.serve.daemon.readers import READY, Exit, Opening, Outcome, Rest, Task, get_key
from lookfar.serve.tools.cursor import take_calls
from lookfar.serve.tools.tool import REACHABLE, Session, Tool
from lookfar.serve.toolsets import load_tools, load_toolset

_PRELOADED = (
    *("lookfar.serve.tools.table", "lookfar.serve.toolsets.ragdocs"),
    *("lookfar.retrieve.search", "lookfar.retrieve.grep.matching_lines"),
    *("lookfar.library.reading", "lookfar.library.searching", "lookfar.library.upkeep"),
    *("lookfar.collections.commits", "lookfar.collections.memories"),
    *("lookfar.collections.drift_marks", "lookfar.embed.bundled", "lookfar.store.opening"),
    *("numkong", "numpy.ma", "mmap"),
)
"""Modules that the first question imports; readers that are forked share them."""


def main() -> None:
    """Run a reader until the server closes the pipe or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The server handles Ctrl-C.
    messages = os.dup(0)
    outcomes = os.dup(1)
    os.dup2(2, 1)  # Output that a library prints must not corrupt the messages.
    _run(FileIO(messages, "r"), FileIO(outcomes, "w"))


def fork_readers(descriptor: int) -> None:
    """Fork a reader for every connection that arrives, until the server closes its end or dies.

    This process has one thread and opens nothing, so a fork inherits nothing that could break.
    """
    if sys.platform == "win32":
        raise NotImplementedError("Windows cannot fork.")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Readers that end do not become zombies.
    for module in _PRELOADED:
        import_module(module)
    gc.collect()
    gc.freeze()  # Garbage collection would touch, and so copy, shared memory.
    control = socket.socket(fileno=descriptor)
    while True:
        received, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not received:
            os._exit(0)
        pid = os.fork()
        if not pid:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            connection: Any = socket.socket(fileno=descriptors[0]).makefile("rwb", buffering=0)
            _run(connection, connection)
        os.close(descriptors[0])
        control.sendall(pid.to_bytes(PID_BYTES, "little"))


def _run(messages: IO[bytes], outcomes: IO[bytes]) -> None:
    """Answer messages, and end the process."""
    code = 1
    try:
        _serve(messages, outcomes)
        code = 0
    except (EOFError, ConnectionError):
        code = 0  # The server is gone.
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _serve(messages: IO[bytes], outcomes: IO[bytes]) -> None:
    reader = Reader(receive_frame(messages))
    collect_seldom()
    send_frame(outcomes, READY)
    while not isinstance(message := receive_frame(messages), Exit):
        if isinstance(message, Rest):
            reader.rest()
        else:
            send_frame(outcomes, reader.answer(message))


class _ReaderCall:
    """A call as a tool sees it in a reader: it reports nothing, and cannot ask its client."""

    def __init__(self, client: str) -> None:
        self.client = client

    def check(self) -> None:
        """Do nothing: the server checks, and ignores the answer of a cancelled call."""

    def report(self, _: Progress) -> None:
        """Do nothing: a reader indexes nothing."""

    def confirm(self, question: str) -> bool:
        raise WriterNeeded(f"only the server can ask the client: {question}")


class Reader:
    """The folders and tools of one reader."""

    def __init__(self, opening: Opening) -> None:
        folders: dict[str, Folder] = {}
        for path in opening.roots:
            folder = Folder.open(path, settings=opening.settings, environ=opening.env)
            folders.setdefault(folder.root.path, folder)
        self._folders = list(folders.values())
        self._databases = _open_databases(self._folders, opening)
        self._library = Library(self._folders, self._databases)
        self._receipts: dict[str, PassedOnReceipts] = {}
        for name in self._library.collections:
            folder = self._library.folder(name)
            folder.receipts = self._receipts[name] = PassedOnReceipts(folder.index_dir)
        self._session = Session(self._library)
        root = Path(opening.roots[0]) if opening.roots else None
        self._tools = _load_tools(config.load(root, opening.settings, opening.env))

    def answer(self, task: Task) -> Outcome:
        """Answer a call, or return why the server has to."""
        token = REACHABLE.set(task.reachable)
        try:
            with read_only(task.notes):
                result = self._run(task)
        except (WriterNeeded, LookfarError) as error:
            # The server reports errors: it may repair the cause, or know more about it.
            return Outcome(task.number, reason=f"{type(error).__name__}: {error}")
        except Exception as error:
            reason = "".join(traceback.format_exception(error))
            return Outcome(task.number, reason=reason, unexpected=True)
        finally:
            REACHABLE.reset(token)
        cursors = take_calls(self._session.memory)
        return Outcome(
            task.number,
            result,
            cursors=cursors,
            receipts=self._take_receipts(),
            hits=self._take_hits(),
        )

    def _run(self, task: Task) -> Any:
        tool = self._tools.get(task.tool)
        if tool is None:
            raise WriterNeeded(f"readers do not have the tool {task.tool}")
        return tool.run(self._session, task.arguments, _ReaderCall(task.client))

    def _take_receipts(self) -> tuple[tuple[str, Receipts], ...]:
        taken = ((name, receipts.take()) for name, receipts in self._receipts.items())
        return tuple((name, receipts) for name, receipts in taken if receipts.answers)

    def _take_hits(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        names = self._library.collections
        taken = ((name, self._library.folder(name).embedding.take_hits()) for name in names)
        return tuple((name, uris) for name, uris in taken if uris)

    def rest(self) -> None:
        """Release models and open index files, which the next call loads again."""
        self._databases.rest()
        for folder in self._folders:
            folder.rest()


def _open_databases(folders: list[Folder], opening: Opening) -> Databases:
    if folders:
        return Databases(lambda: folders[0].settings, lambda: folders[0].embedder)
    settings = config.load(None, opening.settings, opening.env)
    return Databases(lambda: settings)


def _load_tools(settings: config.Settings) -> Mapping[str, Tool]:
    """Return the tools that a reader may run, by their keys."""
    # Over HTTP, the search of ragdocs is always offered.
    offered = (*load_toolset("ragdocs"), *load_tools(settings.serve.toolset))
    return {get_key(tool): tool for tool in offered if tool.by_reader}
