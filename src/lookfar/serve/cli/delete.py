"""``lookfar delete``: remove the index of a folder, after asking. The folder itself stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lookfar.common.folders import folder_bytes
from lookfar.errors import NotIndexed
from lookfar.serve.cli.exits import write, write_json
from lookfar.serve.cli.options import (
    confirm,
    connect_library,
    examples,
    library_options,
    open_library,
    yes_option,
)
from lookfar.serve.show.printable import safe_name


@examples(
    "lookfar delete docs", "lookfar delete docs --dry-run", "lookfar delete docs --yes --json"
)
@click.command()
@click.argument("path", default=".")
@yes_option
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@library_options
def delete(path: str, yes: bool, dry_run: bool, as_json: bool, **options: Any) -> None:
    """Remove the index of a folder. Its files and its memories stay.

    PATH is the indexed folder (default: the current one). The next search indexes it again.
    """
    with open_library(path, options) as library:
        places = [collection.place for collection in library.deletable() if collection.begun]
        root = library.folder().root.path
    if not places:
        raise NotIndexed(
            f"There is no index of {root}.", hint="See what is indexed: lookfar status PATH"
        )
    size = sum(folder_bytes(Path(place)) for place in places)
    question = f"Remove the index of {root} ({size / 1e6:,.1f} MB)? Its files stay."
    if not dry_run:
        if not confirm(safe_name(question), yes=yes, as_json=as_json):
            raise click.Abort
        # A daemon that watches the folder must delete the index itself, or it would rebuild it.
        with connect_library(path, options) as owner:
            places = list(owner.delete())
    if as_json:
        write_json({"root": root, "removed": places, "bytes": size, "dry_run": dry_run})
        return
    for place in places:
        write(safe_name(f"{'Would remove' if dry_run else 'Removed'} {place}"))
