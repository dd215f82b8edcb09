"""Reading settings files.

A project's own file comes with whatever was cloned, so it may be a link to another place, a pipe
that never ends, or too large. None of these is read.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, NoReturn

from lookfar.errors import InvalidConfig, from_os_error

DEEP_KEY: Final = re.compile(
    r"(?:^|[\[{,])[ \t]*(?:(?:[\w-]+|\"[^\"\n]*\"|'[^'\n]*')[ \t]*\.[ \t]*){20,}", re.MULTILINE
)
"""A dotted TOML key of more than 20 parts. tomllib needs quadratic time for these: a file of
40 KB would take ten seconds."""
_MAX_FILE_BYTES: Final = 256 * 1024


def read_settings_file(path: Path, *, project: bool = False) -> str | None:
    """Return the text of a settings file, or None if it does not exist.

    The user's own file may be a symbolic link; a project's may not.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    if project:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    try:
        if project and path.is_symlink():
            _reject(path, "is a symbolic link")
        if path.exists() and not path.is_file():
            _reject(path, "is not a regular file")
        descriptor = os.open(path, flags)
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        # Without access to the folder, nothing is known about the file.
        denied = path if os.access(path.parent, os.X_OK) else path.parent
        raise from_os_error(error, f"reading {denied}") from error
    if len(content) > _MAX_FILE_BYTES:
        _reject(path, f"is larger than {_MAX_FILE_BYTES} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        _reject(path, f"is not UTF-8 text (line {line})", line=line)


def parse_toml(text: str, path: Path) -> dict[str, object]:
    """Parse TOML; ``path`` is the file to name in errors."""
    import tomllib

    if deep := DEEP_KEY.search(text):
        line = text.count("\n", 0, deep.end()) + 1
        _reject(path, f"nests its keys too deeply (line {line})", line=line)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        match = re.search(r"at line (\d+)", str(error))
        line = int(match[1]) if match else text.count("\n") + 1
        raise InvalidConfig(
            f"{path} is not valid TOML (line {line}): {error}",
            hint=f"Correct line {line}; text values need quotes, sections look like [search].",
            details={"file": str(path), "line": line},
        ) from error


def _reject(path: Path, reason: str, **details: object) -> NoReturn:
    raise InvalidConfig(
        f"The configuration file {path} {reason}.",
        hint="Replace it with a small TOML text file, or remove it.",
        details={"file": str(path), **details},
    )
