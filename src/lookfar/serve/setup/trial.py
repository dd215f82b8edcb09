"""A test search through the command that a client will start, over MCP."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_SECONDS: Final = 120.0
"""How long to wait for the first search, which may have to index something."""
_LAST_LINES: Final = 3


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a test search."""

    command: tuple[str, ...]
    folder: str
    """The folder in which it was started."""
    query: str
    ok: bool
    passages: int = 0
    first: str = ""
    """The path and lines of the best passage."""
    seconds: float = 0.0
    problem: str = ""
    hint: str = ""


def run_trial(
    command: Sequence[str],
    variables: Mapping[str, str],
    folder: Path,
    query: str,
    seconds: float = _SECONDS,
) -> Trial:
    """Start a server and search with it."""
    import anyio

    started = time.monotonic()
    by_hand = f"Run it by hand to see more: {' '.join(command)}"
    about = (tuple(command), str(folder), query)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr:
        try:
            result = anyio.run(_search, command, variables, folder, query, stderr, seconds)
        except TimeoutError:  # Before OSError, of which it is a subclass.
            problem = f"The server did not answer within {seconds:g} s."
            return Trial(*about, ok=False, problem=problem, hint="See the log: lookfar daemon logs")
        except OSError as error:
            return Trial(
                *about,
                ok=False,
                problem=f"{command[0]} cannot be started: {error.strerror or error}.",
                hint="Install Lookfar (uv tool install lookfar), then run: lookfar setup",
            )
        except Exception as error:
            return Trial(*about, ok=False, problem=_explain(error, stderr), hint=by_hand)
    seconds_taken = round(time.monotonic() - started, 3)
    if result is None:
        return Trial(*about, ok=True, seconds=seconds_taken)
    texts = [str(getattr(part, "text", "")) for part in result.content]
    if result.is_error:
        problem = next(filter(None, texts), "The search failed.").strip()
        return Trial(*about, ok=False, seconds=seconds_taken, problem=problem, hint=by_hand)
    units = (result.structured_content or {}).get("units", ())
    best = _first_place(texts, units)
    return Trial(*about, ok=True, passages=len(units), first=best, seconds=seconds_taken)


async def _search(
    command: Sequence[str],
    variables: Mapping[str, str],
    folder: Path,
    query: str,
    stderr: Any,
    seconds: float,
) -> Any:
    """Return the result of a search; None if the chosen toolset has no search."""
    import anyio
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    server = StdioServerParameters(
        command=command[0], args=list(command[1:]), env=dict(variables), cwd=folder
    )
    with anyio.fail_after(seconds):
        try:
            async with Client(stdio_client(server, errlog=stderr)) as client:
                tools = {tool.name for tool in (await client.list_tools()).tools}
                if "search" not in tools:
                    return None
                return await client.call_tool(
                    "search", {"query": query, "top_k": 3, "detail": "paths"}
                )
        except BaseExceptionGroup as group:
            raise _unwrap(group) from None


def _unwrap(group: BaseException) -> BaseException:
    """Return the only exception in nested groups of one."""
    while isinstance(group, BaseExceptionGroup) and len(group.exceptions) == 1:
        group = group.exceptions[0]
    return group


def _first_place(texts: Sequence[str], units: Sequence[Any]) -> str:
    """Return the place (``guide.md:3-9``) in the first line of a list of paths."""
    return texts[0].split("\n", 1)[0].partition("  ")[0] if texts and units else ""


def _explain(error: Exception, stderr: Any) -> str:
    """Return the last lines of the server's stderr, or else the error itself."""
    lines: list[str] = []
    with suppress(OSError, ValueError):
        stderr.seek(0)
        lines = [line.strip() for line in stderr if line.strip()][-_LAST_LINES:]
    return f"The server ended: {' '.join(lines)}" if lines else f"{type(error).__name__}: {error}"
