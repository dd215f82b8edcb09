"""``lookfar add``, ``update`` and ``sources``: manage sources that are not indexed folders."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import click

from lookfar.common.waiting_sources import describe_waiting
from lookfar.errors import InvalidArgument, LookfarError, how_many
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
    from lookfar.model import NamedStatus, OutsideSource, SourceChange

_FILES_NAMED = 10


@examples(
    "lookfar add https://docs.example.org/guide/",
    "lookfar add git+https://example.org/org/repo@v2.1",
    "lookfar add downloads/manual.zip",
    "lookfar add flask-docs.lookpack",
    "lookfar add ~/reference --name reference --everywhere",
    "lookfar add --named",
)
@click.command()
@click.argument("origin", required=False)
@folder_argument()
@click.option("--name", default="", help="Name of the source (default: made from ORIGIN).")
@click.option("--only-page", is_flag=True, help="Fetch a page of a site without following links.")
@click.option("--everywhere", is_flag=True, help="Search it from every folder, not only PATH.")
@click.option(
    "--named", is_flag=True, help="Fetch sources that PATH's lookfar.toml names; asks first."
)
@yes_option
@library_options
def add(
    origin: str | None,
    path: str,
    name: str,
    only_page: bool,
    everywhere: bool,
    named: bool,
    yes: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Fetch a source once, to search it offline.

    ORIGIN is a site (https://...), a repository (git+https://HOST/PATH@TAG), a tar or zip archive,
    a folder, or a pack (lookfar pack makes one). From a site, all pages below the address
    are fetched. Searches of the folder PATH (default: the current one) include it from then on.

    With --named and no ORIGIN, shows the sources that lookfar.toml of the folder PATH names, and
    fetches those that you confirm.
    """
    if named:
        if name or only_page or everywhere:
            raise InvalidArgument(
                "--named takes everything from lookfar.toml.",
                hint="Omit --name, --only-page and --everywhere.",
            )
        # The first argument is the folder here.
        _add_named(origin if origin and path == "." else path, yes, as_json, options)
        return
    if not origin:
        raise InvalidArgument(
            "There is nothing to fetch.", hint="Name a site, repository, archive or folder."
        )
    with (
        open_library(path, options) as library,
        progress.show_fetch() as on_fetch,
        progress.show_progress(name or origin, at_once=False),
    ):
        change = library.outside.add(
            origin,
            name=name,
            everywhere=everywhere,
            options={"only_page": True} if only_page else {},
            on_fetch=on_fetch,
        )
    _write_changes([change], as_json)


def _add_named(path: str, yes: bool, as_json: bool, options: dict[str, Any]) -> None:
    """Show what a project names, ask about each entry, and fetch those that are confirmed.

    If one cannot be fetched, fetch the others first, and then report the error.
    """
    changes: list[SourceChange] = []
    failure: LookfarError | None = None
    with open_library(path, options) as library:
        waiting = [status for status in library.outside.list_named() if status.state != "added"]
        for status in waiting:
            for line in _describe_named(status):
                click.echo(line, err=True)
            if not confirm(f"Fetch {safe_name(status.source.name)}?", yes=yes, as_json=as_json):
                continue
            with (
                progress.show_fetch() as on_fetch,
                progress.show_progress(status.source.name, at_once=False),
            ):
                try:
                    changes.append(library.outside.add_named(status, on_fetch=on_fetch))
                except LookfarError as error:
                    failure = failure or error
                    click.echo(f"  not fetched: {safe_name(error.message)}", err=True)
    if failure is not None and (as_json or not changes):
        raise failure
    if changes or as_json:
        _write_changes(changes, as_json)
    elif not waiting:
        write("lookfar.toml names no sources that still have to be fetched.")
    if failure is not None:
        raise failure


def _describe_named(status: NamedStatus) -> list[str]:
    """Return what an entry of ``lookfar.toml`` asks for, as lines."""
    source = status.source
    lines = [f"{safe_name(source.name)}: {safe_name(source.origin)}"]
    if status.previous and status.previous != source.origin:
        lines.append(f"  replaces: {safe_name(status.previous)}")
    elif status.state == "changed":
        lines.append("  changed since it was fetched")
    limits = {
        "pages": source.max_pages,
        "files": source.max_files,
        "bytes": source.max_bytes,
    }
    lines += [f"  at most {limit:,} {what}" for what, limit in limits.items() if limit is not None]
    lines += ["  this page only"] if source.only_page else []
    lines += ["  updates leave it as it is (pin)"] if source.pin else []
    return lines


@examples("lookfar update", "lookfar update manual")
@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@library_options
def update(names: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Fetch the changes of the sources, and list them.

    NAME is a source as ``lookfar sources`` lists it (default: all that are not pinned).
    """
    with open_sources(options) as library, progress.show_fetch() as on_fetch:
        changes = library.outside.update(names, on_fetch=on_fetch)
    _write_changes(changes, as_json)


class _ListingGroup(GuardedGroup):
    """A command group that runs ``list`` if no command is named, instead of printing help."""

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
@folder_argument()
@library_options
def list_(path: str, as_json: bool, **options: Any) -> None:
    """List what was fetched, from where and when.

    Also lists what lookfar.toml of the folder PATH (default: the current one) names.
    """
    with open_library(path, options) as library:
        listed, named = library.outside.list_all(), library.outside.list_named()
        states = {source.name: library.outside.judge(source) for source in listed}
    if as_json:
        rows_as_json = [
            {**json_shapes.plain(source), "state": states[source.name]} for source in listed
        ]
        write_json({"sources": rows_as_json, "named": json_shapes.plain(named)})
        return
    waiting = [status.source.name for status in named if status.state != "added"]
    heads = ("name", "kind", "from", "version", "fetched", "files", "size", "")
    rows = [_describe(source, states[source.name]) for source in listed]
    write_table(heads, rows, "There are no sources yet. Add one: lookfar add ORIGIN")
    if waiting:
        write(safe_name(describe_waiting(waiting)))


@examples("lookfar sources remove manual --yes")
@sources.command()
@click.argument("name")
@yes_option
@library_options
def remove(name: str, yes: bool, as_json: bool, **options: Any) -> None:
    """Delete the fetched files of a source, and its index.

    NAME is the source, as listed. If the source is a folder, its files are not touched.
    """
    with open_sources(options) as library:
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
    with open_sources(options) as library:
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
    with open_sources(options) as library:
        source = library.outside.pin(name, pinned=False)
    write_either(as_json, json_shapes.plain(source), f"Unpinned {safe_name(source.name)}.")


def open_sources(options: dict[str, Any]) -> AbstractContextManager[Library]:
    """Open the sources with the settings of the user, without a folder."""
    from lookfar.library import Library

    settings = dict(parse_settings(options["settings"]))
    if options["index_dir"]:
        settings["index.dir"] = os.path.abspath(options["index_dir"])
    return Library.open_databases(settings=settings)


def _describe(source: OutsideSource, state: str) -> list[str]:
    from lookfar.serve.show.render import format_size

    states = [state] if state else []
    if source.kind == "pack":
        states.append(f"signed by {source.signer}" if source.signer else "not signed")
    state = ", ".join(states)
    return [
        source.name, source.kind, source.origin, source.version[:12],
        source.fetched[:16].replace("T", " "), f"{source.files:,}",
        "" if source.kind == "folder" else format_size(source.bytes), state,
    ]  # fmt: skip


def _write_changes(changes: list[SourceChange], as_json: bool) -> None:
    if as_json:
        write_json({"changes": json_shapes.plain(changes)})
        return
    for change in changes:
        counts = [("added", change.added), ("changed", change.changed), ("removed", change.removed)]
        # Every search compares the files of a folder, so an update does not.
        is_folder = change.source.kind == "folder"
        same = how_many(change.source.files, "file") if is_folder else "no changes"
        named = ", ".join(f"{len(uris):,} {verb}" for verb, uris in counts if uris) or same
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
