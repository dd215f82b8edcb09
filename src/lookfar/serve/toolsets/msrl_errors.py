"""Errors in the shape of MSRL: its codes, and for each code its details."""

from __future__ import annotations

import re
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookfar.errors import (
    IndexBusy,
    IndexCorrupt,
    IndexTooNew,
    IOFailed,
    LookfarError,
    ModelUnavailable,
    NotFound,
    NotIndexed,
    RootNotFound,
)
from lookfar.serve.tools.tool import Call, Handler, Json, Result, Session
from lookfar.serve.toolsets.single import format_utc

if TYPE_CHECKING:
    from lookfar.collections.folder import Folder

_ERRNO = re.compile(r"\[(E[A-Z0-9]+)\]")
_READ_MESSAGE = re.compile(r"while (reading|opening|examining|listing)\b")
_QUOTED = re.compile(r"'([^']+)'")


def complete_details(handler: Handler) -> Handler:
    """Add paths and addresses, which only the session knows, to the errors of a handler."""

    @wraps(handler)
    def handle(session: Session, given: Any, call: Call) -> Result:
        try:
            return handler(session, given, call)
        except (IOFailed, ModelUnavailable) as error:
            raise _add_place(error, session.library.folder()) from error

    return handle


def _add_place(error: LookfarError, folder: Folder) -> LookfarError:
    """Return the error with the path or address that it is about."""
    details = dict(error.details)
    if isinstance(error, ModelUnavailable):
        path = str(details.get("path", ""))
        details.setdefault("url", Path(path).as_uri() if path else _locate_model(folder))
    elif not details.get("path"):
        # Files of the vault are opened below its descriptor, so the system names no path.
        named = _QUOTED.search(error.message)
        details["path"] = str(Path(folder.root.path, named[1] if named else ""))
    return type(error)(error.message, hint=error.hint, developer=error.developer, details=details)


def _locate_model(folder: Folder) -> str:
    """Return the address or the path of the embedding model."""
    embed = folder.settings.embed
    if embed.provider == "remote":
        return embed.base_url
    if embed.provider == "onnx" and embed.model and not Path(embed.model).is_absolute():
        return f"{embed.hub}/{embed.model}"
    if embed.model:
        return Path(embed.model).as_uri()
    from lookfar.embed import bundled

    return Path(bundled.__file__).parent.as_uri()


def refusal(error: LookfarError) -> Json:
    """Render an error in MSRL's shape; its message includes the hint."""
    code, details = _translate_error(error)
    shape: Json = {"code": code, "message": f"{error.message} {error.hint}"}
    if details:
        shape["details"] = details
    return shape


def _translate_error(error: LookfarError) -> tuple[str, Json]:
    """Return MSRL's code and details for an error."""
    given = error.details
    path = str(given.get("path", ""))
    match error:
        case RootNotFound():
            return "IO_ERROR", {"path": path, "operation": "read", "errno": "ENOENT"}
        case NotFound():
            keys = (("docUri", "uri"), ("headingPath", "heading_path"))
            return "NOT_FOUND", {name: given[key] for name, key in keys if key in given}
        case NotIndexed():
            return "NOT_INDEXED", {}
        case IndexBusy():
            since = given.get("since")
            return "INDEX_BUSY", {"currentBuildStartedAt": format_utc(since)} if since else {}
        case IndexCorrupt() | IndexTooNew():
            missing = bool(path) and not Path(path).exists()
            more: Json = {"missingFiles": [Path(path).name]} if missing else {}
            epoch = next((p for p in Path(path).parts if p.startswith("epoch-")), "")
            return "INDEX_CORRUPT", {"snapshotId": epoch, "reason": error.developer, **more}
        case IOFailed():
            errno = _ERRNO.search(error.developer)
            operation = "read" if _READ_MESSAGE.search(error.message) else "write"
            more = {"errno": errno[1]} if errno else {}
            return "IO_ERROR", {"path": path, "operation": operation, **more}
        case ModelUnavailable():
            url = str(given.get("url", path))
            return "MODEL_DOWNLOAD_FAILED", {"url": url, "reason": error.message}
        case _ if type(error).code == LookfarError.code:
            return "INTERNAL", {"originalError": error.developer}
        case _:
            argument = {key: given.get(key) for key in ("field", "value")}
            options = {key: given[key] for key in ("validOptions",) if key in given}
            reason = given.get("reason", error.message)
            return "INVALID_ARGUMENT", {**argument, "reason": reason, **options}
