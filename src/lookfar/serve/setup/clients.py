"""The clients that setup supports: where each keeps its MCP servers, and in what format."""

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
    """The path of keys to the object that contains all servers."""
    user: tuple[str, ...] = ()
    """Its settings file for all projects; if several are given, the first that exists."""
    project: tuple[str, ...] = ()
    """Its settings file in a project; if several are given, the first that exists."""
    signs: tuple[str, ...] = ()
    """Files and folders that exist only where it is installed."""
    programs: tuple[str, ...] = ()
    format: Literal["json", "toml"] = "json"
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Keys of an entry besides the command."""
    command_is_list: bool = False
    """Whether ``command`` is a list that includes the arguments."""
    folder: Literal["", "${workspaceFolder}", "absolute"] = ""
    """How the client passes the project; empty if it starts servers in the project's folder."""
    newer_keys: tuple[str, ...] = ()
    """The ``keys`` to use if the file has the newer of two formats."""
    guide: str = "AGENTS.md"
    """The file in a project with instructions for the agent."""
    skills: str = ".agents/skills"
    next_step: str = "Start it again."
    """What the user must do before the client sees the change."""

    def config_path(self, machine: Machine, scope: Scope, project: Path | None) -> Path | None:
        """Return the file to edit; None if there is none in this scope."""
        if scope == "user":
            places = [machine.resolve(template) for template in self.user]
        else:
            places = [project / name for name in self.project] if project else []
        present = [path for path in places if os.path.lexists(path)]
        return next(iter(present or places), None)

    def is_installed(self, machine: Machine) -> bool:
        signs = [machine.resolve(template) for template in (*self.user, *self.signs)]
        return any(map(os.path.lexists, signs)) or any(map(machine.find_program, self.programs))

    def entry_keys(self, data: Any) -> tuple[str, ...]:
        """Return the path of keys to our entry in a file with this content."""
        for key in self.newer_keys:
            data = data.get(key) if isinstance(data, dict) else None
        is_newer = self.newer_keys and isinstance(data, dict) and "command" not in data
        return (*(self.newer_keys if is_newer else self.keys), ENTRY)

    def make_entry(
        self, existing: Any, launcher: Sequence[str], project: Path | None
    ) -> dict[str, Any]:
        """Return the keys that our entry needs, keeping the user's arguments after ``mcp``."""
        old = existing if isinstance(existing, dict) else {}
        words = [*launcher, "mcp", *_arguments_after_mcp(self.read_command(old))]
        folder = str(project) if self.folder == "absolute" and project else self.folder
        if folder not in ("", "absolute", *words):
            words.append(folder)
        extra = {key: value for key, value in self.extra.items() if key not in old}
        if self.command_is_list:
            return {**extra, "command": words}
        return {**extra, "command": words[0], "args": words[1:]}

    def read_command(self, entry: Any) -> list[str]:
        """Return the command line of an entry; empty if it has none."""
        if not isinstance(entry, dict):
            return []
        words, args = entry.get("command"), entry.get("args", [])
        if not self.command_is_list:
            words = [words, *(args if isinstance(args, list) else [])]
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            return []
        return list(words)

    def is_remote(self, entry: Any) -> bool:
        """Return whether an entry connects to a server at an address."""
        return isinstance(entry, dict) and any(key in entry for key in _REMOTE)

    def read_environment(self, entry: Any) -> dict[str, str]:
        """Return the environment variables that an entry sets for the server."""
        key = "environment" if self.command_is_list else "env"
        variables = entry.get(key) if isinstance(entry, dict) else {}
        variables = variables if isinstance(variables, dict) else {}
        return {key: value for key, value in variables.items() if isinstance(value, str)}


def _arguments_after_mcp(words: Sequence[str]) -> list[str]:
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
        extra=_STDIO, guide="CLAUDE.md", skills=".claude/skills",
        next_step="Restart open sessions.",
    ),
    Client(
        "claude-desktop", "Claude Desktop", _SERVERS,
        user=("{app}/Claude/claude_desktop_config.json",), signs=("{app}/Claude",),
        folder="absolute", guide="", next_step="Quit it and start it again.",
    ),
    Client(
        "cursor", "Cursor", _SERVERS,
        user=("{home}/.cursor/mcp.json",), project=(".cursor/mcp.json",),
        signs=("{home}/.cursor",), programs=("cursor",), folder=WORKSPACE,
        next_step="It asks whether to enable the server.",
    ),
    Client(
        "vscode", "VS Code", ("servers",),
        user=(f"{_CODE}/mcp.json",), project=(".vscode/mcp.json",),
        signs=(_CODE,), programs=("code",), extra=_STDIO, folder=WORKSPACE,
        next_step="It asks whether to trust the server.",
    ),
    Client(
        "vscode-insiders", "VS Code Insiders", ("servers",),
        user=("{app}/Code - Insiders/User/mcp.json",),
        signs=("{app}/Code - Insiders/User",), programs=("code-insiders",),
        extra=_STDIO, folder=WORKSPACE, next_step="It asks whether to trust the server.",
    ),
    Client(
        "windsurf", "Windsurf", _SERVERS,
        user=("{home}/.codeium/windsurf/mcp_config.json",), signs=("{home}/.codeium/windsurf",),
        programs=("windsurf",), folder="absolute", next_step="Refresh its list of MCP servers.",
    ),
    Client(
        "devin", "Devin Desktop", _SERVERS,
        user=("{roaming}/devin/mcp_config.json",), project=(".devin/mcp_config.json",),
        signs=("{roaming}/devin",), folder="absolute",
    ),
    Client(
        "codex", "Codex", ("mcp_servers",), format="toml",
        user=("{codex}/config.toml",), project=(".codex/config.toml",),
        signs=("{codex}",), programs=("codex",), extra={"startup_timeout_sec": 30},
        next_step="Restart open sessions.",
    ),
    Client(
        "gemini", "Gemini CLI", _SERVERS,
        user=("{home}/.gemini/settings.json",), project=(".gemini/settings.json",),
        programs=("gemini",), guide="GEMINI.md",
        next_step="Restart open sessions. It starts servers only in folders that you trust.",
    ),
    Client(
        "zed", "Zed", ("context_servers",),
        user=("{roaming}/zed/settings.json",), project=(".zed/settings.json",),
        signs=("{roaming}/zed",), programs=("zed", "zeditor"), extra={"source": "custom"},
        next_step="It picks up the change on its own.",
    ),
    Client(
        "opencode", "opencode", ("mcp",), newer_keys=("mcp", "servers"),
        user=("{xdg}/opencode/opencode.json", "{xdg}/opencode/opencode.jsonc"),
        project=(
            "opencode.json", "opencode.jsonc",
            ".opencode/opencode.json", ".opencode/opencode.jsonc",
        ),
        signs=("{xdg}/opencode",), programs=("opencode",),
        extra={"type": "local", "enabled": True}, command_is_list=True,
        next_step="Restart open sessions.",
    ),
    Client(
        "cline", "Cline", _SERVERS,
        user=(f"{_CLINE}/settings/cline_mcp_settings.json",), signs=(_CLINE,),
        folder="absolute", next_step="It picks up the change on its own.",
    ),
    Client(
        "cline-cli", "Cline (terminal)", _SERVERS,
        user=("{home}/.cline/data/settings/cline_mcp_settings.json",),
        signs=("{home}/.cline",), programs=("cline",), folder="absolute",
        next_step="Restart open sessions.",
    ),
    Client(
        "roo", "Roo Code", _SERVERS,
        user=(f"{_ROO}/settings/mcp_settings.json",), project=(".roo/mcp.json",), signs=(_ROO,),
        folder="absolute", next_step="It picks up the change on its own.",
    ),
    # Its own settings are YAML, but it also reads every JSON file in this folder.
    Client(
        "continue", "Continue", _SERVERS,
        user=("{home}/.continue/mcpServers/lookfar.json",),
        project=(".continue/mcpServers/lookfar.json",),
        signs=("{home}/.continue",), folder="absolute", next_step="Reload the window.",
    ),
    Client(
        "junie", "Junie", _SERVERS,
        user=("{home}/.junie/mcp/mcp.json",), project=(".junie/mcp/mcp.json",),
        signs=("{home}/.junie",), programs=("junie",), folder="absolute",
    ),
)  # fmt: skip
BY_NAME: Final = {client.name: client for client in CLIENTS}
