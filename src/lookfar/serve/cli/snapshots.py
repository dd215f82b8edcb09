"""``lookfar snapshots``: list, compare and restore earlier generations of an index."""

from __future__ import annotations

from typing import Any

import click

from lookfar.serve.cli.exits import GuardedGroup, write_either, write_result
from lookfar.serve.cli.options import (
    date_options,
    examples,
    folder_argument,
    library_options,
    open_library,
    quote,
)
from lookfar.serve.show import json_shapes
from lookfar.serve.tools.dates import is_between


@examples(
    "lookfar snapshots list docs",
    "lookfar snapshots diff 3 5 docs",
    "lookfar snapshots rollback 3 docs",
)
@click.group(cls=GuardedGroup)
def snapshots() -> None:
    """List, compare and restore earlier states of an index.

    Every indexing run that changes something creates a numbered generation. The last few are
    kept, and searches can go back to any of them at once.
    """


@examples("lookfar snapshots list docs", "lookfar snapshots list docs --since monday")
@snapshots.command("list")
@folder_argument()
@date_options("generations made")
@library_options
def list_(path: str, after: int | None, before: int | None, as_json: bool, **options: Any) -> None:
    """List the generations that are kept.

    PATH is the indexed folder (default: the current one).
    """
    with open_library(path, options) as library:
        generations, held = library.snapshots(), library.held
    generations = tuple(made for made in generations if is_between(made.created_at, after, before))
    write_result(as_json, "snapshots", generations, held)


@examples("lookfar snapshots diff 3 5 docs --json")
@snapshots.command()
@click.argument("older", type=int)
@click.argument("newer", type=int)
@folder_argument()
@library_options
def diff(older: int, newer: int, path: str, as_json: bool, **options: Any) -> None:
    """Show which documents and sections changed between two generations.

    OLDER and NEWER are their numbers. PATH is the indexed folder (default: the current one).
    """
    with open_library(path, options) as library:
        changes = library.diff(older, newer)
    write_result(as_json, "diff", changes)


@examples("lookfar snapshots rollback 3 docs")
@snapshots.command()
@click.argument("number", type=int)
@folder_argument()
@library_options
def rollback(number: int, path: str, as_json: bool, **options: Any) -> None:
    """Answer from an earlier generation until the folder is indexed again.

    NUMBER is the generation. PATH is the indexed folder (default: the current one).
    """
    with open_library(path, options) as library:
        snapshot, held = library.roll_back(number), library.held
    text = f"Searches now use generation {number} of {snapshot.created_at}."
    if held is not None:
        text += f"\nChanges to files are ignored until you run: lookfar index {quote(path)}"
    write_either(as_json, json_shapes.snapshot(snapshot, held), text)


@examples("lookfar snapshots pin 3 docs")
@snapshots.command()
@click.argument("number", type=int)
@folder_argument()
@library_options
def pin(number: int, path: str, as_json: bool, **options: Any) -> None:
    """Keep a generation however many newer ones there are.

    NUMBER is the generation. PATH is the indexed folder (default: the current one).
    """
    with open_library(path, options) as library:
        snapshot, held = library.pin(number), library.held
    text = f"Generation {number} of {snapshot.created_at} is pinned."
    write_either(as_json, json_shapes.snapshot(snapshot, held), text)


@examples("lookfar snapshots unpin 3 docs")
@snapshots.command()
@click.argument("number", type=int)
@folder_argument()
@library_options
def unpin(number: int, path: str, as_json: bool, **options: Any) -> None:
    """Let a pinned generation be removed when it is old.

    NUMBER is the generation. PATH is the indexed folder (default: the current one).
    """
    with open_library(path, options) as library:
        snapshot, held = library.unpin(number), library.held
    text = f"Generation {number} of {snapshot.created_at} is not pinned."
    write_either(as_json, json_shapes.snapshot(snapshot, held), text)


@examples("lookfar snapshots prune docs --keep 2")
@snapshots.command()
@folder_argument()
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
    write_result(as_json, "pruned", removed)
