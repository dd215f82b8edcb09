"""Inserted texts into the store that is their only home: put, erase, and make anew.

Takes: a store, settings, an embedder, and documents as they were given. Gives: generations;
each call is stored whole or not at all, and is on the disk when it returns. Refuses: nothing
that a document says; what may be inserted is for the collection to decide.

A model, a chunk size or a format that changed asks for another epoch, as everywhere. Here it
is made from the texts of the one before it.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar
from zlib import compress

from lookfar.common.lines import Lines
from lookfar.embed.providers import WITHOUT_MODEL
from lookfar.errors import IndexCorrupt
from lookfar.index.prepare import Prepared, embed
from lookfar.index.progress import CheckpointTimer, OnProgress, Progress
from lookfar.index.rederive import maker_of
from lookfar.model import Fingerprint
from lookfar.ports import ChunkRow, Streams, Version
from lookfar.store.catalogue.erasing import ChunkedDocument
from lookfar.store.catalogue.migrations import FORMAT
from lookfar.store.keywords.analyser import TERMS, analyse
from lookfar.store.keywords.tantivy_index import FIELDS, NAMES, PAGE_FIELDS
from lookfar.text.chunk.identity import content_name
from lookfar.text.chunk.sentences import VERSION, pieces

if TYPE_CHECKING:
    from lookfar.config import Settings
    from lookfar.ports import Embedder
    from lookfar.store.catalogue.erasing import StoredDocument
    from lookfar.store.health.repair import Maker
    from lookfar.store.health.salvage import Rescue
    from lookfar.store.opening import Store
    from lookfar.store.sqlite.write_session import EpochWriter

T = TypeVar("T")

_log = logging.getLogger(__name__)

PATIENCE: Final = 60.0
"""Seconds that a writer waits for others."""
_FASTEST = 1
_BATCH = 256
_TITLE_SHOWN = 80
_BODY = FIELDS.index("body")


@dataclass(frozen=True, slots=True)
class Inserted:
    """A document as it was given, with its name."""

    doc_id: str
    text: str
    metadata: Mapping[str, Any]
    created_ms: int
    tags: tuple[str, ...]

    @property
    def told(self) -> str:
        """What is stored beside the text: the same for the same metadata."""
        return json.dumps(
            {"metadata": self.metadata}, ensure_ascii=False, sort_keys=True, separators=(",", ":")
        )

    @property
    def digest(self) -> bytes:
        """Equal for equal texts with equal metadata."""
        return sha256(f"{self.told}\0{self.text}".encode()).digest()


ChunkIds = Callable[[str, int, bytes], bytes]
"""The 16 bytes that name a chunk: from the document, its number in it, and its content."""


def documents_fingerprint(settings: Settings, embedder: Embedder | None) -> str:
    """Equal exactly when documents inserted under both can live in one epoch."""
    chosen = settings.documents
    model = embedder.fingerprint if embedder else WITHOUT_MODEL
    recipe = f"documents; format {FORMAT}; sentences {VERSION}; {chosen.chunk_chars}"
    recipe += f" {chosen.overlap_chars}; model {model}; terms {TERMS} in"
    recipe += f" {' '.join((*FIELDS, *PAGE_FIELDS))}"
    return sha256(recipe.encode()).hexdigest()[:32]


# --- a text as a document of the store ------------------------------------------------------------


def prepare_document(given: Inserted, size: int, overlap: int, name: ChunkIds) -> Prepared:
    """Everything about one document but its vectors."""
    text, lines = given.text, Lines(given.text)
    cut = [each for each in pieces(text, size, overlap) if not _blank(text, *each[:2])]
    rows: list[ChunkRow] = []
    texts: dict[bytes, str] = {}
    for ordinal, (start, end, repeated) in enumerate(cut):
        cited = text[start:end]
        content = content_name("", (), cited)
        span = lines.span(start, end)
        rows.append(
            (name(given.doc_id, ordinal, content), content, 0, "", start, end, span.start_line,
             span.end_line, repeated, ordinal + 1, len(cut), sha256(cited.encode()).digest())
        )  # fmt: skip
        texts[content] = cited.strip()
    encoded = text.encode("utf-8")
    title, told = title_of(given.text, given.metadata), given.told
    names, entries = streams(
        ChunkedDocument(title, told, text, [(start, end) for start, end, _ in cut])
    )
    moment = given.created_ms * 1_000_000
    version = Version(
        uri=given.doc_id,
        lane="documents",
        language="text",
        title=title,
        body=0,
        metadata=told,
        warnings=(),
        tags=given.tags,
        fingerprint=Fingerprint(len(encoded), moment, moment, 0),
        settled=True,
        raw_sha=given.digest,
        text_sha=sha256(encoded).digest(),
        text=compress(encoded, _FASTEST),
        text_bytes=len(encoded),
        sections=[],
        chunks=rows,
        links=[],
        names=[],
        name_terms=tuple(names),
        entries=[tuple(each) for each in entries],
        embedded={},
    )
    return Prepared(version, texts)


def streams(written: ChunkedDocument) -> Streams:
    """What the keyword index sees of a document; made anew when what stood beside it goes."""
    given = json.loads(written.metadata).get("metadata", {}).get("title")
    names = [""] * len(NAMES)
    # A title that was taken from the text is found there.
    if isinstance(given, str):
        names[NAMES.index("title")] = analyse(written.title)
    entries: list[list[str]] = []
    for start, end in written.spans:
        entry = [""] * len(FIELDS)
        entry[_BODY] = analyse(written.text[start:end])
        entries.append(entry)
    return names, entries


def title_of(text: str, metadata: Mapping[str, Any]) -> str:
    """What a hit is called: the title that was given, or how the text begins."""
    given = metadata.get("title")
    words = (given if isinstance(given, str) and given.strip() else text[:1_000]).split()
    title = " ".join(words)
    return title if len(title) <= _TITLE_SHOWN else f"{title[: _TITLE_SHOWN - 1]}…"


def _blank(text: str, start: int, end: int) -> bool:
    return not text[start:end].strip()


# --- writing --------------------------------------------------------------------------------------


class DocumentWriter:
    """All that is written into one database."""

    def __init__(
        self,
        store: Store,
        collection: str,
        settings: Settings,
        embedder: Embedder | None,
        name: ChunkIds,
        restored: Callable[[StoredDocument], Inserted],
    ) -> None:
        """``restored`` gives back what was inserted from what is stored of it."""
        self._store = store
        self._collection = collection
        self._settings = settings
        self._embedder = embedder
        self._name = name
        self._restored = restored
        self.provider_seconds = 0.0
        """How long the model took, in all."""

    def create(self) -> None:
        """An empty database, unless it is there."""
        if not self._store.exists:
            self.renew()

    def put(
        self, documents: Sequence[Inserted], *, replace: bool = False
    ) -> tuple[list[Prepared], list[str]]:
        """Store documents, all or none; gives those that were stored, and the names that others
        have already. Without ``replace`` such a name keeps all of them from being stored.
        """
        self._store.finish_erasing(streams, wait_seconds=PATIENCE)
        known = self._known(documents)
        wanted = [each for each in documents if known.get(each.doc_id) != each.digest]
        clashing = [each.doc_id for each in wanted if each.doc_id in known]
        if not wanted or (clashing and not replace):
            return [], clashing
        prepared = [self._prepared(each) for each in wanted]
        # Before the lock: a provider elsewhere may take its time, and others wait for it.
        self._embed(prepared)
        with self._session() as writer:
            if writer.fresh:
                self._carry_over(writer)
            taken = writer.known([each.doc_id for each in wanted]).keys() - set(clashing)
            prepared = [each for each in prepared if each.version.uri not in taken]
            for each in prepared:
                version = each.version
                lacking = writer.missing(version.embedded)
                version.embedded = {name: version.embedded[name] for name in lacking}
                writer.put(version)
            if clashing:
                writer.erase(clashing, dead=True)
            writer.activate(self._manifest(added=len(prepared)))
        if clashing:
            self._store.finish_erasing(streams, wait_seconds=PATIENCE)
        return prepared, clashing

    def erase(self, doc_ids: Sequence[str]) -> int:
        """Remove documents for good; gives how many chunks they had."""
        self._store.finish_erasing(streams, wait_seconds=PATIENCE)
        return self._store.erase(
            doc_ids,
            streams,
            self._manifest(removed=len(doc_ids)),
            retain=self._settings.index.retain_generations,
            wait_seconds=PATIENCE,
        )

    def renew(self, on_progress: OnProgress | None = None, *, rebuild: bool = False) -> int:
        """Make the epoch that the settings ask for from the texts of the serving one; gives how
        many documents it has. Does nothing where it serves already.
        """
        with self._session(rebuild=rebuild) as writer:
            if not writer.fresh:
                return 0
            done = self._carry_over(writer, on_progress)
            writer.activate(self._manifest(added=done))
        return done

    def salvage(self, why: str, on_progress: OnProgress | None = None) -> Rescue:
        """Make a new epoch of every document of the damaged one that fits its hash, and keep the
        damaged one aside; gives what was saved and what was lost."""

        def digest(kept: StoredDocument) -> bytes:
            return sha256(f"{kept.metadata}\0{kept.text}".encode()).digest()

        with self._store.salvage(
            self.fingerprint,
            self._embedder.dimensions if self._embedder else 1,
            digest,
            about=self.about,
            retain=self._settings.index.retain_generations,
            why=why,
            wait_seconds=PATIENCE,
        ) as (writer, rescue):
            done = self._fill(writer, rescue.documents(), on_progress)
            if not done:  # An empty database would pass for one that never had any documents.
                raise IndexCorrupt(
                    "No document of the damaged database could be saved.",
                    hint="Nothing was changed. Put back a copy of its folder, or import an export.",
                    developer=why,
                    details={"path": str(self._store.folder)},
                )
            writer.activate(self._manifest(added=done))
        return rescue

    def _carry_over(self, writer: EpochWriter, on_progress: OnProgress | None = None) -> int:
        """Fill an epoch that nobody points at yet with what the serving one has."""
        if not self._store.exists:
            return 0
        there = writer.known()
        left = (each for each in self._store.written() if each.uri not in there)
        return self._fill(writer, left, on_progress, checkpoints=True) + len(there)

    def _fill(
        self,
        writer: EpochWriter,
        documents: Iterable[StoredDocument],
        on_progress: OnProgress | None = None,
        *,
        checkpoints: bool = False,
    ) -> int:
        """Store documents in an epoch that nobody points at yet; gives how many."""
        tell, timer = on_progress or (lambda _: None), CheckpointTimer()
        done = size = 0
        for batch in batched(map(self._restored, documents)):
            prepared = [self._prepared(each) for each in batch]
            self._embed(prepared, writer)
            for each in prepared:
                writer.put(each.version)
                size += each.version.text_bytes
            done += len(batch)
            if checkpoints:
                timer.run_if_due(writer.checkpoint)
            tell(Progress(done, done, size, size))
        return done

    @property
    def fingerprint(self) -> str:
        return documents_fingerprint(self._settings, self._embedder)

    def maker(self) -> Maker:
        """How what is stored becomes what is derived from it."""

        def prepared(kept: StoredDocument) -> Prepared:
            return self._prepared(self._restored(kept))

        return maker_of(self.fingerprint, prepared, self._embedder, sources=False)

    def _session(self, *, rebuild: bool = False) -> AbstractContextManager[EpochWriter]:
        return self._store.writer(
            self.fingerprint,
            self._embedder.dimensions if self._embedder else 1,
            about=self.about,
            retain=self._settings.index.retain_generations,
            rebuild=rebuild,
            wait_seconds=PATIENCE,
            # Nothing here is ever held; a damaged epoch could not even be asked.
            let_go=rebuild,
        )

    @property
    def about(self) -> dict[str, str]:
        """What the store says of itself."""
        return {"root": str(self._store.folder), "collection": self._collection}

    def _known(self, documents: Sequence[Inserted]) -> dict[str, bytes]:
        if not self._store.exists:
            return {}
        with self._store.snapshot() as snapshot:
            found = ((each.doc_id, snapshot.document(each.doc_id)) for each in documents)
            return {doc_id: known["raw_sha"] for doc_id, known in found if known is not None}

    def _prepared(self, given: Inserted) -> Prepared:
        chosen = self._settings.documents
        return prepare_document(given, chosen.chunk_chars, chosen.overlap_chars, self._name)

    def _embed(self, prepared: Sequence[Prepared], writer: EpochWriter | None = None) -> None:
        started = time.perf_counter()
        # Without a writer all of them: what is there now, others may erase before the writing.
        number = embed(prepared, self._embedder, writer.missing if writer is not None else set)
        took = time.perf_counter() - started
        self.provider_seconds += took
        if number:
            _log.info("embedded %d chunks in %.1f ms", number, took * 1000)

    def _manifest(self, **did: int) -> dict[str, Any]:
        embedder = self._embedder
        return {
            "format": FORMAT,
            "model": embedder.name if embedder else WITHOUT_MODEL,
            "model_fingerprint": embedder.fingerprint if embedder else WITHOUT_MODEL,
            "added": 0,
            "changed": 0,
            "removed": 0,
            "failures": 0,
            **did,
        }


def batched(items: Iterable[T], size: int = _BATCH) -> Iterator[list[T]]:
    """Lists of at most ``size`` of them."""
    left = iter(items)
    while some := list(islice(left, size)):
        yield some
