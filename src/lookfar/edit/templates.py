"""What a new document begins with.

Takes: the name of a template, a title and a day. Gives: the text. Refuses: names that are
neither ours nor files in the folder of templates that the settings name.

A template says ``{title}`` and ``{date}`` where these go; any other brace is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lookfar.errors import NotFound

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


def rendered(
    name: str, title: str, day: str, own: Callable[[str], str | None], names: list[str]
) -> str:
    """The text of a new document; ``own`` gives a template of the folder's, or None, and
    ``names`` those it has."""
    text = own(name) if name else None
    if text is None:
        text = BUILT_IN.get(name)
    if text is None:
        known = [*sorted(set(BUILT_IN) - {""}), *sorted(names)]
        raise NotFound(
            f"There is no template {name[:100]!r}.",
            hint=f"Templates: {', '.join(known)}.",
            details={"candidates": known},
        )
    return text.replace("{date}", day).replace("{title}", title)
