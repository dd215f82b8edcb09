"""``lookfar snapshots``: list, compare and restore earlier generations of an index."""

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

    Every indexing run that changes something creates a numbered generation. The last few are
    kept, and searches can go back to any of them at once.
    """
    if ctx.invoked_subcommand is None:
        write(ctx.get_help())


@examples("lookfar snapshots list docs")
@snapshots.command("list")
@click.argument("path", default=".")
@library_options
def list_(path: str, as_json: bool, **options: Any) -> None:
    """List the generations that are kept.

    PATH is the indexed folder (default: the current one).
    """
    with open_library(path, options) as library:
        generations, held = library.snapshots(), library.held
    if as_json:
        write_json(json_shapes.snapshots(generations, held))
        return
    from lookfar.serve.show import render

    write(render.snapshots(generations, held))


@examples("lookfar snapshots diff 3 5 docs --json")
@snapshots.command()
@click.argument("older", type=int)
@click.argument("newer", type=int)
@click.argument("path", default=".")
@library_options
def diff(older: int, newer: int, path: str, as_json: bool, **options: Any) -> None:
    """Show which documents and sections changed between two generations.

    OLDER and NEWER are their numbers. PATH is the indexed folder (default: the current one).
    """
    with open_library(path, options) as library:
        changes = library.diff(older, newer)
    if as_json:
        write_json(json_shapes.diff(changes))
        return
    from lookfar.serve.show import render

    write(render.diff(changes))


@examples("lookfar snapshots rollback 3 docs")
@snapshots.command()
@click.argument("number", type=int)
@click.argument("path", default=".")
@library_options
def rollback(number: int, path: str, as_json: bool, **options: Any) -> None:
    """Answer from an earlier generation until the folder is indexed again.

    NUMBER is the generation. PATH is the indexed folder (default: the current one).
    """
    with open_library(path, options) as library:
        snapshot, held = library.roll_back(number), library.held
    if as_json:
        write_json(json_shapes.snapshot(snapshot, held))
        return
    write(f"Searches now use generation {number} of {snapshot.created_at}.")
    if held is not None:
        write(f"Changes to files are ignored until you run: lookfar index {quote(path)}")


@examples("lookfar snapshots pin 3 docs")
@snapshots.command()
@click.argument("number", type=int)
@click.argument("path", default=".")
@library_options
def pin(number: int, path: str, as_json: bool, **options: Any) -> None:
    """Keep a generation however many newer ones there are.

    NUMBER is the generation. PATH is the indexed folder (default: the current one).
    """
    with open_library(path, options) as library:
        snapshot, held = library.pin(number), library.held
    if as_json:
        write_json(json_shapes.snapshot(snapshot, held))
    else:
        write(f"Generation {number} of {snapshot.created_at} is pinned.")


@examples("lookfar snapshots unpin 3 docs")
@snapshots.command()
@click.argument("number", type=int)
@click.argument("path", default=".")
@library_options
def unpin(number: int, path: str, as_json: bool, **options: Any) -> None:
    """Let a pinned generation be removed when it is old.

    NUMBER is the generation. PATH is the indexed folder (default: the current one).
    """
    with open_library(path, options) as library:
        snapshot, held = library.unpin(number), library.held
    if as_json:
        write_json(json_shapes.snapshot(snapshot, held))
    else:
        write(f"Generation {number} of {snapshot.created_at} is not pinned.")


@examples("lookfar snapshots prune docs --keep 2")
@snapshots.command()
@click.argument("path", default=".")
@click.option(
    "--keep", type=int, metavar="N", help="Generations to keep (index.retain_generations)."
)
@library_options
def prune(path: str, keep: int | None, as_json: bool, **options: Any) -> None:
    """Remove old generations now, except the current and pinned ones.

    PATH is the indexed folder (default: the current one).
    """
    with open_library(path, options) as library:
        removed = library.prune(keep)
    if as_json:
        write_json(json_shapes.pruned(removed))
        return
    from lookfar.serve.show import render

    write(render.pruned(removed))
