"""``lookfar delete``: an index removed, and nothing else.

Takes: a command line, and a person's consent. Gives: the disk space that the index of a folder
took, with those of its commits and memories. Refuses: to touch what they were made of, and to
go ahead where nobody agreed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from lookfar.library import Library


@examples(
    "lookfar delete docs", "lookfar delete docs --dry-run", "lookfar delete docs --yes --json"
)
@click.command()
@click.argument("path", default=".")
@yes_option
@click.option("--dry-run", is_flag=True, help="Show what would go, and remove nothing.")
@library_options
def delete(path: str, yes: bool, dry_run: bool, as_json: bool, **options: Any) -> None:
    """Remove the index of a folder. Its files stay as they are, and so do memories.

    PATH is the folder that was indexed (default: this one). The next search indexes it anew.
    """
    with open_library(path, options) as library:
        places = _places(library)
        root = library.folder().root.path
    if not places:
        raise NotIndexed(
            f"There is no index of {root}.", hint="See what there is: lookfar status PATH"
        )
    size = sum(folder_bytes(Path(place)) for place in places)
    question = f"Remove the index of {root} ({size / 1e6:,.1f} MB)? Its files stay."
    if not dry_run:
        if not confirm(safe_name(question), yes=yes, as_json=as_json):
            raise click.Abort
        # A daemon that follows the folder has to let go of it, and would make it anew.
        with connect_library(path, options) as held:
            places = list(held.delete())
    if as_json:
        write_json({"root": root, "removed": places, "bytes": size, "dry_run": dry_run})
        return
    for place in places:
        write(safe_name(f"{'Would remove' if dry_run else 'Removed'} {place}"))


def _places(library: Library) -> list[str]:
    return [each.place for each in library.deletable() if each.begun]
