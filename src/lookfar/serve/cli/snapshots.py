"""``lookfar snapshots``: the earlier states of an index, listed, compared and returned to.

Takes: a command line. Gives: what the library keeps of a folder's past, for people or
with ``--json`` for scripts. Refuses: to import the library before a command needs it.
"""

from __future__ import annotations

from typing import Any

import click

from lookfar.serve.cli.exits import GuardedGroup, write, write_json
from lookfar.serve.cli.options import examples, library_options, open_library, quote
from lookfar.serve.show import json_shapes


@examples(
    "lookfar snapshots list docs",
    "lookfar snapshots diff 3 5 docs",
    "lookfar snapshots rollback 3 docs",
)
@click.group(cls=GuardedGroup, invoke_without_command=True)
@click.pass_context
def snapshots(ctx: click.Context) -> None:
    """List, compare and restore earlier states of an index.

    Every indexing that changes something makes a numbered generation. The last few
    are kept, and any of them can serve again at once.
    """
    if ctx.invoked_subcommand is None:
        write(ctx.get_help())


@examples("lookfar snapshots list docs")
@snapshots.command("list")
@click.argument("path", default=".")
@library_options
def list_(path: str, as_json: bool, **options: Any) -> None:
    """List the generations that are kept.

    PATH is the indexed folder (default: this one).
    """
    with open_library(path, options) as library:
        kept, held = library.snapshots(), library.held
    if as_json:
        write_json(json_shapes.snapshots(kept, held))
        return
    from lookfar.serve.show import render

    write(render.snapshots(kept, held))


@examples("lookfar snapshots diff 3 5 docs --json")
@snapshots.command()
@click.argument("older", type=int)
@click.argument("newer", type=int)
@click.argument("path", default=".")
@library_options
def diff(older: int, newer: int, path: str, as_json: bool, **options: Any) -> None:
    """Tell which documents and sections changed between two generations.

    OLDER and NEWER are their numbers. PATH is the indexed folder (default: this one).
    """
    with open_library(path, options) as library:
        found = library.diff(older, newer)
    if as_json:
        write_json(json_shapes.diff(found))
        return
    from lookfar.serve.show import render

    write(render.diff(found))


@examples("lookfar snapshots rollback 3 docs")
@snapshots.command()
@click.argument("number", type=int)
@click.argument("path", default=".")
@library_options
def rollback(number: int, path: str, as_json: bool, **options: Any) -> None:
    """Answer from an earlier generation until the folder is indexed again.

    NUMBER is the generation. PATH is the indexed folder (default: this one).
    """
    with open_library(path, options) as library:
        now, held = library.roll_back(number), library.held
    if as_json:
        write_json(json_shapes.snapshot(now, held))
        return
    write(f"Generation {number} of {now.created_at} answers now.")
    if held is not None:
        write(f"It is held, whatever the disk says. To let go: lookfar index {quote(path)}")


@examples("lookfar snapshots pin 3 docs")
@snapshots.command()
@click.argument("number", type=int)
@click.argument("path", default=".")
@library_options
def pin(number: int, path: str, as_json: bool, **options: Any) -> None:
    """Keep a generation, however many come after it.

    NUMBER is the generation. PATH is the indexed folder (default: this one).
    """
    with open_library(path, options) as library:
        now, held = library.pin(number), library.held
    if as_json:
        write_json(json_shapes.snapshot(now, held))
    else:
        write(f"Generation {number} of {now.created_at} is pinned.")


@examples("lookfar snapshots unpin 3 docs")
@snapshots.command()
@click.argument("number", type=int)
@click.argument("path", default=".")
@library_options
def unpin(number: int, path: str, as_json: bool, **options: Any) -> None:
    """Let a generation go when its time comes.

    NUMBER is the generation. PATH is the indexed folder (default: this one).
    """
    with open_library(path, options) as library:
        now, held = library.unpin(number), library.held
    if as_json:
        write_json(json_shapes.snapshot(now, held))
    else:
        write(f"Generation {number} of {now.created_at} is not pinned.")


@examples("lookfar snapshots prune docs --keep 2")
@snapshots.command()
@click.argument("path", default=".")
@click.option(
    "--keep", type=int, metavar="N", help="Generations to keep (index.retain_generations)."
)
@library_options
def prune(path: str, keep: int | None, as_json: bool, **options: Any) -> None:
    """Remove old generations now, but none that is pinned or serves.

    PATH is the indexed folder (default: this one).
    """
    with open_library(path, options) as library:
        went = library.prune(keep)
    if as_json:
        write_json(json_shapes.pruned(went))
        return
    from lookfar.serve.show import render

    write(render.pruned(went))
