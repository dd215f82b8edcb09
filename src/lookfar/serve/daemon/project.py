"""Which folder is the project that somebody works in.

Takes: a working folder. Gives: the nearest folder from there upwards that a project's files
mark, or the folder itself. Refuses (``None``): a person's home, whatever it lies in and the
root of the disk, which hold far more than a project; a repository of dot files does not make
a home a project.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from lookfar.errors import NotFound

MARKERS: Final = (".git", "package.json", "pyproject.toml", "Cargo.toml", "go.mod")


class ProjectNotDetected(NotFound):
    """Nothing says which folder is meant."""

    code = "PROJECT_NOT_DETECTED"


def project_root(cwd: str) -> Path | None:
    """The project around ``cwd``; without a marker anywhere, ``cwd`` where that can be one."""
    here = Path(cwd).resolve() if cwd else None
    if here is None or not here.is_dir():
        return None
    home = Path(os.path.expanduser("~")).resolve()
    too_much = {home, *home.parents, Path(here.anchor)}
    for folder in (here, *here.parents):
        if folder in too_much:
            break
        # Not Path.exists: that raises where a folder may not be entered.
        if any(os.path.exists(folder / marker) for marker in MARKERS):
            return folder
    return None if here in too_much else here
