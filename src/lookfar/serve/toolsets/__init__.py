"""Choose the tools a server offers: Lookfar's own, or those of a system its clients know.

Each toolset is a thin adapter over the same library, in a module that is imported when the
toolset is chosen.
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
"""Characters of an unknown name that are compared with known names, to bound the time."""

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
"""Toolsets that need no folder: their tools use only Lookfar's own data."""

MAY_WRITE: Final = frozenset({"document-db", "ragdocs"})
"""Toolsets that write only inserted texts or memories, never other files. The clients of these
systems write without asking for it first, so naming one also allows its writes."""


INDEXED_AT_START: Final = frozenset({"anvil", "msrl", "ragdocs"})
"""Toolsets whose systems index their folder and watch it as soon as they start."""


def load_toolset(name: str) -> tuple[Tool, ...]:
    if name not in _TABLES:
        raise InvalidArgument(f"Unknown toolset {name!r}.", hint=f"Toolsets: {', '.join(NAMES)}.")
    tools: tuple[Tool, ...] = import_module(_TABLES[name]).TOOLS
    return tools


def explain_missing_tool(name: str, offered: Iterable[str]) -> str:
    """Return a hint for a tool that is not offered, or an empty string."""
    plain = name.replace(".", "_")
    for owner in _TABLES:
        for tool in load_toolset(owner):
            if tool.writes and tool.name.replace(".", "_") == plain:
                option = "" if owner == DEFAULT else f" --toolset {owner}"
                return f"It writes, so it is only offered where the server has --write{option}."
    near = get_close_matches(name[:_LONGEST_NAME], list(offered), n=1, cutoff=0.4)
    return f"Did you mean {near[0]!r}?" if near else ""


def load_tools(names: Sequence[str], *, by_user: bool = True) -> tuple[Tool, ...]:
    """Return the tools of several toolsets; clashing names get their toolset as a prefix.

    A toolset that a file of the folder names, and not the user, does not allow its writes.
    """
    free = MAY_WRITE.intersection(names) if by_user else frozenset()
    chosen = list(_TABLES) if ALL in names else list(dict.fromkeys(names)) or [DEFAULT]
    tools = [
        (name, replace(tool, writes=False) if name in free else tool)
        for name in chosen
        for tool in load_toolset(name)
    ]
    uses = Counter(tool.name for _, tool in tools)
    return tuple(
        replace(tool, name=f"{owner.replace('-', '_')}_{tool.name}")
        if uses[tool.name] > 1
        else tool
        for owner, tool in tools
    )
