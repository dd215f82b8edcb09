"""Extract Jupyter notebooks (nbformat 3 and 4): cells as Markdown and fenced code.

Only the text of outputs is kept, and long outputs are truncated. Places are ``cell=N``, counted
from 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from lookfar.text.extract.extracted import CannotExtract, Extracted, Limits
from lookfar.text.extract.writer import Writer

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LONGEST_LINE = 500


def extract_notebook(data: bytes, limits: Limits) -> Extracted:
    """Extract the cells of a notebook in order."""
    notebook = _load(data)
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


def _load(data: bytes) -> dict[str, Any]:
    try:
        notebook = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CannotExtract("damaged", "the notebook is not valid JSON") from error
    if not isinstance(notebook, dict):
        raise CannotExtract("damaged", "the file is not a notebook")
    return notebook


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
