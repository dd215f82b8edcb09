"""Which tests cannot run on Windows or macOS, and why.

Takes: the collected tests, and errors that tests raise. Gives: reasons to skip them. A test that
makes a pipe, a device or another user by a call that the system lacks is skipped when it does so.
A call in Lookfar itself is never excused.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import TracebackType
from typing import Final

import lookfar

_TESTS: Final = Path(__file__).parent
_PACKAGE: Final = Path(lookfar.__file__).parent
_SHELL: Final = "runs a POSIX shell"
_SOCKETS: Final = "speaks to the daemon over a Unix socket; see test_daemon_everywhere.py"
_KILLED: Final = "ends processes by fork and SIGKILL"
_MODES: Final = "Windows has no modes of files"
_NAMES: Final = "Windows cannot have such names"
_LISTED: Final = "compares names that the test itself lists with backslashes"

WINDOWS: Final = {
    "faults/": _KILLED,
    "edit/test_edit_crashes.py": _KILLED,
    "edit/test_edit_documents.py::test_it_works_without_": _LISTED,
    "edit/test_edit_documents.py::test_names_with_newlines": _NAMES,
    "edit/test_edit_documents.py::test_read_only_files_are_not_written": _MODES,
    "edit/test_edit_documents.py::test_the_mode_and_attributes": _MODES,
    "edit/test_edit_races.py": _KILLED,
    "index/test_stateful.py": _KILLED,
    "serve/daemon/test_daemon.py": _SOCKETS,
    "serve/daemon/test_relay.py": _SOCKETS,
    "serve/conformance/": _SHELL,
    "sources/test_confine.py": _NAMES,
    "sources/test_hostile_repositories.py": "makes names and links that Windows does not have",
    "store/contract/": "starts PostgreSQL by fork",
    "store/test_files.py::test_append_overwrites": _MODES,
    "store/test_files.py::test_each_change_of_the_disk": "Windows syncs no folders",
    "test_config.py::test_places_on_linux": "paths of Linux are not absolute on Windows",
    "test_wheel.py": _SHELL,
}
"""The beginning of the name of tests, PATH::FUNCTION, and why they are skipped on Windows."""

MACOS: Final = {
    "faults/test_power_loss.py": "sees writes by strace",
    "faults/test_memory_limits.py": "macOS ignores limits of address space",
}

LIMITS: Final = {"win32": WINDOWS, "darwin": MACOS}

_MISSING_NAME: Final = re.compile(
    r"module '(os|signal|socket|select|resource|time)' has no attribute '(\w+)'"
)
_LINUX_FILES: Final = ("/proc/", "/dev/", "/sys/")


def reason_to_skip(name: str, platform: str = sys.platform) -> str:
    """Return why a test, named PATH::FUNCTION, is skipped; empty if it runs."""
    limits = LIMITS.get(platform, {})
    return next((reason for start, reason in limits.items() if name.startswith(start)), "")


def excuse(error: BaseException, platform: str = sys.platform) -> str:
    """Return why an error of a test is owed to the system; empty if it is a failure."""
    if platform not in LIMITS or not _is_in_tests(error.__traceback__):
        return ""
    if isinstance(error, AttributeError) and (match := _MISSING_NAME.match(str(error))):
        return f"this system has no {match[1]}.{match[2]}"
    if isinstance(error, FileNotFoundError):
        path = str(error.filename or "").replace("\\", "/")
        return f"this system has no {path}" if path.startswith(_LINUX_FILES) else ""
    # Windows lets only administrators and developers make links.
    if isinstance(error, OSError) and getattr(error, "winerror", None) == 1314:
        return "this user may not make links"
    return ""


def _is_in_tests(trace: TracebackType | None) -> bool:
    """Return whether a call of a test failed, and not one of Lookfar that the test made."""
    files = []
    while trace is not None:
        files.append(Path(trace.tb_frame.f_code.co_filename))
        trace = trace.tb_next
    own = [file for file in files if any(map(file.is_relative_to, (_PACKAGE, _TESTS)))]
    return bool(own) and own[-1].is_relative_to(_TESTS)
