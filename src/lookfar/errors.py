"""Every error a user or a program can meet, as one tree.

    LookfarError                      anything we raise on purpose
    ├── InvalidArgument               INVALID_ARGUMENT      a parameter is wrong
    │   ├── InvalidPattern            INVALID_PATTERN       a glob cannot be used
    │   ├── InvalidConfig             INVALID_CONFIG        a setting is wrong or unknown
    │   └── OutsideRoot               OUTSIDE_ROOT          a path leaves its root
    ├── ConfirmationNeeded            CONFIRMATION_REQUIRED somebody has to agree first
    ├── NotFound                      NOT_FOUND             no such document or section
    │   └── RootNotFound              ROOT_NOT_FOUND        the folder to index is missing
    ├── Ambiguous                     AMBIGUOUS             several things answer to that name
    ├── NotIndexed                    NOT_INDEXED           the folder was never indexed
    ├── IndexBusy                     INDEX_BUSY            another process is writing
    │   └── IndexHeld                 INDEX_HELD            a roll-back or a pin forbids it
    ├── Conflict                      CONFLICT              a document is not what was expected
    ├── IndexCorrupt                  INDEX_CORRUPT         stored data failed its check
    ├── IndexTooNew                   INDEX_TOO_NEW         a newer Lookfar made this index
    ├── ModelUnavailable              MODEL_UNAVAILABLE     the embedding model cannot be used
    └── IOFailed                      IO_ERROR              the disk said no
        ├── PermissionDenied          PERMISSION_DENIED
        ├── DiskFull                  DISK_FULL
        ├── OutOfMemory               OUT_OF_MEMORY         the system gives no more memory
        ├── IndexReadOnly             INDEX_READ_ONLY       the index folder cannot be written
        ├── StoreUnavailable          STORE_UNAVAILABLE     the store's server cannot be reached
        └── RepositoryRefused         REPOSITORY_REFUSED    a git repository must not be read

Takes: nothing from the rest of the package. Gives: exceptions with a stable
``code``, a sentence for people, the next step, and detail for developers.
Refuses: messages without a next step (``hint`` is a required argument).
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any, ClassVar


class LookfarError(Exception):
    """Base of all deliberate errors: what happened, and what to do next."""

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
        # Errors cross process boundaries, and pickle by itself forgets keyword arguments.
        return _restored, (type(self), self.message, self.hint, self.developer, self.details)

    def as_dict(self) -> dict[str, Any]:
        """The one JSON shape of an error, on every face of the product."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "developer_message": f"{self.code}: {self.developer}",
            "details": dict(self.details),
        }


def _restored(
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


def other_length(found: int, wanted: int) -> ModelUnavailable:
    """A model that gives other vectors than those of the index, under the same name."""
    return ModelUnavailable(
        f"The model gives vectors of {found} numbers now, and those of the index have {wanted}.",
        hint="Build the index anew: lookfar index PATH --rebuild.",
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
    """A number and what it counts, as messages say it."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def out_of_memory(developer: str) -> OutOfMemory:
    """The error of a process that asked for more memory than it may have."""
    return OutOfMemory(
        "There is not enough memory for this.",
        hint="Raise the limit (ulimit -v, or that of the container), end other programs, or set"
        " index.workers to 1; the last finished index is intact.",
        developer=developer,
    )


def memory_refused(error: BaseException) -> OutOfMemory | None:
    """Name an error that says, in whichever way, that the system gave no memory; else nothing."""
    # A thread needs a stack, and Python has no error of its own for one that cannot start.
    no_thread = isinstance(error, RuntimeError) and "can't start new thread" in str(error)
    if isinstance(error, OutOfMemory):
        return error
    if isinstance(error, MemoryError) or no_thread:
        return out_of_memory(f"{type(error).__name__}: {error}")
    return None


def from_os_error(error: OSError, what: str) -> IOFailed:
    """Name an operating-system failure so that a user knows what to do."""
    developer = f"{type(error).__name__} [{errno.errorcode.get(error.errno or 0, '?')}] {error}"
    details = {"path": str(error.filename)} if error.filename else {}
    if error.errno in (errno.ENOMEM, errno.EAGAIN):
        return out_of_memory(f"{developer}, while {what}")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(
            f"There is no disk space left while {what}.",
            hint="Free some space and run the command again; the last finished index is intact.",
            developer=developer,
            details=details,
        )
    if error.errno == errno.EROFS:
        return IndexReadOnly(
            f"The disk is read-only while {what}.",
            hint="Choose a writable folder with --index-dir.",
            developer=developer,
            details=details,
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return PermissionDenied(
            f"Permission was denied while {what}.",
            hint="Check the permissions of the path named, or choose another with --index-dir.",
            developer=developer,
            details=details,
        )
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return IOFailed(
            f"There is a file where a folder has to be, while {what}.",
            hint="Move the file away, or choose another folder, for an index with --index-dir.",
            developer=developer,
            details=details,
        )
    return IOFailed(
        f"The disk failed while {what}: {error.strerror or error}.",
        hint="Check the disk and run the command again; the last finished index is intact.",
        developer=developer,
        details=details,
    )
