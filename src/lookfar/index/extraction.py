"""Extract the text of documents in a child process, with limits on time, memory and output.

If a file crashes, hangs or exhausts the process, the process is replaced and only that file is
skipped, with a reason. The process answers in JSON, not with pickles, because a hostile file may
have taken it over. It cannot write files and does not get the user's environment.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from threading import Event, Thread
from time import monotonic
from typing import IO, Any, Final, NamedTuple

from lookfar.common.programs import OWN_GROUP, python_program
from lookfar.config import bare_environment
from lookfar.index.child_memory import LIMITED_BY_SYSTEM, resident_bytes
from lookfar.index.reconcile import name_extractor
from lookfar.model import Places, Skipped
from lookfar.sources.fingerprints import is_binary
from lookfar.text.extract.extracted import Allowance, CannotExtract, Extracted, Place
from lookfar.text.extract.formats import EXTRACTORS, extract, extractor_for, is_template
from lookfar.text.normalise import decode, normalise_lines, normalise_text

_LENGTH: Final = 8
_NICENESS: Final = 10
_CHILD: Final = "from lookfar.index.extraction import main; main()"
_PATIENCE: Final = 4
"""Wall-clock seconds allowed per second of processor time: other programs may be busy, too."""
_MOST_BYTES: Final = 256 << 20
"""The size of the largest answer that is accepted."""
_MOST_FILES: Final = 500
"""The process is replaced after this many files, because it cannot free all of its memory."""

TIMED_OUT: Final = "timed_out"
OUT_OF_MEMORY: Final = "out_of_memory"
CRASHED: Final = "crashed"
_TOO_MUCH_MEMORY: Final = "extracting its text needs more memory than sources.extract_memory_bytes"
_CHECK_MEMORY_EVERY: Final = 0.1
"""Seconds between two looks at the memory of a process that the system does not limit."""


class Extraction:
    """A process that extracts one file after another; it starts with the first one."""

    def __init__(self, allowance: Allowance, program: str = _CHILD) -> None:
        """``program`` is Python source that calls :func:`main`."""
        self._allowance = allowance
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self._files = 0

    def extract(self, uri: str, raw: bytes) -> Extracted | Skipped:
        """Return the text of a file whose name has an extractor, or why it is skipped."""
        process = self._start()
        watch = _Watch(process, self._allowance)
        watch.start()
        try:
            answer = _ask(process, uri, raw)
        finally:
            watch.finished.set()
        self._files += 1
        if answer is None or answer.get("leaves") or self._files >= _MOST_FILES:
            code = self._stop()
            if answer is None:
                return self._explain_death(uri, code, watch.killed_for)
        if "error" in answer:
            return Skipped(uri, str(answer["error"]), str(answer["reason"]))
        return _read_answer(answer)

    def close(self) -> None:
        self._stop()

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._stop()
            # The same bytes must always give the same text.
            fixed = {"PYTHONHASHSEED": "0"}
            program, variables = python_program()
            self._process = subprocess.Popen(
                [program, "-c", self._program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=bare_environment(fixed | variables),
                **OWN_GROUP,
            )
            with suppress(OSError):  # If it died already, the first file will report that.
                _send(self._process, json.dumps(self._allowance))
        return self._process

    def _stop(self) -> int:
        """End the process and return its exit status."""
        process, self._process, self._files = self._process, None, 0
        if process is None:
            return 0
        # A process that has answered ends by itself; one that crashed has ended.
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        try:
            process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        return process.returncode

    def _explain_death(self, uri: str, code: int, killed_for: str) -> Skipped:
        if killed_for == OUT_OF_MEMORY:
            return Skipped(uri, OUT_OF_MEMORY, _TOO_MUCH_MEMORY)
        if killed_for or code == -getattr(signal, "SIGXCPU", 0):
            seconds = f"{self._allowance.seconds:g}"
            return Skipped(uri, TIMED_OUT, f"its text was not extracted within {seconds} seconds")
        return Skipped(uri, CRASHED, "extracting its text crashed the process")


class _Watch(Thread):
    """Kills the process if one file takes too long or, without a system limit, too much memory."""

    def __init__(self, process: subprocess.Popen[bytes], allowance: Allowance) -> None:
        super().__init__(daemon=True)
        self.finished = Event()
        """To be set when the file is done."""
        self.killed_for = ""
        """``timed_out`` or ``out_of_memory``; empty if the process was not killed."""
        self._process = process
        self._allowance = allowance

    def run(self) -> None:
        deadline = monotonic() + self._allowance.seconds * _PATIENCE
        while (left := deadline - monotonic()) > 0:
            if self.finished.wait(left if LIMITED_BY_SYSTEM else min(left, _CHECK_MEMORY_EVERY)):
                return
            if LIMITED_BY_SYSTEM:
                continue
            handle = int(getattr(self._process, "_handle", 0))
            if resident_bytes(self._process.pid, handle) > self._allowance.memory_bytes:
                self._kill(OUT_OF_MEMORY)
                return
        self._kill(TIMED_OUT)

    def _kill(self, reason: str) -> None:
        self.killed_for = reason
        self._process.kill()


def _ask(process: subprocess.Popen[bytes], uri: str, raw: bytes) -> dict[str, Any] | None:
    """Send a file to the process and return its answer; None if there is no valid answer."""
    assert process.stdout is not None
    try:
        _send(process, uri, raw)
        length = process.stdout.read(_LENGTH)
        size = int.from_bytes(length, "little")
        if len(length) < _LENGTH or size > _MOST_BYTES:
            process.kill()
            return None
        data = process.stdout.read(size)
        answer = json.loads(data) if len(data) == size else None
    except (OSError, ValueError):
        process.kill()
        return None
    return answer if isinstance(answer, dict) else None


def _send(process: subprocess.Popen[bytes], text: str, raw: bytes = b"") -> None:
    assert process.stdin is not None
    for part in (text.encode("utf-8", "surrogatepass"), raw):
        process.stdin.write(len(part).to_bytes(_LENGTH, "little"))
        process.stdin.write(part)
    process.stdin.flush()


def _read_answer(answer: dict[str, Any]) -> Extracted:
    return Extracted(
        text=str(answer["text"]),
        places=tuple(Place(int(start), str(label)) for start, label in answer["places"]),
        title=str(answer["title"]),
        warnings=tuple(map(str, answer["warnings"])),
    )


# -- inside the process ----------------------------------------------------------------------------


def main() -> None:
    """Answer each file on standard input with its text, until the input ends."""
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # What a library prints must not break the frames.
    try:
        seconds, memory_bytes = json.loads(_receive(requests))
        _receive(requests)
        _confine(memory_bytes)
        leaves = False
        while not leaves:
            uri = _receive(requests).decode("utf-8", "surrogatepass")
            raw = _receive(requests)
            _limit_time(seconds)
            answer = _answer(uri, raw)
            leaves = bool(answer.get("leaves"))
            data = json.dumps(answer).encode("ascii")
            del raw, answer
            answers.write(len(data).to_bytes(_LENGTH, "little"))
            answers.write(data)
            answers.flush()
            gc.collect()
    except (EOFError, OSError):
        pass  # The parent is gone.
    os._exit(0)


def _answer(uri: str, raw: bytes) -> dict[str, Any]:
    row = extractor_for(uri)
    assert row is not None, f"no extractor for {uri} among {len(EXTRACTORS)}"
    try:
        extracted = extract(row, raw)
    except CannotExtract as refusal:
        return {"error": refusal.code, "reason": refusal.reason}
    except MemoryError:
        return {"error": OUT_OF_MEMORY, "reason": _TOO_MUCH_MEMORY, "leaves": True}
    except RecursionError:
        return {"error": "damaged", "reason": "its parts are nested too deeply"}
    except Exception as error:  # A damaged file can fail in any way.
        return {"error": "damaged", "reason": f"it could not be parsed ({type(error).__name__})"}
    return {
        "text": extracted.text,
        "places": [(place.start, place.label) for place in extracted.places],
        "title": extracted.title,
        "warnings": extracted.warnings,
    }


def _receive(pipe: IO[bytes]) -> bytes:
    length = pipe.read(_LENGTH)
    size = int.from_bytes(length, "little")
    data = pipe.read(size)
    if len(length) < _LENGTH or len(data) < size:
        raise EOFError
    return data


def _confine(memory_bytes: int) -> None:
    """Limit memory and forbid writing files and core dumps, where the system supports it.

    Where it does not limit memory, the parent watches it.
    """
    if sys.platform == "win32":
        return
    import resource

    for limit, most in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(OSError, ValueError):  # A lower limit is in force already.
            resource.setrlimit(limit, (most, most))


def _limit_time(seconds: float) -> None:
    """Let the system end this process after this many more seconds of processor time."""
    if sys.platform == "win32":
        return
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime + seconds) + 1
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))


_TEXT_FORMATS: Final = frozenset((".html", ".csv", ".ipynb", ".srt", ".canvas", ".eml"))
"""The first extension of each text format: files in these formats can be read as source."""
_MOST_SOURCE: Final = 1 << 20
"""Larger files are not read as source."""


class Content(NamedTuple):
    """The normalised text of a file, and how it was read."""

    text: str
    raw_sha: bytes
    """SHA-256 of the file's bytes."""
    warnings: tuple[str, ...] = ()
    encoding: str = ""
    title: str = ""
    """The title in the file's metadata, if it was extracted."""
    extractor: str = ""
    """Name and version of the extractor; empty for a file that has none."""
    as_source: bool = False
    """Whether the text is the source of the file, although there is an extractor for it."""
    places: Places = ()


def decode_content(raw: bytes) -> Content:
    """Return the content of a text file."""
    decoded = decode(raw)
    return Content(
        normalise_lines(decoded.text), sha256(raw).digest(), decoded.warnings, decoded.encoding
    )


def restore_content(text: str, metadata: str) -> Content:
    """Return the content of a stored document from its text and its metadata."""
    stored = json.loads(metadata)
    return Content(
        text,
        b"",
        title=stored.get("file_title", ""),
        extractor=stored.get("extractor", ""),
        as_source=stored.get("as_source", False),
    )


def extract_content(uri: str, raw: bytes, extraction: Extraction) -> Content | Skipped:
    """Return the content of a file whose name has an extractor, or why it is skipped."""
    row = extractor_for(uri)
    assert row is not None
    if row.extensions[0] == ".html" and is_template(raw):
        return _read_as_source(uri, raw)
    extracted = extraction.extract(uri, raw)
    if isinstance(extracted, Extracted):
        return Content(
            text=normalise_text(extracted.text),
            raw_sha=sha256(raw).digest(),
            warnings=extracted.warnings,
            title=extracted.title,
            extractor=name_extractor(uri),
            places=tuple((place.start, place.label) for place in extracted.places),
        )
    is_text = row.extensions[0] in _TEXT_FORMATS and len(raw) <= _MOST_SOURCE
    if is_text and raw.strip() and not is_binary(raw, known=False):
        source = _read_as_source(uri, raw)
        warning = f"read as source, because {extracted.detail}"
        return source._replace(warnings=(warning, *source.warnings))
    return replace(extracted, uri=uri)


def _read_as_source(uri: str, raw: bytes) -> Content:
    return decode_content(raw)._replace(extractor=name_extractor(uri), as_source=True)
