"""``lookfar why``: why a file is or is not indexed, or is not among the hits of a search."""

from __future__ import annotations

from typing import Any

import click

from lookfar.serve.cli.exits import write, write_json
from lookfar.serve.cli.options import clean_text, examples, library_options, open_library
from lookfar.serve.show import json_shapes


@examples("lookfar why build/output.md", 'lookfar why guide.md docs --query "rotate a key"')
@click.command()
@click.argument("file", metavar="PATH")
@click.argument("root", default=".")
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
    with open_library(root, options) as library:
        ruling = library.why(clean_text(file))
        ranking = None
        if query and (ruling.admitted or ruling.indexed):
            # Like a search, this first indexes new files; the ruling may change with them.
            ranking = library.why_not(clean_text(query), ruling.uri)
            if ranking.verdict == "not_indexed":
                ranking, ruling = None, library.why(clean_text(file))
    if as_json:
        write_json(json_shapes.why_not(ranking) if ranking else json_shapes.ruling(ruling))
    else:
        from lookfar.serve.show import render

        write(render.why_not(ranking) if ranking else render.ruling(ruling))
