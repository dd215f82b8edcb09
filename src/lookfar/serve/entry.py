"""Where the installed command begins: a session of an agent takes the short way.

Takes: the command line of this process. Gives: ``lookfar mcp`` with as few imports as it
can do with, as one runs per agent session; everything else goes to the command line.
Refuses: to judge arguments; what it does not know the command line judges.
"""

from __future__ import annotations

import sys
from typing import Any, Final

_FLAGS: Final = {
    "--no-daemon": "no_daemon",
    "--write": "write",
    "--underscores": "underscores",
    "--enhanced": "enhanced",
}
_INTERRUPTED: Final = 130
"""That of :mod:`lookfar.serve.cli.exits`, which is not imported for it."""
_VALUES: Final = {"--index-dir": "index_dir", "--results": "results", "--toolset": "toolset"}


def main() -> None:
    """The entry point of the installed command."""
    try:
        _run()
    except KeyboardInterrupt:  # Before the command could say it better, while it was imported.
        sys.exit(_INTERRUPTED)


def _run() -> None:
    plain = plain_session(sys.argv[1:])
    if plain is None or plain[1].get("no_daemon"):
        from lookfar.serve.cli.main import cli

        cli(prog_name="lookfar")
        return
    from lookfar.serve.daemon.client_session import run_mcp

    sys.exit(run_mcp(*plain))


def plain_session(arguments: list[str]) -> tuple[tuple[str, ...], dict[str, Any]] | None:
    """The paths and options of ``lookfar mcp ...``, where every word of it is plain."""
    if arguments[:1] != ["mcp"]:
        return None
    paths: list[str] = []
    options: dict[str, Any] = {"toolset": []}
    words = iter(arguments[1:])
    for word in words:
        if word in _FLAGS:
            options[_FLAGS[word]] = True
        elif word in _VALUES:
            value = next(words, "")
            if not value or value.startswith("-"):
                return None
            key = _VALUES[word]
            if key == "toolset":
                options[key].append(value)
            else:
                options[key] = value
        elif word.startswith("-") or not word:
            return None
        else:
            paths.append(word)
    if options.get("results", "auto") not in ("auto", "text", "structured"):
        return None
    return tuple(paths), options
