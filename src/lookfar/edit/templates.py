"""Templates for new documents: the built-in ones, and files in the folder ``edit.templates``.

``{title}`` and ``{date}`` are replaced; all other braces are left alone.
"""

from __future__ import annotations

import os
from typing import Final

from lookfar.errors import InvalidArgument, NotFound
from lookfar.sources.confine import Refused, Root, close_folder
from lookfar.text.normalise import normalise

_MAX_BYTES: Final = 1 << 20

BUILT_IN: Final = {
    "": "# {title}\n",
    "note": "---\ncreated: {date}\ntags: []\n---\n\n# {title}\n",
    "decision": (
        "---\nstatus: proposed\ndate: {date}\n---\n\n# {title}\n\n## Context\n\n## Decision\n\n"
        "## Consequences\n"
    ),
    "guide": "# {title}\n\n## Before you begin\n\n## Steps\n\n## If something goes wrong\n",
    "runbook": (
        "# {title}\n\n## When to use this\n\n## Checks\n\n## Steps\n\n## Going back\n\n"
        "## Contacts\n"
    ),
    "meeting": (
        "---\ndate: {date}\n---\n\n# {title}\n\n## Present\n\n## Discussed\n\n## Decided\n\n"
        "## To do\n"
    ),
}


class Templates:
    def __init__(self, root: Root, folder: str) -> None:
        """``folder`` is the URI of the folder with the user's templates, or empty."""
        self._root = root
        self._folder = folder

    def render(self, name: str, title: str, day: str) -> str:
        """Return the text of a new document; a user's template wins over a built-in one."""
        names = self._list_names()
        text = self._read(name) if name and name in names else BUILT_IN.get(name)
        if text is None:
            candidates = [*sorted(set(BUILT_IN) - {""}), *names]
            raise NotFound(
                f"There is no template {name[:100]!r}.",
                hint=f"Templates: {', '.join(candidates)}.",
                details={"candidates": candidates},
            )
        return text.replace("{date}", day).replace("{title}", title)

    def _read(self, name: str) -> str:
        try:
            raw, _ = self._root.read(f"{self._folder}/{name}.md", _MAX_BYTES)
        except Refused as refusal:
            raise InvalidArgument(
                f"The template {name!r} cannot be read ({refusal.reason}).",
                hint="Templates are regular files of at most 1 MiB.",
            ) from refusal
        return normalise(raw)[0]

    def _list_names(self) -> list[str]:
        if not self._folder:
            return []
        try:
            handle = self._root.open_folder(self._folder)
        except (Refused, OSError):
            return []
        try:
            return sorted(n.removesuffix(".md") for n in os.listdir(handle) if n.endswith(".md"))
        finally:
            close_folder(handle)
