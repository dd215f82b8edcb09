"""``lookfar verify``: every row and every file of an index against its hash.

Takes: a command line. Gives: what is damaged, and with ``--repair`` an index that is not, made
anew from the sources, or of inserted documents all that are intact; progress goes to stderr.
Refuses: to change anything unasked, and to remove the damaged files of inserted documents.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from lookfar.errors import how_many
from lookfar.serve.cli.exits import CHECK_FAILED, write, write_json
from lookfar.serve.cli.options import examples, library_options, open_library, quote
from lookfar.serve.show import json_shapes, progress
from lookfar.serve.show.printable import safe_name

if TYPE_CHECKING:
    from lookfar.model import Damage, Salvaged, Verified

_MOST_SHOWN = 10
_STEPS = {
    "catalogue": "rows",
    "texts": "texts and spans",
    "vectors": "vectors",
    "keywords": "keyword files",
    "signatures": "signatures of texts",
    "journal": "the second copy of documents",
}


@examples("lookfar verify", "lookfar verify docs --repair", "lookfar verify docs --json")
@click.command()
@click.argument("path", nargs=-1)
@click.option(
    "--repair", is_flag=True,
    help="Make what is damaged anew from the sources; of databases, save what is intact.",
)  # fmt: skip
@click.option("--quiet", is_flag=True, help="Show no progress.")
@library_options
def verify(path: tuple[str, ...], repair: bool, quiet: bool, as_json: bool, **options: Any) -> int:
    """Check every row and file of an index against its hash.

    PATH is an indexed folder (default: this one). Its commits, memories and databases are checked
    too. Answers are checked whenever they are given; this finds what nobody has asked for yet.
    The exit code is 9 where one differs, and where a repair lost documents.
    """
    with open_library(path, options) as library:
        names = ", ".join(library.collections)
        with _steps(quiet) as tell, progress.shown(names, quiet=quiet, at_once=False) as follow:
            found = library.verified(repair=repair, on_step=tell, on_progress=follow)
    if as_json:
        write_json(json_shapes.verified(found))
    else:
        _tell(found, " ".join(map(quote, path)) or ".", repair)
    lost = any(each.salvaged is not None and each.salvaged.lost for each in found)
    return CHECK_FAILED if lost or any(each.left for each in found) else 0


@contextmanager
def _steps(quiet: bool) -> Iterator[Callable[[str, str], None] | None]:
    """One line on a terminal that says what is looked at; nothing anywhere else."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with console.status("Checking") as spinner:
        yield lambda name, step: spinner.update(
            safe_name(f"Checking {name}: {_STEPS.get(step, step)}")
        )


def _tell(found: tuple[Verified, ...], path: str, repair: bool) -> None:
    from lookfar.serve.show import render

    lines = []
    for each in found:
        if not each.found:
            lines.append(render.styled(("sound    ", "green"), (each.collection, "bold")))
        elif each.repaired:
            what = f": {_count(each.found)} repaired{_told_of(each.salvaged)}"
            lines.append(
                render.styled(("repaired ", "yellow"), (each.collection, "bold"), (what, ""))
            )
        else:
            what = f": {_count(each.left)}"
            lines.append(render.styled(("DAMAGED  ", "red"), (each.collection, "bold"), (what, "")))
        if each.salvaged is not None:
            lines += [render.styled((f"  {line}", "")) for line in _saved(each.salvaged)]
        for damage in (each.left or each.found)[:_MOST_SHOWN]:
            told = f"  {damage.artefact}: {damage.detail}"
            lines.append(render.styled((told, "dim" if each.repaired else "")))
        more = len(each.left or each.found) - _MOST_SHOWN
        if more > 0:
            lines.append(render.styled((f"  and {more:,} more", "dim")))
    write(render.printed(lines))
    if any(each.left for each in found):
        hint = (
            "What could not be repaired has no source here: put back a copy of its folder, or"
            " import an export. Nothing of it was removed."
            if repair
            else f"To repair it, run: lookfar verify {path} --repair"
        )
        click.echo(safe_name(hint), err=True)


def _told_of(salvaged: Salvaged | None) -> str:
    return "" if salvaged is None else f": {how_many(salvaged.saved, 'document')} saved"


def _saved(salvaged: Salvaged) -> list[str]:
    """What became of the documents of a damaged database."""
    told = []
    if salvaged.lost:
        more = salvaged.lost - len(salvaged.lost_ids)
        names = [*salvaged.lost_ids[:_MOST_SHOWN], *(["others"] if more > 0 else [])]
        told.append(f"LOST {how_many(salvaged.lost, 'document')}: {', '.join(names)}")
    told.append(f"the damaged files are kept in {salvaged.kept_aside}")
    return told


def _count(problems: tuple[Damage, ...]) -> str:
    return "1 problem" if len(problems) == 1 else f"{len(problems):,} problems"
