"""Databases of inserted documents, whose store is the only copy of their texts.

Each insert makes one generation, whole or not at all, and is on the disk when it returns. A
database cannot be rolled back: there is no source to read later documents from.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Collection as Several
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from lookfar.collections import ulids
from lookfar.collections.collection import Collection, OpenModel, open_model
from lookfar.collections.inserting import (
    check_document,
    checked_name,
    is_database_name,
    parse_lines,
    tags_of,
)
from lookfar.collections.passes import PATIENCE, require_writer
from lookfar.collections.statuses import describe_status
from lookfar.errors import IndexBusy, IndexCorrupt, InvalidArgument, LookfarError, NotFound
from lookfar.model import Damage, Document, Incomplete, IndexReport, Salvaged, Status
from lookfar.store.ground.files import point_link
from lookfar.store.opening import KIND_OF_DATABASES, open_store, stored_names

if TYPE_CHECKING:
    from lookfar.config import Settings
    from lookfar.index.inserted import DocumentWriter, Inserted
    from lookfar.index.prepare import Prepared
    from lookfar.ports import Embedder, Maker, Snapshot, StoredDocument

_log = logging.getLogger(__name__)

DEFAULT: Final = "vectors"
"""The database that is used if none is named; the first insert creates it."""
SUFFIX: Final = "@documents"
"""Ends the name of a collection of inserted documents."""
_MAX_LOST: Final = 100
"""Lost documents that a repair names."""


@dataclass(frozen=True, slots=True)
class Stored:
    doc_id: str
    chunk_count: int


@dataclass(frozen=True, slots=True)
class Entered:
    """An inserted document with its whole text."""

    doc_id: str
    text: str
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Imported:
    added: int
    replaced: int
    skipped: int
    """Documents that were there already, with the same text and metadata."""
    chunks: int


class Documents(Collection):
    kind = "documents"

    def __init__(self, name: str, settings: Settings, open_model: OpenModel) -> None:
        self.database = checked_name(name)
        store = open_store(Path(settings.documents.dir) / name, settings, KIND_OF_DATABASES)
        super().__init__(
            f"{name}{SUFFIX}", settings, store, open_model=open_model, can_roll_back=False
        )

    def writer(self) -> DocumentWriter:
        """Return the writer of the store, with the settings and model as they are now."""
        from lookfar.index.inserted import DocumentWriter

        return DocumentWriter(
            self.store, self.name, self.settings, self.embedder, _name_chunk, _restore
        )

    @property
    def source_path(self) -> str:
        return str(self.index_dir)

    @property
    def was_indexed(self) -> bool:
        return self.indexed

    # -- writing -----------------------------------------------------------------

    @property
    def exists(self) -> bool:
        return self.store.exists

    def require(self) -> Documents:
        """Return the database itself; raise ``NotFound`` if it does not exist."""
        if not self.store.exists:
            raise NotFound(
                f"There is no database {self.database!r}.",
                hint="Create it first: create_database, or lookfar documents create NAME.",
                details={"database": self.database},
            )
        return self

    def create(self) -> Path:
        """Create the database unless it exists, and return its folder."""
        with self.passes.lock:
            self.writer().create()
        return self.index_dir

    def link_file(self) -> Path:
        """Make ``NAME.db`` beside the folder a link to the database's SQLite file, and return it.

        Return the folder if the database is on a server, another file has that name, or links
        cannot be made.
        """
        link, file = self.index_dir.with_name(f"{self.database}.db"), self.store.file
        taken = os.path.lexists(link) and not self._is_own_link(link)
        if file is None or taken or not point_link(link, file):
            return self.index_dir
        return link

    def _is_own_link(self, link: Path) -> bool:
        return link.is_symlink() and Path(os.readlink(link)).parts[:1] == (self.database,)

    def _renew_link(self) -> None:
        """Let an existing link follow the index into a new epoch."""
        if self._is_own_link(self.index_dir.with_name(f"{self.database}.db")):
            self.link_file()

    def insert(
        self, text: str, metadata: Mapping[str, Any] | None = None, *, doc_id: str = ""
    ) -> Stored:
        """Store a text; it is on the disk, and can be found, when this returns."""
        max_chars = self.settings.documents.max_chars
        document = check_document(doc_id or ulids.new(), text, metadata or {}, max_chars)
        started = time.perf_counter()

        def put() -> tuple[DocumentWriter, list[Prepared], list[str]]:
            with self.passes.lock:
                self._require_named()
                writer = self.writer()
                return writer, *writer.put([document])

        writer, stored, clashing = self.run_healed(put)
        self._renew_link()
        if clashing:
            raise InvalidArgument(
                f"There is a document {document.doc_id!r} with another text.",
                hint="Delete it first, or insert without doc_id.",
                details={"doc_id": document.doc_id},
            )
        chunks = sum(len(prepared.version.chunks) for prepared in stored)
        log_timing("insert", started, self.database, chunks, writer.provider_seconds)
        return Stored(document.doc_id, chunks or self._chunk_count(document.doc_id))

    def delete(self, *doc_ids: str) -> int:
        """Remove documents for good, texts and vectors, and return how many chunks they had.

        If one of them does not exist, none is removed.
        """
        started = time.perf_counter()

        def erase() -> int:
            with self.passes.lock:
                for doc_id in doc_ids:
                    self._refuse_unknown(doc_id)
                return self.writer().erase(list(dict.fromkeys(doc_ids)))

        chunks = self.run_healed(erase)
        log_timing("delete", started, self.database, chunks)
        return chunks

    def import_lines(
        self,
        lines: Iterable[str],
        *,
        replace: bool = False,
        on_documents: Callable[[int], None] | None = None,
    ) -> Imported:
        """Store documents from lines of JSON with ``text`` and optional ``doc_id`` and
        ``metadata``. Documents that are there already are skipped, so an interrupted import can
        be run again; without ``doc_id``, equal documents are the same document.

        A ``doc_id`` that has another text or metadata ends the import, unless ``replace`` is set.
        ``on_documents`` is called with the number of documents done.
        """
        from lookfar.index.prepare import batched

        added = replaced = skipped = chunks = done = 0
        writer = self.writer()

        def store(batch: Sequence[Inserted]) -> tuple[list[Prepared], list[str]]:
            with self.passes.lock:
                return writer.put(batch, replace=replace)

        batches = batched(parse_lines(lines, self.settings.documents.max_chars))
        first = next(batches, None)  # An unreadable first batch leaves no database behind.
        with self.passes.lock:
            writer.create()
        for batch in chain([first] if first else [], batches):
            unique = list({document.doc_id: document for document in batch}.values())
            stored, clashing = self.run_healed(partial(store, unique))
            if clashing and not replace:
                raise InvalidArgument(
                    f"There is a document {clashing[0]!r} with another text or metadata.",
                    hint="Replace it (--replace), or remove that line.",
                    details={"doc_ids": clashing[:100]},
                )
            replaced += len(clashing)
            added += len(stored) - len(clashing)
            skipped += len(batch) - len(stored)
            chunks += sum(len(prepared.version.chunks) for prepared in stored)
            done += len(batch)
            if on_documents is not None:
                on_documents(done)
        return Imported(added, replaced, skipped, chunks)

    def entries(self) -> Iterator[Entered]:
        """Yield every document of one moment, ordered by id."""
        self._require_named()
        if self.store.exists:
            # A crash before the first pointer was written leaves an epoch without a name.
            with suppress(IndexCorrupt):
                self.run_healed(self.store.fingerprint)
        with self._explain_damage():
            for row in self.store.written() if self.store.exists else ():
                yield Entered(row.uri, row.text, json.loads(row.metadata)["metadata"])

    def export_lines(self) -> Iterator[str]:
        """Yield every document as a line of JSON that :meth:`import_lines` accepts."""
        for entry in self.entries():
            record = {"doc_id": entry.doc_id, "text": entry.text, "metadata": entry.metadata}
            yield json.dumps(record, ensure_ascii=False)

    def metadata_of_all(self, doc_ids: Several[str]) -> dict[str, Mapping[str, Any]]:
        """Return the metadata of those documents that exist, by their ids."""
        with self._explain_damage(), self.store.snapshot() as snapshot:
            rows = {doc_id: snapshot.document(doc_id) for doc_id in doc_ids}
            return {doc_id: row["metadata"] for doc_id, row in rows.items() if row is not None}

    def _require_named(self) -> None:
        """Refuse a missing database, except the default one, which is created when needed."""
        if self.database != DEFAULT:
            self.require()

    def _refuse_unknown(self, doc_id: str) -> None:
        self._require_named()
        if self.store.exists:
            with self.store.snapshot() as snapshot:
                if snapshot.document(doc_id) is not None:
                    return
        raise NotFound(
            f"There is no document {doc_id[:100]!r} in the database {self.database!r}.",
            hint="Give a doc_id that insert_document or find_similar_documents returned.",
            details={"doc_id": doc_id[:100], "database": self.database},
        )

    def _chunk_count(self, doc_id: str) -> int:
        with self._explain_damage(), self.store.snapshot() as snapshot:
            return len(snapshot.chunks(doc_id))

    # -- the index ---------------------------------------------------------------

    def index(
        self,
        *,
        rebuild: bool = False,
        only: Several[str] | None = None,  # noqa: ARG002
        wait_seconds: float = 0.0,  # noqa: ARG002
    ) -> IndexReport:
        """Rebuild chunks, keywords and vectors from the stored texts if the settings changed, or
        in any case with ``rebuild``."""
        started = time.perf_counter()
        with self._explain_damage(), self.passes.hold():
            self.require()

            def write(_: float) -> IndexReport:
                changed = self.writer().renew(rebuild=rebuild)
                self._renew_link()
                with self.store.snapshot() as snapshot:
                    generation, size = snapshot.generation, snapshot.size()
                return IndexReport(
                    self.name,
                    self.source_path,
                    generation,
                    changed=changed,
                    unchanged=size - changed,
                    seconds=time.perf_counter() - started,
                )

            return self.passes.run(write)

    def make_maker(self) -> Maker:
        return self.writer().maker()

    def check(self) -> None:
        """Raise ``IndexCorrupt`` if what every answer needs is damaged."""
        with self._explain_damage(), self.store.snapshot():
            pass

    @property
    def kept_aside(self) -> list[str]:
        """Damaged copies that a repair has kept; deleting a document removes them, too."""
        return self.store.kept_aside

    # -- queries -----------------------------------------------------------------

    def freshen(self) -> list[Incomplete]:
        """Rebuild the index if the settings ask for another model; nothing else can be stale."""
        try:
            if self.store.fingerprint() != self.writer().fingerprint:
                require_writer("the database is to be rebuilt for other settings")
                self.index(wait_seconds=PATIENCE)
        except IndexBusy as busy:
            return [Incomplete("stale", f"the database is to be rebuilt: {busy.message}")]
        return []

    def source(self, uri: str) -> str | None:
        with self._explain_damage(), self.store.snapshot() as snapshot:
            return snapshot.text(uri)

    def read_current(self, snapshot: Snapshot, uri: str) -> tuple[Document, bool]:
        from lookfar.collections.read_documents import stored_document

        return stored_document(snapshot, uri), True

    def status(self, *, collection: str = "", check: bool = True) -> Status:  # noqa: ARG002
        """Return what is in the database; there is no source to compare it with."""
        return self.run_healed(
            lambda: describe_status(self, collection, self.writer().fingerprint, None)
        )

    # -- damage ------------------------------------------------------------------

    @property
    def rebuilding(self) -> bool:
        """False: a database is never set aside to be rebuilt."""
        return False

    def heal(self, damage: IndexCorrupt) -> Incomplete:
        """Rebuild keywords and vectors from the texts.

        If the texts are damaged, raise an error: documents may be lost, and only
        :meth:`verify` with ``repair`` salvages the others.
        """
        if self.settings.store.read_only:
            raise self._explain(damage)
        if self.repair_in_place(damage) is not None:
            detail = f"the damaged part of the index was repaired: {damage.developer}"
            return Incomplete("healed", detail)
        try:
            for _ in self.store.written():
                pass
        except LookfarError as worse:
            raise self._explain(damage, worse.developer) from damage
        self.index(rebuild=True)
        detail = f"the index was damaged and has been rebuilt: {damage.developer}"
        return Incomplete("healed", detail)

    @contextmanager
    def _explain_damage(self) -> Iterator[None]:
        """Turn damage that is not healed here into an error that says what to do."""
        try:
            yield
        except IndexCorrupt as damage:
            raise self._explain(damage) from damage

    def _explain(self, damage: IndexCorrupt, worse: str = "") -> IndexCorrupt:
        name = self.database
        return IndexCorrupt(
            f"The database {name!r} is damaged. Nothing was changed.",
            hint="Save what is intact: lookfar verify --repair (it keeps the damaged files)."
            " Or restore a copy of its folder, or import an export.",
            developer="; ".join(dict.fromkeys(filter(None, (damage.developer, worse)))),
            details={**damage.details, "database": name},
        )

    def _repair(self, damage: Sequence[Damage]) -> Salvaged | None:
        """Rebuild derived data; if documents are damaged, salvage all others."""
        try:
            return super()._repair(damage)
        except IndexCorrupt as corrupt:
            with self.passes.lock:
                rescue = self.writer().salvage(corrupt.developer)
            self.store.mend_beside(self.writer().about, wait_seconds=PATIENCE)
            aside = next(iter(self.kept_aside[-1:]), "")
            lost = tuple(sorted(rescue.lost)[:_MAX_LOST])
            return Salvaged(rescue.saved, rescue.missing, lost, aside)

    def close(self) -> None:
        self.store.close()


class Databases:
    """The databases below one folder, opened by name. May be shared by threads."""

    def __init__(
        self, settings: Callable[[], Settings], open_model: OpenModel | None = None
    ) -> None:
        """``open_model`` shares the model of a folder; without it, all databases share one."""
        self._settings = settings
        self._open_model = open_model
        self._own_model: Embedder | None = None
        self._opened: dict[str, Documents] = {}
        self._lock = Lock()

    @property
    def settings(self) -> Settings:
        return self._settings()

    def open(self, name: str = DEFAULT) -> Documents:
        """Return a database, which need not exist, opened with the current settings."""
        settings = self.settings
        with self._lock:
            database = self._opened.get(name)
            if database is None or database.settings != settings:
                if database is not None:
                    database.close()
                database = Documents(name, settings, self._open_model or self.load_model)
                self._opened[name] = database
            return database

    def names(self) -> list[str]:
        settings = self.settings
        names = stored_names(Path(settings.documents.dir), settings, KIND_OF_DATABASES)
        return sorted(filter(is_database_name, names))

    def load_model(self) -> Embedder | None:
        with self._lock:
            if self._own_model is None:
                self._own_model = open_model(self.settings)[0]
            return self._own_model

    def list_open(self) -> list[Documents]:
        """List the databases that were used so far."""
        return list(self._opened.values())

    @property
    def building_since(self) -> str:
        """When the oldest running pass began; empty when none is running."""
        began = [database.building_since for database in list(self._opened.values())]
        return min(filter(None, began), default="")

    @property
    def awake(self) -> bool:
        return any(database.awake for database in list(self._opened.values()))

    def rest(self) -> None:
        self._own_model = None
        for database in list(self._opened.values()):
            database.rest()

    def close(self) -> None:
        for database in list(self._opened.values()):
            database.close()


def log_timing(
    operation: str, started: float, database: str, chunks: int, provider_seconds: float = 0.0
) -> None:
    """Log how long an operation on a database took, and how much of that the model took."""
    elapsed = (time.perf_counter() - started) * 1000
    provider = provider_seconds * 1000
    share = f", of which the model took {provider:.1f} ms" if provider else ""
    _log.info(
        "%s in %s: %g chunks in %.1f ms%s", operation, database, chunks, elapsed, share,
        extra={
            "operation": operation,
            "database": database,
            "ms": round(elapsed, 3),
            "provider_ms": round(provider, 3),
        },
    )  # fmt: skip


def _name_chunk(doc_id: str, ordinal: int, content: bytes) -> bytes:
    return ulids.decode(ulids.derived(doc_id, str(ordinal), content.hex()))


def _restore(row: StoredDocument) -> Inserted:
    from lookfar.index.inserted import Inserted

    metadata: dict[str, Any] = json.loads(row.metadata)["metadata"]
    return Inserted(row.uri, row.text, metadata, ulids.moment_of(row.uri), tags_of(metadata))
