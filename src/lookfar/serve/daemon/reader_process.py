"""The process of a reader: open the same folders as the server, and answer its calls one by one.

It reads messages from stdin, writes outcomes to stdout, and exits when its input ends, so it does
not outlive the server. It never indexes, repairs or edits anything.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from lookfar import config
from lookfar.collections.databases import Databases
from lookfar.collections.folder import Folder
from lookfar.collections.reader_role import WriterNeeded, read_only
from lookfar.collections.receipts import PassedOnReceipts
from lookfar.common.frames import receive_frame, send_frame
from lookfar.common.garbage import collect_seldom
from lookfar.errors import LookfarError
from lookfar.index.progress import OnProgress, Progress
from lookfar.library import Library
from lookfar.model import Receipts
from lookfar.serve.daemon.readers import READY, Opening, Outcome, Rest, Task, get_key
from lookfar.serve.tools.cursor import take_calls
from lookfar.serve.tools.tool import REACHABLE, Session, Tool
from lookfar.serve.toolsets import load_tools, load_toolset


def main() -> None:
    """Run a reader until the server closes the pipe or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The server handles Ctrl-C.
    # Unbuffered copies: a message that was read too early could not be polled for.
    messages = os.fdopen(os.dup(0), "rb", buffering=0)
    outcomes = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # What a library prints must not break the frames.
    try:
        _serve(messages, outcomes)
    except (EOFError, BrokenPipeError):
        os._exit(0)  # The server is gone.


def _serve(messages: IO[bytes], outcomes: IO[bytes]) -> None:
    reader = Reader(receive_frame(messages))
    collect_seldom()
    send_frame(outcomes, READY)
    while True:
        message = receive_frame(messages)
        if isinstance(message, Rest):
            reader.rest()
        else:
            send_frame(outcomes, reader.answer(message))


class _ReaderCall:
    """A call as a tool sees it in a reader: it reports nothing, and cannot ask its client."""

    def __init__(self, client: str) -> None:
        self.client = client

    def on_progress(self) -> OnProgress:
        return _ignore

    def confirm(self, question: str) -> bool:
        raise WriterNeeded(f"a client is to be asked: {question}")


def _ignore(_: Progress) -> None:
    return None


class Reader:
    """The folders and tools of one reader."""

    def __init__(self, opening: Opening) -> None:
        folders: dict[str, Folder] = {}
        for path in opening.roots:
            folder = Folder.open(path, settings=opening.settings, environ=opening.environ)
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
        self._tools = _load_tools(config.load(root, opening.settings, opening.environ))

    def answer(self, task: Task) -> Outcome:
        """Answer a call, or say why the server has to."""
        token = REACHABLE.set(task.reachable)
        try:
            with read_only(task.notes):
                result = self._run(task)
        except (WriterNeeded, LookfarError) as error:
            # Errors are the server's to report: it may repair what is wrong, or know more.
            return Outcome(task.number, reason=f"{type(error).__name__}: {error}")
        except Exception as error:
            reason = "".join(traceback.format_exception(error))
            return Outcome(task.number, reason=reason, unexpected=True)
        finally:
            REACHABLE.reset(token)
        cursors = take_calls(self._session.memory)
        return Outcome(task.number, result, cursors=cursors, receipts=self._take_receipts())

    def _run(self, task: Task) -> Any:
        tool = self._tools.get(task.tool)
        if tool is None:
            raise WriterNeeded(f"readers do not have the tool {task.tool}")
        return tool.run(self._session, task.arguments, _ReaderCall(task.client))

    def _take_receipts(self) -> tuple[tuple[str, Receipts], ...]:
        taken = ((name, receipts.take()) for name, receipts in self._receipts.items())
        return tuple((name, receipts) for name, receipts in taken if receipts.answers)

    def rest(self) -> None:
        """Release models and open index files, which the next call loads again."""
        self._databases.rest()
        for folder in self._folders:
            folder.rest()


def _open_databases(folders: list[Folder], opening: Opening) -> Databases:
    if folders:
        return Databases(lambda: folders[0].settings, lambda: folders[0].embedder)
    settings = config.load(None, opening.settings, opening.environ)
    return Databases(lambda: settings)


def _load_tools(settings: config.Settings) -> Mapping[str, Tool]:
    """Return the tools that a reader may run, by their keys."""
    # Over HTTP, the search of ragdocs is always offered.
    offered = (*load_toolset("ragdocs"), *load_tools(settings.serve.toolset))
    return {get_key(tool): tool for tool in offered if tool.by_reader}
