"""``lookfar history``: list the newest commits of a folder's repositories, or search them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lookfar.serve.cli.exits import write_result
from lookfar.serve.cli.options import (
    clean_text,
    commit_options,
    date_options,
    examples,
    folder_argument,
    library_options,
    open_library,
)
from lookfar.serve.show import progress

if TYPE_CHECKING:
    from lookfar.library import Library
    from lookfar.model import CommitInfo, Filters, Hit, Incomplete


@examples(
    "lookfar history",
    'lookfar history "why did we drop the cache" -n 5',
    'lookfar history "[[Alpha Plan]]" notes',
    'lookfar history --author ada --touches "src/auth/**" --since "last month" --json',
)
@click.command()
@click.argument("query", default="")
@click.option(
    "--limit", "-n", type=click.IntRange(1), default=20, metavar="N", help="At most N commits (20)."
)
@commit_options
@date_options("commits")
@folder_argument()
@library_options
def history(query: str, limit: int, path: str, as_json: bool, **options: Any) -> None:
    """List the newest commits, or find those that answer QUERY.

    A QUERY such as "[[Note]]" lists the commits that changed this note. PATH is the folder
    (default: the current one); to list its commits, omit QUERY and give --path. To read a
    commit, run: lookfar read HASH. Commits that are not indexed yet are indexed first.
    """
    from lookfar.model import Filters
    from lookfar.retrieve.locate.resolve import is_link

    query = clean_text(query)
    filters = Filters(
        lanes=("commits",),
        authors=(clean_text(options["author"]),) if options["author"] else (),
        touches=query if is_link(query) else clean_text(options["touches"]),
        branch=clean_text(options["branch"]),
        after=options["after"],
        before=options["before"],
    )
    hits: tuple[Hit, ...] = ()
    with (
        open_library(path, options) as library,
        progress.show_progress("history", quiet=as_json, at_once=False),
    ):
        if query and not is_link(query):
            commits, hits, notes = _search_commits(library, query, filters, limit)
        else:
            commits, notes = library.history(filters=filters, limit=limit)
    write_result(as_json, "history", commits, hits, notes, query)


def _search_commits(
    library: Library, query: str, filters: Filters, limit: int
) -> tuple[tuple[CommitInfo, ...], tuple[Hit, ...], tuple[Incomplete, ...]]:
    """Return the commits that match, each with its best passage."""
    library.history(limit=1)  # Raises if there is no repository.
    answer = library.search(query, top_k=limit, filters=filters)
    best = {(hit.collection, hit.uri): hit for hit in reversed(answer.hits)}
    ranked = sorted(best.values(), key=answer.hits.index)
    commits = tuple(library.commit(hit.collection, hit.uri) for hit in ranked)
    return commits, tuple(ranked), answer.incomplete
