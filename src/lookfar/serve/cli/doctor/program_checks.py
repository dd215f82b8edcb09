"""Check the installation: Python, the packages that Lookfar needs, and the settings."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module, metadata
from pathlib import Path
from typing import Final

from lookfar import __version__
from lookfar.serve.cli.doctor.findings import Finding, Subject

_OLDEST_PYTHON: Final = (3, 11)
_NATIVE: Final = (
    "numpy",
    "numkong",
    "tree_sitter",
    "pyromark",
    "watchdog",
)


def check_python(_subject: Subject) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    message = f"Python {version}, Lookfar {__version__} in {Path(sys.prefix)}."
    if sys.version_info[:2] < _OLDEST_PYTHON:
        oldest = ".".join(map(str, _OLDEST_PYTHON))
        yield Finding("python", "error", message, f"Install Python {oldest} or newer.")
    else:
        yield Finding("python", "ok", message)


def check_parts(_subject: Subject) -> Iterator[Finding]:
    """Check that all required packages are installed and that the native ones load."""
    missing = [name for name in _required_packages() if not _is_installed(name)]
    if missing:
        names = ", ".join(missing)
        yield Finding("parts", "error", f"Not installed: {names}.", "Run: pip install lookfar")
    grammars, load_grammar = _list_grammars()
    failures = _try_all(_NATIVE, import_module)
    broken_grammars = _try_all(grammars, load_grammar)
    failures |= {name.partition(".")[0]: reason for name, reason in broken_grammars.items()}
    for name, reason in failures.items():
        pip = f"Run: pip install --force-reinstall {name.replace('_', '-')}"
        yield Finding("parts", "error", f"{name} does not load: {reason}", pip)
    if not missing and not failures:
        message = f"{len(_NATIVE)} native packages and {len(grammars)} grammars load."
        yield Finding("parts", "ok", message)


def _required_packages() -> list[str]:
    try:
        declared = metadata.requires("lookfar") or []
    except metadata.PackageNotFoundError:  # Running from the sources.
        return []
    # Extras and packages for certain platforms have a condition after a semicolon.
    plain = (line for line in declared if ";" not in line)
    return [re.split(r"[<>=!~\[ ]", line)[0] for line in plain]


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _list_grammars() -> tuple[list[str], Callable[[str], object]]:
    """Return the names of all grammars and the function that loads one."""
    from lookfar.text.parse.grammars.rules import load_parser
    from lookfar.text.parse.languages import LANGUAGES

    return sorted({language.grammar for language in LANGUAGES if language.grammar}), load_parser


def _try_all(names: list[str] | tuple[str, ...], load: Callable[[str], object]) -> dict[str, str]:
    """Load each name, and return the errors of those that fail."""
    failures = {}
    for name in names:
        try:
            load(name)
        except Exception as error:  # A wheel for another platform may raise anything.
            failures[name] = f"{type(error).__name__}: {error}"
    return failures


def check_settings(subject: Subject) -> Iterator[Finding]:
    from lookfar.config import find_problems, settings_files

    findings = []
    read = []
    for number, file in enumerate(settings_files(Path(subject.path).absolute())):
        try:
            text = file.read_text("utf-8")
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            findings.append(Finding("settings", "error", f"{file} cannot be read: {error}",
                                    "Check its permissions and that it is UTF-8."))  # fmt: skip
            continue
        read.append(str(file))
        errors = find_problems(text, file, project=number > 0)
        findings += [Finding("settings", "error", error.message, error.hint) for error in errors]
    yield from findings
    if not findings:
        foreign = subject.library.settings.foreign  # Raises for bad variables and options.
        for note in foreign.notes:
            yield Finding("settings", "warning", f"No effect ({foreign.system}): {note}",
                          "Remove it, or set ours: see docs/migration.md.")  # fmt: skip
        read += map(str, foreign.files)
        files = ", ".join(read) or "no file; all settings have their defaults"
        yield Finding("settings", "ok", f"Settings: {files}.")
