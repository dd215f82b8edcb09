"""The errors of Search MCP: its codes, with a message for users and one for developers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from lookfar.errors import (
    ConfirmationNeeded,
    InvalidArgument,
    LookfarError,
    NotFound,
    NotIndexed,
)
from lookfar.serve.tools.tool import Json


class FileNotIndexed(NotFound):
    """The named file does not exist or is not indexed."""

    code = "FILE_NOT_FOUND"


class SymlinkNotAllowed(InvalidArgument):
    code = "SYMLINK_NOT_ALLOWED"


class DocsNotIndexed(NotIndexed):
    """The index has no documentation."""

    code = "DOCS_INDEX_NOT_FOUND"


class TooManyFiles(ConfirmationNeeded):
    code: ClassVar[str] = "FILE_LIMIT_WARNING"


_CODES: Final[Mapping[str, str]] = {
    "NOT_INDEXED": "INDEX_NOT_FOUND",
    "MODEL_UNAVAILABLE": "MODEL_DOWNLOAD_FAILED",
    "INDEX_TOO_NEW": "INDEX_CORRUPT",
    "INDEX_HELD": "INDEX_BUSY",
    "OUTSIDE_ROOT": "INVALID_ARGUMENT",
    "INVALID_CONFIG": "INVALID_ARGUMENT",
    "AMBIGUOUS": "INVALID_ARGUMENT",
    "ROOT_NOT_FOUND": "PROJECT_NOT_DETECTED",
    "NOT_FOUND": "FILE_NOT_FOUND",
    "IO_ERROR": "INTERNAL",
    "INDEX_READ_ONLY": "PERMISSION_DENIED",
    "REPOSITORY_REFUSED": "PERMISSION_DENIED",
}

_USER_MESSAGES: Final[Mapping[str, Callable[[LookfarError], str]]] = {
    "INDEX_NOT_FOUND": lambda _: (
        "This project is not prepared for searching yet. Shall I index it now?"
    ),
    "DOCS_INDEX_NOT_FOUND": lambda _: (
        "No documentation was found to search. Run create_index once there is some."
    ),
    "MODEL_DOWNLOAD_FAILED": lambda _: (
        "The language model could not be set up. Check your connection and the model's settings."
    ),
    "INDEX_CORRUPT": lambda _: (
        "The stored search data cannot be read. It is being rebuilt; try again soon."
    ),
    "FILE_LIMIT_WARNING": lambda error: (
        f"This project has {error.details.get('files')} files, and indexing it may take some"
        " minutes. To continue, call again with confirm: true."
    ),
    "PERMISSION_DENIED": lambda _: (
        "Some files may not be read or written. Check the permissions of the folder."
    ),
    "DISK_FULL": lambda _: "There is no room left on the disk. Free some space and try again.",
    "FILE_NOT_FOUND": lambda error: (
        f"The file {error.details.get('path') or 'you named'} was not found among the project's"
        " documents. Check its path."
    ),
    "PROJECT_NOT_DETECTED": lambda _: (
        "No project was found here. Choose the folder that you want to search."
    ),
    "SYMLINK_NOT_ALLOWED": lambda error: (
        f"{error.details.get('path')} is a link to another place. For safety links are not"
        " followed; name the file itself."
    ),
    "INDEX_BUSY": lambda _: (
        "The search index is being updated right now. Try again in a moment; searching works."
    ),
    "INTERNAL": lambda _: (
        "Something went wrong. Try again. If it happens again, look into the log."
    ),
}


def refusal(error: LookfarError) -> Json:
    """Render an error in Search MCP's shape, with a message for users and one for developers."""
    code = _CODES.get(error.code, error.code)
    if code in _USER_MESSAGES:
        message = _USER_MESSAGES[code](error)
    else:
        message = f"{error.message} {error.hint}"
    return {
        "code": code,
        "userMessage": message,
        "developerMessage": f"{code}: {error.developer}",
    }
