"""A session of ``lookfar mcp``: through the daemon, or in this process where there is none.

Takes: paths and options as the command line has them. Gives: an exit code when the session
is over. Refuses: to import more than a relay needs: one runs per agent session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lookfar.serve.daemon import endpoint, relay

SERVICES: Final = "lookfar.serve.daemon.services:services"


def build_session_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """What a request says of a command line's options."""
    settings = dict(given.get("settings") or {})
    named = {
        "serve.toolset": list(given.get("toolset") or ()),
        "serve.results": given.get("results"),
        "serve.write": given.get("write") or None,
        "serve.underscores": given.get("underscores") or None,
        "serve.enhanced_descriptions": given.get("enhanced") or None,
    }
    settings |= {key: value for key, value in named.items() if value}
    return {"index_dir": given.get("index_dir") or "", "settings": settings}


def run_mcp(paths: tuple[str, ...], given: Mapping[str, Any]) -> int:
    """A session of ``lookfar mcp``; gives the exit code."""
    options = build_session_options(given)
    if given.get("no_daemon"):
        return _in_process(endpoint.make_request("mcp", paths, options))
    return relay.run(
        paths,
        options,
        command=endpoint.daemon_command(SERVICES),
        in_process=_in_process,
    )


def _in_process(request: endpoint.ClientRequest) -> int:
    from lookfar.serve.daemon.services import serve_in_process

    return serve_in_process(request)
