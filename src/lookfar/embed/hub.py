"""Download models from the hub: once, with verified hashes, and resumable.

A download is in a temporary folder until every file has the hash that the hub states; then the
folder is renamed. An interrupted download continues where it stopped. A file lock makes other
processes that want the same model wait.
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
from lookfar.common.programs import try_lock
from lookfar.config import data_dir
from lookfar.errors import ModelUnavailable, from_os_error

if TYPE_CHECKING:
    import httpx2

RECEIPT = "lookfar.json"
"""In the folder of a downloaded model: its name, revision and the SHA-256 of each file."""

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
_READ_BYTES = 1 << 20
_MAX_PAUSE = 60.0
_TRANSIENT = frozenset((408, 425, 429, 500, 502, 503, 504))
_PROGRESS_SECONDS = 5.0
_LOCK_POLL_SECONDS = 0.05
_MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Fetching:
    model: str
    bytes: int
    total_bytes: int


OnFetch = Callable[[Fetching], None]


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    size: int
    sha256: str
    """Empty for a small file, for which the hub states the git hash instead."""
    git: str


def print_progress(progress: Fetching, *, last: list[float]) -> None:
    """Print the progress to stderr at the start, at the end, and every few seconds."""
    now = time.monotonic()
    ends = progress.bytes in (0, progress.total_bytes)
    if not ends and last and now - last[0] < _PROGRESS_SECONDS:
        return
    last[:] = [now]
    done, total = progress.bytes / _MB, progress.total_bytes / _MB
    sys.stderr.write(f"Downloading the model {progress.model}: {done:.0f} of {total:.0f} MB\n")
    sys.stderr.flush()


def fetch(
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
    """Return the folder of the model ``OWNER/NAME`` or ``OWNER/NAME@REVISION``, after a download
    if needed.

    ``choose`` picks from the names of its files; ``kind`` distinguishes such choices.
    """
    repository, _, revision = name.partition("@")
    place = models / f"{repository.replace('/', '--')}@{revision or 'main'}-{kind}"
    if (place / RECEIPT).is_file():
        return place
    if offline:
        raise ModelUnavailable(
            f"The model {name} is not on this machine, and embed.offline forbids downloads.",
            hint="Download it once with embed.offline = false, or set embed.model to a folder.",
            details={"model": name},
        )
    if on_fetch is None:
        last: list[float] = []

        def on_fetch(progress: Fetching) -> None:
            print_progress(progress, last=last)

    import httpx2

    with _lock(place):
        if not (place / RECEIPT).is_file():  # Another process may have downloaded it meanwhile.
            with httpx2.Client(timeout=timeout, follow_redirects=True) as client:
                _download(
                    _Download(client, hub.rstrip("/"), name, retries), place, choose, on_fetch
                )
    return place


@contextmanager
def _lock(place: Path) -> Iterator[None]:
    """Let only one process download a model; others wait."""
    with _io_errors(f"storing the model {place.name}"):
        if data_dir() in place.parents:  # This folder also has indexes, which are private.
            make_private(data_dir())
        place.parent.mkdir(parents=True, exist_ok=True)
        lock = place.with_name(f".{place.name}.lock").open("ab")
    with lock:
        while not try_lock(lock.fileno()):
            time.sleep(_LOCK_POLL_SECONDS)
        yield


def _download(
    download: _Download,
    place: Path,
    choose: Callable[[Sequence[str]], Sequence[str]],
    on_fetch: OnFetch,
) -> None:
    name = download.name
    repository, _, revision = name.partition("@")
    commit, listed = download.list_files(repository, revision or "main")
    files = _choose_files(name, listed, choose)
    temporary = place.with_name(f".{place.name}-{commit[:12]}.part")
    with _io_errors(f"storing the model {name}"):
        temporary.mkdir(parents=True, exist_ok=True)
    _check_disk_space(name, files, temporary)
    download.fetch_files(files, temporary, f"{repository}/resolve/{quote(commit)}", on_fetch)
    receipt = {
        "model": repository,
        "revision": commit,
        "files": {file.path: hash_file(temporary / file.path, sha256()) for file in files},
    }
    with _io_errors(f"storing the model {name}"):
        (temporary / RECEIPT).write_text(json.dumps(receipt, indent=2), encoding="utf-8")
        if place.exists():  # It has no receipt, so it is incomplete.
            shutil.rmtree(place)
        os.replace(temporary, place)


class _Download:
    """The requests for one model; transient failures are retried."""

    def __init__(self, client: httpx2.Client, hub: str, name: str, retries: int) -> None:
        self._client = client
        self._hub = hub
        self.name = name
        self._retries = retries

    def list_files(self, repository: str, revision: str) -> tuple[str, list[_File]]:
        """Return the commit of a revision, and its files."""
        address = (
            f"{self._hub}/api/models/{repository}/revision/{quote(revision, safe='')}?blobs=true"
        )

        def ask() -> Any:
            answer = self._client.get(address)
            self._check_status(answer)
            return answer.json()

        try:
            listing = self._retry(ask)
            files = [_parse_file(entry) for entry in listing["siblings"]]
            return str(listing["sha"]), files
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._failed("the hub sent an invalid answer", repr(error)) from error

    def fetch_files(
        self, files: Sequence[_File], folder: Path, under: str, on_fetch: OnFetch
    ) -> None:
        total = sum(file.size for file in files)
        before = 0
        on_fetch(Fetching(self.name, 0, total))
        for file in files:

            def report(done: int, before: int = before) -> None:
                on_fetch(Fetching(self.name, min(before + done, total - 1), total))

            address = f"{self._hub}/{under}/{quote(file.path)}"
            self._fetch_file(file, address, folder / file.path, report)
            before += file.size
        on_fetch(Fetching(self.name, total, total))

    def _fetch_file(
        self, file: _File, address: str, path: Path, report: Callable[[int], None]
    ) -> None:
        """Fetch a file and check its hash; if it is wrong, fetch it once more."""
        with _io_errors(f"storing {path.name}"):
            path.parent.mkdir(parents=True, exist_ok=True)
        for may_repeat in (True, False):
            self._retry(lambda: self._get(file, address, path, report))
            if _has_hash(file, path):
                return
            with _io_errors(f"removing {path.name}"):
                path.unlink(missing_ok=True)
            if not may_repeat:
                raise ModelUnavailable(
                    f"{file.path} of the model {self.name} was damaged in transfer twice.",
                    hint="Try again later, or download the model yourself and set embed.model to"
                    " its folder.",
                    developer=f"its SHA-256 is not {file.sha256 or file.git}",
                    details={"model": self.name, "file": file.path},
                )

    def _get(self, file: _File, address: str, path: Path, report: Callable[[int], None]) -> None:
        """Fetch the missing end of a file; a server without ranges sends all of it."""
        have = path.stat().st_size if path.exists() else 0
        if have == file.size and have:
            return
        if have > file.size:
            have = 0
        # Ranges must count bytes of the file, not of a compressed encoding.
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        with self._client.stream("GET", address, headers=headers) as answer:
            if answer.status_code == 416:
                with _io_errors(f"removing {path.name}"):
                    path.unlink(missing_ok=True)
                raise _Transient("the hub does not have this part of the file", 0.0)
            self._check_status(answer)
            position = have if answer.status_code == 206 else 0
            with _io_errors(f"storing {path.name}"):
                path.touch()  # Keeps its content, to continue from there.
            with _io_errors(f"storing {path.name}"), path.open("r+b") as out:
                out.seek(position)
                for data in answer.iter_raw():
                    out.write(data)
                    position += len(data)
                    report(position)
                if position >= file.size:
                    out.truncate()
                out.flush()
                os.fsync(out.fileno())
        if position < file.size:
            raise _Transient(f"the connection ended after {position:,} of {file.size:,} bytes", 0.0)

    def _retry(self, ask: Callable[[], Any]) -> Any:
        import httpx2

        for attempt in range(self._retries + 1):
            try:
                return ask()
            except (_Transient, httpx2.TransportError) as error:
                if attempt == self._retries:
                    raise self._failed(str(error) or type(error).__name__, repr(error)) from error
                requested = error.after if isinstance(error, _Transient) else 0.0
                time.sleep(pause(attempt, requested))
            except httpx2.HTTPError as error:
                raise self._failed(str(error) or type(error).__name__, repr(error)) from error
        raise AssertionError("unreachable")

    def _check_status(self, answer: httpx2.Response) -> None:
        status = answer.status_code
        if status in _TRANSIENT:
            raise _Transient(f"the hub returned status {status}", retry_after(answer.headers))
        if status in (401, 403, 404):
            raise ModelUnavailable(
                f"The hub has no public model {self.name}.",
                hint="Check the name (OWNER/NAME), or download the model yourself and set"
                " embed.model to its folder.",
                developer=f"{status} from {self._hub}",
                details={"model": self.name, "status": status},
            )
        if status >= 400:
            raise self._failed(f"the hub returned status {status}", f"{status} from {self._hub}")

    def _failed(self, reason: str, developer: str) -> ModelUnavailable:
        return ModelUnavailable(
            f"The model {self.name} could not be downloaded: {reason}.",
            hint="Check the network and try again: the download continues where it stopped. Or"
            " download the model yourself and set embed.model to its folder.",
            developer=developer,
            details={"model": self.name},
        )


class _Transient(Exception):
    """A failure worth a retry, ``after`` so many seconds if the server said so."""

    def __init__(self, reason: str, after: float) -> None:
        super().__init__(reason)
        self.after = after


def pause(attempt: int, requested: float) -> float:
    """Return the seconds before the next attempt: as requested, or exponential with jitter."""
    if requested:
        return min(requested, _MAX_PAUSE)
    return min(_MAX_PAUSE, 0.25 * 2.0**attempt) * random.uniform(0.5, 1.0)


def retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds that a ``Retry-After`` header requests; 0 without one."""
    value = headers.get("retry-after", "")
    with suppress(ValueError):
        return max(0.0, float(value)) if float(value) < float("inf") else 0.0
    with suppress(ValueError, TypeError):
        left: float = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        return max(0.0, left)
    return 0.0


def _parse_file(entry: Mapping[str, Any]) -> _File:
    path = str(entry["rfilename"])
    lfs = entry.get("lfs") or {}
    size = int(lfs.get("size") or entry.get("size") or 0)
    return _File(path, size, str(lfs.get("sha256", "")), str(entry.get("blobId", "")))


def _choose_files(
    name: str, listed: Sequence[_File], choose: Callable[[Sequence[str]], Sequence[str]]
) -> list[_File]:
    by_path = {file.path: file for file in listed if _stays_inside(file.path)}
    large = choose(sorted(by_path))
    if not large:
        raise ModelUnavailable(
            f"The model {name} has no ONNX file.",
            hint="Choose a model that has an onnx folder, or convert this one to ONNX and set"
            " embed.model to the folder of the result.",
            details={"model": name},
        )
    small = [path for path in by_path if path in _SMALL_FILES or path.endswith(_POOLING)]
    return [by_path[path] for path in (*sorted(small), *large)]


def _stays_inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and "\\" not in path


def _has_hash(file: _File, path: Path) -> bool:
    """Tell whether a file has the hash that the hub states: SHA-256 or git blob."""
    if file.sha256:
        return hash_file(path, sha256()) == file.sha256
    if not file.git:
        return path.stat().st_size == file.size
    return hash_file(path, sha1(b"blob %d\0" % path.stat().st_size)) == file.git


def hash_file(path: Path, digest: Any) -> str:
    with _io_errors(f"reading {path.name}"), path.open("rb") as file:
        while data := file.read(_READ_BYTES):
            digest.update(data)
    return str(digest.hexdigest())


def read_receipt(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a downloaded model; empty for other folders."""
    try:
        files = json.loads((folder / RECEIPT).read_text("utf-8"))["files"]
        return {str(path): str(value) for path, value in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _check_disk_space(name: str, files: Sequence[_File], folder: Path) -> None:
    needed = sum(file.size for file in files)
    with _io_errors(f"storing the model {name}"):
        have = folder_bytes(folder)
        free = shutil.disk_usage(folder).free
    if needed - have > free:
        raise ModelUnavailable(
            f"The model {name} needs {(needed - have) / _MB:,.0f} MB, but the disk has"
            f" {free / _MB:,.0f} MB free.",
            hint="Free some space, or choose another embed.models_dir.",
            details={"model": name, "needed": needed - have, "free": free},
        )


@contextmanager
def _io_errors(action: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise from_os_error(error, action) from error


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a temporary file, then rename it to ``path``."""
    with _io_errors(f"storing {path.name}"):
        path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{os.getpid()}-{path.name}")
    try:
        write(temporary)
        with _io_errors(f"storing {path.name}"):
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
