"""``lookfar index``, ``reindex``, ``status`` and ``delete``: build, show and remove indexes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lookfar.common.folders import folder_bytes
from lookfar.errors import InvalidArgument, ModelUnavailable, NotIndexed
from lookfar.serve.cli.exits import write, write_json, write_result
from lookfar.serve.cli.options import (
    confirm,
    connect_library,
    examples,
    folder_argument,
    library_options,
    open_library,
    quiet_option,
    yes_option,
)
from lookfar.serve.show import json_shapes, progress
from lookfar.serve.show.printable import safe_name

if TYPE_CHECKING:
    from lookfar.collections.folder import Folder
    from lookfar.library import Library


@examples(
    "lookfar index docs",
    "lookfar index docs ~/notes --quiet",
    "lookfar index . --set chunk.max_tokens=800 --json",
)
@click.command()
@folder_argument(several=True)
@click.option("--rebuild", is_flag=True, help="Read every file again, not only changed ones.")
@click.option(
    "--quality", is_flag=True, help="Embed every passage with the second model now, and wait."
)
@quiet_option
@library_options
def index(
    path: tuple[str, ...],
    rebuild: bool,
    quality: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Index folders, or bring their indexes up to date.

    PATH is a folder (default: the current one); each folder has its own index. Folders are only
    read; indexes are stored elsewhere.
    """
    with open_library(path, options) as library:
        if quality:
            require_second_model(library)
        _index_folders(library, quiet, as_json, rebuild=rebuild, quality=quality)


@examples("lookfar reindex", "lookfar reindex docs ~/notes --quiet")
@click.command(hidden=True)
@folder_argument(several=True)
@quiet_option
@library_options
def reindex(path: tuple[str, ...], quiet: bool, as_json: bool, **options: Any) -> None:
    """Read every file again and rebuild the indexes.

    PATH is a folder that is already indexed (default: the current one). The old index answers
    until the new one is finished.
    """
    with open_library(path, options) as library:
        missing = [name for name in library.collections if not library.folder(name).begun]
        if missing:
            raise NotIndexed(
                f"{', '.join(missing)} has not been indexed yet.",
                hint="Index it: lookfar index PATH",
            )
        _index_folders(library, quiet, as_json, rebuild=True)


def _rebuild_ragdocs(settings: tuple[str, ...], **options: Any) -> None:
    """Rebuild the index that the toolset ragdocs uses; an alias for its users."""
    assert index.callback is not None
    index.callback(settings=("serve.toolset=ragdocs", *settings), **options | {"rebuild": True})


rebuild_index = click.Command(
    "rebuild-index", callback=_rebuild_ragdocs, params=index.params, hidden=True
)


def require_second_model(library: Library) -> None:
    """Raise ``ModelUnavailable`` if there is no second model, and say why."""
    folder = library.folder(library.collections[0])
    if folder.second_model is None:
        raise ModelUnavailable(
            folder.without_second_model or "There is no second model.",
            hint="Check the setting quality.enabled, and run: lookfar doctor",
        )


def embed_folder(folder: Folder, quiet: bool) -> None:
    """Embed every passage with the second model, and show how many are done."""
    from lookfar.collections.embedding import embed_now
    from lookfar.collections.statuses import describe_quality

    state, done = describe_quality(folder), 0
    left = state.total - state.embedded - state.unreadable if state else None
    with progress.show_count(f"passages of {safe_name(folder.name)}", left, quiet=quiet) as show:

        def count(passages: int) -> None:
            nonlocal done
            done += passages
            show(done, done)

        def report_waiting() -> None:
            if not quiet:
                click.echo("Another process is embedding these passages; waiting for it.", err=True)

        embed_now(folder, on_batch=count, on_wait=report_waiting)


def _index_folders(
    library: Library, quiet: bool, as_json: bool, *, rebuild: bool, quality: bool = False
) -> None:
    shapes: list[json_shapes.Json] = []
    for name in library.collections:
        folder = library.folder(name)
        loss = folder.describe_rebuild(wanted=rebuild)
        if loss and not quiet:
            click.echo(f"Rebuilding the index of {safe_name(name)}{loss}.", err=True)
        with progress.show_progress(name, quiet=quiet):
            report = folder.index(rebuild=rebuild)
        if quality:
            embed_folder(folder, quiet)
        if as_json:
            shapes.append(json_shapes.report(report, folder.place))
        elif not quiet:
            write_result(False, "report", report, folder.place)
    if as_json:
        write_json(json_shapes.combine(shapes))


@examples(
    "lookfar status", "lookfar status docs ~/notes --json", "lookfar status contracts --skipped"
)
@click.command()
@folder_argument(several=True)
@click.option("--skipped", is_flag=True, help="List every skipped file and folder, and why.")
@library_options
def status(path: tuple[str, ...], skipped: bool, as_json: bool, **options: Any) -> None:
    """Show what is indexed, out of date, and skipped.

    PATH is a folder (default: the current one).
    """
    if skipped:
        _list_skipped(path, as_json, options)
        return
    with connect_library(path, options) as library:
        statuses = library.statuses()
    write_result(as_json, "statuses", statuses)


def _list_skipped(path: tuple[str, ...], as_json: bool, options: dict[str, Any]) -> None:
    from lookfar.collections.rulings import list_skipped

    with open_library(path, options) as library:
        entries = {name: list_skipped(library.folder(name)) for name in library.collections}
    if as_json:
        write_json(json_shapes.combine([json_shapes.skipped(*item) for item in entries.items()]))
        return
    for name, found in entries.items():
        if len(entries) > 1:
            write(safe_name(name))
        write_result(False, "skipped", found)


@examples(
    "lookfar delete docs",
    "lookfar delete docs --dry-run",
    "lookfar delete docs --yes --json",
    "lookfar delete --all --dry-run",
)
@click.command()
@folder_argument(default=None)
@click.option("--all", "everything", is_flag=True, help="Remove everything that Lookfar stored.")
@click.option("--databases", is_flag=True, help="With --all: also remove all databases.")
@click.option("--memories", is_flag=True, help="With --all: also remove all memories.")
@yes_option
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@library_options
def delete(
    path: str | None,
    everything: bool,
    databases: bool,
    memories: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Remove the index of a folder. Its files and its memories stay.

    PATH is the indexed folder (default: the current one). The next search indexes it again.

    With --all, remove the indexes of all folders, tokens, models, logs and files of the daemon,
    and list what stays. Databases and memories have no other copy: they stay unless you confirm
    their removal on its own, or give --databases and --memories.
    """
    if everything:
        from lookfar.serve.cli.delete_all import delete_everything

        if path is not None:
            raise InvalidArgument("--all is for all folders.", hint="Omit the folder.")
        delete_everything(
            yes=yes, dry_run=dry_run, as_json=as_json, databases=databases, memories=memories,
            **options,
        )  # fmt: skip
        return
    if databases or memories:
        raise InvalidArgument("--databases and --memories need --all.", hint="Add --all.")
    _delete_index("." if path is None else path, yes, dry_run, as_json, options)


def _delete_index(
    path: str, yes: bool, dry_run: bool, as_json: bool, options: dict[str, Any]
) -> None:
    with open_library(path, options) as library:
        places = [collection.place for collection in library.deletable() if collection.begun]
        root = library.folder().root.path
    if not places:
        raise NotIndexed(
            f"There is no index of {root}.", hint="See what is indexed: lookfar status PATH"
        )
    size = sum(folder_bytes(Path(place)) for place in places)
    question = f"Remove the index of {root} ({size / 1e6:,.1f} MB)? Its files stay."
    if not dry_run:
        if not confirm(safe_name(question), yes=yes, as_json=as_json):
            raise click.Abort
        # A daemon that watches the folder must delete the index itself, or it would rebuild it.
        with connect_library(path, options) as owner:
            places = list(owner.delete())
    if as_json:
        write_json({"root": root, "removed": places, "bytes": size, "dry_run": dry_run})
        return
    for place in places:
        write(safe_name(f"{'Would remove' if dry_run else 'Removed'} {place}"))
