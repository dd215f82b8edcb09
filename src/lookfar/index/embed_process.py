"""Embed texts with the second model in a child process of low priority.

The interpreter lock of a server stays free, and the system gives the cores to searches first.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Final

from lookfar.common.frames import receive_frame, send_frame
from lookfar.common.programs import OWN_GROUP
from lookfar.config import child_environment
from lookfar.errors import IOFailed, LookfarError, ModelUnavailable, as_out_of_memory
from lookfar.ports import (
    LackingDocument,
    Place,
    QualityPassage,
    QualityWriter,
    SecondModel,
    Store,
)
from lookfar.text.chunk.identity import heading_context

if TYPE_CHECKING:
    from lookfar.embed.quality import QualityModel

# Not "-m": a child running as __main__ would pickle names of a module the parent does not have.
_CHILD: Final = "from lookfar.index.embed_process import main; main()"
BACKGROUND: Final = 19
"""The lowest priority."""
FOREGROUND: Final = 5
"""For a command that waits."""
THREADS: Final = min(2, os.cpu_count() or 1)
"""Cores that a process uses."""


class EmbedProcess:
    """A child process with the second model; it starts with the first text, also after
    ``close``."""

    def __init__(self, folder: Path, fingerprint: str = "", *, niceness: int = BACKGROUND) -> None:
        """The process refuses a model with another ``fingerprint``, unless that is empty."""
        self._about = (str(folder), fingerprint, niceness)
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = Lock()
        self._interrupted = False

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        """Return a float16 vector for each text; None for one that the model does not read."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            send_frame(process.stdin, list(texts))
            answer: list[Encoded] | LookfarError = receive_frame(process.stdout)
        except (EOFError, BrokenPipeError) as error:
            self.close()
            raise IOFailed(
                "The process that embeds passages has ended.",
                hint="A server starts it again in a minute; searching works meanwhile.",
                developer=f"exit status {process.returncode}",
            ) from error
        if isinstance(answer, LookfarError):
            raise answer
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        # Only Windows has it; elsewhere the child lowers its priority itself.
        idle = getattr(subprocess, "IDLE_PRIORITY_CLASS", 0)
        with self._starting:
            if self._interrupted:
                raise IOFailed(
                    "Embedding was interrupted.", hint="What was embedded before is kept."
                )
            self._process = process = subprocess.Popen(
                [sys.executable, "-c", _CHILD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=child_environment({"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "0"}),
                **OWN_GROUP | {"creationflags": OWN_GROUP.get("creationflags", 0) | idle},
            )
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # The first batch will report it.
            send_frame(process.stdin, self._about)
        return process

    def interrupt(self) -> None:
        """End the process from another thread: ``encode`` raises ``IOFailed`` from then on."""
        with self._starting:
            self._interrupted = True
            process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process; what it is embedding is lost."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def main() -> None:
    """Run the child: read the model's folder, then texts until the parent closes the pipe."""
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr  # What a library prints must not break the frames.
    try:
        _serve(sys.stdin.buffer, answers)
    except (EOFError, BrokenPipeError):
        # The parent is gone. Exit at once: closing the pipe would fail a second time.
        os._exit(0)


def _serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    folder, fingerprint, niceness = receive_frame(requests)
    if hasattr(os, "nice"):
        os.nice(niceness)
    model: QualityModel | None = None
    while True:
        texts: list[str] = receive_frame(requests)
        answer: list[Encoded] | LookfarError
        try:
            model = model or _open_model(Path(folder), fingerprint)
            answer = encode_texts(model, texts)
        except LookfarError as error:
            answer = error
        except Exception as error:
            answer = as_out_of_memory(error) or IOFailed(
                "The second model could not embed a batch of passages.",
                hint="If this happens again, set quality.enabled to off.",
                developer="".join(traceback.format_exception(error)),
            )
        send_frame(answers, answer)


def _open_model(folder: Path, fingerprint: str) -> QualityModel:
    from lookfar.embed.quality import QualityModel

    model = QualityModel(folder)
    if fingerprint not in ("", model.fingerprint):
        raise ModelUnavailable(
            "The second model was upgraded while passages were being embedded.",
            hint="A server goes on with the new one in a minute.",
        )
    return model


Encoded = bytes | None
"""A float16 vector; None for a text that the model does not read."""
Encode = Callable[[Sequence[str]], list[Encoded]]
OnBatch = Callable[[int], None]
"""Called with the number of passages that were just dealt with; may raise to stop the pass."""
Prefer = Callable[[Sequence[LackingDocument]], Sequence[LackingDocument]]
"""Puts documents in the order in which they are embedded."""

_PATH_WORDS = re.compile(r"[\w.]+")
BATCH = 128
"""Passages that are embedded and stored together; texts of like length share a run."""
_DOCUMENTS_AT_ONCE = 32


def compose_passage(place: Place, text: str) -> str:
    """Return the text of a chunk that the second model embeds: its headings or path, then itself.

    It depends on nothing but what the content name of the chunk covers.
    """
    passage = text[place.start : place.end].strip()
    if place.lane == "code":
        return "\n".join((" ".join(_PATH_WORDS.findall(place.uri)), " ".join(place.path), passage))
    if place.lane == "documents":
        return passage
    context = heading_context(place.title, place.path)
    return f"{context}\n{passage}" if context else passage


def encode_texts(model: SecondModel, texts: Sequence[str]) -> list[Encoded]:
    """Return a float16 vector for each text; None for one that the model does not read."""
    encoded: list[Encoded] = [None] * len(texts)
    readable = [at for at, text in enumerate(texts) if model.reads(text)]
    vectors = model.embed([texts[at] for at in readable]).astype("<f2")
    for at, vector in zip(readable, vectors, strict=True):
        encoded[at] = vector.tobytes() if vector.any() else None
    return encoded


def run_quality_pass(
    store: Store,
    model: SecondModel,
    *,
    encode: Encode | None = None,
    on_batch: OnBatch | None = None,
    prefer: Prefer | None = None,
    most: int | None = None,
) -> int:
    """Embed passages that lack a vector, all or about ``most``; return how many were dealt with.

    ``encode`` replaces the model's own function, for example by that of another process.
    """
    done = 0
    with store.quality_writer(model.fingerprint, model.dimensions) as writer:
        for batch in _iterate_batches(writer, prefer):
            texts = [passage.text for passage in batch]
            encoded = encode(texts) if encode is not None else encode_texts(model, texts)
            writer.put(list(zip(batch, encoded, strict=True)))
            done += len(batch)
            if on_batch is not None:
                on_batch(len(batch))
            if most is not None and done >= most:
                break
    return done


def _iterate_batches(
    writer: QualityWriter, prefer: Prefer | None
) -> Iterator[list[QualityPassage]]:
    documents: Sequence[LackingDocument] = writer.list_documents()
    if prefer is not None:
        documents = prefer(documents)
    waiting: list[QualityPassage] = []
    begun: set[int] = set()
    for first in range(0, len(documents), _DOCUMENTS_AT_ONCE):
        some = [document.number for document in documents[first : first + _DOCUMENTS_AT_ONCE]]
        passages = writer.read(some, compose_passage)
        # Documents with equal passages share their vectors.
        waiting += [passage for passage in passages if passage.row not in begun]
        begun.update(passage.row for passage in passages)
        while len(waiting) >= BATCH:
            yield waiting[:BATCH]
            waiting = waiting[BATCH:]
    if waiting:
        yield waiting
