"""Run one session of ``lookfar mcp``: through the daemon, or in this process without one.

One of these runs per agent session, so this module imports no more than the relay needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lookfar.serve.daemon import endpoint, relay
from lookfar.serve.daemon.session_options import add_docs, build_session_options

SERVICES: Final = "lookfar.serve.daemon.services:services"


def run_mcp(paths: tuple[str, ...], given: Mapping[str, Any]) -> int:
    """Serve one client on stdin and stdout, and return the exit code."""
    options = build_session_options(given)
    paths = add_docs(paths, given)
    if given.get("no_daemon"):
        return _serve_in_process(endpoint.make_request("mcp", paths, options))
    return relay.run(
        paths,
        options,
        command=endpoint.daemon_command(SERVICES),
        in_process=_serve_in_process,
    )


def _serve_in_process(request: endpoint.ClientRequest) -> int:
    from lookfar.serve.daemon.services import serve_in_process

    return serve_in_process(request)
