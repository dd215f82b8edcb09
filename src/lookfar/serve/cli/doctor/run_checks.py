"""Run all checks of ``lookfar doctor``, and apply the fixes that are safe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from lookfar.errors import LookfarError, from_os_error
from lookfar.serve.cli.doctor import client_checks, disk_checks, index_checks, program_checks
from lookfar.serve.cli.doctor.findings import Finding, Subject

Check = Callable[[Subject], Iterator[Finding]]

_PROGRAM: Final[dict[str, Check]] = {
    "python": program_checks.check_python,
    "parts": program_checks.check_parts,
    "settings": program_checks.check_settings,
}
_FOLDER: Final[dict[str, Check]] = {
    "permissions": disk_checks.check_permissions,
    "disk": disk_checks.check_space,
    "file system": disk_checks.check_file_system,
    "sqlite": disk_checks.check_sqlite,
    "model": index_checks.check_model,
    "store": index_checks.check_store,
    "index": index_checks.check_index,
    "watcher": index_checks.check_watcher,
    "git": index_checks.check_git,
    "clients": client_checks.check_clients,
}
_DAEMON: Final[dict[str, Check]] = {"daemon": client_checks.check_daemon}


def run_checks(subject: Subject, *, deep: bool, fix: bool) -> Iterator[Finding]:
    """Yield every finding; with ``fix``, apply the safe fixes and check again."""
    folder = dict(_FOLDER)
    if deep:
        folder["index"] = partial(index_checks.check_index, deep=True)
    try:
        yield from _run(_PROGRAM.items(), subject, fix)
        if _can_open(subject):  # Otherwise check_settings() has reported the reason.
            yield from _run(folder.items(), subject, fix)
        yield from _run(_DAEMON.items(), subject, fix)
    finally:
        subject.close()


def _can_open(subject: Subject) -> bool:
    try:
        return bool(subject.library.collections)
    except LookfarError:
        return False


def _run(checks: Iterable[tuple[str, Check]], subject: Subject, fix: bool) -> Iterator[Finding]:
    for name, check in checks:
        findings = list(_run_guarded(name, check, subject))
        if fix and any(finding.fixable for finding in findings):
            yield from _mend(name, check, subject, findings)
        else:
            yield from findings


def _run_guarded(name: str, check: Check, subject: Subject) -> Iterator[Finding]:
    try:
        yield from check(subject)
    except LookfarError as error:
        yield Finding(name, "error", error.message, error.hint)
    except OSError as error:
        converted = from_os_error(error, f"checking {error.filename or name}")
        yield Finding(name, "error", converted.message, converted.hint)
    except Exception as error:
        message = f"This could not be checked: {type(error).__name__}: {error}"
        advice = "Report it, with the output of lookfar doctor --json."
        yield Finding(name, "warning", message, advice)


def _mend(name: str, check: Check, subject: Subject, findings: list[Finding]) -> Iterator[Finding]:
    """Apply the fixes, check again, and yield what was fixed and what remains."""
    failures: dict[str, LookfarError | OSError] = {}
    for finding in findings:
        if finding.mend is None:
            continue
        try:
            finding.mend()
        except (LookfarError, OSError) as error:
            failures[finding.message] = error
    remaining = list(_run_guarded(name, check, subject))
    messages = {finding.message for finding in remaining}
    for finding in findings:
        if finding.fixable and finding.message not in messages:
            yield Finding(name, "fixed", finding.message)
    for finding in remaining:
        failure = failures.get(finding.message)
        message = f"{finding.message} The fix failed: {failure}" if failure else finding.message
        yield Finding(name, finding.state, message, finding.fix, finding.mend)
