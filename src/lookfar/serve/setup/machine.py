"""Where programs keep their settings on this machine, and how Lookfar is started here.

Takes: the environment. Gives: the folders that the table of clients names, what is on the
search path, and the words that start ``lookfar`` whoever runs them. Refuses: to write down a
command that would be gone tomorrow, such as a program inside uv's cache.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lookfar.config import child_environment

_FLEETING: Final = ("archive-v", "environments-v", "builds-v")
"""Folders of uv's cache, in which ``uvx`` runs what is not installed."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A system, a home and the variables that move settings elsewhere."""

    system: str
    env: Mapping[str, str]

    @classmethod
    def here(cls) -> Machine:
        return cls(sys.platform, child_environment({}))

    @property
    def home(self) -> Path:
        named = self.env.get("USERPROFILE" if self.system == "win32" else "HOME")
        return Path(named) if named else Path(os.path.expanduser("~"))

    def place(self, template: str) -> Path:
        """A path of the table, such as ``{app}/Code/User/mcp.json``."""
        return Path(template.format_map(self._bases()))

    def _bases(self) -> dict[str, str]:
        home = self.home
        named = self.env.get("XDG_CONFIG_HOME", "")
        xdg = Path(named) if os.path.isabs(named) else home / ".config"
        roaming = Path(self.env.get("APPDATA") or home / "AppData" / "Roaming")
        app = {"win32": roaming, "darwin": home / "Library" / "Application Support"}
        bases = {
            "home": home,
            "xdg": xdg,
            "app": app.get(self.system, xdg),
            "roaming": roaming if self.system == "win32" else xdg,
            "codex": self.env.get("CODEX_HOME") or home / ".codex",
            "claude": self.env.get("CLAUDE_CONFIG_DIR") or home,
        }
        return {name: str(place) for name, place in bases.items()}

    def program(self, name: str) -> str | None:
        """The program that a terminal would start by this name."""
        found = shutil.which(name, path=self.env.get("PATH", ""))
        return os.path.abspath(found) if found else None

    def shown(self, path: Path) -> str:
        """A path as people write it."""
        try:
            return str(Path("~") / path.relative_to(self.home))
        except ValueError:
            return str(path)


def launcher(machine: Machine, executable: str = sys.executable) -> tuple[str, ...]:
    """The words that start Lookfar, by absolute paths: a client started from a dock or a menu
    does not search where a terminal does."""
    folder = Path(executable).parent
    name = "lookfar.exe" if machine.system == "win32" else "lookfar"
    if any(part.startswith(_FLEETING) for part in folder.parts):
        uvx = machine.program("uvx")
        if uvx:
            return uvx, "lookfar"
    for found in (str(folder / name), machine.program("lookfar")):
        if found and os.path.isfile(found) and os.access(found, os.X_OK) and _lasts(found):
            return (found,)
    return executable, "-m", "lookfar"


def _lasts(program: str) -> bool:
    return not any(part.startswith(_FLEETING) for part in Path(program).parts)
