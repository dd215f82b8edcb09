"""Which tools a server offers: our own, or those that clients of another system know.

Takes: names of toolsets. Gives: their tools. Refuses: a name it does not know. Each toolset
is a thin adapter over the same library, in a module of its own, imported when it is chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from typing import Final

from lookfar.errors import InvalidArgument
from lookfar.serve.tools.tool import Tool

DEFAULT: Final = "default"
ALL: Final = "all"
_LONGEST_NAME: Final = 100
"""Characters of a name that others are compared with: comparing takes time."""

_TABLES: Final[Mapping[str, str]] = {
    DEFAULT: "lookfar.serve.tools.table",
    "anvil": "lookfar.serve.toolsets.anvil",
    "document-db": "lookfar.serve.toolsets.document_db",
    "msrl": "lookfar.serve.toolsets.msrl",
    "ragdocs": "lookfar.serve.toolsets.ragdocs",
    "search-mcp": "lookfar.serve.toolsets.search_mcp",
}

NAMES: Final = (*_TABLES, ALL)

OWN_DATA: Final = frozenset({"document-db"})
"""Whose tools write nothing but what Lookfar keeps for the user. Without writing they would be
of no use, so whoever asks for such a toolset by its name has allowed it."""


def load_toolset(name: str) -> tuple[Tool, ...]:
    """The tools of one toolset."""
    if name not in _TABLES:
        raise InvalidArgument(
            f"There is no toolset {name!r}.", hint=f"Toolsets: {', '.join(NAMES)}."
        )
    tools: tuple[Tool, ...] = import_module(_TABLES[name]).TOOLS
    return tools


def explain_missing_tool(name: str, offered: Iterable[str]) -> str:
    """What to do about a tool that is not offered; empty where nothing is known of it."""
    plain = name.replace(".", "_")
    for owner in _TABLES:
        for tool in load_toolset(owner):
            if tool.writes and tool.name.replace(".", "_") == plain:
                beside = "" if owner == DEFAULT else f" --toolset {owner}"
                return f"It writes, so it is only offered where the server has --write{beside}."
    near = get_close_matches(name[:_LONGEST_NAME], list(offered), n=1, cutoff=0.4)
    return f"Did you mean {near[0]!r}?" if near else ""


def load_tools(names: Sequence[str]) -> tuple[Tool, ...]:
    """The tools of several toolsets together; names that clash say whose they are."""
    wanted = list(_TABLES) if ALL in names else list(dict.fromkeys(names)) or [DEFAULT]
    owned = [
        (name, replace(tool, writes=False) if name in OWN_DATA.intersection(names) else tool)
        for name in wanted
        for tool in load_toolset(name)
    ]
    times = Counter(tool.name for _, tool in owned)
    return tuple(
        replace(tool, name=f"{owner.replace('-', '_')}_{tool.name}")
        if times[tool.name] > 1
        else tool
        for owner, tool in owned
    )
