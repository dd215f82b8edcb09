"""Read and prepare files, in this process or in worker processes.

A file that crashes its worker is tried once more alone and then reported; it does not stop the
others. If the system killed the worker for memory, the pass ends with ``OutOfMemory``. Workers are
child processes that exchange pickled frames over pipes, because a threaded parent must not fork.
"""

from __future__ import annotations

import gc
import os
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
from typing import IO

from lookfar.common.frames import receive_frame, send_frame
from lookfar.common.programs import OWN_GROUP, python_program
from lookfar.config import EmbedSettings, child_environment
from lookfar.embed.providers import open_embedder
from lookfar.errors import IOFailed, LookfarError, as_out_of_memory, out_of_memory
from lookfar.index.extraction import Content, Extraction, decode_content, extract_content
from lookfar.index.prepare import File, Stages, embed
from lookfar.index.reconcile import Request
from lookfar.index.words import open_words
from lookfar.model import Failure, Fingerprint, Lane, Skipped
from lookfar.ports import Embedder, StoredEntries, VectorSource, Version
from lookfar.sources.confine import Refused, Root
from lookfar.sources.fingerprints import NOT_TEXT, content_hash, is_binary, is_settled
from lookfar.sources.secrets.screen import NO_EXCEPTIONS, Secrets
from lookfar.store.catalogue import rows
from lookfar.store.ground.database import connect, typed_errors
from lookfar.store.ground.headroom import count_memory_kills
from lookfar.text.chunk.headings import Sizes
from lookfar.text.extract.extracted import Allowance
from lookfar.text.extract.formats import extractor_for
from lookfar.text.parse.formats import detect_format

Missing = Callable[[Iterable[bytes]], set[bytes]]
_CONTENT = 1
"""Position of a chunk's content name in its row."""
_NICENESS = 10
# Not "-m": a child running as __main__ would pickle names of a module the parent does not have.
_CHILD = "from lookfar.index.worker import main; main()"
_MOST_RESTARTS = 20
_SIGKILL = 9
"""As a number, because Windows has no such signal."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A file whose bytes are stored already; only its fingerprint changed."""

    uri: str
    fingerprint: Fingerprint
    settled: bool


Outcome = Version | Unchanged | Skipped | Failure
Handle = Callable[[Sequence[Request]], list[Outcome]]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides how a file is prepared, in a form that can be pickled."""

    root: Root
    max_file_bytes: int
    sizes: Sizes
    embed: EmbedSettings
    catalogue: Path | None
    """Where a worker looks up existing vectors; ``None`` if it cannot."""
    siblings: VectorSource | None = None
    """Other indexes with vectors of the same model."""
    given: VectorSource | None = None
    """Vectors that were made elsewhere."""
    lane: Lane | None = None
    """The kind of all documents, where the whole collection is of one kind."""
    secrets: Secrets = NO_EXCEPTIONS
    """What is masked, and which files are skipped for their content."""
    max_document_bytes: int = 1 << 20
    """The limit for files whose text is extracted."""
    allowance: Allowance = Allowance()  # noqa: RUF009 - it is immutable.


class Preparer:
    """Turn requests into outcomes, one batch at a time."""

    def __init__(
        self,
        recipe: Recipe,
        embedder: Embedder | None,
        stored_entries: Callable[[str], StoredEntries] | None = None,
    ) -> None:
        """``stored_entries`` finds the entries that a document has in the store."""
        self._recipe = recipe
        self._stored_entries = stored_entries
        self._embedder = embedder
        words = open_words(embedder, by_length=recipe.sizes.by_length)
        self._stages = Stages(recipe.sizes, words, lane=recipe.lane, secrets=recipe.secrets)
        self._extraction = Extraction(recipe.allowance)

    def run(self, requests: Sequence[Request], missing: Missing) -> list[Outcome]:
        """Read the files, take all of them through one stage after the other, and embed them."""
        files = [self._read(request) for request in requests]
        for stage in self._stages.in_order:
            files = [_advance(stage, file) if isinstance(file, File) else file for file in files]
        prepared = [file.prepared for file in files if isinstance(file, File)]
        embed([item for item in prepared if item is not None], self._embedder, missing)
        return [_outcome_of(file) if isinstance(file, File) else file for file in files]

    def _read(self, request: Request) -> File | Unchanged | Skipped | Failure:
        uri = request.file.uri
        now = time.time_ns()
        extracted = extractor_for(uri) is not None
        recipe = self._recipe
        most = recipe.max_document_bytes if extracted else recipe.max_file_bytes
        try:
            raw, disk = recipe.root.read(uri, most)
        except Refused as refusal:
            if refusal.reason in ("gone", "changing"):
                return Failure(uri, refusal.reason.upper(), refusal.detail or str(refusal))
            return Skipped(uri, refusal.reason, refusal.detail)
        except LookfarError as error:
            return Failure(uri, error.code, error.message)
        steady = is_settled(disk, now)
        if not extracted and is_binary(raw, known=detect_format(uri) is not None):
            return Skipped(uri, "binary", NOT_TEXT)
        if request.raw_sha is not None and content_hash(raw) == request.raw_sha:
            return Unchanged(uri, disk, steady)
        try:
            content: Content | Skipped = (
                extract_content(uri, raw, self._extraction) if extracted else decode_content(raw)
            )
            if isinstance(content, Skipped):
                return content
            file = File(uri, content, disk, steady)
            if self._stored_entries is not None and request.raw_sha is not None:
                file.stored = self._stored_entries(uri)
            return file
        except MemoryError:  # Not the fault of this file: the next one would fail too.
            raise
        except Exception as error:  # One bad file must not stop the others.
            return _failure_of(uri, error)

    def close(self) -> None:
        self._extraction.close()


def _advance(stage: Callable[[File], Skipped | None], file: File) -> File | Skipped | Failure:
    try:
        return stage(file) or file
    except MemoryError:
        raise
    except Exception as error:
        return _failure_of(file.uri, error)


def _failure_of(uri: str, error: Exception) -> Failure:
    return Failure(uri, "PARSE_FAILED", f"{type(error).__name__}: {error}")


def _outcome_of(file: File) -> Version:
    assert file.prepared is not None
    return file.prepared.version


class WorkerPool:
    """Child processes that prepare batches; results keep the order of the requests."""

    def __init__(
        self, recipe: Recipe, workers: int, kills: Callable[[], int] = count_memory_kills
    ) -> None:
        """``kills`` returns how many processes the system has killed for memory."""
        self._recipe = recipe
        self._idle: SimpleQueue[_Child] = SimpleQueue()
        self._children = [_Child(recipe, kills) for _ in range(workers)]
        for child in self._children:
            self._idle.put(child)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="lookfar-worker")

    def run(self, batches: Iterable[Sequence[Request]]) -> Iterator[list[Outcome]]:
        """Yield the outcomes batch by batch, with only a few batches in flight at once."""
        pending: deque[Future[list[Outcome]]] = deque()
        for batch in batches:
            pending.append(self._threads.submit(self._prepare, batch))
            if len(pending) > len(self._children) + 2:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()

    def _prepare(self, batch: Sequence[Request]) -> list[Outcome]:
        child = self._idle.get()
        try:
            try:
                return child.ask(batch)
            except EOFError:
                child.restart()
            if len(batch) > 1:
                return [
                    outcome for request in batch for outcome in self._prepare_alone(child, request)
                ]
            return self._prepare_alone(child, batch[0])
        finally:
            self._idle.put(child)

    @staticmethod
    def _prepare_alone(child: _Child, request: Request) -> list[Outcome]:
        try:
            return child.ask([request])
        except EOFError:
            if child.killed_for_memory():  # Not the fault of this file: the next would fail too.
                raise out_of_memory(
                    f"a worker process was killed over {request.file.uri}"
                ) from None
            child.restart()
            return [Failure(request.file.uri, "WORKER_CRASHED", "its parser crashed the process")]

    def close(self) -> None:
        for child in self._children:
            child.end()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for child in self._children:
            child.close()


class _Child:
    """A process that starts with its first batch, so in a thread, which Ctrl-C cannot interrupt."""

    def __init__(self, recipe: Recipe, kills: Callable[[], int]) -> None:
        self._recipe = recipe
        self._kills = kills
        self._restarts = 0
        self._ended = False
        self._process: subprocess.Popen[bytes] | None = None

    def _start(self) -> subprocess.Popen[bytes]:
        # Several numeric threads in each of several processes only slow each other down.
        quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "0"}
        self._kills_before = self._kills()
        program, variables = python_program()
        self._process = process = subprocess.Popen(
            [program, "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=child_environment(quiet | variables),
            **OWN_GROUP,
        )
        if self._ended:  # Meanwhile, by another thread.
            process.kill()
        assert process.stdin is not None
        # If the child is dead already, the first batch will report it.
        with suppress(BrokenPipeError):
            send_frame(process.stdin, self._recipe)
        return process

    def ask(self, batch: Sequence[Request]) -> list[Outcome]:
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            send_frame(process.stdin, list(batch))
        except BrokenPipeError as error:
            raise EOFError from error
        answer: list[Outcome] | LookfarError = receive_frame(process.stdout)
        if isinstance(answer, LookfarError):
            raise answer
        return answer

    def killed_for_memory(self) -> bool:
        """Whether the system killed this process, which has ended, to free memory."""
        assert self._process is not None
        killed = self._process.wait() == -_SIGKILL
        return killed and self._kills() > self._kills_before

    def restart(self) -> None:
        if self._ended:
            raise EOFError
        self.close()
        self._restarts += 1
        if self._restarts > _MOST_RESTARTS:
            raise IOFailed(
                f"A worker process crashed {self._restarts} times.",
                hint="Set index.workers = 1 to find the file that causes it.",
                developer=f"last exit status {self._process and self._process.returncode}",
            )
        self._start()

    def end(self) -> None:
        """End the process for good; a thread that waits for its answer gets ``EOFError``."""
        self._ended = True
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


def main() -> None:
    """Run a worker: read a recipe, then batches until the parent closes the pipe or dies."""
    if hasattr(os, "nice"):
        os.nice(_NICENESS)  # Searches that run meanwhile come first.
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr  # What a library prints must not break the frames.
    gc.disable()  # There are millions of rows to scan, and they contain no cycles.
    try:
        _serve(sys.stdin.buffer, answers)
    except (EOFError, BrokenPipeError):
        # The parent is gone. Exit at once: closing the pipe would fail a second time.
        os._exit(0)


def _serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer every batch with its outcomes, or with the error that the parent will raise."""
    recipe: Recipe = receive_frame(requests)
    handle: Handle | None = None
    while True:
        batch: Sequence[Request] = receive_frame(requests)
        answer: list[Outcome] | LookfarError
        try:
            handle = handle or _make_handler(recipe)
            answer = handle(batch)
        except LookfarError as error:
            answer = error
        except Exception as error:
            answer = _make_portable(error)
        send_frame(answers, answer)


def _make_handler(recipe: Recipe) -> Handle:
    preparer = Preparer(recipe, open_embedder(recipe.embed))
    path = recipe.catalogue
    connection = connect(path, write=False) if path is not None else None

    def missing(contents: Iterable[bytes]) -> set[bytes]:
        if path is None or connection is None:
            return set(contents)
        with typed_errors(path):
            return rows.find_unembedded(connection, set(contents))

    sources = [source for source in (recipe.siblings, recipe.given) if source is not None]
    return adopt_vectors(preparer, missing, sources)


def adopt_vectors(preparer: Preparer, missing: Missing, sources: Sequence[VectorSource]) -> Handle:
    """Return a function that prepares batches, and embeds only what no source has a vector of."""
    adopted: dict[bytes, bytes] = {}

    def find_missing(contents: Iterable[bytes]) -> set[bytes]:
        lacking = missing(contents)
        for source in sources:
            found = source.vectors(lacking)
            adopted.update(found)
            lacking = lacking.difference(found)
        return lacking

    def handle(batch: Sequence[Request]) -> list[Outcome]:
        adopted.clear()
        outcomes = preparer.run(batch, find_missing)
        for outcome in outcomes if adopted else ():
            if isinstance(outcome, Version):
                contents = (row[_CONTENT] for row in outcome.chunks)
                outcome.adopted = {name: adopted[name] for name in contents if name in adopted}
        return outcomes

    return handle


def _make_portable(error: Exception) -> LookfarError:
    """Convert any error to one that can certainly be pickled."""
    return as_out_of_memory(error) or IOFailed(
        "A worker process could not prepare its files.",
        hint="Set index.workers = 1 to find the file that causes it.",
        developer="".join(traceback.format_exception(error)),
    )
