"""``lookfar copy``: copy indexes between folders and PostgreSQL servers."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from lookfar.errors import InvalidArgument, how_many
from lookfar.serve.cli.exits import write, write_json
from lookfar.serve.cli.options import clean_text, examples, output_options, quiet_option
from lookfar.serve.show.printable import safe_name

if TYPE_CHECKING:
    from lookfar.index.copy import IndexLocation

_LOCAL: Final = "local"
_LINE_SECONDS: Final = 2.0
_LOCK_SECONDS: Final = 60.0


@examples(
    "lookfar copy local postgresql://lookfar@db.example/lookfar",
    "lookfar copy postgresql://lookfar@db.example/lookfar ~/indexes --collection notes",
)
@click.command()
@click.argument("source")
@click.argument("target")
@click.option(
    "--collection", "collections", metavar="NAME", multiple=True,
    help="Copy only collections whose name starts with this. Repeatable; default: all.",
)  # fmt: skip
@quiet_option
@output_options
def copy(
    source: str, target: str, collections: tuple[str, ...], quiet: bool, as_json: bool
) -> None:
    """Copy indexes from one store to another.

    SOURCE and TARGET are each a folder of indexes, the word local for this machine's index
    folder, or the address of a PostgreSQL server, postgresql://ROLE@HOST/DATABASE. The current
    generation is copied with its vectors, so nothing is embedded again. Run an interrupted copy
    again to continue it. To use the copy on a server, set store.url to its address.
    """
    from lookfar.index.copy import copy as copy_indexes

    last_line = time.monotonic()

    def on_progress(name: str, done: int, total: int) -> None:
        nonlocal last_line
        if not quiet and time.monotonic() - last_line >= _LINE_SECONDS:
            last_line = time.monotonic()
            click.echo(safe_name(f"Copying {name}: {done:,} of {total:,} documents"), err=True)

    copied: list[dict[str, Any]] = []
    names = tuple(map(clean_text, collections))
    for result in copy_indexes(
        _location(source), _location(target), names, on_progress, _LOCK_SECONDS
    ):
        copied.append(asdict(result))
        line = (
            f"{result.collection}: {how_many(result.documents, 'document')},"
            f" {how_many(result.chunks, 'chunk')},"
            f" {result.copied:,} copied, sha256 {result.sha256[:16]}"
        )
        if not as_json and not quiet:
            write(safe_name(line))
    if as_json:
        write_json({"copied": copied, "skipped": []})
    elif not copied and not quiet:
        write("There are no indexes to copy.")


def _location(text: str) -> IndexLocation:
    from lookfar import config
    from lookfar.index.copy import IndexLocation

    if not text:
        raise InvalidArgument(
            "SOURCE or TARGET is empty.", hint="Name a folder, a server address, or local."
        )
    if text == _LOCAL:
        return IndexLocation(config.load(None).index.dir)
    if "://" in text:
        # Checked like the setting store.url, which refuses passwords.
        return IndexLocation(config.load(None, {"store.url": text}).store.url)
    return IndexLocation(str(Path(clean_text(text)).expanduser().absolute()))
