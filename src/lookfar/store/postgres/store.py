"""The store of one collection on a server: rows there, searched in a copy on this machine.

Each question asks the server which state serves, and brings the copy to it first. Writers work in
the copy, too, and send what they commit to the server, which commits first. The writer is chosen
by an advisory lock of the server, which is released with its connection.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from psycopg import Connection

from lookfar.errors import (
    IndexBusy,
    IndexCorrupt,
    LookfarError,
    NotIndexed,
    StoreUnavailable,
    being_rebuilt,
)
from lookfar.model import Damage, GenerationDiff
from lookfar.ports import Digest, Generation, Maker, OnStep, StoredDocument
from lookfar.store.catalogue import rows as catalog
from lookfar.store.ground import files as disk
from lookfar.store.health.salvage import Rescue
from lookfar.store.postgres import registry
from lookfar.store.postgres.local_copy import PATIENCE, LocalCopy
from lookfar.store.postgres.mirror import Mirror
from lookfar.store.postgres.quality import ServerQualityWriter
from lookfar.store.postgres.server import Server, Serving
from lookfar.store.sqlite.folder import CURRENT
from lookfar.store.sqlite.snapshot import EpochSnapshot
from lookfar.store.sqlite.write_session import EpochWriter
from lookfar.store.vectors.vector_file import COARSE_ABOVE

_DATABASES: Final = "documents/"
"""Prefix of the names of collections that are the only copy of their documents."""

T = TypeVar("T")


class PostgresStore:
    def __init__(
        self,
        server: Server,
        name: str,
        folder: Path,
        copies: Path,
        coarse_above: int = COARSE_ABOVE,
    ) -> None:
        """``folder`` is for what belongs to this machine alone; it need not exist. The copy is in
        ``copies``, which all collections and servers share."""
        self.folder = folder
        self.name = name
        self.outdated = ""
        self._only_copy = name.startswith(_DATABASES)
        self._server = server
        self._mirror = Mirror(name)
        self._copy = LocalCopy(copies / server.key / name, coarse_above, self._mirror)
        self._seen: int | None = None
        """The number last read or written here: if damage is found, it is in this one."""

    # -- following -----------------------------------------------------------------

    def _current(self) -> LocalCopy:
        """Return the copy, with the state that serves; if the server is away, as it was."""
        try:
            serving = self._server.serving(self.name)
            if serving is None or not self._is_current(serving):
                self._copy.follow(self._server, self.name)
        except StoreUnavailable as error:
            if not self._copy.exists:
                raise
            self.outdated = f"{error.message} This answer is from the copy of {self._age()}."
            return self._copy
        if serving is None or not self._copy.exists:
            raise self._explain_missing()
        if self._seen is None:
            self._copy.finish_erasing()  # If the process was killed before it was done.
        with suppress(StoreUnavailable, IndexBusy):  # No question waits for them.
            self._copy.follow_quality(self._server, serving)
        self._seen, self.outdated = serving.collection, ""
        with suppress(OSError):  # When the copy was last known to be current.
            os.utime(self._copy.folder / CURRENT)
        return self._copy

    def _is_current(self, serving: Serving) -> bool:
        return self._copy.is_current(serving, replica=self._server.reads_replica)

    def _age(self) -> str:
        """Return when this machine last compared its copy with the server."""
        seconds = (self._copy.folder / CURRENT).stat().st_mtime
        return datetime.fromtimestamp(seconds, UTC).isoformat(" ", "seconds")

    def _explain_missing(self) -> LookfarError:
        if not self._only_copy and self.damage():
            return being_rebuilt()
        return NotIndexed(
            "This folder has not been indexed yet.",
            hint="Run: lookfar index PATH",
            developer=f"nothing serves as {self.name}",
        )

    @contextmanager
    def _reading(self) -> Iterator[LocalCopy]:
        """Lend the current copy; one that turns out to be damaged is fetched again."""
        copy = self._current()
        try:
            yield copy
        except IndexCorrupt as damage:
            remaining = copy.fetch(self._server, self.name, lambda _: None)
            if remaining:
                raise self._describe_damage(remaining) from damage
            raise IndexBusy(
                "This machine's copy of the index was damaged, and has been fetched again.",
                hint="Try again.",
                developer=damage.developer,
                details={"rebuilding": True, "since": ""},
            ) from damage

    def _describe_damage(self, damage: Sequence[Damage]) -> IndexCorrupt:
        return catalog.corrupt_place_error(
            str(self.folder), "; ".join(f"{entry.artefact}: {entry.detail}" for entry in damage)
        )

    # -- reading -------------------------------------------------------------------

    @property
    def place(self) -> str:
        return f"{self._server.url}#{self.name}"

    @property
    def file(self) -> Path | None:
        """None: the file on this machine is only a copy."""
        return None

    @property
    def present(self) -> bool:
        return self.exists

    @property
    def exists(self) -> bool:
        try:
            return self._server.serving(self.name) is not None
        except StoreUnavailable:
            if not self._copy.exists:
                raise
            return True

    def fingerprint(self) -> str:
        return self._ask(LocalCopy.fingerprint)

    def _ask(self, ask: Callable[[LocalCopy], T]) -> T:
        with self._reading() as copy:
            return ask(copy)

    @contextmanager
    def snapshot(self, generation: int | None = None) -> Iterator[EpochSnapshot]:
        with self._reading() as copy, copy.snapshot(generation) as snapshot:
            yield snapshot

    def generations(self) -> list[Generation]:
        return self._ask(LocalCopy.generations)

    def history(self) -> tuple[int, list[Generation]]:
        return self._ask(LocalCopy.history)

    def held(self) -> int | None:
        return self._ask(LocalCopy.held)

    def diff(self, older: int, newer: int) -> GenerationDiff:
        return self._ask(lambda copy: copy.diff(older, newer))

    def written(self) -> Iterator[StoredDocument]:
        with self._reading() as copy:
            yield from copy.written()

    def about(self) -> dict[str, Any]:
        try:
            serving = self._server.serving(self.name)
        except StoreUnavailable:
            return self._copy.about()
        return {} if serving is None else dict(serving.about)

    def disk_bytes(self) -> int:
        """Return the size of the copy on this machine."""
        return self._ask(LocalCopy.disk_bytes)

    def verify(self, on_step: OnStep | None = None) -> list[Damage]:
        """Fetch everything from the server again and compare it with its hashes; what is sound
        replaces the copy."""
        self._current()
        return self._copy.fetch(self._server, self.name, on_step or (lambda _: None))

    def has_quality(self, model: str, dimensions: int) -> bool:
        return self._ask(lambda copy: copy.has_quality(model, dimensions))

    @contextmanager
    def quality_writer(self, model: str, dimensions: int) -> Iterator[ServerQualityWriter]:
        copy = self._current()
        with (
            self._server.locked(f"{self.name}/quality", 0.0) as raw,
            copy.server_quality_writer(raw, model, dimensions) as writer,
        ):
            yield writer

    def close(self) -> None:
        self._copy.close()

    # -- writing -------------------------------------------------------------------

    @contextmanager
    def _writing(
        self,
        wait_seconds: float,
        about: Mapping[str, Any] | None = None,
        *,
        why_damaged: str = "",
    ) -> Iterator[tuple[LocalCopy, Connection[Any]]]:
        """Hold the writer lock of the server, with the copy at its state.

        No other process writes to the copy then; its own lock is held by followers, for a while.
        """
        with self._server.locked(self.name, wait_seconds) as raw:
            self._copy.follow(self._server, self.name, raw)
            if why_damaged:
                registry.record_damage(raw, self.name, why_damaged)
            with self._mirror.writing_to(raw, about, keep_replaced=bool(why_damaged)):
                yield self._copy, raw
            self._seen = self._copy.number

    @contextmanager
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
    ) -> Iterator[EpochWriter]:
        with (
            self._writing(wait_seconds, about) as (copy, _),
            copy.writer(
                fingerprint,
                dimensions,
                model=model,
                about=about,
                retain=retain,
                rebuild=rebuild,
                wait_seconds=PATIENCE,
                let_go=let_go,
            ) as session,
        ):
            yield session

    def roll_back(self, number: int, *, wait_seconds: float = 0.0) -> None:
        self._current()  # Creates nothing: what was never indexed has no lock either.
        with self._writing(wait_seconds) as (copy, _):
            copy.roll_back(number, wait_seconds=PATIENCE)

    def pin(self, number: int, *, pinned: bool = True, wait_seconds: float = 0.0) -> None:
        self._current()
        with self._writing(wait_seconds) as (copy, _):
            copy.pin(number, pinned=pinned, wait_seconds=PATIENCE)

    def prune(self, keep: int, *, wait_seconds: float = 0.0) -> tuple[int, int]:
        self._current()
        with self._writing(wait_seconds) as (copy, _):
            return copy.prune(keep, wait_seconds=PATIENCE)

    def refuse_busy(self) -> None:
        with self._server.locked(self.name, 0.0):
            pass

    # -- removing ------------------------------------------------------------------

    def erase(
        self, uris: Sequence[str], manifest: Mapping[str, Any], *,
        retain: int, wait_seconds: float = 0.0,
    ) -> int:  # fmt: skip
        """Remove documents and every trace of them; other copies do so before their next answer.

        Return how many chunks went.
        """
        self._current()
        with self._writing(wait_seconds) as (copy, raw):
            registry.remove_collections(raw, registry.list_set_aside(raw, self.name))
            return copy.erase(uris, manifest, retain=retain, wait_seconds=PATIENCE)

    def finish_erasing(self, *, wait_seconds: float = 0.0) -> None:
        self._copy.finish_erasing(wait_seconds=wait_seconds)

    def delete(self, besides: Collection[str] = (), wait_seconds: float = 0.0) -> None:
        """Remove the index, and the files ``besides`` that others keep on this machine for it."""
        with self._server.locked(self.name, wait_seconds) as raw:
            registry.remove_all(raw, self.name)
            raw.execute("DELETE FROM damage WHERE name = %s", (self.name,))
            self._copy.delete()
        for name in besides:
            disk.remove(self.folder / name)
        with suppress(OSError):
            self.folder.rmdir()

    # -- damage --------------------------------------------------------------------

    def damage(self) -> str:
        with suppress(StoreUnavailable), self._server.reading() as raw:
            return registry.last_damage(raw, self.name)
        return ""

    @property
    def kept_aside(self) -> list[str]:
        with self._server.reading() as raw:
            return [
                f"{self._server.url}#{registry.DAMAGED}{self.name}, {number}"
                for number in registry.list_set_aside(raw, self.name)
            ]

    def mend_beside(self, about: Mapping[str, Any], wait_seconds: float = 0.0) -> None:
        """Rewrite what this is an index of; nothing else is stored beside a collection here."""
        with self._server.locked(self.name, wait_seconds) as raw:
            raw.execute(
                "UPDATE collections SET about = %s WHERE name = %s",
                (json.dumps(about, sort_keys=True), self.name),
            )

    def repair(self, maker: Maker, why: str, wait_seconds: float = 0.0) -> None:
        """Do nothing: a damaged copy is fetched again, and the server has nothing derived."""
        del maker, why, wait_seconds

    def set_aside(self, why: str, wait_seconds: float = 0.0) -> None:
        """Remove a damaged index; refused where it is the only copy of inserted documents.

        Does nothing if another process has replaced it meanwhile.
        """
        if self._only_copy:
            raise catalog.corrupt_place_error(str(self.folder), why)
        if self._seen is None:
            serving = self._server.serving(self.name)
            self._seen = serving.collection if serving else None
        damaged = self._seen
        with self._server.locked(self.name, wait_seconds) as raw:
            numbers = registry.list_numbers(raw, self.name)
            if numbers and numbers[-1] != damaged:
                return
            registry.record_damage(raw, self.name, why)
            registry.remove_all(raw, self.name)
            self._copy.delete()

    @contextmanager
    def salvage(
        self, fingerprint: str, dimensions: int, digest: Digest, *, about: Mapping[str, Any],
        retain: int, why: str, wait_seconds: float = 0.0,
    ) -> Iterator[tuple[EpochWriter, Rescue]]:  # fmt: skip
        """Open a session on a new number, with the intact documents of the damaged one to fill it.

        The damaged rows stay, under a name that no reader asks for.
        """
        with ExitStack() as stack:
            copy, _ = stack.enter_context(self._writing(wait_seconds, about, why_damaged=why))
            session = copy.salvage(
                fingerprint, dimensions, digest, about=about, retain=retain, why=why,
                wait_seconds=PATIENCE,
            )  # fmt: skip
            yield stack.enter_context(session)
            stack.callback(copy.drop_set_aside)
