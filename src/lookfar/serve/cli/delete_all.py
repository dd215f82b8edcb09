"""``lookfar delete --all``: remove what Lookfar stored on this machine, and report what stays."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from lookfar.collections.outside.projects import FOLDER_NAME
from lookfar.collections.outside.shelf import Shelf
from lookfar.common.folders import folder_bytes, list_folder, scan_folder
from lookfar.config import Settings, config_file, data_dir, load, tokens_file
from lookfar.errors import how_many
from lookfar.serve.cli.exits import write, write_json
from lookfar.serve.cli.options import confirm
from lookfar.serve.daemon import endpoint
from lookfar.serve.daemon.session_options import parse_settings
from lookfar.serve.show.printable import safe_name
from lookfar.store.ground.files import remove
from lookfar.store.opening import COPIES, KIND_OF_DATABASES

_MARKS: Final = ("CURRENT", "collection.json", "writer.lock")
"""Files that mark a folder as a collection. An index folder may contain other folders, too."""
_OUR_NAME: Final = re.compile(r".+-[0-9a-f]{16}")
"""The name of a collection's folder. Before the first index it may contain only edits."""
_ONLY_COPIES: Final = {
    "database": "the only copy of its documents; to remove it, add --databases",
    "memories": "written by you and your agents; to remove them, add --memories",
}


class _Removable(NamedTuple):
    kind: str
    path: Path

    @property
    def bytes(self) -> int:
        if self.path.is_dir() and not self.path.is_symlink():
            return folder_bytes(self.path)
        return self.path.lstat().st_size


class _Kept(NamedTuple):
    path: str
    reason: str


def delete_everything(
    *, yes: bool, dry_run: bool, as_json: bool, databases: bool, memories: bool,
    index_dir: str | None, settings: tuple[str, ...],
) -> None:  # fmt: skip
    """Remove everything, except databases and memories that are not confirmed on their own."""
    overrides = parse_settings(settings) | ({"index.dir": index_dir} if index_dir else {})
    loaded = load(None, overrides)
    places = list(_list_places(loaded))
    wanted = {"database": databases, "memories": memories}
    if not dry_run:
        _confirm(places, wanted, yes=yes, as_json=as_json)
    removed = [place for place in places if wanted.get(place.kind, True)]
    kept = [
        _Kept(str(place.path), _ONLY_COPIES[place.kind]) for place in places if place not in removed
    ]
    kept += _list_kept(loaded)
    size = sum(place.bytes for place in removed)
    if not dry_run:
        endpoint.daemon_stop()
        for place in removed:
            _remove(place)
        remove(endpoint.runtime_path())  # Asking the daemon to stop creates it.
        _remove_empty_folders(loaded)
    _report(removed, kept, size, dry_run=dry_run, as_json=as_json)


def _list_places(settings: Settings) -> Iterator[_Removable]:
    own = data_dir()
    yield from (_Removable("index", path) for path in _list_collections(Path(settings.index.dir)))
    for folder in _list_copies(settings):
        yield from (_Removable("index", path) for path in _list_collections(folder))
    yield from (
        _Removable("database", path) for path in _list_collections(Path(settings.documents.dir))
    )
    outside = Path(settings.outside.dir)
    yield from (_Removable("source", path) for path in Shelf(outside).list_places())
    if (outside / FOLDER_NAME).is_dir():
        yield _Removable("source", outside / FOLDER_NAME)
    if settings.origin["memory.dir"] == "default":
        yield from (_Removable("memories", path) for path in list_folder(own / "memory"))
    if settings.origin["embed.models_dir"] == "default" and (own / "models").exists():
        yield _Removable("models", own / "models")
    tokens = tokens_file(settings.serve)
    for path in (tokens, tokens.with_name(f".{tokens.name}.lock")):
        if path.exists():
            yield _Removable("tokens", path)
    log = endpoint.daemon_log_path()
    yield from (_Removable("log", path) for path in list_folder(log.parent, f"{log.name}*"))
    if (runtime := endpoint.runtime_path()).exists():
        yield _Removable("daemon", runtime)
    if (backups := own / "setup").exists() and not _has_setup_records():
        yield _Removable("setup", backups)


def _list_copies(settings: Settings) -> list[Path]:
    """Return the folders with copies of collections on servers."""
    servers = list_folder(Path(settings.index.dir) / COPIES)
    return [folder for server in servers for folder in (server / KIND_OF_DATABASES, server)]


def _list_collections(folder: Path) -> list[Path]:
    return [
        path
        for path in list_folder(folder)
        if not path.is_symlink()
        and (
            any((path / mark).is_file() for mark in _MARKS)
            or (_OUR_NAME.fullmatch(path.name) and (path / "edits" / "lock").is_file())
        )
    ]


def _has_setup_records() -> bool:
    from lookfar.serve.setup.backups import Backups

    return bool(Backups().list_records())


def _list_kept(settings: Settings) -> Iterator[_Kept]:
    if config_file().exists():
        yield _Kept(str(config_file()), "your settings")
    if _has_setup_records():
        yield _Kept(
            str(data_dir() / "setup"),
            "needed to restore the settings of clients; run lookfar setup --undo, then this again",
        )
    if settings.origin["memory.dir"] != "default":
        yield _Kept(settings.memory.dir, "the folder for memories that you chose (memory.dir)")
    if settings.origin["embed.models_dir"] != "default":
        yield _Kept(settings.embed.models_dir, "the folder for models that you chose")
    if settings.store.url:
        yield _Kept(settings.store.url, "a server, which others may use")
    yield _Kept("your folders", "their documents, lookfar.toml files and memories in projects")
    yield _Kept("other places", "indexes in folders that were given with --index-dir")


def _confirm(
    places: list[_Removable], wanted: dict[str, bool], *, yes: bool, as_json: bool
) -> None:
    """Ask about everything, and on a terminal about databases and memories on their own."""
    indexes = sum(place.kind == "index" for place in places)
    question = (
        f"Remove the indexes of {how_many(indexes, 'collection')}, and all fetched sources,"
        " tokens, models and logs?"
    )
    if not confirm(question, yes=yes, as_json=as_json):
        raise click.Abort
    if yes or as_json or not sys.stdin.isatty():
        return
    for kind, question in (
        ("database", "Also remove {}? They are the only copy of their documents."),
        ("memories", "Also remove the memories of {}? There is no other copy."),
    ):
        count = sum(place.kind == kind for place in places)
        noun = "database" if kind == "database" else "folder"
        if count and not wanted[kind]:
            wanted[kind] = click.confirm(question.format(how_many(count, noun)), err=True)


def _remove(place: _Removable) -> None:
    from lookfar.store.sqlite.store import CollectionStore

    if place.kind in ("index", "database"):
        # Takes the lock of the writer, and fails if another process is writing.
        CollectionStore(place.path, only_copy=place.kind == "database").delete()
    remove(place.path)


def _remove_empty_folders(settings: Settings) -> None:
    own, state = data_dir(), endpoint.daemon_log_path().parent
    named = ("documents", "memory", "sources")
    indexes, copies = Path(settings.index.dir), _list_copies(settings)
    copies += [indexes / COPIES] if copies else []
    for folder in (*copies, *(own / name for name in named), own, state, indexes):
        if folder.is_dir() and not scan_folder(folder):
            folder.rmdir()


def _report(
    removed: list[_Removable], kept: list[_Kept], size: int, *, dry_run: bool, as_json: bool
) -> None:
    if as_json:
        shape: dict[str, Any] = {
            "removed": [{"kind": place.kind, "path": str(place.path)} for place in removed],
            "kept": [entry._asdict() for entry in kept],
            "bytes": size,
            "dry_run": dry_run,
        }
        write_json(shape)
        return
    verb = "Would remove" if dry_run else "Removed"
    for place in removed:
        write(safe_name(f"{verb} {place.path} ({place.kind})"))
    write(f"{verb} {size / 1e6:,.1f} MB.")
    for entry in kept:
        write(safe_name(f"Kept {entry.path}: {entry.reason}"))
