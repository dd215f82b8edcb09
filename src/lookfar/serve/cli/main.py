"""The ``lookfar`` command: arguments in, results on stdout, the rest on stderr.

Takes: a command line. Gives: what the library answers, for people or with
``--json`` for scripts. Refuses: to know how anything is found or stored; and to
import the library before a command needs it, so that ``--help`` is instant.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lookfar import __version__
from lookfar.errors import NotIndexed, RootNotFound
from lookfar.serve.cli.completion import completed, completion
from lookfar.serve.cli.config import config
from lookfar.serve.cli.copy import copy
from lookfar.serve.cli.delete import delete
from lookfar.serve.cli.doc import doc, undo
from lookfar.serve.cli.doctor.command import doctor
from lookfar.serve.cli.documents import documents
from lookfar.serve.cli.eval import eval_
from lookfar.serve.cli.exits import GuardedGroup, write, write_json
from lookfar.serve.cli.history import history
from lookfar.serve.cli.logs import logs
from lookfar.serve.cli.memory import memory, remember
from lookfar.serve.cli.options import asked as _asked
from lookfar.serve.cli.options import common as _common
from lookfar.serve.cli.options import examples
from lookfar.serve.cli.options import opened as _opened
from lookfar.serve.cli.options import quoted as _quoted
from lookfar.serve.cli.options import utf8 as _utf8
from lookfar.serve.cli.serve import daemon, mcp, serve, tokens
from lookfar.serve.cli.setup import setup
from lookfar.serve.cli.snapshots import snapshots
from lookfar.serve.cli.verify import verify
from lookfar.serve.show import json_shapes, progress
from lookfar.serve.tools.dates import moment

if TYPE_CHECKING:
    from lookfar.library import Library
    from lookfar.model import Filters, Matches, RelatedKind
    from lookfar.serve.cli.remote_library import RemoteLibrary

_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group("lookfar", cls=GuardedGroup, context_settings=_HELP, invoke_without_command=True)
@click.version_option(__version__, "--version", message="lookfar %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Search your documentation by meaning and by words, with citations that are
    checked against the files. Everything stays on this machine.
    """
    if ctx.invoked_subcommand is None:
        write(ctx.get_help())


# --- the commands -----------------------------------------------------------------------------


@examples(
    "lookfar index docs",
    "lookfar index docs ~/notes --quiet",
    "lookfar index . --set chunk.max_tokens=800 --json",
)
@cli.command()
@click.argument("path", nargs=-1)
@click.option("--rebuild", is_flag=True, help="Read everything again, not only what changed.")
@click.option("--quiet", is_flag=True, help="Show no progress and no report.")
@_common
def index(path: tuple[str, ...], rebuild: bool, quiet: bool, as_json: bool, **options: Any) -> None:
    """Index folders, or bring their indexes up to date.

    PATH is a folder (default: this one); each has an index of its own. Folders are only
    read, the indexes lie elsewhere.
    """
    with _opened(path, options) as library:
        _indexed(library, quiet, as_json, rebuild=rebuild)


def _indexed(library: Library, quiet: bool, as_json: bool, *, rebuild: bool) -> None:
    """Index each folder, and say what was done."""
    shapes: list[json_shapes.Json] = []
    for name in library.collections:
        folder = library.folder(name)
        with progress.shown(name, quiet=quiet) as tell:
            done = folder.index(rebuild=rebuild, on_progress=tell)
        if as_json:
            shapes.append(json_shapes.report(done, folder.place))
        elif not quiet:
            from lookfar.serve.show import render

            write(render.report(done, folder.place))
    if as_json:
        write_json(json_shapes.together(shapes))


@examples(
    'lookfar search "how do I rotate the signing key" docs',
    'lookfar search "parse a date" --kind code -k 3',
    'lookfar search "login" --glob "guide/**" --json',
    'lookfar search "raise Conflict(" --mode literal -C 2',
)
@cli.command()
@click.argument("query")
@click.argument("path", nargs=-1)
@click.option(
    "--top-k",
    "-k",
    type=click.IntRange(1),
    metavar="N",
    help="Number of hits; of literal and regex, of documents.",
)
@click.option(
    "--mode",
    type=click.Choice(("hybrid", "vector", "keyword", "literal", "regex")),
    help="By meaning (vector), by words (keyword), both (hybrid); or every line that holds the "
    "text (literal) or matches the expression (regex).",
)
@click.option(
    "--case",
    type=click.Choice(("sensitive", "insensitive", "smart")),
    default="sensitive",
    show_default=True,
    help="Of literal and regex: whether case counts; smart: if QUERY has an upper-case letter.",
)
@click.option("--words", is_flag=True, help="Of literal and regex: match whole words only.")
@click.option(
    "--context",
    "-C",
    type=click.IntRange(0, 100),
    default=0,
    metavar="N",
    help="Of literal and regex: show N lines around each match.",
)
@click.option(
    "--max-lines",
    type=click.IntRange(1),
    default=20,
    metavar="N",
    show_default=True,
    help="Of literal and regex: most lines shown of a document.",
)
@click.option("--paths", is_flag=True, help="Show the documents only.")
@click.option("--map", "as_map", is_flag=True, help="Show the short map that agents get.")
@click.option("--count", is_flag=True, help="Of literal and regex: show lines per document only.")
@click.option("--prefix", default="", metavar="TEXT", help="Only URIs that start with this.")
@click.option("--glob", default="", metavar="GLOB", help="Only URIs that match, like guide/**.")
@click.option("--uri", "uris", multiple=True, metavar="URI", help="Only this document. Repeatable.")
@click.option("--heading", default="", metavar="TEXT", help="Only below headings with this text.")
@click.option(
    "--tag", "tags", multiple=True, help="Only documents with this tag. Repeatable: all of them."
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(("docs", "code", "commits", "memory", "documents")),
    help="Only this kind of source. Repeatable.",
)
@click.option(
    "--language",
    "languages",
    multiple=True,
    metavar="NAME",
    help="Only what is written in it, like python, also code in prose. Repeatable.",
)
@click.option("--after", default="", metavar="DATE", help="Only what was changed on it or later.")
@click.option("--before", default="", metavar="DATE", help="Only what was changed before it.")
@click.option("--author", default="", metavar="TEXT", help="Only commits of such an author.")
@click.option("--touches", default="", metavar="GLOB", help="Only commits that change such paths.")
@click.option("--branch", default="", metavar="NAME", help="Only commits of this branch or tag.")
@click.option("--as-of", type=int, metavar="N", help="Ask an earlier generation of the index.")
@click.option(
    "--hypothesis", default="", metavar="TEXT", help="What the answer might say, for its meaning."
)
@click.option("--explain", is_flag=True, help="Show how each score came about.")
@_common
def search(query: str, path: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Find the passages that answer QUERY.

    PATH is the folder to search (default: this one); several are searched together.
    A folder that was never indexed is indexed first.
    """
    from lookfar.model import Filters

    by_line = options["mode"] in ("literal", "regex")
    filters = Filters(
        prefix=_utf8(options["prefix"]),
        uris=tuple(map(_utf8, options["uris"])),
        glob=_utf8(options["glob"]),
        heading=_utf8(options["heading"]),
        tags=tuple(map(_utf8, options["tags"])),
        lanes=options["kinds"],
        languages=tuple(map(_utf8, options["languages"])),
        after=moment(options["after"], "--after"),
        before=moment(options["before"], "--before"),
        authors=(_utf8(options["author"]),) if options["author"] else (),
        touches=_utf8(options["touches"]),
        branch=_utf8(options["branch"]),
    )
    with _asked(_folders_of(query, path), options) as library:
        of_commits = filters.authors or filters.touches or filters.branch
        elsewhere = {"commits", "documents", "memory"}
        folders = not of_commits and (not filters.lanes or not elsewhere.issuperset(filters.lanes))
        first = folders and not library.indexed and options["as_of"] is None
        if first:
            click.echo("This folder is not indexed yet: indexing it first.", err=True)
        with progress.shown(", ".join(library.collections), at_once=first) as tell:
            if by_line:
                _write_matches(_grepped(library, _utf8(query), filters, options, tell), options,
                               as_json)  # fmt: skip
                return
            found = library.search(
                _utf8(query),
                mode=options["mode"],
                top_k=options["top_k"],
                filters=filters,
                hypothesis=_utf8(options["hypothesis"]),
                explain=options["explain"],
                as_of=options["as_of"],
                memories=True,
                commits=True,
                focus=True,
                on_progress=tell,
            )
    if as_json:
        write_json(json_shapes.answer(found, explain=options["explain"]))
    elif options["as_map"] or options["paths"]:
        from lookfar.serve.show.answer_map import draw_answer

        write(draw_answer(found, paths=options["paths"]))
    else:
        from lookfar.serve.show import render

        write(render.answer(found, explain=options["explain"]))


_SHOWN_FILES = 20
_LISTED_FILES = 1_000
"""Documents of which paths or counts are shown."""


def _grepped(
    library: Library | RemoteLibrary,
    pattern: str,
    filters: Filters,
    options: dict[str, Any],
    tell: Any,
) -> Matches:
    """Search by line, with the options of the command."""
    listed = options["paths"] or options["count"]
    return library.grep(
        pattern,
        regex=options["mode"] == "regex",
        case=options["case"],
        whole_words=options["words"],
        filters=filters,
        context=options["context"],
        max_matches_per_file=0 if listed else options["max_lines"],
        limit=options["top_k"] or (_LISTED_FILES if listed else _SHOWN_FILES),
        as_of=options["as_of"],
        memories=True,
        commits=True,
        on_progress=tell,
    )


def _write_matches(found: Matches, options: dict[str, Any], as_json: bool) -> None:
    if as_json:
        write_json(json_shapes.matches(found))
        return
    from lookfar.serve.show import matches

    if not options["paths"] and not options["count"]:
        write(matches.matches(found))
        return
    # Another program may read these: what is to be said besides goes to people.
    write(matches.counts(found) if options["count"] else matches.paths(found))
    for note in found.incomplete:
        click.echo(f"incomplete ({note.reason}): {note.detail}", err=True)


def _folders_of(query: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    """The folders to search, or advice for someone who forgot the quotes."""
    words = [path for path in paths if not Path(path).exists()]
    if not words or "" in paths:
        return paths
    if len(paths) == 1 and not paths[0].replace("-", "").isalnum():
        return paths  # It reads like a path: opening it says best what is wrong.
    folders = [path for path in paths if path not in words]
    asked = " ".join((query, *words)).replace('"', "'")
    behind = "".join(f" {_quoted(folder)}" for folder in folders)
    hint = f'A query of several words needs quotes: lookfar search "{asked}"{behind}'
    raise RootNotFound(f"The folder {words[-1]!r} does not exist.", hint=hint)


@examples(
    "lookfar read guide.md docs",
    'lookfar read "guide.md#Install > Linux" docs',
    "lookfar read guide.md:10-20 docs --json",
)
@cli.command()
@click.argument("target")
@click.argument("path", default=".")
@_common
def read(target: str, path: str, as_json: bool, **options: Any) -> None:
    """Print a document, a section, a definition or some lines.

    TARGET is a URI (guide.md), a URI and a heading (guide.md#Install, or
    "guide.md#Install > Linux"), a URI and lines (guide.md:10-20), or the name of what source
    code defines (Shelf.put, or src/shelf.py#Shelf.put). PATH is the indexed folder
    (default: this one).
    """
    with _asked(path, options) as library:
        found = library.read(_utf8(target))
    if as_json:
        write_json(json_shapes.reading(found))
        return
    from lookfar.serve.show import render

    if found.state == "changed":
        click.echo("This document changed since it was indexed; shown as it is now.", err=True)
    write(render.reading(found))


@examples("lookfar outline guide.md docs", "lookfar outline src/shelf.py --json")
@cli.command()
@click.argument("uri")
@click.argument("path", default=".")
@_common
def outline(uri: str, path: str, as_json: bool, **options: Any) -> None:
    """Show the headings of a document, or what code defines.

    Each comes with its line. URI names the document. PATH is the indexed folder (default: this
    one).
    """
    with _asked(path, options) as library:
        found = library.outline(_utf8(uri))
    if as_json:
        write_json(json_shapes.outline(found))
    else:
        from lookfar.serve.show import render

        write(render.outline(found))


@examples(
    "lookfar related guide.md docs",
    "lookfar related guide.md#Install --kind backlinks --limit 5",
    "lookfar related Shelf.put --kind mentions",
)
@cli.command()
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
    help="Only this kind of relation. Repeatable; without, all of them.",
)
@click.option("--limit", "-n", type=int, default=10, metavar="N", help="Most entries of each kind.")
@click.option("--as-of", type=int, metavar="N", help="Ask an earlier generation of the index.")
@_common
def related(
    target: str,
    path: str,
    kinds: tuple[RelatedKind, ...],
    limit: int,
    as_of: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show what is linked with a document, and what is like it.

    TARGET is a URI (guide.md), or a part of it as for read (guide.md#Install). Of what source
    code defines (Shelf.put) it also shows where that is defined and mentioned. PATH is the
    indexed folder (default: this one).
    """
    from lookfar.retrieve.neighbours.related import KINDS

    wanted: tuple[RelatedKind, ...] = kinds or (*KINDS, "memories")
    with _asked(path, options) as library:
        found = library.related(_utf8(target), kinds=wanted, limit=limit, as_of=as_of)
    if as_json:
        write_json(json_shapes.related(found))
    else:
        from lookfar.serve.show import render

        write(render.related(found))


@examples("lookfar why build/output.md", 'lookfar why guide.md docs --query "rotate a key"')
@cli.command()
@click.argument("file", metavar="PATH")
@click.argument("root", default=".")
@click.option(
    "--query", default="", metavar="TEXT", help="Tell why it is not among the hits for this."
)
@_common
def why(file: str, root: str, query: str, as_json: bool, **options: Any) -> None:
    """Tell which rule lets a path into the index or keeps it out.

    PATH lies below ROOT, the folder that is indexed (default: this one), and may also be
    absolute. It need not exist: then its name decides. With --query, follow an indexed document
    through the ranking and tell why it is, or is not, among the hits.
    """
    with _opened(root, options) as library:
        found = library.why(_utf8(file))
        missed = None
        if query and (found.admitted or found.indexed):
            # It is asked as a search would be, which indexes what is new first.
            missed = library.why_not(_utf8(query), found.uri)
            if missed.verdict == "not_indexed":
                missed, found = None, library.why(_utf8(file))
    if as_json:
        write_json(json_shapes.why_not(missed) if missed else json_shapes.ruling(found))
    else:
        from lookfar.serve.show import render

        write(render.why_not(missed) if missed else render.ruling(found))


@examples("lookfar watch docs", "lookfar watch --strategy git --json")
@cli.command()
@click.argument("path", nargs=-1)
@click.option(
    "--strategy",
    type=click.Choice(("realtime", "lazy", "git")),
    help="Index at once, when a search asks, or when git's head moves.",
)
@click.option(
    "--debounce-ms", type=int, metavar="N", help="Pause in writing that ends a batch of changes."
)
@_common
def watch(
    path: tuple[str, ...],
    strategy: str | None,
    debounce_ms: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Follow folders and keep their indexes true, until Ctrl-C.

    PATH is a folder (default: this one).
    """
    from lookfar.serve.cli.watch import follow

    with _opened(path, options) as library:
        follow(library, strategy, debounce_ms, as_json=as_json)


@examples("lookfar reindex", "lookfar reindex docs ~/notes --quiet")
@cli.command()
@click.argument("path", nargs=-1)
@click.option("--quiet", is_flag=True, help="Show no progress and no report.")
@_common
def reindex(path: tuple[str, ...], quiet: bool, as_json: bool, **options: Any) -> None:
    """Read everything again and build indexes anew.

    PATH is a folder that was indexed before (default: this one). Until the new index is
    finished, the old one answers.
    """
    with _opened(path, options) as library:
        never = [name for name in library.collections if not library.folder(name).begun]
        if never:
            raise NotIndexed(
                f"{', '.join(never)} has not been indexed yet.", hint="Index it: lookfar index PATH"
            )
        _indexed(library, quiet, as_json, rebuild=True)


@examples("lookfar status", "lookfar status docs ~/notes --json")
@cli.command()
@click.argument("path", nargs=-1)
@_common
def status(path: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Tell what is indexed, and what is out of date.

    PATH is a folder to tell about (default: this one).
    """
    with _asked(path, options) as library:
        found = library.statuses()
    if as_json:
        write_json(json_shapes.together([json_shapes.status(each) for each in found]))
    else:
        from lookfar.serve.show import render

        write("\n\n".join(map(render.status, found)))


_LOOKING = (history, snapshots)
_WRITING = (doc, undo, remember, memory, documents)
_TENDING = (eval_, setup, doctor, verify, config, logs, copy, delete)
_SERVING = (mcp, serve, tokens, daemon)
for each in (*_LOOKING, *_WRITING, *_TENDING, *_SERVING, completion):
    cli.add_command(each)
completed(cli)
