"""The clients that setup knows: where each keeps its servers, and in what form.

Takes: a machine, and a project. Gives: one record for each client, whether it is here, and the
file, the keys and the entry of it. Refuses: to guess; a client whose format is not documented
has no record.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from lookfar.serve.setup.machine import Machine

Scope = Literal["user", "project"]
ENTRY: Final = "lookfar"
"""The name of our entry among a client's servers."""
WORKSPACE: Final = "${workspaceFolder}"
_REMOTE: Final = ("url", "serverUrl", "httpUrl")


@dataclass(frozen=True, slots=True)
class Client:
    """A program that starts MCP servers."""

    name: str
    title: str
    keys: tuple[str, ...]
    """The way to the object that holds all servers."""
    user: tuple[str, ...] = ()
    """Its own file for all projects; of several the first that exists."""
    project: tuple[str, ...] = ()
    """The same inside of a project."""
    signs: tuple[str, ...] = ()
    """What only exists where it is installed."""
    programs: tuple[str, ...] = ()
    format: Literal["json", "toml"] = "json"
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """What an entry says besides how to start us."""
    in_one: bool = False
    """Whether ``command`` is the list of all words, arguments included."""
    folder: Literal["", "${workspaceFolder}", "absolute"] = ""
    """How the project is named to us; not at all where servers start in it."""
    keys_since: tuple[str, ...] = ()
    """Where servers lie in a file that is written the newer way."""
    guide: str = "AGENTS.md"
    """The file of a project that it reads before it works."""
    skills: str = ".agents/skills"
    then: str = "Start it again."
    """What a person has to do before it takes notice."""

    def place(self, machine: Machine, scope: Scope, project: Path | None) -> Path | None:
        """The file to edit; None where it has none of that scope."""
        if scope == "user":
            places = [machine.place(each) for each in self.user]
        else:
            places = [project / each for each in self.project] if project else []
        present = [each for each in places if os.path.lexists(each)]
        return next(iter(present or places), None)

    def is_here(self, machine: Machine) -> bool:
        """Whether it seems to be installed."""
        signs = [machine.place(each) for each in (*self.user, *self.signs)]
        return any(map(os.path.lexists, signs)) or any(map(machine.program, self.programs))

    def path_in(self, data: Any) -> tuple[str, ...]:
        """The way to our entry in a file that holds ``data``."""
        found = data
        for key in self.keys_since:
            found = found.get(key) if isinstance(found, dict) else None
        newer = self.keys_since and isinstance(found, dict) and "command" not in found
        return (*(self.keys_since if newer else self.keys), ENTRY)

    # --- the entry ----------------------------------------------------------------------------

    def entry(self, existing: Any, launch: Sequence[str], project: Path | None) -> dict[str, Any]:
        """The keys that our entry needs; what somebody wrote behind ``mcp`` stays."""
        there = existing if isinstance(existing, dict) else {}
        words = [*launch, "mcp", *_further(self.words(there))]
        named = str(project) if self.folder == "absolute" and project else self.folder
        if named not in ("", "absolute", *words):
            words.append(named)
        fixed = {key: value for key, value in self.fixed.items() if key not in there}
        if self.in_one:
            return {**fixed, "command": words}
        return {**fixed, "command": words[0], "args": words[1:]}

    def words(self, entry: Any) -> list[str]:
        """How an entry starts a server; empty where it does not say so."""
        if not isinstance(entry, dict):
            return []
        command, args = entry.get("command"), entry.get("args", [])
        found = command if self.in_one else [command, *(args if isinstance(args, list) else [])]
        if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
            return []
        return list(found)

    def is_remote(self, entry: Any) -> bool:
        """Whether an entry connects to a server that somebody runs elsewhere."""
        return isinstance(entry, dict) and any(key in entry for key in _REMOTE)

    def variables(self, entry: Any) -> dict[str, str]:
        """The variables that an entry gives to the server."""
        given = (
            entry.get("environment" if self.in_one else "env") if isinstance(entry, dict) else {}
        )
        given = given if isinstance(given, dict) else {}
        return {key: value for key, value in given.items() if isinstance(value, str)}


def _further(words: Sequence[str]) -> list[str]:
    """What somebody wrote behind ``lookfar mcp``."""
    return list(words[words.index("mcp") + 1 :]) if "mcp" in words else []


_SERVERS: Final = ("mcpServers",)
_STDIO: Final = {"type": "stdio"}
_CODE: Final = "{app}/Code/User"
_CLINE: Final = f"{_CODE}/globalStorage/saoudrizwan.claude-dev"
_ROO: Final = f"{_CODE}/globalStorage/rooveterinaryinc.roo-cline"

CLIENTS: Final = (
    Client(
        "claude-code", "Claude Code", _SERVERS,
        user=("{claude}/.claude.json",), project=(".mcp.json",),
        signs=("{home}/.claude",), programs=("claude",),
        fixed=_STDIO, guide="CLAUDE.md", skills=".claude/skills",
        then="Open sessions have to be started again.",
    ),
    Client(
        "claude-desktop", "Claude Desktop", _SERVERS,
        user=("{app}/Claude/claude_desktop_config.json",), signs=("{app}/Claude",),
        folder="absolute", guide="", then="Quit it and start it again.",
    ),
    Client(
        "cursor", "Cursor", _SERVERS,
        user=("{home}/.cursor/mcp.json",), project=(".cursor/mcp.json",),
        signs=("{home}/.cursor",), programs=("cursor",), folder=WORKSPACE,
        then="It asks whether to enable the server.",
    ),
    Client(
        "vscode", "VS Code", ("servers",),
        user=(f"{_CODE}/mcp.json",), project=(".vscode/mcp.json",),
        signs=(_CODE,), programs=("code",), fixed=_STDIO, folder=WORKSPACE,
        then="It asks whether to trust the server.",
    ),
    Client(
        "vscode-insiders", "VS Code Insiders", ("servers",),
        user=("{app}/Code - Insiders/User/mcp.json",),
        signs=("{app}/Code - Insiders/User",), programs=("code-insiders",),
        fixed=_STDIO, folder=WORKSPACE, then="It asks whether to trust the server.",
    ),
    Client(
        "windsurf", "Windsurf", _SERVERS,
        user=("{home}/.codeium/windsurf/mcp_config.json",), signs=("{home}/.codeium/windsurf",),
        programs=("windsurf",), folder="absolute", then="Refresh its list of MCP servers.",
    ),
    Client(
        "devin", "Devin Desktop", _SERVERS,
        user=("{roaming}/devin/mcp_config.json",), project=(".devin/mcp_config.json",),
        signs=("{roaming}/devin",), folder="absolute",
    ),
    Client(
        "codex", "Codex", ("mcp_servers",), format="toml",
        user=("{codex}/config.toml",), project=(".codex/config.toml",),
        signs=("{codex}",), programs=("codex",), fixed={"startup_timeout_sec": 30},
        then="Open sessions have to be started again.",
    ),
    Client(
        "gemini", "Gemini CLI", _SERVERS,
        user=("{home}/.gemini/settings.json",), project=(".gemini/settings.json",),
        programs=("gemini",), guide="GEMINI.md",
        then="Open sessions have to be started again.",
    ),
    Client(
        "zed", "Zed", ("context_servers",),
        user=("{roaming}/zed/settings.json",), project=(".zed/settings.json",),
        signs=("{roaming}/zed",), programs=("zed", "zeditor"), fixed={"source": "custom"},
        then="It takes notice by itself.",
    ),
    Client(
        "opencode", "opencode", ("mcp",), keys_since=("mcp", "servers"),
        user=("{xdg}/opencode/opencode.json", "{xdg}/opencode/opencode.jsonc"),
        project=(
            "opencode.json", "opencode.jsonc",
            ".opencode/opencode.json", ".opencode/opencode.jsonc",
        ),
        signs=("{xdg}/opencode",), programs=("opencode",),
        fixed={"type": "local", "enabled": True}, in_one=True,
        then="Open sessions have to be started again.",
    ),
    Client(
        "cline", "Cline", _SERVERS,
        user=(f"{_CLINE}/settings/cline_mcp_settings.json",), signs=(_CLINE,),
        folder="absolute", then="It takes notice by itself.",
    ),
    Client(
        "cline-cli", "Cline (terminal)", _SERVERS,
        user=("{home}/.cline/data/settings/cline_mcp_settings.json",),
        signs=("{home}/.cline",), programs=("cline",), folder="absolute",
        then="Open sessions have to be started again.",
    ),
    Client(
        "roo", "Roo Code", _SERVERS,
        user=(f"{_ROO}/settings/mcp_settings.json",), project=(".roo/mcp.json",), signs=(_ROO,),
        folder="absolute", then="It takes notice by itself.",
    ),
    # Its own settings are YAML; besides, it reads every JSON file of this folder.
    Client(
        "continue", "Continue", _SERVERS,
        user=("{home}/.continue/mcpServers/lookfar.json",),
        project=(".continue/mcpServers/lookfar.json",),
        signs=("{home}/.continue",), folder="absolute", then="Reload the window.",
    ),
    Client(
        "junie", "Junie", _SERVERS,
        user=("{home}/.junie/mcp/mcp.json",), project=(".junie/mcp/mcp.json",),
        signs=("{home}/.junie",), programs=("junie",), folder="absolute",
    ),
)  # fmt: skip
BY_NAME: Final = {client.name: client for client in CLIENTS}
