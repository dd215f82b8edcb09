"""Reading and preparing files, here or in processes of their own.

Takes: URIs to read under one root. Gives: for each an outcome: a version to
store, the news that nothing changed, a reason to leave it out, or a failure.
Refuses: to let one file stop the others. A file that kills its process is tried
once more alone, then reported. Where the system killed that process for memory, the pass ends
with ``OutOfMemory``.

Workers are plain child processes that speak pickled frames over their pipes:
no fork of a threaded parent, no re-import of the caller's ``__main__``, and a
crash in a native parser costs one worker, not the server.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any

from lookfar.config import EmbedSettings, child_environment
from lookfar.embed.providers import open_embedder
from lookfar.errors import IOFailed, LookfarError, memory_refused, out_of_memory
from lookfar.index.prepare import Prepared, embed, prepare
from lookfar.index.reconcile import Request
from lookfar.model import Failure, Fingerprint, Lane, Skipped
from lookfar.ports import Version
from lookfar.sources.confine import Refused, Root
from lookfar.sources.fingerprints import content_hash, is_binary, settled
from lookfar.sources.secrets.screen import NO_EXCEPTIONS, Secrets
from lookfar.store.catalogue import rows
from lookfar.store.ground.database import connect, typed_errors
from lookfar.store.ground.headroom import memory_kills
from lookfar.store.vectors.reuse import Siblings
from lookfar.text.chunk.headings import Sizes

if TYPE_CHECKING:
    from lookfar.ports import Embedder

Missing = Callable[[Iterable[bytes]], set[bytes]]
_LENGTH = 8
_CONTENT = 1
"""Position of a chunk's content name in its row."""
_POLITENESS = 10
# Not "-m": run as __main__, what a child pickles would name a module the parent does not have.
_CHILD = "from lookfar.index.worker import main; main()"
_MOST_RESTARTS = 20
_SIGKILL = 9
"""By number: Windows has no such signal."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The bytes are those already stored; only what the disk says of them moved."""

    uri: str
    fingerprint: Fingerprint
    settled: bool


Outcome = Version | Unchanged | Skipped | Failure


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides what a file turns into, in a form that can be sent."""

    root: Root
    max_file_bytes: int
    sizes: Sizes
    embed: EmbedSettings
    catalogue: Path | None
    """Where a worker looks up vectors that exist; ``None`` when none can."""
    siblings: Siblings | None = None
    """And where it finds those of other indexes."""
    lane: Lane | None = None
    """Of all documents, where the collection has one of its own."""
    secrets: Secrets = NO_EXCEPTIONS
    """What is masked, and which files are skipped for what they hold."""


class Preparer:
    """Turns requests into outcomes, a batch at a time."""

    def __init__(self, recipe: Recipe, embedder: Embedder | None) -> None:
        self._recipe = recipe
        self._embedder = embedder
        self._count = counter_of(embedder)

    def run(self, requests: Sequence[Request], missing: Missing) -> list[Outcome]:
        outcomes = [self._one(request) for request in requests]
        prepared = [outcome for outcome in outcomes if isinstance(outcome, Prepared)]
        embed(prepared, self._embedder, missing)
        return [each.version if isinstance(each, Prepared) else each for each in outcomes]

    def _one(self, request: Request) -> Prepared | Unchanged | Skipped | Failure:
        uri = request.file.uri
        now = time.time_ns()
        try:
            raw, disk = self._recipe.root.read(uri, self._recipe.max_file_bytes)
        except Refused as refusal:
            if refusal.reason in ("gone", "changing"):
                return Failure(uri, refusal.reason.upper(), refusal.detail or str(refusal))
            return Skipped(uri, refusal.reason, refusal.detail)
        except LookfarError as error:
            return Failure(uri, error.code, error.message)
        steady = settled(disk, now)
        if is_binary(raw):
            return Skipped(uri, "binary", "it holds zero bytes")
        if request.raw_sha is not None and content_hash(raw) == request.raw_sha:
            return Unchanged(uri, disk, steady)
        try:
            return prepare(
                uri,
                raw,
                disk,
                settled=steady,
                sizes=self._recipe.sizes,
                count_tokens=self._count,
                lane=self._recipe.lane,
                secrets=self._recipe.secrets,
            )
        except MemoryError:  # Not the file's fault: the next one would fail as well.
            raise
        except Exception as error:  # One hostile file must not stop the rest.
            return Failure(uri, "PARSE_FAILED", f"{type(error).__name__}: {error}")


def counter_of(embedder: Embedder | None) -> Callable[[str], int]:
    """How tokens are counted: as the model does, or by length where there is none."""
    return embedder.count_tokens if embedder else _count_by_length


def _count_by_length(text: str) -> int:
    return -(-len(text) // 4)


class WorkerPool:
    """Child processes that prepare batches; results come in the order of the requests."""

    def __init__(
        self, recipe: Recipe, workers: int, kills: Callable[[], int] = memory_kills
    ) -> None:
        """``kills`` counts the processes that the system has killed for memory."""
        self._recipe = recipe
        self._idle: SimpleQueue[_Child] = SimpleQueue()
        self._children = [_Child(recipe, kills) for _ in range(workers)]
        for child in self._children:
            self._idle.put(child)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="lookfar-worker")

    def run(self, batches: Iterable[Sequence[Request]]) -> Iterator[list[Outcome]]:
        """Outcomes batch by batch; a few batches are under way at once, never all."""
        under_way: deque[Future[list[Outcome]]] = deque()
        for batch in batches:
            under_way.append(self._threads.submit(self._prepare, batch))
            if len(under_way) > len(self._children) + 2:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()

    def _prepare(self, batch: Sequence[Request]) -> list[Outcome]:
        child = self._idle.get()
        try:
            try:
                return child.ask(batch)
            except EOFError:
                child.restart()
            if len(batch) > 1:
                return [outcome for each in batch for outcome in self._alone(child, each)]
            return self._alone(child, batch[0])
        finally:
            self._idle.put(child)

    @staticmethod
    def _alone(child: _Child, request: Request) -> list[Outcome]:
        try:
            return child.ask([request])
        except EOFError:
            if child.killed_for_memory():  # Not the file's fault: the next one would fail as well.
                raise out_of_memory(
                    f"a worker process was killed over {request.file.uri}"
                ) from None
            child.restart()
            return [Failure(request.file.uri, "WORKER_CRASHED", "its parser ended the process")]

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        for child in self._children:
            child.close()


class _Child:
    """One worker process and its pipes."""

    def __init__(self, recipe: Recipe, kills: Callable[[], int]) -> None:
        self._recipe = recipe
        self._kills = kills
        self._restarts = 0
        self._start()

    def _start(self) -> None:
        # Two numerical threads in each of several processes only get in each other's way.
        quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "0"}
        self._kills_before = self._kills()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=child_environment(quiet),
        )
        # A child that is dead already shows it when it is asked.
        with suppress(BrokenPipeError):
            _send(self._pipe_in, self._recipe)

    @property
    def _pipe_in(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def ask(self, batch: Sequence[Request]) -> list[Outcome]:
        assert self._process.stdout is not None
        try:
            _send(self._pipe_in, list(batch))
        except BrokenPipeError as error:
            raise EOFError from error
        answer: list[Outcome] | LookfarError = _receive(self._process.stdout)
        if isinstance(answer, LookfarError):
            raise answer
        return answer

    def killed_for_memory(self) -> bool:
        """Whether the system has killed this process, which has ended, to get memory back."""
        killed = self._process.wait() == -_SIGKILL
        return killed and self._kills() > self._kills_before

    def restart(self) -> None:
        self.close()
        self._restarts += 1
        if self._restarts > _MOST_RESTARTS:
            raise IOFailed(
                f"A worker process ended {self._restarts} times.",
                hint="Run with index.workers = 1 to see which file is at fault.",
                developer=f"last exit status {self._process.returncode}",
            )
        self._start()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def _send(pipe: IO[bytes], message: Any) -> None:
    data = pickle.dumps(message, protocol=5)
    pipe.write(len(data).to_bytes(_LENGTH, "little"))
    pipe.write(data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> Any:
    length = pipe.read(_LENGTH)
    if len(length) < _LENGTH:
        raise EOFError
    expected = int.from_bytes(length, "little")
    data = pipe.read(expected)
    if len(data) < expected:  # The other side died while it was speaking.
        raise EOFError
    return pickle.loads(data)


def main() -> None:
    """The child's side: a recipe, then batches until the parent closes the pipe or dies."""
    if hasattr(os, "nice"):
        os.nice(_POLITENESS)  # Questions asked meanwhile come first.
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer.
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr  # Whatever a library prints must not break the frames.
    gc.disable()  # Rows hold no cycles, and there are millions of them to look through.
    try:
        _serve(sys.stdin.buffer, answers)
    except (EOFError, BrokenPipeError):
        # Nobody is there any more. Leave at once: closing the pipe would fail a second time.
        os._exit(0)


def _serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer every batch with its outcomes, or with the error that the parent is to raise."""
    recipe: Recipe = _receive(requests)
    work: Callable[[Sequence[Request]], list[Outcome]] | None = None
    while True:
        batch: Sequence[Request] = _receive(requests)
        answer: list[Outcome] | LookfarError
        try:
            work = work or _workshop(recipe)
            answer = work(batch)
        except LookfarError as error:
            answer = error
        except Exception as error:
            answer = _unforeseen(error)
        _send(answers, answer)


def _workshop(recipe: Recipe) -> Callable[[Sequence[Request]], list[Outcome]]:
    preparer = Preparer(recipe, open_embedder(recipe.embed))
    path, siblings = recipe.catalogue, recipe.siblings
    connection = connect(path, write=False) if path is not None else None
    found: dict[bytes, bytes] = {}

    def missing(contents: Iterable[bytes]) -> set[bytes]:
        lacking = set(contents)
        if path is not None and connection is not None:
            with typed_errors(path):
                lacking = rows.unembedded(connection, lacking)
        if siblings is not None:
            found.update(siblings.vectors(lacking))
        return lacking.difference(found)

    def work(batch: Sequence[Request]) -> list[Outcome]:
        found.clear()
        outcomes = preparer.run(batch, missing)
        for each in outcomes if found else ():
            if isinstance(each, Version):
                contents = (row[_CONTENT] for row in each.chunks)
                each.adopted = {name: found[name] for name in contents if name in found}
        return outcomes

    return work


def _unforeseen(error: Exception) -> LookfarError:
    """Any error in a form that is sure to cross a pipe."""
    return memory_refused(error) or IOFailed(
        "A worker process could not prepare its files.",
        hint="Run with index.workers = 1 to see which file is at fault.",
        developer="".join(traceback.format_exception(error)),
    )
