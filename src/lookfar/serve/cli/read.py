"""``lookfar read``, ``outline`` and ``related``: one document, its headings, its neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lookfar.serve.cli.exits import write, write_json
from lookfar.serve.cli.options import clean_text, connect_library, examples, library_options
from lookfar.serve.show import json_shapes

if TYPE_CHECKING:
    from lookfar.model import RelatedKind


@examples(
    "lookfar read guide.md docs",
    'lookfar read "guide.md#Install > Linux" docs',
    "lookfar read guide.md:10-20 docs --json",
)
@click.command()
@click.argument("target")
@click.argument("path", default=".")
@library_options
def read(target: str, path: str, as_json: bool, **options: Any) -> None:
    """Print a document, a section, a definition or some lines.

    TARGET is a URI (guide.md), a URI and a heading (guide.md#Install, or
    "guide.md#Install > Linux"), a URI and lines (guide.md:10-20), or a name that source code
    defines (Shelf.put, or src/shelf.py#Shelf.put). PATH is the indexed folder (default: the
    current one).
    """
    with connect_library(path, options) as library:
        reading = library.read(clean_text(target))
    if as_json:
        write_json(json_shapes.reading(reading))
        return
    from lookfar.serve.show import render

    if reading.state == "changed":
        click.echo("This document changed since it was indexed; shown as it is now.", err=True)
    write(render.reading(reading))


@examples("lookfar outline guide.md docs", "lookfar outline src/shelf.py --json")
@click.command()
@click.argument("uri")
@click.argument("path", default=".")
@library_options
def outline(uri: str, path: str, as_json: bool, **options: Any) -> None:
    """Show the headings of a document, or definitions in code.

    Each is shown with its line. URI names the document. PATH is the indexed folder (default:
    the current one).
    """
    with connect_library(path, options) as library:
        result = library.outline(clean_text(uri))
    if as_json:
        write_json(json_shapes.outline(result))
    else:
        from lookfar.serve.show import render

        write(render.outline(result))


@examples(
    "lookfar related guide.md docs",
    "lookfar related guide.md#Install --kind backlinks --limit 5",
    "lookfar related Shelf.put --kind mentions",
)
@click.command()
@click.argument("target")
@click.argument("path", default=".")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(
        (
            *("links", "backlinks", "similar", "community"),
            *("definitions", "mentions", "commits", "memories"),
        )
    ),
    help="Only this kind of relation. Repeatable; default: all.",
)
@click.option(
    "--limit", "-n", type=int, default=10, metavar="N", help="At most N entries of each kind."
)
@click.option("--as-of", type=int, metavar="N", help="Use an earlier generation of the index.")
@library_options
def related(
    target: str,
    path: str,
    kinds: tuple[RelatedKind, ...],
    limit: int,
    as_of: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show links to and from a document, and similar documents.

    TARGET is a URI (guide.md), or a part of a document as for read (guide.md#Install). For a
    name that source code defines (Shelf.put), also show its definitions and mentions. PATH is
    the indexed folder (default: the current one).
    """
    from lookfar.retrieve.neighbours.related import KINDS

    wanted: tuple[RelatedKind, ...] = kinds or (*KINDS, "memories")
    with connect_library(path, options) as library:
        result = library.related(clean_text(target), kinds=wanted, limit=limit, as_of=as_of)
    if as_json:
        write_json(json_shapes.related(result))
    else:
        from lookfar.serve.show import render

        write(render.related(result))
