"""Write inserted documents into their store: put, erase, and rebuild.

Each call is stored completely or not at all, and is on disk when it returns. The store is the
only copy of these documents. So when the model, a chunk size or the format changes, the new
epoch is made from the texts of the previous one.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final
from zlib import compress

from lookfar.common.caller import Progress, check_cancelled, report_progress
from lookfar.common.lines import Lines
from lookfar.common.properties import VERSION as PROPERTIES
from lookfar.common.properties import list_properties
from lookfar.config import Settings
from lookfar.embed.providers import WITHOUT_MODEL
from lookfar.errors import IndexCorrupt
from lookfar.index.prepare import FASTEST, CheckpointTimer, Prepared, batched, embed, make_maker
from lookfar.index.recipe import describe_format
from lookfar.model import Fingerprint
from lookfar.ports import (
    ChunkedDocument,
    ChunkRow,
    Embedder,
    Maker,
    Rescue,
    Store,
    StoredDocument,
    Streams,
    Version,
    Writer,
)
from lookfar.store.catalogue.migrations import FORMAT
from lookfar.store.keywords.analyser import TERMS, analyse
from lookfar.store.keywords.fields import FIELDS, NAMES, PAGE_FIELDS
from lookfar.text.chunk.identity import content_name
from lookfar.text.chunk.sentences import VERSION, split_sentences

_log = logging.getLogger(__name__)

PATIENCE: Final = 60.0
"""Seconds to wait for another writer."""
_TITLE_SHOWN = 80
_BODY = FIELDS.index("body")


@dataclass(frozen=True, slots=True)
class Inserted:
    """A document as the client sent it, with its ID."""

    doc_id: str
    text: str
    metadata: Mapping[str, Any]
    created_ms: int
    tags: tuple[str, ...]

    @property
    def stored_metadata(self) -> str:
        """The JSON stored with the text; equal metadata gives equal JSON."""
        return json.dumps(
            {"metadata": self.metadata}, ensure_ascii=False, sort_keys=True, separators=(",", ":")
        )

    @property
    def digest(self) -> bytes:
        """A hash of the text and its metadata."""
        return sha256(f"{self.stored_metadata}\0{self.text}".encode()).digest()


ChunkIds = Callable[[str, int, bytes], bytes]
"""Makes the 16-byte ID of a chunk from the document's ID, the chunk's number and its content."""


def documents_fingerprint(settings: Settings, embedder: Embedder | None) -> str:
    """Return a hash that is equal for settings whose documents can share an epoch."""
    sizes = settings.documents
    model = embedder.fingerprint if embedder else WITHOUT_MODEL
    recipe = f"documents; format {FORMAT}; sentences {VERSION}; {sizes.chunk_chars}"
    recipe += f" {sizes.overlap_chars}; model {model}; terms {TERMS} in"
    recipe += f" {' '.join((*FIELDS, *PAGE_FIELDS))}; properties {PROPERTIES}"
    return sha256(recipe.encode()).hexdigest()[:32]


# --- preparing ------------------------------------------------------------------------------------


def prepare_document(document: Inserted, size: int, overlap: int, name: ChunkIds) -> Prepared:
    """Prepare everything about one document except its vectors."""
    text, lines = document.text, Lines(document.text)
    spans = [
        piece for piece in split_sentences(text, size, overlap) if text[piece[0] : piece[1]].strip()
    ]
    rows: list[ChunkRow] = []
    texts: dict[bytes, str] = {}
    for ordinal, (start, end, overlapping) in enumerate(spans):
        passage = text[start:end]
        content = content_name("", (), passage)
        span = lines.span(start, end)
        rows.append(
            (name(document.doc_id, ordinal, content), content, 0, "", start, end, span.start_line,
             span.end_line, overlapping, ordinal + 1, len(spans), sha256(passage.encode()).digest())
        )  # fmt: skip
        texts[content] = passage.strip()
    encoded = text.encode("utf-8")
    title, metadata = _make_title(document), document.stored_metadata
    names, entries = analyse_inserted(
        ChunkedDocument(title, metadata, text, [(start, end) for start, end, _ in spans])
    )
    created_ns = document.created_ms * 1_000_000
    version = Version(
        uri=document.doc_id,
        lane="documents",
        language="text",
        title=title,
        body=0,
        metadata=metadata,
        warnings=(),
        tags=document.tags,
        fingerprint=Fingerprint(len(encoded), created_ns, created_ns, 0),
        settled=True,
        raw_sha=document.digest,
        text_sha=sha256(encoded).digest(),
        text=compress(encoded, FASTEST),
        text_bytes=len(encoded),
        sections=[],
        chunks=rows,
        links=[],
        names=[],
        name_terms=tuple(names),
        entries=[tuple(entry) for entry in entries],
        embedded={},
        properties=[(*row,) for row in list_properties(document.metadata, tags=document.tags)],
    )
    return Prepared(version, texts)


def analyse_inserted(written: ChunkedDocument) -> Streams:
    """Return the keyword terms of a document's title and of each of its chunks."""
    title = json.loads(written.metadata).get("metadata", {}).get("title")
    names = [""] * len(NAMES)
    # A title that was made from the text is matched in the text.
    if isinstance(title, str):
        names[NAMES.index("title")] = analyse(written.title)
    entries: list[list[str]] = []
    for start, end in written.spans:
        entry = [""] * len(FIELDS)
        entry[_BODY] = analyse(written.text[start:end])
        entries.append(entry)
    return names, entries


def _make_title(document: Inserted) -> str:
    """Return the title in the metadata, or the beginning of the text."""
    title = document.metadata.get("title")
    if not isinstance(title, str) or not title.strip():
        title = document.text[:1_000]
    title = " ".join(title.split())
    return title if len(title) <= _TITLE_SHOWN else f"{title[: _TITLE_SHOWN - 1]}…"


# --- writing --------------------------------------------------------------------------------------


class DocumentWriter:
    def __init__(
        self,
        store: Store,
        collection: str,
        settings: Settings,
        embedder: Embedder | None,
        name: ChunkIds,
        restore: Callable[[StoredDocument], Inserted],
    ) -> None:
        """``restore`` turns a stored document back into what was inserted."""
        self._store = store
        self._collection = collection
        self._settings = settings
        self._embedder = embedder
        self._name = name
        self._restore = restore
        self.provider_seconds = 0.0
        """How long embedding took in total."""

    def create(self) -> None:
        """Create an empty database unless one exists."""
        if not self._store.exists:
            self.renew()

    def put(
        self, documents: Sequence[Inserted], *, replace: bool = False
    ) -> tuple[list[Prepared], list[str]]:
        """Store documents, all or none.

        Return the documents that were stored, and the IDs that exist with other content. Without
        ``replace``, one such ID means that nothing is stored.
        """
        self._store.finish_erasing(wait_seconds=PATIENCE)
        known = self._read_hashes(documents)
        new = [document for document in documents if known.get(document.doc_id) != document.digest]
        clashing = [document.doc_id for document in new if document.doc_id in known]
        if not new or (clashing and not replace):
            return [], clashing
        prepared = [self._prepare(document) for document in new]
        # Before taking the lock: a remote model may be slow, and other writers would wait.
        self._embed(prepared)
        with self._open_writer() as writer:
            if writer.fresh:
                self._carry_over(writer)
            existing = writer.known([document.doc_id for document in new]).keys() - set(clashing)
            prepared = [item for item in prepared if item.version.uri not in existing]
            for item in prepared:
                version = item.version
                lacking = writer.missing(version.embedded)
                version.embedded = {name: version.embedded[name] for name in lacking}
                writer.put(version)
            if clashing:
                writer.erase(clashing, dead=True)
            writer.activate(self._make_manifest(added=len(prepared)))
        if clashing:
            self._store.finish_erasing(wait_seconds=PATIENCE)
        return prepared, clashing

    def erase(self, doc_ids: Sequence[str]) -> int:
        """Erase documents permanently and return how many chunks they had."""
        self._store.finish_erasing(wait_seconds=PATIENCE)
        return self._store.erase(
            doc_ids,
            self._make_manifest(removed=len(doc_ids)),
            retain=self._settings.index.retain_generations,
            wait_seconds=PATIENCE,
        )

    def renew(self, *, rebuild: bool = False) -> int:
        """Build the epoch that the settings ask for from the texts of the serving one.

        Return how many documents it has, or 0 if that epoch is serving already.
        """
        with self._open_writer(rebuild=rebuild) as writer:
            if not writer.fresh:
                return 0
            done = self._carry_over(writer)
            writer.activate(self._make_manifest(added=done))
        return done

    def salvage(self, why: str) -> Rescue:
        """Build a new epoch from the documents of a damaged one that still match their hash.

        The damaged epoch is kept aside. Return what was saved and what was lost.
        """

        def digest(stored: StoredDocument) -> bytes:
            return sha256(f"{stored.metadata}\0{stored.text}".encode()).digest()

        with self._store.salvage(
            self.fingerprint,
            self._embedder.dimensions if self._embedder else 1,
            digest,
            about=self.about,
            retain=self._settings.index.retain_generations,
            why=why,
            wait_seconds=PATIENCE,
        ) as (writer, rescue):
            done = self._fill(writer, rescue.documents())
            # An empty database would look like one that never had documents.
            if not done and not rescue.complete:
                raise IndexCorrupt(
                    "No document of the damaged database could be recovered.",
                    hint="Nothing was changed. Restore a copy of its folder, or import an export.",
                    developer=why,
                    details={"path": str(self._store.folder)},
                )
            writer.activate(self._make_manifest(added=done))
        return rescue

    def _carry_over(self, writer: Writer) -> int:
        """Copy the documents of the serving epoch into a new one."""
        if not self._store.exists:
            return 0
        done = writer.known()
        rest = (stored for stored in self._store.written() if stored.uri not in done)
        return self._fill(writer, rest, checkpoints=True) + len(done)

    def _fill(
        self,
        writer: Writer,
        documents: Iterable[StoredDocument],
        *,
        checkpoints: bool = False,
    ) -> int:
        """Store documents in a new epoch and return how many there are."""
        timer = CheckpointTimer()
        done = size = 0
        for batch in batched(map(self._restore, documents)):
            check_cancelled()
            prepared = [self._prepare(document) for document in batch]
            self._embed(prepared, writer)
            for item in prepared:
                writer.put(item.version)
                size += item.version.text_bytes
            done += len(batch)
            if checkpoints:
                timer.run_if_due(writer.checkpoint)
            report_progress(Progress(done, done, size, size))
        return done

    @property
    def fingerprint(self) -> str:
        return documents_fingerprint(self._settings, self._embedder)

    def maker(self) -> Maker:
        """Return a maker that derives entries and vectors from the stored texts."""

        def prepare_stored(stored: StoredDocument) -> Prepared:
            return self._prepare(self._restore(stored))

        return make_maker(self.fingerprint, prepare_stored, self._embedder, sources=False)

    def _open_writer(self, *, rebuild: bool = False) -> AbstractContextManager[Writer]:
        return self._store.writer(
            self.fingerprint,
            self._embedder.dimensions if self._embedder else 1,
            about=self.about,
            retain=self._settings.index.retain_generations,
            rebuild=rebuild,
            wait_seconds=PATIENCE,
            # A database is never rolled back, and a damaged epoch could not be asked.
            let_go=rebuild,
        )

    @property
    def about(self) -> dict[str, str]:
        """The root and collection name that the store records."""
        return {"root": str(self._store.folder), "collection": self._collection}

    def _read_hashes(self, documents: Sequence[Inserted]) -> dict[str, bytes]:
        if not self._store.exists:
            return {}
        with self._store.snapshot() as snapshot:
            rows = ((document.doc_id, snapshot.document(document.doc_id)) for document in documents)
            return {doc_id: row["raw_sha"] for doc_id, row in rows if row is not None}

    def _prepare(self, document: Inserted) -> Prepared:
        sizes = self._settings.documents
        return prepare_document(document, sizes.chunk_chars, sizes.overlap_chars, self._name)

    def _embed(self, prepared: Sequence[Prepared], writer: Writer | None = None) -> None:
        started = time.perf_counter()
        # Without a writer embed everything: vectors that exist now may be erased before writing.
        count = embed(prepared, self._embedder, writer.missing if writer is not None else set)
        seconds = time.perf_counter() - started
        self.provider_seconds += seconds
        if count:
            _log.info("embedded %d chunks in %.1f ms", count, seconds * 1000)

    def _make_manifest(self, **counts: int) -> dict[str, Any]:
        zeros = {"added": 0, "changed": 0, "removed": 0, "failures": 0}
        return {**describe_format(self._embedder), **zeros, **counts}
