"""Real clients from npm, in a cache outside the repository, and a user with an empty home.

Takes: a folder that keeps the packages between runs, as ``package.json`` pins them. Gives: their
programs. Refuses: to install without Node or a registry that answers; both are ``Unavailable``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from serve.conformance.suite import NO_ANSWER, Node, Unavailable, find_node

PACKAGE = Path(__file__).parent / "package.json"
INSTALL_SECONDS = 900
SECONDS = 240
_FOREIGN = ("LOOKFAR_", "XDG_", "CLAUDE", "CODEX", "GEMINI", "VIRTUAL_ENV", "ANTHROPIC", "OPENAI")


def install_clients(cache: Path) -> Path:
    """Return the folder of programs, installed into the cache unless they are there."""
    node = find_node()
    wanted = PACKAGE.read_bytes()
    folder = cache / hashlib.sha256(wanted).hexdigest()[:16]
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        # Only a complete folder gets the name.
        with tempfile.TemporaryDirectory(dir=cache) as temporary:
            new = Path(temporary) / "new"
            new.mkdir()
            (new / "package.json").write_bytes(wanted)
            _run_npm(node, new)
            new.rename(folder)
    return folder / "node_modules" / ".bin"


def _run_npm(node: Node, folder: Path) -> None:
    # Their scripts put the program for this machine in its place.
    options = "--no-package-lock --no-audit --no-fund --fetch-retries=1 --loglevel=error".split()
    try:
        done = node.run(node.npm, "install", *options, timeout=INSTALL_SECONDS, cwd=folder)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"npm did not finish within {INSTALL_SECONDS} seconds") from None
    if done.returncode:
        if found := NO_ANSWER.search(done.stderr):
            raise Unavailable(f"npm cannot be reached ({found[1]})")
        raise RuntimeError(done.stderr)


@dataclass(frozen=True)
class User:
    """Somebody with an empty home, a project, and the clients."""

    home: Path
    project: Path
    runtime: Path
    programs: Path
    cache: Path
    """Where uv keeps what it downloads between runs."""
    wheels: Path

    @property
    def env(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
        places = dict.fromkeys(("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"), str(self.home))
        own = (self.programs, find_node().program.parent, Path(sys.executable).parent)
        return {
            **kept,
            **places,
            "PATH": os.pathsep.join([*map(str, own), os.environ["PATH"]]),
            "XDG_RUNTIME_DIR": str(self.runtime),
            # The wheel of this checkout instead of what PyPI has.
            "UV_FIND_LINKS": str(self.wheels),
            "UV_CACHE_DIR": str(self.cache),
            "MCP_TIMEOUT": "120000",
            "DISABLE_AUTOUPDATER": "1",
            "CI": "1",
        }

    def run(self, *command: object, cwd: Path | None = None, **variables: str) -> str:
        """Run a command in the project, and return what it says; it must succeed."""
        words = list(map(str, command))
        program = shutil.which(words[0], path=self.env["PATH"])
        assert program is not None, f"{words[0]} is not installed"
        done = subprocess.run(
            [program, *words[1:]],
            cwd=cwd or self.project,
            env={**self.env, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"{' '.join(words)}: {said}"
        return said

    def lookfar(self, *arguments: object) -> str:
        return self.run(sys.executable, "-m", "lookfar", *arguments)


def line_about(said: str, name: str) -> str:
    """The line of a list that is about a server."""
    found: Sequence[str] = [line for line in said.splitlines() if name in line]
    assert found, f"{name} is not in: {said}"
    return found[0]
