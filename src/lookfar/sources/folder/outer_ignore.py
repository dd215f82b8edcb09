"""Ignore rules from outside a root: those of the repository that contains it.

Reads ``.git/info/exclude`` and the ``.gitignore`` files above the root, as git applies them. They
do not apply if they ignore the root itself, since the user chose it, nor if the repository is the
user's home folder, whose rules would hide every folder there. The user's ``core.excludesFile`` is
not read: an index must not depend on who built it.

The same rules are the same object each time, so a walk can see that nothing changed.
"""

from __future__ import annotations

import os
from functools import lru_cache

from lookfar.errors import LookfarError
from lookfar.sources.confine import Refused, Root
from lookfar.sources.folder.ignore import MAX_BYTES, IgnoreFile, Ignores
from lookfar.sources.git.repositories import find_repository

_EXCLUDE = "info/exclude"


def load_outer_ignores(path: str) -> Ignores | None:
    """Return the rules that apply at a root before its own ignore files, or None."""
    repository = find_repository(path)
    if repository is None or repository.top in (os.path.expanduser("~"), repository.git_dir):
        return None
    git_dir = repository.git_dir
    below = repository.below.split("/") if repository.below else []
    # Rules can only hide files, so they apply even if the history is not read.
    ignores = _read(git_dir, _EXCLUDE, repository.below, None) if git_dir else None
    for depth in range(len(below)):
        if depth and _ignored(ignores, below, depth):
            return None
        folder = "/".join(below[:depth])
        inner = "/".join(below[depth:])
        ignores = _read(os.path.join(repository.top, folder), ".gitignore", inner, ignores)
    return None if below and _ignored(ignores, below, len(below)) else ignores


def _ignored(ignores: Ignores | None, below: list[str], depth: int) -> bool:
    """Whether the root, or the folder above it at ``depth``, is ignored."""
    here = ignores
    while here is not None:
        # The path is relative to the folder of each ignore file.
        inner = here.above.strip("/").split("/") if here.above else []
        passed = len(below) - len(inner)
        path = "/".join(below[passed:depth])
        rule = here.file.decide(path, below[depth - 1], True) if path else None
        if rule is not None:
            return not rule.negated
        here = here.outer
    return False


def _read(folder: str, name: str, below: str, outer: Ignores | None) -> Ignores | None:
    try:
        data, _ = Root.open(folder).read(name, MAX_BYTES)
    except (Refused, LookfarError):
        return outer  # It does not exist or cannot be read.
    return _rules(os.path.join(folder, name), data, f"{below}/" if below else "", outer)


@lru_cache(maxsize=512)
def _rules(uri: str, data: bytes, above: str, outer: Ignores | None) -> Ignores | None:
    rules = IgnoreFile(uri, data)
    return Ignores("", rules, outer, above) if len(rules) else outer
