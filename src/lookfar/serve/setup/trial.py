"""One real question through the command that a client was given.

Takes: the words, the variables and the folder with which a client starts us. Gives: whether a
search was answered, with what, and otherwise what failed and how to mend it. Refuses: to
trust; the process is started as the client would, and spoken to over the protocol.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_SECONDS: Final = 120.0
"""For a project whose first search still indexes something."""
_LAST_WORDS: Final = 3


@dataclass(frozen=True, slots=True)
class Trial:
    """How it went."""

    command: tuple[str, ...]
    folder: str
    """Where it was started."""
    query: str
    ok: bool
    passages: int = 0
    first: str = ""
    """The place of the best passage."""
    seconds: float = 0.0
    problem: str = ""
    hint: str = ""


def try_out(
    words: Sequence[str],
    variables: Mapping[str, str],
    folder: Path,
    query: str,
    seconds: float = _SECONDS,
) -> Trial:
    """Start a server and search with it."""
    import anyio

    started = time.monotonic()
    by_hand = f"Run it by hand to see more: {' '.join(words)}"
    about = (tuple(words), str(folder), query)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as remarks:
        try:
            result = anyio.run(_asked, words, variables, folder, query, remarks, seconds)
        except TimeoutError:  # It is an OSError, too.
            problem = f"There was no answer within {seconds:g} s."
            return Trial(*about, ok=False, problem=problem, hint="Read: lookfar daemon logs")
        except OSError as error:
            return Trial(
                *about,
                ok=False,
                problem=f"{words[0]} cannot be started: {error.strerror or error}.",
                hint="Install Lookfar for good (uv tool install lookfar), then: lookfar setup",
            )
        except Exception as error:
            return Trial(*about, ok=False, problem=_why(error, remarks), hint=by_hand)
    took = round(time.monotonic() - started, 3)
    if result is None:
        return Trial(*about, ok=True, seconds=took)
    texts = [str(getattr(each, "text", "")) for each in result.content]
    if result.is_error:
        problem = next(filter(None, texts), "The search failed.").strip()
        return Trial(*about, ok=False, seconds=took, problem=problem, hint=by_hand)
    hits = (result.structured_content or {}).get("hits", ())
    return Trial(*about, ok=True, passages=len(hits), first=_first(texts, hits), seconds=took)


async def _asked(
    words: Sequence[str],
    variables: Mapping[str, str],
    folder: Path,
    query: str,
    remarks: Any,
    seconds: float,
) -> Any:
    """The answer to a search; None where somebody chose a toolset that has none."""
    import anyio
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    server = StdioServerParameters(
        command=words[0], args=list(words[1:]), env=dict(variables), cwd=folder
    )
    with anyio.fail_after(seconds):
        try:
            async with Client(stdio_client(server, errlog=remarks)) as client:
                tools = {tool.name for tool in (await client.list_tools()).tools}
                if "search" not in tools:
                    return None
                return await client.call_tool(
                    "search", {"query": query, "top_k": 3, "detail": "paths"}
                )
        except BaseExceptionGroup as group:
            raise _only(group) from None


def _only(group: BaseException) -> BaseException:
    """What is at the bottom of a group of one."""
    while isinstance(group, BaseExceptionGroup) and len(group.exceptions) == 1:
        group = group.exceptions[0]
    return group


def _first(texts: Sequence[str], hits: Sequence[Any]) -> str:
    """``guide.md:3-9`` of the first line of a list of paths."""
    return texts[0].split("\n", 1)[0].partition("  ")[0] if texts and hits else ""


def _why(error: Exception, remarks: Any) -> str:
    """What the server said last, or else what the client made of it."""
    said: list[str] = []
    with suppress(OSError, ValueError):
        remarks.seek(0)
        said = [line.strip() for line in remarks if line.strip()][-_LAST_WORDS:]
    return f"The server ended: {' '.join(said)}" if said else f"{type(error).__name__}: {error}"
