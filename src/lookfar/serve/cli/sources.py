"""``lookfar add``, ``update`` and ``sources``: what is searched besides the folders."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import click

from lookfar.errors import how_many
from lookfar.serve.cli.exits import GuardedGroup, write, write_either, write_json, write_table
from lookfar.serve.cli.options import (
    confirm,
    examples,
    folder_argument,
    library_options,
    open_library,
    yes_option,
)
from lookfar.serve.daemon.session_options import parse_settings
from lookfar.serve.show import json_shapes, progress
from lookfar.serve.show.printable import safe_name

if TYPE_CHECKING:
    from lookfar.library import Library
    from lookfar.model import OutsideSource, SourceChange

_FILES_NAMED = 10


@examples(
    "lookfar add https://docs.example.org/guide/",
    "lookfar add git+https://example.org/org/repo@v2.1",
    "lookfar add downloads/manual.zip",
    "lookfar add ~/reference --name reference --everywhere",
)
@click.command()
@click.argument("origin")
@folder_argument()
@click.option("--name", default="", help="What to call it (default: made from ORIGIN).")
@click.option("--only-page", is_flag=True, help="Fetch a page of a site without following links.")
@click.option("--everywhere", is_flag=True, help="Search it from every folder, not only PATH.")
@library_options
def add(
    origin: str,
    path: str,
    name: str,
    only_page: bool,
    everywhere: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Fetch a source once, to search it offline.

    ORIGIN is a site (https://...), a repository (git+https://HOST/PATH@TAG), a tar or zip archive,
    or a folder. Of a site, all pages below the address are fetched. Searches of the folder PATH
    (default: the current one) include it from then on.
    """
    with (
        open_library(path, options) as library,
        progress.show_fetch() as on_fetch,
        progress.show_progress(name or origin, at_once=False) as on_progress,
    ):
        change = library.outside.add(
            origin,
            name=name,
            everywhere=everywhere,
            options={"only_page": True} if only_page else {},
            on_fetch=on_fetch,
            on_progress=on_progress,
        )
    _write_changes([change], as_json)


@examples("lookfar update", "lookfar update manual")
@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@library_options
def update(names: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Fetch what changed in the sources, and show it.

    NAME is a source as ``lookfar sources`` lists it (default: all that are not pinned).
    """
    with _open(options) as library, progress.show_fetch() as on_fetch:
        changes = library.outside.update(names, on_fetch=on_fetch)
    _write_changes(changes, as_json)


class _ListingGroup(GuardedGroup):
    """A group that lists where others print their help."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@examples("lookfar sources list", "lookfar sources remove manual")
@click.group(cls=_ListingGroup)
def sources() -> None:
    """List sources from elsewhere; pin or remove them.

    Without a command, they are listed. To fetch one, use lookfar add.
    """


@examples("lookfar sources list --json")
@sources.command("list")
@library_options
def list_(as_json: bool, **options: Any) -> None:
    """List what was fetched, from where and when."""
    with _open(options) as library:
        listed = library.outside.list_all()
    if as_json:
        write_json({"sources": json_shapes.plain(listed)})
        return
    heads = ("name", "kind", "from", "version", "fetched", "files", "size", "")
    rows = [_describe(source) for source in listed]
    write_table(heads, rows, "There are no sources yet. Add one: lookfar add ORIGIN")


@examples("lookfar sources remove manual --yes")
@sources.command()
@click.argument("name")
@yes_option
@library_options
def remove(name: str, yes: bool, as_json: bool, **options: Any) -> None:
    """Delete what was fetched of a source, and its index.

    NAME is the source, as listed. A folder elsewhere is not touched.
    """
    with _open(options) as library:
        source = library.outside.get(name)
        question = f"Delete {safe_name(source.name)} ({how_many(source.files, 'file')})?"
        if not confirm(question, yes=yes, as_json=as_json):
            return
        library.outside.remove(name)
    write_either(as_json, json_shapes.plain(source), f"Removed {safe_name(source.name)}.")


@examples("lookfar sources pin manual")
@sources.command()
@click.argument("name")
@library_options
def pin(name: str, as_json: bool, **options: Any) -> None:
    """Keep a source as it is when others are updated.

    NAME is the source, as listed.
    """
    with _open(options) as library:
        source = library.outside.pin(name)
    write_either(as_json, json_shapes.plain(source), f"Pinned {safe_name(source.name)}.")


@examples("lookfar sources unpin manual")
@sources.command()
@click.argument("name")
@library_options
def unpin(name: str, as_json: bool, **options: Any) -> None:
    """Let updates change a source again.

    NAME is the source, as listed.
    """
    with _open(options) as library:
        source = library.outside.pin(name, pinned=False)
    write_either(as_json, json_shapes.plain(source), f"Unpinned {safe_name(source.name)}.")


def _open(options: dict[str, Any]) -> AbstractContextManager[Library]:
    """Open the sources with the settings of the user; no folder is searched."""
    from lookfar.library import Library

    settings = dict(parse_settings(options["settings"]))
    if options["index_dir"]:
        settings["index.dir"] = os.path.abspath(options["index_dir"])
    return Library.open_databases(settings=settings)


def _describe(source: OutsideSource) -> list[str]:
    state = "pinned" if source.pinned else ""
    return [
        safe_name(source.name), source.kind, safe_name(source.origin), source.version[:12],
        source.fetched[:16].replace("T", " "), f"{source.files:,}",
        f"{source.bytes / 1e6:,.1f} MB", state,
    ]  # fmt: skip


def _write_changes(changes: list[SourceChange], as_json: bool) -> None:
    if as_json:
        write_json({"changes": json_shapes.plain(changes)})
        return
    for change in changes:
        counts = [("added", change.added), ("changed", change.changed), ("removed", change.removed)]
        named = ", ".join(f"{len(uris):,} {verb}" for verb, uris in counts if uris) or "no changes"
        write(f"{safe_name(change.source.name)}: {named}")
        for verb, uris in counts[1:]:
            for uri in uris[:_FILES_NAMED]:
                write(f"  {verb}: {safe_name(uri)}")
            if len(uris) > _FILES_NAMED:
                write(f"  {verb}: {len(uris) - _FILES_NAMED:,} more")
        for note in change.notes:
            write(f"  note: {safe_name(note)}")
    if not changes:
        write("No sources to update.")
