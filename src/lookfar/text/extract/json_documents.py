"""Extract Jupyter notebooks (nbformat 3 and 4) and canvases (JSON Canvas).

A notebook becomes its cells as Markdown and fenced code, with the text of its outputs, of which
long ones are truncated; places are ``cell=N``, counted from 1. A canvas becomes its texts, linked
files, groups and labelled arrows, from top to bottom and nodes in a group below its label; places
are ``node=ID``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from lookfar.text.extract.extracted import CannotExtract, Extracted, Limits, Writer, join_words

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LONGEST_LINE = 500
_LONGEST_NAME = 60


def extract_notebook(data: bytes, limits: Limits) -> Extracted:
    """Extract the cells of a notebook in order."""
    notebook = _load(data, "notebook")
    cells = _cells(notebook)
    if len(cells) > limits.max_parts:
        raise CannotExtract("too_large", f"the notebook has more than {limits.max_parts:,} cells")
    language = _language(notebook)
    writer = Writer(limits)
    for number, cell in enumerate(cells, 1):
        writer.place(f"cell={number}")
        _write_cell(writer, cell, language, limits)
        if writer.full:
            break
    metadata = _mapping(notebook.get("metadata"))
    title = metadata.get("title")
    return writer.finish(title if isinstance(title, str) else "")


def _load(data: bytes, kind: str) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CannotExtract("damaged", f"the {kind} is not valid JSON") from error
    if not isinstance(document, dict):
        raise CannotExtract("damaged", f"the file is not a {kind}")
    return document


def _cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    cells = notebook.get("cells")
    if cells is None:  # nbformat 3
        sheets = notebook.get("worksheets")
        cells = [
            cell
            for sheet in (sheets if isinstance(sheets, list) else [])
            for cell in (_mapping(sheet).get("cells") or [])
        ]
    if not isinstance(cells, list):
        raise CannotExtract("damaged", "the notebook has no list of cells")
    return [_mapping(cell) for cell in cells]


def _language(notebook: dict[str, Any]) -> str:
    metadata = _mapping(notebook.get("metadata"))
    for group, key in (("kernelspec", "language"), ("language_info", "name")):
        name = _mapping(metadata.get(group)).get(key)
        if isinstance(name, str) and name:
            return name.lower()
    return "python"


def _write_cell(writer: Writer, cell: dict[str, Any], language: str, limits: Limits) -> None:
    kind = cell.get("cell_type")
    source = _text(cell.get("source", cell.get("input")))
    if kind == "code":
        own = cell.get("language")
        writer.code(source, own if isinstance(own, str) and own else language)
        for output in _outputs(cell):
            writer.code(_shorten(output, limits.max_output_lines), "text")
    elif kind == "heading":
        level = cell.get("level")
        writer.heading(level if isinstance(level, int) else 1, source)
    elif kind == "markdown":
        writer.markdown(source)
    else:
        writer.paragraph(source)


def _outputs(cell: dict[str, Any]) -> Iterator[str]:
    """Yield the texts of a cell's outputs; the text of a stream may be in several outputs."""
    outputs = cell.get("outputs")
    stream = ""
    for item in outputs if isinstance(outputs, list) else []:
        output = _mapping(item)
        if output.get("output_type") == "stream":
            stream += _text(output.get("text"))
            continue
        if stream:
            yield stream
            stream = ""
        yield _output_text(output)
    yield stream


def _output_text(output: dict[str, Any]) -> str:
    if output.get("output_type") in ("error", "pyerr"):
        trace = _ANSI.sub("", "\n".join(_strings(output.get("traceback"))))
        return trace or f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
    data = _mapping(output.get("data", output))
    for key in ("text/markdown", "text/plain", "text/latex", "application/json", "text"):
        value = data.get(key)
        if isinstance(value, dict):
            return json.dumps(value, ensure_ascii=False, sort_keys=True)
        if text := _text(value):
            return text
    return ""


def _shorten(text: str, most: int) -> str:
    lines = _ANSI.sub("", text).split("\n")
    lines = [line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + " …" for line in lines]
    if len(lines) > most:
        lines = [*lines[:most], f"… ({len(lines) - most} more lines)"]
    return "\n".join(lines)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "".join(_strings(value))


def _strings(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def extract_canvas(data: bytes, limits: Limits) -> Extracted:
    """Extract the nodes and arrows of a canvas."""
    canvas = _load(data if data.strip() else b"{}", "canvas")
    nodes = [node for node in _as_list(canvas.get("nodes")) if isinstance(node, dict)]
    edges = [edge for edge in _as_list(canvas.get("edges")) if isinstance(edge, dict)]
    if len(nodes) + len(edges) > limits.max_parts:
        raise CannotExtract("too_large", f"the canvas has more than {limits.max_parts:,} parts")
    writer = Writer(limits)
    groups = [node for node in nodes if node.get("type") == "group"]
    rest = sorted((node for node in nodes if node.get("type") != "group"), key=_position)
    inside: set[int] = set()
    for group in sorted(groups, key=_position):
        members = [node for node in rest if id(node) not in inside and _contains(group, node)]
        inside.update(id(node) for node in members)
        _write_place(writer, group)
        writer.heading(2, _node_text(group, "label") or "Group")
        for node in members:
            _write_node(writer, node)
    for node in rest:
        if id(node) not in inside:
            _write_node(writer, node)
    _write_edges(writer, edges, {_node_text(node, "id"): node for node in nodes})
    return writer.finish()


def _write_node(writer: Writer, node: dict[str, Any]) -> None:
    _write_place(writer, node)
    kind = node.get("type")
    if kind == "file":
        writer.paragraph(f"[[{_node_text(node, 'file')}{_node_text(node, 'subpath')}]]")
    elif kind == "link":
        writer.paragraph(_node_text(node, "url"))
    else:
        writer.markdown(_node_text(node, "text"))


def _write_edges(
    writer: Writer, edges: list[dict[str, Any]], nodes: dict[str, dict[str, Any]]
) -> None:
    """Write the arrows that have a label; the others have no text."""
    lines = []
    for edge in edges:
        label = join_words(_node_text(edge, "label"))
        if label:
            start, end = (nodes.get(_node_text(edge, key), {}) for key in ("fromNode", "toNode"))
            lines.append(f"{_node_name(start)} → {_node_name(end)}: {label}")
    if lines:
        writer.heading(2, "Arrows")
        for line in lines:
            writer.item(0, line)


def _write_place(writer: Writer, node: dict[str, Any]) -> None:
    if name := _node_text(node, "id"):
        writer.place(f"node={name}")


def _node_name(node: dict[str, Any]) -> str:
    """Return a few words by which people recognise a node."""
    for key in ("label", "file", "url", "text"):
        if text := _node_text(node, key):
            first = join_words(text.strip().split("\n", 1)[0].lstrip("# "))
            return first if len(first) <= _LONGEST_NAME else first[:_LONGEST_NAME] + "…"
    return "?"


def _position(node: dict[str, Any]) -> tuple[float, float, str]:
    return _number(node, "y"), _number(node, "x"), _node_text(node, "id")


def _contains(group: dict[str, Any], node: dict[str, Any]) -> bool:
    x, y = _number(group, "x"), _number(group, "y")
    across, down = _number(node, "x") - x, _number(node, "y") - y
    return 0 <= across <= _number(group, "width") and 0 <= down <= _number(group, "height")


def _number(node: dict[str, Any], key: str) -> float:
    value = node.get(key)
    return value if isinstance(value, int | float) and abs(value) < 1e15 else 0.0


def _node_text(node: dict[str, Any], key: str) -> str:
    value = node.get(key)
    return value if isinstance(value, str) else ""


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
