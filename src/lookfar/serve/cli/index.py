"""``lookfar index``, ``reindex`` and ``status``: build indexes and show their state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lookfar.errors import NotIndexed
from lookfar.serve.cli.exits import write_json, write_result
from lookfar.serve.cli.options import (
    connect_library,
    examples,
    library_options,
    open_library,
    quiet_option,
)
from lookfar.serve.show import json_shapes, progress

if TYPE_CHECKING:
    from lookfar.library import Library


@examples(
    "lookfar index docs",
    "lookfar index docs ~/notes --quiet",
    "lookfar index . --set chunk.max_tokens=800 --json",
)
@click.command()
@click.argument("path", nargs=-1)
@click.option("--rebuild", is_flag=True, help="Read every file again, not only changed ones.")
@quiet_option
@library_options
def index(path: tuple[str, ...], rebuild: bool, quiet: bool, as_json: bool, **options: Any) -> None:
    """Index folders, or bring their indexes up to date.

    PATH is a folder (default: the current one); each folder has its own index. Folders are only
    read; indexes are stored elsewhere.
    """
    with open_library(path, options) as library:
        _index_folders(library, quiet, as_json, rebuild=rebuild)


@examples("lookfar reindex", "lookfar reindex docs ~/notes --quiet")
@click.command()
@click.argument("path", nargs=-1)
@quiet_option
@library_options
def reindex(path: tuple[str, ...], quiet: bool, as_json: bool, **options: Any) -> None:
    """Read every file again and rebuild the indexes.

    PATH is a folder that is already indexed (default: the current one). The old index answers
    until the new one is finished.
    """
    with open_library(path, options) as library:
        missing = [name for name in library.collections if not library.folder(name).begun]
        if missing:
            raise NotIndexed(
                f"{', '.join(missing)} has not been indexed yet.",
                hint="Index it: lookfar index PATH",
            )
        _index_folders(library, quiet, as_json, rebuild=True)


def _rebuild_ragdocs(settings: tuple[str, ...], **options: Any) -> None:
    """Rebuild the index that the toolset ragdocs uses; an alias for its users."""
    assert index.callback is not None
    index.callback(settings=("serve.toolset=ragdocs", *settings), **options | {"rebuild": True})


rebuild_index = click.Command(
    "rebuild-index", callback=_rebuild_ragdocs, params=index.params, hidden=True
)


def _index_folders(library: Library, quiet: bool, as_json: bool, *, rebuild: bool) -> None:
    shapes: list[json_shapes.Json] = []
    for name in library.collections:
        folder = library.folder(name)
        with progress.show_progress(name, quiet=quiet) as on_progress:
            report = folder.index(rebuild=rebuild, on_progress=on_progress)
        if as_json:
            shapes.append(json_shapes.report(report, folder.place))
        elif not quiet:
            write_result(False, "report", report, folder.place)
    if as_json:
        write_json(json_shapes.combine(shapes))


@examples("lookfar status", "lookfar status docs ~/notes --json")
@click.command()
@click.argument("path", nargs=-1)
@library_options
def status(path: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Show what is indexed, and what is out of date.

    PATH is a folder (default: the current one).
    """
    with connect_library(path, options) as library:
        statuses = library.statuses()
    write_result(as_json, "statuses", statuses)
