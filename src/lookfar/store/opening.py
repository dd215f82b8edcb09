"""Open the store of a collection: a folder of its own, or a shared server.

Opening connects to nothing; an unreachable server raises when it is first used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lookfar.common.folders import list_folder
from lookfar.store.sqlite.store import CollectionStore

if TYPE_CHECKING:
    from lookfar.config import Settings
    from lookfar.model import Damage, GenerationDiff
    from lookfar.store.catalogue.erasing import MakeTerms, StoredDocument
    from lookfar.store.catalogue.generations import Generation
    from lookfar.store.health.repair import Maker
    from lookfar.store.health.salvage import Digest, Rescue
    from lookfar.store.health.verify import OnStep
    from lookfar.store.shared.snapshot import StoredSnapshot
    from lookfar.store.shared.write_session import WriteSession


KIND_OF_DATABASES = "documents"
"""The kind of collection whose store is the only copy of its documents."""


class Store(Protocol):
    """The store of one collection."""

    folder: Path
    """The folder for what belongs to this machine alone."""

    @property
    def place(self) -> str:
        """Where the index is, for people."""
        ...

    @property
    def file(self) -> Path | None:
        """The SQLite file of the serving index; None without one, or on a server."""
        ...

    @property
    def present(self) -> bool:
        """Whether there is anything of it, finished or not."""
        ...

    @property
    def exists(self) -> bool: ...

    def fingerprint(self) -> str: ...

    def snapshot(self, generation: int | None = None) -> AbstractContextManager[StoredSnapshot]: ...

    def generations(self) -> list[Generation]: ...

    def history(self) -> tuple[int, list[Generation]]: ...

    def held(self) -> int | None: ...

    def diff(self, older: int, newer: int) -> GenerationDiff: ...

    def roll_back(self, number: int, *, wait_seconds: float = 0.0) -> None: ...

    def pin(self, number: int, *, pinned: bool = True, wait_seconds: float = 0.0) -> None: ...

    def unpin(self, number: int, *, wait_seconds: float = 0.0) -> None: ...

    def prune(self, keep: int, *, wait_seconds: float = 0.0) -> tuple[int, int]: ...

    def verify(self, on_step: OnStep | None = None) -> list[Damage]: ...

    def mend_beside(self, about: Mapping[str, Any], wait_seconds: float = 0.0) -> None: ...

    def repair(self, maker: Maker, why: str, wait_seconds: float = 0.0) -> list[str] | None: ...

    def salvage(
        self,
        fingerprint: str,
        dimensions: int,
        digest: Digest,
        *,
        about: Mapping[str, Any],
        retain: int,
        why: str,
        wait_seconds: float = 0.0,
    ) -> AbstractContextManager[tuple[WriteSession, Rescue]]: ...

    @property
    def kept_aside(self) -> list[str]: ...

    def set_aside(self, why: str, wait_seconds: float = 0.0) -> None: ...

    def delete(self, besides: Collection[str] = (), wait_seconds: float = 0.0) -> None: ...

    def erase(
        self,
        uris: Sequence[str],
        make_terms: MakeTerms,
        manifest: Mapping[str, Any],
        *,
        retain: int,
        wait_seconds: float = 0.0,
    ) -> int: ...

    def finish_erasing(self, make_terms: MakeTerms, *, wait_seconds: float = 0.0) -> None: ...

    def written(self) -> Iterator[StoredDocument]: ...

    def refuse_busy(self) -> None: ...

    def damage(self) -> str: ...

    def writer(
        self,
        fingerprint: str,
        dimensions: int,
        *,
        model: str = "",
        about: Mapping[str, Any],
        retain: int,
        rebuild: bool = False,
        wait_seconds: float = 0.0,
        let_go: bool = True,
    ) -> AbstractContextManager[WriteSession]: ...

    def about(self) -> dict[str, Any]: ...

    def disk_bytes(self) -> int: ...

    def close(self) -> None: ...


def stored_names(folder: Path, settings: Settings, kind: str) -> list[str]:
    """Return the names of the collections of a ``kind``, in ``folder`` or on the server."""
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
    return PostgresStore(server, f"{kind}/{folder.name}" if kind else folder.name, folder)
