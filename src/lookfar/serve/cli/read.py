"""``lookfar read``, ``outline``, ``related``, ``graph`` and ``why``: about one document or name."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from lookfar.errors import InvalidArgument, NotFound, NotIndexed
from lookfar.serve.cli.exits import write_result
from lookfar.serve.cli.options import (
    clean_text,
    connect_library,
    examples,
    folder_argument,
    library_options,
    open_library,
    without_second_model,
)
from lookfar.serve.show.printable import safe_name

if TYPE_CHECKING:
    from lookfar.library import Library
    from lookfar.model import Embed, Reading, RelatedKind
    from lookfar.retrieve.grep.find_in_text import Found
    from lookfar.serve.cli.remote_library import RemoteLibrary

_MOST_TOKENS = 20_000


@examples(
    "lookfar read guide.md docs",
    'lookfar read "guide.md#Install > Linux" docs',
    "lookfar read guide.md:10-20 docs --json",
    'lookfar read "[[Alpha Plan#Risks]]" notes',
    'lookfar read "Alpha Plan" notes --at "last week"',
    'lookfar read src/shelf.py --find "put retry"',
)
@click.command()
@click.argument("target")
@folder_argument()
@click.option("--embeds", is_flag=True, help="Show embedded notes (![[Note]]) in place.")
@click.option(
    "--at", default="", metavar="DATE",
    help="Show it as it was at the end of this day, week or month (yesterday, last week).",
)  # fmt: skip
@click.option(
    "--find", default="", metavar="TEXT",
    help="Show only the parts that contain these words, this name or this /regex/.",
)  # fmt: skip
@library_options
def read(
    target: str, path: str, embeds: bool, at: str, find: str, as_json: bool, **options: Any
) -> None:
    """Print a document, a section, a definition or some lines.

    TARGET is a URI (guide.md), a URI and a heading (guide.md#Install, or
    "guide.md#Install > Linux"), a URI and lines (guide.md:10-20), a page, slide, cell or range of
    an extracted document (report.pdf#page=3, plan.xlsx#Budget!A1:F20), a name that source code
    defines (Shelf.put, or src/shelf.py#Shelf.put), or a note by its name, alias, title or link
    ("Alpha Plan", "[[Alpha Plan#Risks]]", "[[Alpha Plan#^block]]"). PATH is the indexed folder
    (default: the current one).
    """
    if find.strip() and (embeds or at.strip()):
        other = "--embeds" if embeds else "--at"
        raise InvalidArgument(
            f"--find cannot be combined with {other}.", hint="Read the part that you need."
        )
    if at.strip():
        _read_at(target, at, path, embeds, as_json, options)
        return
    parts: tuple[Embed, ...] = ()
    if embeds:
        with open_library(path, options) as library:
            reading = library.read(clean_text(target))
            parts = library.embeds(reading)
    else:
        with connect_library(path, options) as library:
            reading = library.read(clean_text(target))
            if find.strip():
                found = _find(library, reading, clean_text(find).strip())
    if reading.state == "changed" and not as_json:
        click.echo(
            "This document has changed since it was indexed. This is the current text.", err=True
        )
    for warning in () if as_json else reading.warnings:
        click.echo(safe_name(f"Warning: {warning}"), err=True)
    if find.strip():
        write_result(as_json, "found", reading, found)
    elif embeds:
        write_result(as_json, "reading_with_embeds", reading, parts)
    else:
        write_result(as_json, "reading", reading)


def _find(library: Library | RemoteLibrary, reading: Reading, text: str) -> Found:
    from lookfar.retrieve.grep.find_in_text import find_in_text

    outline = None
    with suppress(NotFound, NotIndexed):  # A comparison of packages is not a document.
        outline = library.outline(reading.uri)
    return find_in_text(reading, outline, text, _MOST_TOKENS)


def _read_at(
    target: str, at: str, path: str, embeds: bool, as_json: bool, options: dict[str, Any]
) -> None:
    """Print a text as it was indexed at a given time, and say when that was."""
    from lookfar.serve.tools.dates import end_of

    if embeds:
        raise InvalidArgument(
            "--embeds and --at cannot be combined.", hint="Read each note with --at."
        )
    before = end_of(at, "--at")
    with open_library(path, options) as library:
        reading = library.read(clean_text(target), before=before)
    for note in () if as_json else reading.warnings:
        click.echo(safe_name(f"{note[:1].upper()}{note[1:]}."), err=True)
    write_result(as_json, "reading", reading)


@examples("lookfar outline guide.md docs", "lookfar outline src/shelf.py --json")
@click.command()
@click.argument("uri")
@folder_argument()
@library_options
def outline(uri: str, path: str, as_json: bool, **options: Any) -> None:
    """Show the headings of a document, or definitions in code.

    Each is shown with its line. URI names the document, as for read. PATH is the indexed
    folder (default: the current one).
    """
    with connect_library(path, options) as library:
        result = library.outline(clean_text(uri))
    write_result(as_json, "outline", result)


@examples(
    "lookfar related guide.md docs",
    "lookfar related guide.md#Install --kind backlinks --limit 5",
    "lookfar related Shelf.put --kind callers --kind tests",
)
@click.command()
@click.argument("target")
@folder_argument()
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(
        (
            *("links", "backlinks", "similar", "community"),
            *("definitions", "mentions", "callers", "callees", "impact", "tests"),
            *("commits", "memories"),
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
    name that source code defines (Shelf.put), also show its definitions, mentions, callers and
    callees. PATH is the indexed folder (default: the current one).
    """
    from lookfar.retrieve.neighbours.related import KINDS

    wanted: tuple[RelatedKind, ...] = kinds or (*KINDS, "memories")
    with connect_library(path, options) as library:
        result = library.related(clean_text(target), kinds=wanted, limit=limit, as_of=as_of)
    write_result(as_json, "related", result)


@examples(
    "lookfar graph Shelf.put",
    "lookfar graph Shelf.put --callees --depth 2",
    "lookfar graph src/shelf.py#put --json",
    "lookfar graph Shelf.put --to Index.write",
)
@click.command()
@click.argument("symbol")
@folder_argument()
@click.option("--callees/--callers", help="Show what SYMBOL calls instead of its callers.")
@click.option(
    "--depth", "-d", type=int, default=3, metavar="N", help="Follow up to N calls (default: 3)."
)
@click.option("--limit", "-n", type=int, default=200, metavar="N", help="At most N definitions.")
@click.option("--to", default="", metavar="NAME", help="Show how SYMBOL reaches this definition.")
@library_options
def graph(
    symbol: str,
    path: str,
    callees: bool,
    depth: int,
    limit: int,
    to: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Show what calls a definition, or what it calls or reaches.

    SYMBOL is a name that source code defines (Shelf.put, or src/shelf.py#Shelf.put). Edges that
    follow from scope, imports or types are certain; the others are marked "by name". PATH is the
    indexed folder (default: the current one).
    """
    if to.strip():
        with connect_library(path, options) as library:
            route = library.call_route(clean_text(symbol), clean_text(to))
        write_result(as_json, "call_route", route)
        return
    with connect_library(path, options) as library:
        result = library.call_graph(
            clean_text(symbol),
            direction="callees" if callees else "callers",
            depth=depth,
            limit=limit,
        )
    write_result(as_json, "call_graph", result)


@examples("lookfar why build/output.md", 'lookfar why guide.md docs --query "rotate a key"')
@click.command()
@click.argument("file", metavar="PATH")
@folder_argument("root")
@click.option(
    "--query", default="", metavar="TEXT", help="Explain why PATH is not among the hits for this."
)
@library_options
def why(file: str, root: str, query: str, as_json: bool, **options: Any) -> None:
    """Show which rule includes a path in the index or skips it.

    PATH is relative to ROOT, the indexed folder (default: the current one), or absolute. It need
    not exist; then only its name is judged. With --query, follow an indexed document through the
    ranking and show why it is, or is not, among the hits.
    """
    with open_library(root, without_second_model(options)) as library:
        ruling = library.why(clean_text(file))
        ranking = None
        if query and (ruling.admitted or ruling.indexed):
            # why_not() first indexes new files, like a search, so the ruling may change.
            ranking = library.why_not(clean_text(query), ruling.uri)
            if ranking.verdict == "not_indexed":
                ranking, ruling = None, library.why(clean_text(file))
    if ranking:
        write_result(as_json, "why_not", ranking)
    else:
        write_result(as_json, "ruling", ruling)
