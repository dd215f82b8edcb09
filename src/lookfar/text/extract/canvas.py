"""Extract canvases (JSON Canvas, ``.canvas``): texts, linked files, groups and labelled arrows.

Nodes are written from top to bottom, and nodes in a group below the label of the group. Places are
``node=ID``.
"""

from __future__ import annotations

import json
from typing import Any

from lookfar.text.extract.extracted import CannotExtract, Extracted, Limits
from lookfar.text.extract.writer import Writer, join_words

_LONGEST_NAME = 60


def extract_canvas(data: bytes, limits: Limits) -> Extracted:
    """Extract the nodes and arrows of a canvas."""
    try:
        canvas = json.loads(data) if data.strip() else {}
    except (ValueError, RecursionError) as error:
        raise CannotExtract("damaged", "the canvas is not valid JSON") from error
    if not isinstance(canvas, dict):
        raise CannotExtract("damaged", "the file is not a canvas")
    nodes = [node for node in _list(canvas.get("nodes")) if isinstance(node, dict)]
    edges = [edge for edge in _list(canvas.get("edges")) if isinstance(edge, dict)]
    if len(nodes) + len(edges) > limits.max_parts:
        raise CannotExtract("too_large", f"the canvas has more than {limits.max_parts:,} parts")
    writer = Writer(limits)
    groups = [node for node in nodes if node.get("type") == "group"]
    rest = sorted((node for node in nodes if node.get("type") != "group"), key=_position)
    inside: set[int] = set()
    for group in sorted(groups, key=_position):
        members = [node for node in rest if id(node) not in inside and _contains(group, node)]
        inside.update(id(node) for node in members)
        _place(writer, group)
        writer.heading(2, _text(group, "label") or "Group")
        for node in members:
            _write_node(writer, node)
    for node in rest:
        if id(node) not in inside:
            _write_node(writer, node)
    _write_edges(writer, edges, {_text(node, "id"): node for node in nodes})
    return writer.finish()


def _write_node(writer: Writer, node: dict[str, Any]) -> None:
    _place(writer, node)
    kind = node.get("type")
    if kind == "file":
        writer.paragraph(f"[[{_text(node, 'file')}{_text(node, 'subpath')}]]")
    elif kind == "link":
        writer.paragraph(_text(node, "url"))
    else:
        writer.markdown(_text(node, "text"))


def _write_edges(
    writer: Writer, edges: list[dict[str, Any]], nodes: dict[str, dict[str, Any]]
) -> None:
    """Write the arrows that have a label; the others have no text."""
    lines = []
    for edge in edges:
        label = join_words(_text(edge, "label"))
        if label:
            ends = [_name(nodes.get(_text(edge, key), {})) for key in ("fromNode", "toNode")]
            lines.append(f"{ends[0]} → {ends[1]}: {label}")
    if lines:
        writer.heading(2, "Arrows")
        for line in lines:
            writer.item(0, line)


def _place(writer: Writer, node: dict[str, Any]) -> None:
    if name := _text(node, "id"):
        writer.place(f"node={name}")


def _name(node: dict[str, Any]) -> str:
    """Return a few words by which people recognise a node."""
    for key in ("label", "file", "url", "text"):
        if text := _text(node, key):
            first = join_words(text.strip().split("\n", 1)[0].lstrip("# "))
            return first if len(first) <= _LONGEST_NAME else first[:_LONGEST_NAME] + "…"
    return "?"


def _position(node: dict[str, Any]) -> tuple[float, float, str]:
    return _number(node, "y"), _number(node, "x"), _text(node, "id")


def _contains(group: dict[str, Any], node: dict[str, Any]) -> bool:
    x, y = _number(group, "x"), _number(group, "y")
    across, down = _number(node, "x") - x, _number(node, "y") - y
    return 0 <= across <= _number(group, "width") and 0 <= down <= _number(group, "height")


def _number(node: dict[str, Any], key: str) -> float:
    value = node.get(key)
    return value if isinstance(value, int | float) and abs(value) < 1e15 else 0.0


def _text(node: dict[str, Any], key: str) -> str:
    value = node.get(key)
    return value if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
