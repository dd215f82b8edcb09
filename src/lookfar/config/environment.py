"""The process environment. This is the only module that reads it.

Functions take an optional ``environ``: the environment of a client, which replaces that of this
process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

TOKENS_VARIABLE: Final = "LOOKFAR_TOKENS"
"""Not a setting, because settings can be listed."""
OPENAI_KEY: Final = "OPENAI_API_KEY"
"""The variable with the key of OpenAI."""


def read_environment(environ: Mapping[str, str] | None) -> Mapping[str, str]:
    return os.environ if environ is None else environ


def read_secret(name: str, environ: Mapping[str, str] | None = None) -> str:
    """Return the value of the variable ``name``, or "" if it is not set.

    Keys are read when they are used and never stored in a file of ours.
    """
    return read_environment(environ).get(name, "").strip()


def read_tokens(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the server tokens that the environment defines, as written there."""
    text = read_environment(environ).get(TOKENS_VARIABLE, "")
    return tuple(part.strip() for part in text.split(",") if part.strip())


def child_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a child process."""
    return {**os.environ, **extra}


_KEPT_BARE: Final = (
    *("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    *("LANG", "LC_ALL", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR"),
)


def bare_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return what a child process needs to start, without keys and tokens of the user."""
    return {name: os.environ[name] for name in _KEPT_BARE if name in os.environ} | {**extra}


def sudo_user(environ: Mapping[str, str] | None = None) -> int | None:
    """Return the ID of the user who called sudo, read as git reads it; None without sudo."""
    text = read_environment(environ).get("SUDO_UID", "")
    return int(text) if text.isascii() and text.isdigit() else None


def wants_colours(terminal: bool, environ: Mapping[str, str] | None = None) -> bool:
    """Decide whether to colour a stream; ``NO_COLOR`` and ``FORCE_COLOR`` override its type."""
    env = read_environment(environ)
    if env.get("NO_COLOR"):
        return False
    return bool(env.get("FORCE_COLOR")) or (terminal and env.get("TERM") != "dumb")


def silence_telemetry() -> None:
    """Stop onnxruntime from writing an event database to the user's cache.

    Call this before importing onnxruntime.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
