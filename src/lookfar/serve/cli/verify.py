"""``lookfar verify``: check every row and file of an index against its hash, or repair it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from lookfar.errors import how_many
from lookfar.serve.cli.exits import CHECK_FAILED, write, write_json
from lookfar.serve.cli.options import (
    examples,
    folder_argument,
    library_options,
    open_library,
    quote,
)
from lookfar.serve.show import json_shapes, progress
from lookfar.serve.show.printable import safe_name

if TYPE_CHECKING:
    from rich.text import Text

    from lookfar.model import Salvaged, Verified

_MOST_LISTED = 10
_STEPS = {
    "catalogue": "rows",
    "texts": "texts and spans",
    "vectors": "vectors",
    "keywords": "keyword files",
    "signatures": "signatures of texts",
    "second vectors": "vectors of the second model",
    "journal": "the second copy of documents",
}


@examples("lookfar verify", "lookfar verify docs --repair", "lookfar verify docs --json")
@click.command()
@folder_argument(several=True)
@click.option(
    "--repair", is_flag=True,
    help="Rebuild damaged parts from the sources; of a database, save the intact documents.",
)  # fmt: skip
@click.option("--quiet", is_flag=True, help="Show no progress.")
@library_options
def verify(path: tuple[str, ...], repair: bool, quiet: bool, as_json: bool, **options: Any) -> int:
    """Check every row and file of an index against its hash.

    PATH is an indexed folder (default: the current one). Its commits, memories and databases are
    checked, too. Searches already check what they return; this also checks everything else.
    The exit code is 9 if damage remains or a repair lost documents.
    """
    with open_library(path, options) as library:
        names = ", ".join(library.collections)
        with (
            _show_steps(quiet) as on_step,
            progress.show_progress(names, quiet=quiet, at_once=False),
        ):
            results = library.verified(repair=repair, on_step=on_step)
    if as_json:
        write_json(json_shapes.verified(results))
    else:
        _report(results, " ".join(map(quote, path)) or ".", repair)
    lost = any(result.salvaged is not None and result.salvaged.lost for result in results)
    return CHECK_FAILED if lost or any(result.left for result in results) else 0


@contextmanager
def _show_steps(quiet: bool) -> Iterator[Callable[[str, str], None] | None]:
    """On a terminal, show what is being checked in one line."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with console.status("Checking") as spinner:
        yield lambda name, step: spinner.update(
            safe_name(f"Checking {name}: {_STEPS.get(step, step)}")
        )


def _report(results: Sequence[Verified], path: str, repair: bool) -> None:
    from lookfar.serve.show import render

    write(render.printed([line for result in results for line in _describe(result)]))
    if any(result.left for result in results):
        hint = (
            "The rest cannot be repaired, because there is no source for it on this machine."
            " Restore a backup of its folder, or import an export. Nothing was removed."
            if repair
            else f"To repair it, run: lookfar verify {path} --repair"
        )
        click.echo(safe_name(hint), err=True)


def _describe(result: Verified) -> Iterator[Text]:
    from lookfar.serve.show.render import styled

    name = (result.collection, "bold")
    salvaged = result.salvaged
    if not result.found:
        yield styled(("sound    ", "green"), name)
    elif result.repaired:
        saved = "" if salvaged is None else f": {how_many(salvaged.saved, 'document')} saved"
        count = f": {how_many(len(result.found), 'problem')} repaired{saved}"
        yield styled(("repaired ", "yellow"), name, (count, ""))
    else:
        count = f": {how_many(len(result.left), 'problem')}"
        yield styled(("DAMAGED  ", "red"), name, (count, ""))
    if salvaged is not None:
        yield from (styled((f"  {line}", "")) for line in _describe_salvaged(salvaged))
    damages = result.left or result.found
    for damage in damages[:_MOST_LISTED]:
        line = f"  {damage.artefact}: {damage.detail}"
        yield styled((line, "dim" if result.repaired else ""))
    more = len(damages) - _MOST_LISTED
    if more > 0:
        yield styled((f"  and {more:,} more", "dim"))


def _describe_salvaged(salvaged: Salvaged) -> Iterator[str]:
    if salvaged.lost:
        more = salvaged.lost - len(salvaged.lost_ids)
        names = [*salvaged.lost_ids[:_MOST_LISTED], *(["others"] if more > 0 else [])]
        yield f"LOST {how_many(salvaged.lost, 'document')}: {', '.join(names)}"
    yield f"the damaged files are kept in {salvaged.kept_aside}"
