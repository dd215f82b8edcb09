"""``lookfar tags`` and ``lookfar properties``: what documents can be filtered by."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from lookfar.serve.cli.exits import write_json, write_table
from lookfar.serve.cli.options import examples, folder_argument, library_options, open_library
from lookfar.serve.show import json_shapes, progress

if TYPE_CHECKING:
    from lookfar.library import Library

_VALUES_SHOWN = 5
_LONGEST_SHOWN = 30


@contextmanager
def _open_indexed(path: str, options: dict[str, Any]) -> Iterator[Library]:
    """Open a folder, and index it if it has no index."""
    with open_library((path,), options) as library:
        with progress.show_progress(", ".join(library.collections), at_once=False):
            library.first_index()
        yield library


@examples("lookfar tags", "lookfar tags ~/Notes --json")
@click.command()
@folder_argument()
@library_options
def tags(path: str, as_json: bool, **options: Any) -> None:
    """List the tags of a folder, with the number of documents.

    The number of a tag includes documents with a tag nested in it. PATH is the folder (default:
    the current one); it is indexed first if it has no index.
    """
    with _open_indexed(path, options) as library:
        counts = library.tags()
    if as_json:
        write_json({"tags": json_shapes.plain(counts)})
        return
    rows = [[f"#{count.tag}", f"{count.documents:,}"] for count in counts]
    write_table(("tag", "documents"), rows, "No document has a tag.")


@examples("lookfar properties", "lookfar properties ~/Notes --json")
@click.command()
@folder_argument()
@library_options
def properties(path: str, as_json: bool, **options: Any) -> None:
    """List properties with their most frequent values.

    These are the front matter and inline fields of notes, and the metadata of inserted documents.
    PATH is the folder (default: the current one); it is indexed first if it has no index.
    """
    with _open_indexed(path, options) as library:
        listed = library.properties()
    if as_json:
        write_json({"properties": json_shapes.properties(listed)})
        return
    rows = []
    for item in listed:
        values = [_format_value(value, count) for value, count in item.values[:_VALUES_SHOWN]]
        rest = ["…"] if item.distinct > len(values) else []
        types = ", ".join(item.types)
        rows.append([item.name, types, f"{item.documents:,}", ", ".join([*values, *rest])])
    write_table(("property", "type", "documents", "values"), rows, "No document has a property.")


def _format_value(value: str, count: int) -> str:
    short = value if len(value) <= _LONGEST_SHOWN else f"{value[: _LONGEST_SHOWN - 1]}…"
    return f"{short} ({count:,})"
