"""Ignore rules about a folder that lie outside it: those of the repository that it is part of.

Takes: the path of a root. Gives: what ``.git/info/exclude`` and the ``.gitignore`` files above
the root say of what lies below it, as git would apply them. Refuses: to apply them to a root
that they ignore as a whole, since whoever chose it wants it; those of a repository that is the
user's home, which are about settings and would hide every folder there; and the user's own
``core.excludesFile``, since an index must not depend on who made it.

The same rules are the same object each time, by which a walk sees that nothing changed.
"""

from __future__ import annotations

import os
from functools import lru_cache

from lookfar.errors import LookfarError
from lookfar.sources.confine import Refused, Root
from lookfar.sources.folder.ignore import MAX_BYTES, IgnoreFile, Ignores
from lookfar.sources.git.repositories import repository_around

_EXCLUDE = "info/exclude"


def ignores_around(path: str) -> Ignores | None:
    """The rules in force at a root before its own files are read, or None."""
    found = repository_around(path)
    if found is None or found.top == os.path.expanduser("~") or found.top == found.git_dir:
        return None
    below = found.below.split("/") if found.below else []
    # Rules only hide, so those of a repository whose history is not read count all the same.
    ignores = _read(found.git_dir, _EXCLUDE, found.below, None) if found.git_dir else None
    for depth in range(len(below)):
        if depth and _ignored(ignores, below, depth):
            return None
        folder = "/".join(below[:depth])
        inner = "/".join(below[depth:])
        ignores = _read(os.path.join(found.top, folder), ".gitignore", inner, ignores)
    return None if below and _ignored(ignores, below, len(below)) else ignores


def _ignored(ignores: Ignores | None, below: list[str], depth: int) -> bool:
    """Whether the folder ``depth`` levels down, which the root is or lies in, is ignored."""
    here = ignores
    while here is not None:
        # Seen from each file the path begins at another place.
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
        return outer  # There is none, or none that can be applied.
    return _rules(os.path.join(folder, name), data, f"{below}/" if below else "", outer)


@lru_cache(maxsize=512)
def _rules(uri: str, data: bytes, above: str, outer: Ignores | None) -> Ignores | None:
    rules = IgnoreFile(uri, data)
    return Ignores("", rules, outer, above) if len(rules) else outer
