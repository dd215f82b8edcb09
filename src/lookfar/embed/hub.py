"""Models from the hub: fetched once, checked, kept, and found again without a network.

Takes: the name of a model and where models lie. Gives: its folder, complete and checked.
Refuses: to fetch when told to stay offline, files whose hash is not the one that the hub names,
and names of files that leave the folder.

A download lies beside its place under another name until every file of it is there and has the
right SHA-256; then it is renamed. What was fetched before a cut is not fetched again. Two
processes may fetch the same model at once: both write the same bytes to the same places.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from hashlib import sha1, sha256
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lookfar.common.folders import folder_bytes, make_private
from lookfar.common.locks import try_lock
from lookfar.config import data_dir
from lookfar.errors import ModelUnavailable, from_os_error

if TYPE_CHECKING:
    import httpx2

RECEIPT = "lookfar.json"
"""Of a fetched model: which one it is, and the SHA-256 of each file."""

_SMALL_FILES = (
    "config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
)
_POOLING = "_Pooling/config.json"
_PIECE = 1 << 20
_LONGEST_PAUSE = 60.0
_TRANSIENT = frozenset((408, 425, 429, 500, 502, 503, 504))
_SAY_SECONDS = 5.0
_LOOK_AGAIN_SECONDS = 0.05
_MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Fetching:
    """How far a download has come."""

    model: str
    bytes: int
    total_bytes: int


OnFetch = Callable[[Fetching], None]


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    size: int
    sha256: str
    """Empty for a small file, which the hub names by its git hash instead."""
    git: str


def say(progress: Fetching, *, last: list[float]) -> None:
    """A plain line on stderr at the beginning, at the end, and now and then between them."""
    now = time.monotonic()
    ends = progress.bytes in (0, progress.total_bytes)
    if not ends and last and now - last[0] < _SAY_SECONDS:
        return
    last[:] = [now]
    done, total = progress.bytes / _MB, progress.total_bytes / _MB
    sys.stderr.write(f"Fetching the model {progress.model}: {done:.0f} of {total:.0f} MB\n")
    sys.stderr.flush()


def fetched(
    name: str,
    models: Path,
    choose: Callable[[Sequence[str]], Sequence[str]],
    *,
    kind: str,
    hub: str,
    offline: bool,
    retries: int,
    timeout: float,
    on_fetch: OnFetch | None = None,
) -> Path:
    """The folder of the model called ``OWNER/NAME`` or ``OWNER/NAME@REVISION``.

    ``choose`` picks from the names of its large files; ``kind`` tells such choices apart.
    """
    called, _, revision = name.partition("@")
    place = models / f"{called.replace('/', '--')}@{revision or 'main'}-{kind}"
    if (place / RECEIPT).is_file():
        return place
    if offline:
        raise ModelUnavailable(
            f"The model {name} is not on this machine, and embed.offline forbids to fetch it.",
            hint="Fetch it once with embed.offline = false, or give a folder as embed.model.",
            details={"model": name},
        )
    if on_fetch is None:
        last: list[float] = []

        def on_fetch(progress: Fetching) -> None:
            say(progress, last=last)

    import httpx2

    with _alone(place):
        if not (place / RECEIPT).is_file():  # Another process may have fetched it meanwhile.
            with httpx2.Client(timeout=timeout, follow_redirects=True) as client:
                _fetch(_Download(client, hub.rstrip("/"), name, retries), place, choose, on_fetch)
    return place


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """One fetches a model, and whoever else wants it waits."""
    with _disk(f"keeping the model {place.name}"):
        if data_dir() in place.parents:  # Where indexes are, too: for their owner alone.
            make_private(data_dir())
        place.parent.mkdir(parents=True, exist_ok=True)
        lock = place.with_name(f".{place.name}.lock").open("ab")
    with lock:
        while not try_lock(lock.fileno()):
            time.sleep(_LOOK_AGAIN_SECONDS)
        yield


def _fetch(
    download: _Download,
    place: Path,
    choose: Callable[[Sequence[str]], Sequence[str]],
    on_fetch: OnFetch,
) -> None:
    name = download.name
    called, _, revision = name.partition("@")
    commit, listed = download.listing(called, revision or "main")
    files = _wanted(name, listed, choose)
    part = place.with_name(f".{place.name}-{commit[:12]}.part")
    with _disk(f"keeping the model {name}"):
        part.mkdir(parents=True, exist_ok=True)
    _refuse_full_disk(name, files, part)
    download.all(files, part, f"{called}/resolve/{quote(commit)}", on_fetch)
    told = {
        "model": called,
        "revision": commit,
        "files": {each.path: digest(part / each.path, sha256()) for each in files},
    }
    with _disk(f"keeping the model {name}"):
        (part / RECEIPT).write_text(json.dumps(told, indent=2), encoding="utf-8")
        if place.exists():  # Without a receipt: somebody emptied it.
            shutil.rmtree(place)
        os.replace(part, place)


class _Download:
    """The requests for one model; what may pass is tried again."""

    def __init__(self, client: httpx2.Client, hub: str, name: str, retries: int) -> None:
        self._client = client
        self._hub = hub
        self.name = name
        self._retries = retries

    def listing(self, called: str, revision: str) -> tuple[str, list[_File]]:
        """The commit that a revision means, and its files."""
        address = f"{self._hub}/api/models/{called}/revision/{quote(revision, safe='')}?blobs=true"

        def ask() -> Any:
            answer = self._client.get(address)
            self._refuse(answer)
            return answer.json()

        try:
            told = self._tried(ask)
            files = [_file(each) for each in told["siblings"]]
            return str(told["sha"]), files
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._failed("the hub's answer makes no sense", repr(error)) from error

    def all(self, files: Sequence[_File], part: Path, under: str, on_fetch: OnFetch) -> None:
        total = sum(each.size for each in files)
        before = 0
        on_fetch(Fetching(self.name, 0, total))
        for each in files:

            def report(done: int, before: int = before) -> None:
                on_fetch(Fetching(self.name, min(before + done, total - 1), total))

            address = f"{self._hub}/{under}/{quote(each.path)}"
            self._checked(each, address, part / each.path, report)
            before += each.size
        on_fetch(Fetching(self.name, total, total))

    def _checked(
        self, file: _File, address: str, path: Path, report: Callable[[int], None]
    ) -> None:
        """One file with the right hash; where it is wrong, once more from the beginning."""
        with _disk(f"keeping {path.name}"):
            path.parent.mkdir(parents=True, exist_ok=True)
        for again in (True, False):
            self._tried(lambda: self._get(file, address, path, report))
            if _is(file, path):
                return
            with _disk(f"removing {path.name}"):
                path.unlink(missing_ok=True)
            if not again:
                raise ModelUnavailable(
                    f"{file.path} of the model {self.name} arrived damaged twice.",
                    hint="Try again later, or fetch the model yourself and give its folder"
                    " as embed.model.",
                    developer=f"its SHA-256 is not {file.sha256 or file.git}",
                    details={"model": self.name, "file": file.path},
                )

    def _get(self, file: _File, address: str, path: Path, report: Callable[[int], None]) -> None:
        """Append what is missing; a server that knows no ranges sends everything again."""
        have = path.stat().st_size if path.exists() else 0
        if have == file.size and have:
            return
        if have > file.size:
            have = 0
        # Bytes of the file, not of some encoding of it: a range counts those.
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        with self._client.stream("GET", address, headers=headers) as answer:
            if answer.status_code == 416:
                with _disk(f"removing {path.name}"):
                    path.unlink(missing_ok=True)
                raise _Passing("the hub knows no such part of the file", 0.0)
            self._refuse(answer)
            at = have if answer.status_code == 206 else 0
            with _disk(f"keeping {path.name}"):
                path.touch()  # And not emptied: what is there may be worth going on from.
            with _disk(f"keeping {path.name}"), path.open("r+b") as out:
                out.seek(at)
                for piece in answer.iter_raw():
                    out.write(piece)
                    at += len(piece)
                    report(at)
                if at >= file.size:
                    out.truncate()
                out.flush()
                os.fsync(out.fileno())
        if at < file.size:
            raise _Passing(f"the connection ended after {at:,} of {file.size:,} bytes", 0.0)

    def _tried(self, ask: Callable[[], Any]) -> Any:
        import httpx2

        for attempt in range(self._retries + 1):
            try:
                return ask()
            except (_Passing, httpx2.TransportError) as error:
                if attempt == self._retries:
                    raise self._failed(str(error) or type(error).__name__, repr(error)) from error
                asked = error.after if isinstance(error, _Passing) else 0.0
                time.sleep(pause(attempt, asked))
            except httpx2.HTTPError as error:
                raise self._failed(str(error) or type(error).__name__, repr(error)) from error
        raise AssertionError("unreachable")

    def _refuse(self, answer: httpx2.Response) -> None:
        status = answer.status_code
        if status in _TRANSIENT:
            raise _Passing(f"the hub answers {status}", retry_after(answer.headers))
        if status in (401, 403, 404):
            raise ModelUnavailable(
                f"The hub has no model {self.name} that everybody may read.",
                hint="Check the name (OWNER/NAME), or fetch the model yourself and give its"
                " folder as embed.model.",
                developer=f"{status} from {self._hub}",
                details={"model": self.name, "status": status},
            )
        if status >= 400:
            raise self._failed(f"the hub answers {status}", f"{status} from {self._hub}")

    def _failed(self, why: str, developer: str) -> ModelUnavailable:
        return ModelUnavailable(
            f"The model {self.name} could not be fetched: {why}.",
            hint="Check the network and try again: what was fetched is kept. Or fetch the model"
            " yourself and give its folder as embed.model.",
            developer=developer,
            details={"model": self.name},
        )


class _Passing(Exception):
    """Something that may be over when it is tried again, perhaps ``after`` so many seconds."""

    def __init__(self, why: str, after: float) -> None:
        super().__init__(why)
        self.after = after


def pause(attempt: int, asked: float) -> float:
    """Seconds before the next attempt: as asked for, or longer each time and never alike."""
    if asked:
        return min(asked, _LONGEST_PAUSE)
    return min(_LONGEST_PAUSE, 0.25 * 2.0**attempt) * random.uniform(0.5, 1.0)


def retry_after(headers: Mapping[str, str]) -> float:
    """What a ``Retry-After`` header asks for, in seconds or as a date; 0 without one."""
    asked = headers.get("retry-after", "")
    with suppress(ValueError):
        return max(0.0, float(asked)) if float(asked) < float("inf") else 0.0
    with suppress(ValueError, TypeError):
        left: float = (parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds()
        return max(0.0, left)
    return 0.0


def _file(told: Mapping[str, Any]) -> _File:
    path = str(told["rfilename"])
    large = told.get("lfs") or {}
    size = int(large.get("size") or told.get("size") or 0)
    return _File(path, size, str(large.get("sha256", "")), str(told.get("blobId", "")))


def _wanted(
    name: str, listed: Sequence[_File], choose: Callable[[Sequence[str]], Sequence[str]]
) -> list[_File]:
    by_path = {each.path: each for each in listed if _stays_inside(each.path)}
    large = choose(sorted(by_path))
    if not large:
        raise ModelUnavailable(
            f"The model {name} has no ONNX file.",
            hint="Choose a model with an onnx folder, or convert it and give its folder"
            " as embed.model.",
            details={"model": name},
        )
    small = [path for path in by_path if path in _SMALL_FILES or path.endswith(_POOLING)]
    return [by_path[path] for path in (*sorted(small), *large)]


def _stays_inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and "\\" not in path


def _is(file: _File, path: Path) -> bool:
    """Whether the bytes are those that the hub names, by SHA-256 or as git names them."""
    if file.sha256:
        return digest(path, sha256()) == file.sha256
    if not file.git:
        return path.stat().st_size == file.size
    return digest(path, sha1(b"blob %d\0" % path.stat().st_size)) == file.git


def digest(path: Path, made: Any) -> str:
    """The hash of a file, in hexadecimal."""
    with _disk(f"reading {path.name}"), path.open("rb") as file:
        while piece := file.read(_PIECE):
            made.update(piece)
    return str(made.hexdigest())


def receipt(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file of a fetched model, as it was checked then; else nothing."""
    try:
        told = json.loads((folder / RECEIPT).read_text("utf-8"))["files"]
        return {str(path): str(value) for path, value in told.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _refuse_full_disk(name: str, files: Sequence[_File], part: Path) -> None:
    needed = sum(each.size for each in files)
    with _disk(f"keeping the model {name}"):
        have = folder_bytes(part)
        free = shutil.disk_usage(part).free
    if needed - have > free:
        raise ModelUnavailable(
            f"The model {name} needs {(needed - have) / _MB:,.0f} MB, and the disk has"
            f" {free / _MB:,.0f} MB free.",
            hint="Make room, or choose another embed.models_dir.",
            details={"model": name, "needed": needed - have, "free": free},
        )


@contextmanager
def _disk(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise from_os_error(error, what) from error


def made(path: Path, make: Callable[[Path], None]) -> None:
    """A file that ``make`` writes under another name first: whole, or not there."""
    with _disk(f"keeping {path.name}"):
        path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{os.getpid()}-{path.name}")
    try:
        make(temporary)
        with _disk(f"keeping {path.name}"):
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
