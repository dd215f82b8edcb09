"""``lookfar history``: what happened in the repositories of a folder, from a terminal.

Takes: a command line. Gives: the newest commits, or those that answer a question, best first;
for people or with ``--json`` for scripts. Refuses: a folder without a repository; and to import
the library before the command needs it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from lookfar.serve.cli.exits import write, write_json
from lookfar.serve.cli.options import (
    clean_text,
    examples,
    library_options,
    open_library,
    path_option,
)
from lookfar.serve.show import json_shapes, progress
from lookfar.serve.tools.dates import moment

if TYPE_CHECKING:
    from lookfar.library import Library
    from lookfar.model import CommitInfo, Filters, Hit, Incomplete


@examples(
    "lookfar history",
    'lookfar history "why did we drop the cache" -n 5',
    'lookfar history --author ada --touches "src/auth/**" --after 2026-01-01 --json',
)
@click.command()
@click.argument("query", default="")
@click.option("--limit", "-n", type=int, default=20, metavar="N", help="Most commits (20).")
@click.option("--author", default="", metavar="TEXT", help="Only commits of such an author.")
@click.option("--touches", default="", metavar="GLOB", help="Only commits that change such paths.")
@click.option("--branch", default="", metavar="NAME", help="Only commits of this branch or tag.")
@click.option("--after", default="", metavar="DATE", help="Only commits of this day or later.")
@click.option("--before", default="", metavar="DATE", help="Only commits before this day.")
@path_option
@library_options
def history(query: str, limit: int, path: str, as_json: bool, **options: Any) -> None:
    """List the newest commits, or find those that answer QUERY.

    A commit is read with: lookfar read HASH. Commits that were never indexed are indexed first.
    """
    from lookfar.model import Filters

    filters = Filters(
        lanes=("commits",),
        authors=(clean_text(options["author"]),) if options["author"] else (),
        touches=clean_text(options["touches"]),
        branch=clean_text(options["branch"]),
        after=moment(options["after"], "--after"),
        before=moment(options["before"], "--before"),
    )
    with (
        open_library(path, options) as library,
        progress.shown("history", quiet=as_json, at_once=False) as tell,
    ):
        if query:
            found, hits, notes = _asked(library, clean_text(query), filters, limit, tell)
        else:
            found, notes = library.history(filters=filters, limit=limit, on_progress=tell)
            hits = ()
    if as_json:
        write_json(_shape(query, found, hits, notes))
    else:
        from lookfar.serve.show import render

        write(render.history(found, hits, notes, query))


def _asked(
    library: Library, query: str, filters: Filters, limit: int, tell: Any
) -> tuple[tuple[CommitInfo, ...], tuple[Hit, ...], tuple[Incomplete, ...]]:
    """The commits that answer a question, each with the passage that does."""
    library.history(limit=1, on_progress=tell)  # Says so where there is no repository.
    answer = library.search(query, top_k=limit, filters=filters, on_progress=tell)
    best = {(hit.collection, hit.uri): hit for hit in reversed(answer.hits)}
    ranked = sorted(best.values(), key=answer.hits.index)
    found = tuple(library.commit(hit.collection, hit.uri) for hit in ranked)
    return found, tuple(ranked), answer.incomplete


def _shape(
    query: str,
    found: tuple[CommitInfo, ...],
    hits: tuple[Hit, ...],
    notes: tuple[Incomplete, ...],
) -> json_shapes.Json:
    commits = [asdict(each) for each in found]
    for shape, hit in zip(commits, hits, strict=False):
        shape |= {"score": hit.score, "text": hit.text}
    return {"query": query, "commits": commits, "incomplete": json_shapes.incomplete(notes)}
