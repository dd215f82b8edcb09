"""``lookfar copy``: indexes from one store to another, from a folder to a server or back.

Takes: a command line. Gives: what was copied, checked by counts and hashes, and how far it is on
stderr. Refuses: passwords on the command line, which others can see.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from lookfar.errors import how_many
from lookfar.serve.cli.exits import write, write_json
from lookfar.serve.cli.options import clean_text, examples, output_options
from lookfar.serve.show.printable import safe_name

if TYPE_CHECKING:
    from lookfar.index.copy import IndexLocation

_LOCAL: Final = "local"
_LINE_SECONDS: Final = 2.0
_PATIENCE: Final = 60.0


@examples(
    "lookfar copy local postgresql://lookfar@db.example/lookfar",
    "lookfar copy postgresql://lookfar@db.example/lookfar ~/indexes --collection notes",
)
@click.command()
@click.argument("source")
@click.argument("target")
@click.option(
    "--collection", "collections", metavar="NAME", multiple=True,
    help="Copy this one, named by its beginning. Repeatable; default: all.",
)  # fmt: skip
@click.option("--quiet", is_flag=True, help="Show no progress and no report.")
@output_options
def copy(
    source: str, target: str, collections: tuple[str, ...], quiet: bool, as_json: bool
) -> None:
    """Copy indexes from one store to another.

    SOURCE and TARGET are each a folder of indexes, the word local for that of this machine, or
    the address of a PostgreSQL server, postgresql://ROLE@HOST/DATABASE. What serves is copied,
    with its vectors: nothing is embedded again. A copy that was interrupted goes on when it is
    begun again. Afterwards let store.url name the server.
    """
    from lookfar.index.copy import Copied
    from lookfar.index.copy import copy as copied

    told = time.monotonic()

    def tell(name: str, done: int, total: int) -> None:
        nonlocal told
        if not quiet and time.monotonic() - told >= _LINE_SECONDS:
            told = time.monotonic()
            click.echo(safe_name(f"Copying {name}: {done:,} of {total:,} documents"), err=True)

    made: list[dict[str, Any]] = []
    left: list[dict[str, Any]] = []
    names = tuple(map(clean_text, collections))
    for each in copied(_place(source), _place(target), names, tell, _PATIENCE):
        if isinstance(each, Copied):
            made.append(asdict(each))
            said = (
                f"{each.collection}: {how_many(each.documents, 'document')},"
                f" {how_many(each.chunks, 'chunk')},"
                f" {each.copied:,} copied, sha256 {each.sha256[:16]}"
            )
        else:
            left.append(asdict(each))
            said = f"{each.collection}: left out: {each.why}"
        if not as_json and not quiet:
            write(safe_name(said))
    if as_json:
        write_json({"copied": made, "skipped": left})
    elif not made and not left and not quiet:
        write("Nothing is indexed there.")


def _place(text: str) -> IndexLocation:
    from lookfar import config
    from lookfar.index.copy import IndexLocation

    if text == _LOCAL:
        return IndexLocation(config.load(None).index.dir)
    if "://" in text:
        # By the same rule as the setting: an address, and no password in it.
        return IndexLocation(config.load(None, {"store.url": text}).store.url)
    return IndexLocation(str(Path(clean_text(text)).expanduser().absolute()))
