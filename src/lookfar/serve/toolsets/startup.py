"""Index a folder when a session begins, for toolsets whose systems do that.

Nothing waits for the index. Its progress goes to the log: that of the daemon or the HTTP server, or
stderr if ``lookfar mcp`` serves from its own process. A failure is logged and reported by the tools
of the session.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from lookfar.errors import IndexBusy, LookfarError, how_many

if TYPE_CHECKING:
    from lookfar.collections.folder import Folder
    from lookfar.common.caller import OnProgress, Progress

_log = logging.getLogger(__name__)

_REPORT_SECONDS: Final = 2.0
"""The shortest time between two lines of progress."""


def start_first_index(folder: Folder) -> LookfarError | None:
    """Start to build the index of a folder that has none, without waiting for it.

    Return the error if it cannot be built; None if this or another process builds it.
    """
    if folder.indexed or folder.building_since:
        return None
    try:
        folder.start_index(on_progress=_make_reporter(folder.name))
    except IndexBusy:
        _log.info("%s: another process is building the index", folder.name)
    except LookfarError as error:
        _log.warning("cannot index %s: %s %s", folder.root.path, error.message, error.hint)
        return error
    return None


def _make_reporter(name: str) -> OnProgress:
    """Return a callback that logs the progress of a first index every two seconds, and its end."""
    started = reported = time.monotonic()

    def report(progress: Progress) -> None:
        nonlocal reported
        now = time.monotonic()
        if progress.total_files and progress.files == progress.total_files:
            files = how_many(progress.files, "file")
            _log.info("%s: read %s in %.1f s", name, files, now - started)
        elif now - reported >= _REPORT_SECONDS:
            reported = now
            _log.info("%s: read %d of %d files", name, progress.files, progress.total_files)

    return report


@contextmanager
def progress_on_stderr() -> Iterator[None]:
    """Write the progress to stderr, where MCP clients expect the log of a server."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("lookfar: %(message)s"))
    level = _log.level
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    try:
        yield
    finally:
        _log.removeHandler(handler)
        _log.setLevel(level)
