"""``lookfar search``: find passages by meaning and by words, or lines by text or expression."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from lookfar.errors import InvalidArgument, RootNotFound
from lookfar.serve.cli.exits import write, write_json, write_result
from lookfar.serve.cli.options import (
    clean_text,
    commit_options,
    connect_library,
    date_options,
    examples,
    folder_argument,
    library_options,
    quote,
    refuse_broad_folders,
)
from lookfar.serve.show import json_shapes, progress

if TYPE_CHECKING:
    from lookfar.library import Library
    from lookfar.model import Answer, Filters, Matches
    from lookfar.serve.cli.remote_library import RemoteLibrary

_MATCHED_FILES: Final = 20
_LISTED_FILES: Final = 1_000
"""The default number of documents when only paths or counts are shown."""
_BRIEF_HITS: Final = 5
"""Hits on a terminal; only the best is shown in full."""
_OUTSIDE_FOLDERS: Final = frozenset(("commits", "documents", "memory", "sources", "deps"))
"""Kinds that are searched without an index of the folder."""


@examples(
    'lookfar search "how do I rotate the signing key" docs',
    'lookfar search "parse a date" --kind code -k 3',
    'lookfar search "login" --glob "guide/**" --json',
    'lookfar search "raise Conflict(" --mode literal -C 2',
    'lookfar search --where status=active --where "due<2026-12-01"',
    'lookfar search "standup" --since "last week"',
)
@click.command()
@click.argument("query", default="")
@folder_argument(several=True)
@click.option(
    "--top-k",
    "-k",
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    help="Number of hits. With literal and regex, number of documents.",
)
@click.option(
    "--mode",
    type=click.Choice(("hybrid", "vector", "keyword", "fts", "literal", "regex")),
    help="Search by meaning (vector), by words (keyword or fts) or both (hybrid); or list every"
    " line that contains the text (literal) or matches the expression (regex).",
)
@click.option(
    "--case",
    type=click.Choice(("sensitive", "insensitive", "smart")),
    default="sensitive",
    show_default=True,
    help="With literal and regex: whether case matters (smart: only if QUERY has capitals).",
)
@click.option("--words", is_flag=True, help="With literal and regex: match whole words only.")
@click.option(
    "--context",
    "-C",
    type=click.IntRange(0, 100),
    default=0,
    metavar="N",
    help="With literal and regex: show N lines around each match.",
)
@click.option(
    "--max-lines",
    type=click.IntRange(1),
    default=20,
    metavar="N",
    show_default=True,
    help="With literal and regex: show at most N lines per document.",
)
@click.option("--paths", is_flag=True, help="Show only which documents match.")
@click.option("--map", "as_map", is_flag=True, help="Show the short map that agents get.")
@click.option(
    "--count", is_flag=True, help="With literal and regex: show only how many lines match."
)
@click.option("--prefix", default="", metavar="TEXT", help="Only URIs that start with this.")
@click.option("--glob", default="", metavar="GLOB", help="Only URIs that match, like guide/**.")
@click.option("--uri", "uris", multiple=True, metavar="URI", help="Only this document. Repeatable.")
@click.option(
    "--heading", default="", metavar="TEXT", help="Only sections whose headings contain this."
)
@click.option(
    "--tag",
    "tags",
    multiple=True,
    help="Only documents with this tag, or one nested in it. Repeatable; all must match.",
)
@click.option(
    "--where",
    "where",
    multiple=True,
    metavar="CONDITION",
    help="Only documents whose properties match, such as status=active, due<2026-12-01,"
    " has:aliases or missing:due. Repeatable; all must match.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(("docs", "code", "commits", "memory", "documents", "sources", "deps")),
    help="Only this kind of document. Repeatable.",
)
@click.option("--docs", is_flag=True, help="Only documentation, like --kind docs.")
@click.option(
    "--language",
    "languages",
    multiple=True,
    metavar="NAME",
    help="Only this language, like python, code blocks in documents included. Repeatable.",
)
@click.option("--superseded", is_flag=True, help="Also show memories that a newer one supersedes.")
@date_options("what changed")
@commit_options
@click.option("--as-of", type=int, metavar="N", help="Search an earlier generation of the index.")
@click.option(
    "--hypothesis", default="", metavar="TEXT", help="A guess at the answer, to search by meaning."
)
@click.option("--full", is_flag=True, help="Show all hits in full, as when the output is piped.")
@click.option("--explain", is_flag=True, help="Show how each score was computed.")
@library_options
def search(query: str, path: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Find passages that answer QUERY, or list documents.

    Without QUERY, list the documents that match the filters, newest first. A first argument that
    is written like a path (. or notes/) is then PATH.
    PATH is the folder to search (default: the current one); several are searched together.
    A folder that is not indexed yet is indexed first.
    """
    if options["docs"]:
        options["kinds"] = (*options["kinds"], "docs")
    if options["mode"] == "fts":
        options["mode"] = "keyword"
    filters = _build_filters(options)
    if filters and not path and _is_folder(query):
        query, path = "", (query,)
    _check_words(query, filters, options)
    with connect_library(_check_folders(query, path), options, asks=True) as library:
        index_first = (
            _needs_folder_index(filters) and not library.indexed and options["as_of"] is None
        )
        if index_first:
            refuse_broad_folders(path)
            _check_question(clean_text(query), filters, options)
            click.echo("This folder is not indexed yet: indexing it first.", err=True)
        with progress.show_progress(", ".join(library.collections), at_once=index_first):
            if options["mode"] in ("literal", "regex"):
                matches = _search_lines(library, clean_text(query), filters, options)
                _write_matches(matches, options, as_json)
                return
            top_k, units = options["top_k"], 0
            if not as_json and (options["as_map"] or options["paths"]):
                from lookfar.serve.show.answer_map import MAP_TOKENS, UNITS, count_places

                top_k, units = top_k or count_places(MAP_TOKENS), UNITS
            answer = library.search(
                clean_text(query),
                mode=options["mode"],
                top_k=top_k,
                filters=filters,
                hypothesis=clean_text(options["hypothesis"]),
                explain=options["explain"],
                as_of=options["as_of"],
                memories=True,
                sources=True,
                commits=True,
                focus=True,
                units=units,
            )
    _write_answer(answer, options, as_json)


def _check_words(query: str, filters: Filters, options: dict[str, Any]) -> None:
    """Refuse a call without words and filters, before a folder is opened for it."""
    if not query.strip() and not filters and not options["hypothesis"]:
        context = click.get_current_context()
        if context.get_parameter_source("query") is ParameterSource.DEFAULT:
            raise click.MissingParameter(
                "To list documents, give only filters, such as --tag NAME.",
                ctx=context,
                param_hint="'QUERY'",
                param_type="argument",
            )
        raise InvalidArgument(
            "There is nothing to search for.",
            hint="Write a question, or only filters to list documents: lookfar search --tag NAME.",
        )


def _check_question(query: str, filters: Filters, options: dict[str, Any]) -> None:
    """Refuse a question that cannot be answered, before a folder is indexed for it."""
    if options["mode"] in ("literal", "regex"):
        from lookfar.retrieve.grep.matcher import make_matcher

        make_matcher(
            query,
            regex=options["mode"] == "regex",
            case=options["case"],
            whole_words=options["words"],
        )
    elif query.strip() or not (filters or options["hypothesis"]):
        from lookfar.retrieve.question.plan import make_plan

        top_k = options["top_k"] or 1
        make_plan(query, mode="keyword", top_k=top_k, filters=filters, embedder=None)


def _build_filters(options: dict[str, Any]) -> Filters:
    from lookfar.model import Filters

    return Filters(
        prefix=clean_text(options["prefix"]),
        uris=tuple(map(clean_text, options["uris"])),
        glob=clean_text(options["glob"]),
        heading=clean_text(options["heading"]),
        tags=tuple(map(clean_text, options["tags"])),
        lanes=options["kinds"],
        languages=tuple(map(clean_text, options["languages"])),
        where=tuple(map(clean_text, options["where"])),
        superseded=options["superseded"],
        after=options["after"],
        before=options["before"],
        authors=(clean_text(options["author"]),) if options["author"] else (),
        touches=clean_text(options["touches"]),
        branch=clean_text(options["branch"]),
    )


def _needs_folder_index(filters: Filters) -> bool:
    if filters.authors or filters.touches or filters.branch:
        return False
    return not filters.lanes or not _OUTSIDE_FOLDERS.issuperset(filters.lanes)


def _search_lines(
    library: Library | RemoteLibrary,
    pattern: str,
    filters: Filters,
    options: dict[str, Any],
) -> Matches:
    listing = options["paths"] or options["count"]
    return library.grep(
        pattern,
        regex=options["mode"] == "regex",
        case=options["case"],
        whole_words=options["words"],
        filters=filters,
        context=options["context"],
        max_matches_per_file=0 if listing else options["max_lines"],
        limit=options["top_k"] or (_LISTED_FILES if listing else _MATCHED_FILES),
        as_of=options["as_of"],
        memories=True,
        sources=True,
        commits=True,
    )


def _write_answer(answer: Answer, options: dict[str, Any], as_json: bool) -> None:
    if not as_json and (options["as_map"] or options["paths"]):
        from lookfar.serve.show.answer_map import draw_answer

        limit = options["top_k"] or 0
        write(draw_answer(answer, limit=limit, paths=options["paths"]))
    elif as_json or options["full"] or options["explain"] or not sys.stdout.isatty():
        write_result(as_json, "answer", answer, explain=options["explain"])
    else:
        write_result(as_json, "answer", answer, brief=options["top_k"] or _BRIEF_HITS)


def _write_matches(matches: Matches, options: dict[str, Any], as_json: bool) -> None:
    if as_json:
        write_json(json_shapes.matches(matches))
        return
    from lookfar.serve.show import matches as show_matches

    if not options["paths"] and not options["count"]:
        write(show_matches.format_matches(matches))
        return
    # Paths and counts may be piped to another program, so notes go to stderr.
    write(
        show_matches.format_counts(matches)
        if options["count"]
        else show_matches.format_paths(matches)
    )
    for note in matches.incomplete:
        click.echo(str(note), err=True)


def _is_folder(query: str) -> bool:
    """Return whether the first argument is a folder, written like a path and not as a bare word."""
    is_path = query in (".", "..") or "/" in query or os.sep in query
    return is_path and Path(query).expanduser().is_dir()


def _check_folders(query: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders, or explain that a question of several words needs quotes."""
    words = [path for path in paths if not Path(path).exists()]
    if not words or "" in paths:
        return paths
    if len(paths) == 1 and not paths[0].replace("-", "").isalnum():
        return paths  # It looks like a path, so opening it reports the error.
    folders = [path for path in paths if path not in words]
    full_query = " ".join((query, *words)).replace('"', "'")
    arguments = "".join(f" {quote(folder)}" for folder in folders)
    hint = (
        "Check the spelling of the folder. A question of several words needs quotes:"
        f' lookfar search "{full_query}"{arguments}'
    )
    raise RootNotFound(f"The folder {words[-1]!r} does not exist.", hint=hint)
