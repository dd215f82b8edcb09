"""Every error that Lookfar raises on purpose, as one tree.

    LookfarError                      base class
    ├── InvalidArgument               INVALID_ARGUMENT      a parameter is wrong
    │   ├── InvalidPattern            INVALID_PATTERN       a glob cannot be used
    │   ├── InvalidConfig             INVALID_CONFIG        a setting is wrong or unknown
    │   └── OutsideRoot               OUTSIDE_ROOT          a path leaves its root
    ├── ConfirmationNeeded            CONFIRMATION_REQUIRED the user must confirm first
    ├── NotFound                      NOT_FOUND             no such document or section
    │   └── RootNotFound              ROOT_NOT_FOUND        the folder to index is missing
    ├── Ambiguous                     AMBIGUOUS             the name matches several things
    ├── NotIndexed                    NOT_INDEXED           the folder was never indexed
    ├── IndexBusy                     INDEX_BUSY            another process is writing
    │   └── IndexHeld                 INDEX_HELD            a rollback or a pin prevents it
    ├── Conflict                      CONFLICT              a document changed since it was read
    ├── IndexCorrupt                  INDEX_CORRUPT         stored data failed its checksum
    ├── IndexTooNew                   INDEX_TOO_NEW         a newer Lookfar wrote this index
    ├── ModelUnavailable              MODEL_UNAVAILABLE     the embedding model cannot be used
    └── IOFailed                      IO_ERROR              reading or writing failed
        ├── PermissionDenied          PERMISSION_DENIED
        ├── DiskFull                  DISK_FULL
        ├── OutOfMemory               OUT_OF_MEMORY         memory could not be allocated
        ├── IndexReadOnly             INDEX_READ_ONLY       the index folder is not writable
        ├── StoreUnavailable          STORE_UNAVAILABLE     the store's server cannot be reached
        └── RepositoryRefused         REPOSITORY_REFUSED    a git repository must not be read

Each has a stable ``code``, a message for users, a ``hint`` that says what to do next, and details
for developers. ``hint`` is required.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any, ClassVar, Final


class LookfarError(Exception):
    """Base class: what happened, and what to do next."""

    code: ClassVar[str] = "INTERNAL"
    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        message: str,
        *,
        hint: str,
        developer: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.developer = developer or message
        self.details: Mapping[str, Any] = dict(details or {})

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors are sent between processes, and pickle drops keyword arguments by default.
        return _restore, (type(self), self.message, self.hint, self.developer, self.details)

    def as_dict(self) -> dict[str, Any]:
        """Return the error as JSON, the same on every interface."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "developer_message": f"{self.code}: {self.developer}",
            "details": dict(self.details),
        }


def _restore(
    kind: type[LookfarError], message: str, hint: str, developer: str, details: Mapping[str, Any]
) -> LookfarError:
    return kind(message, hint=hint, developer=developer, details=details)


class InvalidArgument(LookfarError):
    code = "INVALID_ARGUMENT"
    exit_code = 2


class InvalidPattern(InvalidArgument):
    code = "INVALID_PATTERN"


class InvalidConfig(InvalidArgument):
    code = "INVALID_CONFIG"


class OutsideRoot(InvalidArgument):
    code = "OUTSIDE_ROOT"


class ConfirmationNeeded(LookfarError):
    code = "CONFIRMATION_REQUIRED"
    exit_code = 2


class NotFound(LookfarError):
    code = "NOT_FOUND"
    exit_code = 3


class RootNotFound(NotFound):
    code = "ROOT_NOT_FOUND"


class Ambiguous(LookfarError):
    code = "AMBIGUOUS"
    exit_code = 3


class NotIndexed(LookfarError):
    code = "NOT_INDEXED"
    exit_code = 4


class IndexBusy(LookfarError):
    code = "INDEX_BUSY"
    exit_code = 5


class IndexHeld(IndexBusy):
    code = "INDEX_HELD"


def being_rebuilt(progress: str = "", since: str = "") -> IndexBusy:
    """Make the error for an index that was set aside as damaged and has no replacement yet."""
    return IndexBusy(
        f"The index was damaged and is being rebuilt{progress}.",
        hint="Ask again in a while; the files themselves can be read meanwhile.",
        details={"rebuilding": True, "since": since},
    )


class Conflict(LookfarError):
    code = "CONFLICT"
    exit_code = 5


class IndexCorrupt(LookfarError):
    code = "INDEX_CORRUPT"
    exit_code = 6


class IndexTooNew(LookfarError):
    code = "INDEX_TOO_NEW"
    exit_code = 6


class ModelUnavailable(LookfarError):
    code = "MODEL_UNAVAILABLE"
    exit_code = 7


def wrong_dimensions(actual: int, expected: int) -> ModelUnavailable:
    """Make the error for a model whose vectors no longer have the length of those in the index."""
    return ModelUnavailable(
        f"The model now returns vectors of {actual} dimensions; the index has {expected}.",
        hint="Rebuild the index: lookfar index PATH --rebuild.",
    )


class IOFailed(LookfarError):
    code = "IO_ERROR"
    exit_code = 8


class PermissionDenied(IOFailed):
    code = "PERMISSION_DENIED"


class DiskFull(IOFailed):
    code = "DISK_FULL"


class OutOfMemory(IOFailed):
    code = "OUT_OF_MEMORY"


class IndexReadOnly(IOFailed):
    code = "INDEX_READ_ONLY"


class StoreUnavailable(IOFailed):
    code = "STORE_UNAVAILABLE"


class RepositoryRefused(IOFailed):
    code = "REPOSITORY_REFUSED"


def how_many(number: int, noun: str) -> str:
    """Format a count with its noun, in the plural if needed."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def out_of_memory(developer: str) -> OutOfMemory:
    """Make the error for a failed memory allocation."""
    return OutOfMemory(
        "There is not enough memory.",
        hint="Raise the limit (ulimit -v, or that of the container), close other programs, or set"
        " index.workers to 1. The last complete index is intact.",
        developer=developer,
    )


def as_out_of_memory(error: BaseException) -> OutOfMemory | None:
    """Convert an error that means "out of memory"; return None for any other."""
    # A thread that cannot get a stack raises a RuntimeError without a type of its own.
    no_thread = isinstance(error, RuntimeError) and "can't start new thread" in str(error)
    if isinstance(error, OutOfMemory):
        return error
    if isinstance(error, MemoryError) or no_thread:
        return out_of_memory(f"{type(error).__name__}: {error}")
    return None


OTHER_FOLDER: Final = "--index-dir, LOOKFAR_DATA_DIR (everything) or XDG_STATE_HOME (daemon)"


def from_os_error(error: OSError, action: str) -> IOFailed:
    """Convert an ``OSError``; ``action`` completes the phrase "while ..."."""
    developer = f"{type(error).__name__} [{errno.errorcode.get(error.errno or 0, '?')}] {error}"
    details = {"path": str(error.filename)} if error.filename else {}
    if error.errno in (errno.ENOMEM, errno.EAGAIN):
        return out_of_memory(f"{developer}, while {action}")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(
            f"No disk space left while {action}.",
            hint="Free some space and run the command again. The last complete index is intact.",
            developer=developer,
            details=details,
        )
    if error.errno == errno.EROFS:
        return IndexReadOnly(
            f"The file system is read-only (while {action}).",
            hint=f"Choose a writable folder: {OTHER_FOLDER}.",
            developer=developer,
            details=details,
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return PermissionDenied(
            f"Permission denied while {action}.",
            hint=f"Check the permissions, or choose another folder: {OTHER_FOLDER}.",
            developer=developer,
            details=details,
        )
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return IOFailed(
            f"Expected a folder but found a file while {action}.",
            hint=f"Move the file, or choose another folder: {OTHER_FOLDER}.",
            developer=developer,
            details=details,
        )
    return IOFailed(
        f"I/O error while {action}: {error.strerror or error}.",
        hint="Check the disk and run the command again. The last complete index is intact.",
        developer=developer,
        details=details,
    )
