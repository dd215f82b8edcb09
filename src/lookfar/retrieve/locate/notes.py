"""Resolve notes by file name, alias, title, or ``[[link]]``, in the same way as links."""

from __future__ import annotations

import re

from lookfar.common.target import Target
from lookfar.ports import Snapshot
from lookfar.store.catalogue.link_names import link_name

_LINK = re.compile(r"\s*!?\[\[([^\[\]|]+)(?:\|[^\[\]]*)?\]\]\s*")


def is_link(text: str) -> bool:
    """Return whether a text is a ``[[link]]`` and nothing else."""
    return _LINK.fullmatch(text) is not None


def resolve_note(snapshot: Snapshot, text: str) -> Target | None:
    """Return the note that a name or a ``[[link]]`` refers to, with the heading after a ``#``."""
    link = _LINK.fullmatch(text)
    name, _, heading = (link[1] if link else text).partition("#")
    asked = (link_name("", "wikilink", name.strip()), "wikilink", name.strip())
    if not asked[0]:
        return None
    resolved = snapshot.resolve_links([asked]).get(asked)
    if resolved is None:
        return None
    return Target(resolved[0], heading=heading.strip())
