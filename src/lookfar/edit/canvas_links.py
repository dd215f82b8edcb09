"""Change the files and texts that the nodes of a canvas name, and no other character of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_VALUE = re.compile(r'"(file|text)"\s*:\s*("(?:[^"\\]|\\.)*")')


def rewrite_canvas(
    canvas: str, change_file: Callable[[str], str], change_text: Callable[[str], str]
) -> str | None:
    """Return a canvas with changed files and texts of its nodes; None if that is not possible.

    The result is parsed again and compared with what was intended.
    """

    def replace(match: re.Match[str]) -> str:
        value = json.loads(match[2])
        changed = change_file(value) if match[1] == "file" else change_text(value)
        if changed == value:
            return match[0]
        return match[0][: match.start(2) - match.start()] + json.dumps(changed, ensure_ascii=False)

    try:
        before = json.loads(canvas)
        changed = _VALUE.sub(replace, canvas)
        after = json.loads(changed)
    except (ValueError, RecursionError):
        return None
    return changed if _map_nodes(before, change_file, change_text) == after else None


def _map_nodes(
    canvas: Any, change_file: Callable[[str], str], change_text: Callable[[str], str]
) -> Any:
    if not isinstance(canvas, dict) or not isinstance(canvas.get("nodes"), list):
        return canvas
    changes = {"file": change_file, "text": change_text}
    nodes = [
        {
            key: changes[key](value) if key in changes and isinstance(value, str) else value
            for key, value in node.items()
        }
        if isinstance(node, dict)
        else node
        for node in canvas["nodes"]
    ]
    return {**canvas, "nodes": nodes}
