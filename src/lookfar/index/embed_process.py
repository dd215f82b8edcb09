"""Embed texts with the second model in a child process of low priority.

The interpreter lock of a server stays free, and the system gives the cores to searches first.
"""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Final

from lookfar.common.frames import receive_frame, send_frame
from lookfar.common.programs import OWN_GROUP
from lookfar.config import child_environment
from lookfar.errors import IOFailed, LookfarError, ModelUnavailable, as_out_of_memory
from lookfar.index.quality_pass import Encoded, encode_texts

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
