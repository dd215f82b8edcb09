"""Where settings, indexes, tokens and memories are on this machine; reading settings files.

A project's own file comes with whatever was cloned, so it may be a link to another place, a pipe
that never ends, or too large. None of these is read.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

from lookfar.config.environment import read_environment
from lookfar.config.settings import ServeSettings, Settings
from lookfar.errors import InvalidConfig, from_os_error

PROJECT_FILE: Final = "lookfar.toml"
FOREIGN_FILES: Final = (
    ".msrl/config.json",
    ".mcp-markdown-ragdocs/config.toml",
    "pyproject.toml",
    "anvil.config.json",
)
"""Files of other systems in a folder, which are read while their toolset is served."""
USER_FILE_VARIABLE: Final = "LOOKFAR_CONFIG"
DATA_VARIABLE: Final = "LOOKFAR_DATA_DIR"
"""Moves everything that is stored. Not a setting, because the defaults of settings depend on it."""
PROJECT_PLACEHOLDER: Final = "{project}"
"""In ``memory.dir``: replaced by a name that is unique to each project."""
DEEP_KEY: Final = re.compile(
    r"(?:^|[\[{,])[ \t]*(?:(?:[\w-]+|\"[^\"\n]*\"|'[^'\n]*')[ \t]*\.[ \t]*){20,}", re.MULTILINE
)
"""A dotted TOML key of more than 20 parts. tomllib needs quadratic time for these: a file of
40 KB would take ten seconds."""
_MAX_FILE_BYTES: Final = 256 * 1024


def config_file(environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of the user's own settings file, whether or not it exists."""
    env = read_environment(environ)
    if path := env.get(USER_FILE_VARIABLE):
        return expand_home(path, env)
    folder = _platform_dir(env, "XDG_CONFIG_HOME", ".config", "APPDATA", "Roaming")
    return folder / "config.toml"


def settings_files(root: Path, environ: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """Return the files that the settings of ``root`` are read from, whether or not they exist."""
    return config_file(environ), root / PROJECT_FILE


def data_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder for indexes, databases, memories, tokens and models.

    A setting may move some of them elsewhere, such as ``index.dir``.
    """
    env = read_environment(environ)
    if path := env.get(DATA_VARIABLE):
        return Path(os.path.abspath(expand_home(path, env)))
    return _platform_dir(env, "XDG_DATA_HOME", ".local/share", "LOCALAPPDATA", "Local")


def tokens_file(serve: ServeSettings, environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of the file with the server tokens, whether or not it exists."""
    return Path(serve.tokens_file) if serve.tokens_file else data_dir(environ) / "tokens.json"


def memory_folder(settings: Settings, root: str | Path) -> Path:
    """Return the folder with the memories of the project at ``root``."""
    import hashlib

    memory = settings.memory
    if PROJECT_PLACEHOLDER not in memory.dir:
        return Path(memory.dir)
    if memory.scope == "user":
        return Path(memory.dir.replace(PROJECT_PLACEHOLDER, "user"))
    if memory.in_project:
        return Path(root) / memory.project_dir
    real = os.path.realpath(root)
    key = hashlib.sha256(real.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    name = re.sub(r"[^a-z0-9]+", "-", Path(real).name.lower()).strip("-") or "folder"
    return Path(memory.dir.replace(PROJECT_PLACEHOLDER, f"{name}-{key}"))


def expand_home(text: str, env: Mapping[str, str]) -> Path:
    if text == "~" or text.startswith(("~/", "~\\")):
        return home_folder(env) / text[2:]
    return Path(text)


def home_folder(env: Mapping[str, str]) -> Path:
    """Return the user's home."""
    home = env.get("USERPROFILE" if sys.platform == "win32" else "HOME")
    return Path(home) if home else Path(os.path.expanduser("~"))


def _platform_dir(
    env: Mapping[str, str], xdg: str, under_home: str, windows: str, roaming: str
) -> Path:
    # Typed as str because type checkers treat branches for other platforms as dead code.
    platform: str = sys.platform
    if platform == "win32":
        base = env.get(windows) or str(home_folder(env) / "AppData" / roaming)
        return Path(base) / "lookfar"
    if platform == "darwin":
        return home_folder(env) / "Library" / "Application Support" / "lookfar"
    folder = env.get(xdg, "")
    # The XDG specification says to ignore relative paths.
    base_dir = Path(folder) if os.path.isabs(folder) else home_folder(env) / under_home
    return base_dir / "lookfar"


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
