"""Where programs keep their settings on this machine, and the command that starts Lookfar."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lookfar.common.programs import find_program
from lookfar.config import child_environment

_TEMPORARY: Final = ("archive-v", "environments-v", "builds-v")
"""Folders of uv's cache in which ``uvx`` runs programs that are not installed."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The operating system and the environment, which say where settings are."""

    system: str
    env: Mapping[str, str]

    @classmethod
    def here(cls) -> Machine:
        return cls(sys.platform, child_environment({}))

    @property
    def home(self) -> Path:
        home = self.env.get("USERPROFILE" if self.system == "win32" else "HOME")
        return Path(home) if home else Path(os.path.expanduser("~"))

    def resolve(self, template: str) -> Path:
        """Fill in a path of the table of clients, such as ``{app}/Code/User/mcp.json``."""
        return Path(template.format_map(self._base_folders()))

    def _base_folders(self) -> dict[str, str]:
        home = self.home
        xdg_home = self.env.get("XDG_CONFIG_HOME", "")
        xdg = Path(xdg_home) if os.path.isabs(xdg_home) else home / ".config"
        roaming = Path(self.env.get("APPDATA") or home / "AppData" / "Roaming")
        app = {"win32": roaming, "darwin": home / "Library" / "Application Support"}
        folders = {
            "home": home,
            "xdg": xdg,
            "app": app.get(self.system, xdg),
            "roaming": roaming if self.system == "win32" else xdg,
            "codex": self.env.get("CODEX_HOME") or home / ".codex",
            "claude": self.env.get("CLAUDE_CONFIG_DIR") or home,
            "claude_folder": self.env.get("CLAUDE_CONFIG_DIR") or home / ".claude",
        }
        return {name: str(folder) for name, folder in folders.items()}

    def find_program(self, name: str) -> str | None:
        """Return the program that a terminal would start by this name."""
        program = find_program(name, self.env.get("PATH", ""), self.system)
        return os.path.abspath(program) if program else None

    def shorten(self, path: Path) -> str:
        """Return a path for display, with ``~`` for the home folder."""
        try:
            return str(Path("~") / path.relative_to(self.home))
        except ValueError:
            return str(path)


def find_launcher(machine: Machine, executable: str = sys.executable) -> tuple[str, ...]:
    """Return the command that starts Lookfar, with an absolute path.

    A client that is started from a dock or a menu does not have the PATH of a terminal.
    """
    folder = Path(executable).parent
    name = "lookfar.exe" if machine.system == "win32" else "lookfar"
    if _is_temporary(folder):
        uvx = machine.find_program("uvx")
        if uvx:
            return uvx, "lookfar"
    for program in (str(folder / name), machine.find_program("lookfar")):
        if program and not _is_temporary(Path(program)) and _is_executable(program):
            return (program,)
    return executable, "-m", "lookfar"


def _is_temporary(path: Path) -> bool:
    return any(part.startswith(_TEMPORARY) for part in path.parts)


def _is_executable(program: str) -> bool:
    return os.path.isfile(program) and os.access(program, os.X_OK)
