"""Open the store of a collection: a folder of its own, or a shared server.

Opening connects to nothing; an unreachable server raises when it is first used.
"""

from __future__ import annotations

from pathlib import Path

from lookfar.common.folders import list_folder
from lookfar.config import Settings
from lookfar.ports import Store
from lookfar.store.sqlite.store import CollectionStore

KIND_OF_DATABASES = "documents"
"""The kind of collection whose store is the only copy of its documents."""


COPIES = "copies"
"""The folder of indexes with this machine's copies of collections on servers."""


def stored_names(folder: Path, settings: Settings, kind: str) -> list[str]:
    """Return the names of the collections of this kind that exist, on this machine or on the
    server."""
    chosen = settings.store
    if not chosen.url:
        # This includes a database whose pointer is lost: its documents are not.
        return sorted(
            path.name for path in list_folder(folder) if open_store(path, settings, kind).exists
        )
    from lookfar.store.postgres.server import server_at

    names = server_at(chosen.url, chosen.read_url, chosen.connections).names()
    return [name.removeprefix(f"{kind}/") for name in names if name.startswith(f"{kind}/")]


def open_store(folder: Path, settings: Settings, kind: str = "") -> Store:
    """Open the store of the collection that is named like its ``folder`` and has this ``kind``."""
    chosen = settings.store
    if not chosen.url:
        return CollectionStore(
            folder, settings.index.coarse_above, only_copy=kind == KIND_OF_DATABASES
        )
    from lookfar.store.postgres.server import server_at
    from lookfar.store.postgres.store import PostgresStore

    server = server_at(chosen.url, chosen.read_url, chosen.connections)
    name = f"{kind}/{folder.name}" if kind else folder.name
    copies = Path(settings.index.dir) / COPIES
    return PostgresStore(server, name, folder, copies, settings.index.coarse_above)
