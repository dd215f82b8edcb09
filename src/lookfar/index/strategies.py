"""Decide when changes are indexed, and keep the set of changes that wait until then.

The set is saved before anything relies on it; a damaged file means "compare everything".

============  ==============================================================
``realtime``  indexes a change as soon as no more writes follow
``lazy``      collects, and indexes before a query is answered
``git``       collects, and indexes when a commit or checkout moves the head
============  ==============================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Final, Literal, get_args

from lookfar.errors import InvalidArgument
from lookfar.ports import Batch
from lookfar.sources.confine import Root
from lookfar.sources.folder.watch import MOST_NAMED, drop_nested
from lookfar.sources.git.metadata import peek_line
from lookfar.sources.git.repositories import find_repository
from lookfar.store.ground import files
from lookfar.store.ground.records import pack_record, unpack_record
from lookfar.text.parse.formats import is_readable

Strategy = Literal["realtime", "lazy", "git"]
Occasion = Literal["change", "start", "reconcile", "search", "commit", "request"]

STRATEGIES: Final[tuple[Strategy, ...]] = get_args(Strategy)
DIRTY_FILE: Final = "dirty.json"
SEEN_FILE: Final = "seen.json"
"""The stamp of the branches when a pass last found nothing new."""
DEBOUNCE_MS: Final = (250, 30_000)

DUE: Final[Mapping[Strategy, frozenset[Occasion]]] = {
    "realtime": frozenset(get_args(Occasion)),
    "lazy": frozenset(("search", "request")),
    "git": frozenset(("commit", "request")),
}
"""The occasions on which each strategy indexes the collected changes."""

_FORMAT: Final = 1
_REF_TABLES: Final = "reftable/tables.list"
_NO_HEAD: Final = "none"


@dataclass(frozen=True, slots=True)
class Work:
    """The names that one pass compares with the disk."""

    only: frozenset[str] | None
    """URIs, and folders that end in ``/``; None for everything."""


def checked_strategy(name: str) -> Strategy:
    if name not in STRATEGIES:
        raise InvalidArgument(
            f"Unknown indexing strategy: {name!r}.",
            hint=f"Choose one of: {', '.join(STRATEGIES)}.",
        )
    return name


def checked_debounce(milliseconds: int) -> int:
    low, high = DEBOUNCE_MS
    if not low <= milliseconds <= high:
        raise InvalidArgument(
            f"debounce_ms is {milliseconds}.",
            hint=f"Give a number of milliseconds from {low} to {high}.",
        )
    return milliseconds


def documents_among(uris: Iterable[str], any_text: bool = False) -> frozenset[str]:
    """Return the names of folders, and of files that may be indexed."""
    return frozenset(uri for uri in uris if uri.endswith("/") or is_readable(uri, any_text))


class Dirty:
    """The names of changed files that are not indexed yet. May be shared by threads."""

    def __init__(self, folder: Path, any_text: bool = False) -> None:
        """Use the index folder of a collection; nothing is read or written yet.

        With ``any_text``, files of unknown formats count, too.
        """
        self.any_text = any_text
        self._path = folder / DIRTY_FILE
        self._lock = Lock()
        self._uris: set[str] = set()
        self._everything = False
        self._taken: Work | None = None
        self.head = ""
        """The head of the repository when the set was last indexed; empty if unknown."""

    def __len__(self) -> int:
        return len(self.names())

    def __bool__(self) -> bool:
        return self.everything or bool(self.names())

    @property
    def everything(self) -> bool:
        """Whether anything may have changed, so that names are not enough."""
        with self._lock:
            in_progress = self._taken is not None and self._taken.only is None
            return self._everything or in_progress

    def names(self) -> frozenset[str]:
        """Return the names that wait or are being indexed."""
        with self._lock:
            taken = self._taken.only if self._taken else None
            return drop_nested(self._uris | (taken or frozenset()))

    def add(self, uris: Iterable[str] = (), *, everything: bool = False) -> bool:
        """Add names of files that may be indexed; return whether one was new."""
        with self._lock:
            return self._add(uris, everything)

    def _add(self, uris: Iterable[str], everything: bool) -> bool:
        before = (len(self._uris), self._everything)
        if not self._everything:
            self._uris |= documents_among(uris, self.any_text)
        if everything or len(self._uris) > MOST_NAMED:
            self._everything = True
            self._uris.clear()
        return before != (len(self._uris), self._everything)

    def add_batch(self, batch: Batch) -> bool:
        return self.add(batch.uris, everything=batch.everything)

    def take(self) -> Work | None:
        """Return what to index; it stays in the set, and on disk, until ``done``."""
        with self._lock:
            if self._taken is None and (self._uris or self._everything):
                self._taken = Work(None if self._everything else drop_nested(self._uris))
                self._uris.clear()
                self._everything = False
            return self._taken

    def done(self) -> None:
        """Forget what was taken, because it is indexed."""
        with self._lock:
            self._taken = None

    def put_back(self) -> None:
        """Return what was taken to the set, because it could not be indexed."""
        with self._lock:
            # In one step, so that no reader finds the set empty in between.
            work, self._taken = self._taken, None
            if work is not None:
                self._add(work.only or (), work.only is None)

    # -- persistence -----------------------------------------------------------

    def save(self) -> None:
        state = {
            "format": _FORMAT,
            "head": self.head,
            "everything": self.everything,
            "uris": sorted(self.names()),
        }
        files.make_folder(self._path.parent)
        # Several processes may follow one folder, and none holds the writer lock here.
        files.write_shared(self._path, pack_record(state))

    def load(self) -> bool:
        """Add what an earlier process saved; return False if there is nothing.

        An unreadable file means "everything".
        """
        try:
            state = unpack_record(self._path.read_bytes())
            if state["format"] != _FORMAT or not isinstance(state["everything"], bool):
                raise ValueError("another format")
            uris = [uri for uri in state["uris"] if isinstance(uri, str)]
            head = str(state["head"])
        except FileNotFoundError:
            return False
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            self.add(everything=True)
            return True
        self.head = head
        self.add(uris, everything=state["everything"])
        return True


# -- git's head ------------------------------------------------------------------


def read_head(root: Root) -> str:
    """Return a hash that changes with every commit and checkout of the repository of ``root``.

    The repository may begin above the root, or be a worktree whose head is elsewhere. What is
    read there is only compared, never shown.
    """
    repository = find_repository(root.path)
    head = peek_line(repository.own, "HEAD") if repository and repository.own else ""
    if repository is None or not head:
        return _NO_HEAD
    parts = [head]
    if head.startswith("ref: "):
        name = head.removeprefix("ref: ")
        line = peek_line(repository.own, name) or peek_line(repository.git_dir, name)
        shared = Path(repository.git_dir)
        # Without a file of its own, the ref is packed or in a reftable.
        parts += [line] if line else map(_stamp, (shared / "packed-refs", shared / _REF_TABLES))
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


def _stamp(path: Path) -> str:
    try:
        info = path.lstat()
    except (OSError, ValueError):
        return ""
    return f"{info.st_mtime_ns} {info.st_size} {info.st_ino}"
