"""Entry point of the ``lookfar`` command; ``lookfar mcp`` imports as little as possible."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Final

from lookfar.serve.daemon.session_options import parse_plain_session

_INTERRUPTED: Final = 130
"""The same as in :mod:`lookfar.serve.cli.exits`, which would be too slow to import here."""


def main() -> None:
    try:
        _read_names_as_utf8()
        _run()
    except KeyboardInterrupt:  # Raised during imports, before the command can handle it.
        sys.exit(_INTERRUPTED)


def _read_names_as_utf8() -> None:
    """Restart in UTF-8 mode if the locale has another encoding for file names."""
    if sys.getfilesystemencoding() != "utf-8":
        from lookfar.config.environment import child_environment

        command = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
        os.execve(sys.executable, command, child_environment({"PYTHONUTF8": "1"}))


def _run() -> None:
    if sys.argv[1:] == ["grep-hint"] and not sys.stdin.isatty():
        _print_grep_hint()
        return
    session = parse_plain_session(sys.argv[1:])
    if session is None or session[1].get("no_daemon"):
        from lookfar.serve.cli.main import cli

        cli(prog_name="lookfar")
        return
    from lookfar.serve.daemon.client_session import run_mcp

    sys.exit(run_mcp(*session))


def _print_grep_hint() -> None:
    """Answer a hook; the settings are read only if there is something to say."""
    from lookfar.serve.setup.grep_hint import print_hint, read_hint

    with suppress(Exception):  # A hook must never fail.
        if hint := read_hint(sys.stdin.read()):
            from lookfar.config import load
            from lookfar.serve.daemon.project import project_root

            if load(project_root(os.getcwd())).serve.grep_hint:
                print_hint(hint)
