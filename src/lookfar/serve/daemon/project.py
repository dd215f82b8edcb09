"""Find the project that a working directory belongs to.

The home directory, its parents and the root of the disk are never projects, even where the home is
a repository of dot files.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from lookfar.errors import NotFound

MARKERS: Final = (".git", "package.json", "pyproject.toml", "Cargo.toml", "go.mod")


class ProjectNotDetected(NotFound):
    """No folder was given, and the working directory is not inside a project."""

    code = "PROJECT_NOT_DETECTED"


def project_root(cwd: str) -> Path | None:
    """Return the nearest parent of ``cwd`` with a marker such as ``.git``, or ``cwd`` itself.

    Returns ``None`` if ``cwd`` does not exist or is too broad to be a project.
    """
    start = Path(cwd).resolve() if cwd else None
    if start is None or not start.is_dir():
        return None
    home = Path(os.path.expanduser("~")).resolve()
    too_broad = {home, *home.parents, Path(start.anchor)}
    for folder in (start, *start.parents):
        if folder in too_broad:
            break
        # Not Path.exists, which raises for a folder that may not be entered.
        if any(os.path.exists(folder / marker) for marker in MARKERS):
            return folder
    return None if start in too_broad else start
