"""Which folder is the project that somebody works in.

Takes: a working folder. Gives: the nearest folder from there upwards that a project's files
mark, or the folder itself. Refuses (``None``): the root of the disk and a person's home,
which hold far more than a project; a repository of dot files does not make a home a project.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lookfar.errors import NotFound

MARKERS: Final = (".git", "package.json", "pyproject.toml", "Cargo.toml", "go.mod")


class ProjectNotDetected(NotFound):
    """Nothing says which folder is meant."""

    code = "PROJECT_NOT_DETECTED"


def project_root(cwd: str) -> Path | None:
    """The project around ``cwd``; without a marker anywhere, ``cwd`` where that is a project."""
    here = Path(cwd).resolve() if cwd else None
    if here is None or not here.is_dir():
        return None
    home = Path.home().resolve()
    for folder in (here, *here.parents):
        if folder == home or folder == Path(folder.anchor):
            break
        if any((folder / marker).exists() for marker in MARKERS):
            return folder
    return None if here in (home, Path(here.anchor)) else here
