"""Run one session of ``lookfar mcp``: through the daemon, or in this process without one.

One of these runs per agent session, so this module imports no more than the relay needs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lookfar.serve.daemon import endpoint, relay
from lookfar.serve.daemon.session_options import add_docs, build_session_options

FAIL_FAST: Final = frozenset({"anvil"})
"""Toolsets of systems that do not start if their folder is missing."""
_NO_FOLDER: Final = 3
"""The exit code of ``NotFound``."""
SERVICES: Final = "lookfar.serve.daemon.services:services"


def run_mcp(paths: tuple[str, ...], given: Mapping[str, Any]) -> int:
    """Serve one client on stdin and stdout, and return the exit code."""
    options = build_session_options(given)
    paths = add_docs(paths, given)
    if (missing := find_missing_folder(paths, options)) is not None:
        sys.stderr.write(f"lookfar: There is no folder {missing!r}. Correct the path.\n")
        return _NO_FOLDER
    if given.get("no_daemon"):
        return _serve_in_process(endpoint.make_request("mcp", paths, options))
    return relay.run(
        paths,
        options,
        command=endpoint.daemon_command(SERVICES),
        in_process=_serve_in_process,
    )


def find_missing_folder(paths: Sequence[str], options: Mapping[str, Any]) -> str | None:
    """Return the first missing folder, for toolsets of systems that do not start without it.

    With other toolsets the server starts, and each call reports the error.
    """
    toolset = options["settings"].get("serve.toolset")
    if not toolset or not FAIL_FAST.issuperset(toolset):
        return None
    return next((path for path in paths if not os.path.isdir(path)), None)


def _serve_in_process(request: endpoint.ClientRequest) -> int:
    from lookfar.serve.daemon.services import serve_in_process

    return serve_in_process(request)
