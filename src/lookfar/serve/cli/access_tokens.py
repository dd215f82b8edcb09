"""``lookfar tokens``: create, list and revoke the access tokens of HTTP servers."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import click

from lookfar.serve.cli.exits import GuardedGroup, write_either, write_json, write_table
from lookfar.serve.cli.options import examples, output_options


@examples("lookfar tokens add ci", "lookfar tokens list")
@click.group(cls=GuardedGroup)
def tokens() -> None:
    """Manage the access tokens of HTTP servers.

    As soon as one token exists, every request needs one. Running servers notice each change.
    """


@examples("lookfar tokens add ci", "lookfar tokens add editor --write --json")
@tokens.command()
@click.argument("name")
@click.option("--write", "may_write", is_flag=True, help="Also allow tools that write.")
@click.option(
    "--collection", "collections", metavar="NAME", multiple=True,
    help="Allow only this collection, as named by status. Repeatable; default: all.",
)  # fmt: skip
@output_options
def add(name: str, may_write: bool, collections: tuple[str, ...], as_json: bool) -> None:
    """Create a token and show it once.

    NAME says who uses it; it appears in lists and in the log.
    """
    from lookfar.collections.variants import place_index
    from lookfar.common.folders import list_folder
    from lookfar.config import load
    from lookfar.serve.http.tokens import add

    scope: Literal["read", "write"] = "write" if may_write else "read"
    token = add(_tokens_file(), name, scope, collections)
    shape = {"name": name, "scope": scope, "token": token, "collections": list(collections)}
    write_either(as_json, shape, token)
    if not as_json:
        click.echo(f"Scope: {scope}. Save the token now: it is not shown again.", err=True)
    for collection in collections:
        place = place_index(collection, "", load(None))
        wanted, *known = (p.name.rpartition("-")[0] for p in (place, *list_folder(place.parent)))
        if wanted not in known and "@" not in collection:  # It may be indexed later.
            near = [f"Did you mean {name}?" for name in get_close_matches(wanted, known, n=1)]
            note = f"Note: no collection {collection!r} is indexed here."
            click.echo(" ".join((note, *near)), err=True)


@examples("lookfar tokens list --json")
@tokens.command("list")
@output_options
def list_tokens(as_json: bool) -> None:
    """List the tokens, without their values."""
    from lookfar.serve.http.tokens import read

    saved = read(_tokens_file())
    if as_json:
        shapes = [
            {"name": t.name, "scope": t.scope, "created": t.created,
             "collections": list(t.collections)}
            for t in saved
        ]  # fmt: skip
        write_json({"tokens": shapes})
    else:
        rows = [(t.name, t.scope, t.created, ", ".join(t.collections) or "all") for t in saved]
        write_table(("name", "scope", "created", "collections"), rows, "No tokens yet.")


@examples("lookfar tokens remove ci")
@tokens.command()
@click.argument("name")
@output_options
def remove(name: str, as_json: bool) -> None:
    """Revoke the token that was created as NAME."""
    from lookfar.serve.http.tokens import remove

    remove(_tokens_file(), name)
    write_either(as_json, {"name": name, "removed": True}, f"Revoked {name}.")


def _tokens_file() -> Path:
    from lookfar.config import load, tokens_file

    return tokens_file(load(None).serve)
