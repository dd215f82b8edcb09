"""Try Lookfar with real clients: ``python scripts/clients.py [PYTEST OPTIONS]``.

Takes: the name of a folder in ``REAL_CLIENTS``, or uses one in the user's cache; the clients
(``tests/clients/package.json``, about 1 GB) are installed there once. Gives: the exit status of
``tests/clients``: after ``lookfar setup`` in an empty home, Claude Code and Gemini CLI connect and
Codex lists the server; the plugin is valid, is installed and connects; the bundle is valid and
starts. Where npm cannot be reached the tests are skipped, and say why. No account is needed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def find_cache() -> Path:
    """Return the folder for the clients, outside the repository."""
    if given := os.environ.get("REAL_CLIENTS"):
        return Path(given).resolve()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "lookfar-clients"


def main() -> int:
    command = [sys.executable, "-m", "pytest", "-q", "tests/clients", *sys.argv[1:]]
    environment = {**os.environ, "REAL_CLIENTS": str(find_cache())}
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
