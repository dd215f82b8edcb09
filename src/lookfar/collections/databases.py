"""Texts that programs insert, as a collection: a database, whose only home is its own store.

Takes: the folder of the databases, a name, and texts with metadata. Gives: documents named
by ULIDs that are searched, read and cited like all others, and lines of JSON that carry a
database elsewhere. Refuses: names that are paths, texts that are blank or too long, metadata
that is no JSON object, and to be rolled back: there is no source to come back from.

Each insert is one generation: whole or not at all, and on the disk when it returns.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Collection as Several
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lookfar.collections import ulids
from lookfar.collections.collection import PATIENCE, Collection, stored, unknown
from lookfar.errors import IndexBusy, IndexCorrupt, InvalidArgument, LookfarError, NotFound
from lookfar.model import (
    Damage,
    Document,
    GenerationInfo,
    Incomplete,
    IndexReport,
    Salvaged,
    Status,
)
from lookfar.retrieve.answer.diversify import Passage
from lookfar.retrieve.answer.excerpt import cite
from lookfar.store.opening import KIND_OF_DATABASES, open_store, stored_names

if TYPE_CHECKING:
    from lookfar.config import SearchSettings, Settings
    from lookfar.index.inserted import DocumentWriter, Inserted
    from lookfar.index.prepare import Prepared
    from lookfar.index.progress import OnProgress
    from lookfar.model import Hit
    from lookfar.ports import Embedder, Snapshot
    from lookfar.retrieve.ranking import Source
    from lookfar.store.catalogue.erasing import StoredDocument
    from lookfar.store.health.repair import Maker

_log = logging.getLogger(__name__)

DEFAULT: Final = "vectors"
"""The database that is meant where none is named; it is made by the first insert."""
SUFFIX: Final = "@documents"
"""Ends the name of a collection of inserted documents."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DEVICE: Final = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]", re.IGNORECASE)
"""No folder can be called so on Windows, and a database may be carried there."""
_MOST_METADATA: Final = 65_536
_DEEPEST: Final = 20
_LONGEST_VALUE: Final = 256
"""Characters of a value that can be filtered by."""
_MOST_TAGS: Final = 1_000
_WHOLE: Final = 10**9
_MOST_NAMED: Final = 100
"""Lost documents that a repair names."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What an insert made."""

    doc_id: str
    chunk_count: int


@dataclass(frozen=True, slots=True)
class Similar:
    """A chunk that is near to what was asked."""

    chunk_id: str
    doc_id: str
    text: str
    score: float | None
    """Its cosine distance: the smaller, the nearer. None where words found it and no model
    compared it; 0 would say that it is the same."""
    chunk_index: int
    """Counts the chunks of its document from 0."""
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Entered:
    """An inserted document, whole."""

    doc_id: str
    text: str
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did."""

    added: int
    replaced: int
    skipped: int
    """They were there already, with the same text and metadata."""
    chunks: int


class Documents(Collection):
    """One database. May be shared by threads."""

    kind = "documents"

    def __init__(
        self, name: str, settings: Settings, embedder: Callable[[], Embedder | None]
    ) -> None:
        """``embedder`` gives the model of the library, which is not loaded twice."""
        self.database = checked_name(name)
        store = open_store(Path(settings.documents.dir) / name, settings, KIND_OF_DATABASES)
        super().__init__(f"{name}{SUFFIX}", settings, store)
        self._embedder = embedder

    def _open_embedder(self) -> Embedder | None:
        return self._embedder()

    def _writer(self) -> DocumentWriter:
        from lookfar.index.inserted import DocumentWriter

        return DocumentWriter(
            self._store, self.name, self.settings, self.embedder, _chunk_name, _restored
        )

    # -- writing -----------------------------------------------------------

    @property
    def exists(self) -> bool:
        """Whether there is such a database."""
        return self._store.exists

    def present(self) -> Documents:
        """Itself; ``NotFound`` where there is no such database."""
        if not self._store.exists:
            raise NotFound(
                f"There is no database {self.database!r}.",
                hint="Create it first: create_database, or lookfar documents create NAME.",
                details={"database": self.database},
            )
        return self

    def create(self) -> Path:
        """Make the database, unless it is there; gives the folder that it lies in."""
        with self._building:
            self._writer().create()
        return self.index_dir

    def insert(
        self, text: str, metadata: Mapping[str, Any] | None = None, *, doc_id: str = ""
    ) -> Stored:
        """Store a text; it is on the disk, and found, when this returns."""
        given = self._given(doc_id or ulids.new(), text, metadata or {})
        started = time.perf_counter()

        def put() -> tuple[DocumentWriter, list[Prepared], list[str]]:
            with self._building:
                self._refuse_absent()
                writer = self._writer()
                return writer, *writer.put([given])

        writer, stored, clashing = self._healing(put)
        if clashing:
            raise InvalidArgument(
                f"There is a document {given.doc_id!r} with another text.",
                hint="Delete it first, or insert without doc_id.",
                details={"doc_id": given.doc_id},
            )
        chunks = sum(len(each.version.chunks) for each in stored)
        _timed("insert", started, self.database, chunks=chunks, provider=writer.provider_seconds)
        return Stored(given.doc_id, chunks or self._chunk_count(given.doc_id))

    def delete(self, *doc_ids: str) -> int:
        """Remove documents for good, text and vectors; gives how many chunks they had.

        Where one of them is not there, none is removed.
        """
        started = time.perf_counter()

        def erase() -> int:
            with self._building:
                for doc_id in doc_ids:
                    self._refuse_unknown(doc_id)
                return self._writer().erase(list(dict.fromkeys(doc_ids)))

        chunks = self._healing(erase)
        _timed("delete", started, self.database, chunks=chunks)
        return chunks

    def import_lines(
        self,
        lines: Iterable[str],
        *,
        replace: bool = False,
        on_documents: Callable[[int], None] | None = None,
    ) -> Imported:
        """Store documents from lines of JSON with ``text`` and, if they have them, ``doc_id``
        and ``metadata``. What is there already is skipped, so an import that was interrupted
        is simply begun again; without ``doc_id`` equal documents are taken for the same.

        The name of a document with another text or other metadata ends the import, unless
        ``replace`` says that the new one holds. ``on_documents`` is told how many are done.
        """
        from lookfar.index.prepare import batched

        added = replaced = skipped = chunks = done = 0
        writer = self._writer()

        def store(batch: Sequence[Inserted]) -> tuple[list[Prepared], list[str]]:
            with self._building:
                return writer.put(batch, replace=replace)

        batches = batched(self._read(lines))
        first = next(batches, None)  # Lines that cannot be read leave no database behind.
        with self._building:
            writer.create()
        for batch in chain([first] if first else [], batches):
            each_once = list({each.doc_id: each for each in batch}.values())
            stored, clashing = self._healing(partial(store, each_once))
            if clashing and not replace:
                raise InvalidArgument(
                    f"There is a document {clashing[0]!r} with another text or metadata.",
                    hint="Say that the new one holds (--replace), or leave that line out.",
                    details={"doc_ids": clashing[:100]},
                )
            replaced += len(clashing)
            added += len(stored) - len(clashing)
            skipped += len(batch) - len(stored)
            chunks += sum(len(each.version.chunks) for each in stored)
            done += len(batch)
            if on_documents is not None:
                on_documents(done)
        return Imported(added, replaced, skipped, chunks)

    def _read(self, lines: Iterable[str]) -> Iterator[Inserted]:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield self._from_line(line)
            except LookfarError as error:
                raise InvalidArgument(
                    f"Line {number}: {error.message}", hint=error.hint, details={"line": number}
                ) from error

    def _from_line(self, line: str) -> Inserted:
        try:
            shape = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InvalidArgument(
                f"It is no JSON: {error}.", hint="Write one JSON object on each line."
            ) from error
        if not isinstance(shape, dict) or not shape.keys() <= {"doc_id", "text", "metadata"}:
            raise InvalidArgument(
                "It is no object with text, doc_id and metadata.",
                hint='Write it like this: {"doc_id": "...", "text": "...", "metadata": {}}',
            )
        text, metadata = shape.get("text"), shape.get("metadata")
        metadata = {} if metadata is None else metadata
        doc_id = shape.get("doc_id")
        if doc_id is None and isinstance(text, str):
            doc_id = ulids.derived("", text, json.dumps(metadata, sort_keys=True))
        return self._given(doc_id, text, metadata)

    def entries(self) -> Iterator[Entered]:
        """Every document, in the order of the ids, all of one moment."""
        self._refuse_absent()
        if self._store.exists:
            # A death before the first pointer was written leaves an epoch that nothing names.
            with suppress(IndexCorrupt):
                self._healing(self._store.fingerprint)
        with self._refusing():
            for each in self._store.written() if self._store.exists else ():
                yield Entered(each.uri, each.text, json.loads(each.metadata)["metadata"])

    def export_lines(self) -> Iterator[str]:
        """Every document as a line of JSON, as :meth:`import_lines` takes it."""
        for each in self.entries():
            shape = {"doc_id": each.doc_id, "text": each.text, "metadata": each.metadata}
            yield json.dumps(shape, ensure_ascii=False)

    def metadata_of(self, doc_id: str) -> Mapping[str, Any]:
        """What was given beside the text of a document."""
        with self._refusing(), self._store.snapshot() as snapshot:
            known = snapshot.document(doc_id)
            if known is None:
                raise unknown(snapshot, doc_id)
            found: Mapping[str, Any] = known["metadata"]
            return found

    # -- what may be inserted ------------------------------------------------

    def _given(self, doc_id: Any, text: Any, metadata: Any) -> Inserted:
        from lookfar.index.inserted import Inserted

        if not isinstance(text, str) or not text.strip():
            raise InvalidArgument("There is no text.", hint="Give a text with something in it.")
        if not isinstance(doc_id, str) or not ulids.is_ulid(doc_id):
            raise InvalidArgument(
                f"{str(doc_id)[:100]!r} is no ULID.",
                hint="Leave doc_id out, and the document is given one.",
            )
        most = self.settings.documents.max_chars
        if len(text) > most:
            raise InvalidArgument(
                f"The text has {len(text):,} characters.",
                hint=f"Insert at most {most:,} at once; divide what is longer.",
                details={"characters": len(text), "most": most},
            )
        _refuse_halves(text)
        told = checked_metadata(metadata)
        return Inserted(doc_id, text, told, ulids.moment_of(doc_id), tags_of(told))

    def _refuse_absent(self) -> None:
        """The default one is made when it is first needed, any other is asked for by its name."""
        if self.database != DEFAULT:
            self.present()

    def _refuse_unknown(self, doc_id: str) -> None:
        self._refuse_absent()
        if self._store.exists:
            with self._store.snapshot() as snapshot:
                if snapshot.document(doc_id) is not None:
                    return
        raise NotFound(
            f"There is no document {doc_id[:100]!r} in the database {self.database!r}.",
            hint="Give a doc_id as insert_document or find_similar_documents told it.",
            details={"doc_id": doc_id[:100], "database": self.database},
        )

    def _chunk_count(self, doc_id: str) -> int:
        with self._refusing(), self._store.snapshot() as snapshot:
            return len(snapshot.chunks(doc_id))

    # -- the index ---------------------------------------------------------

    def index(
        self,
        *,
        rebuild: bool = False,
        only: Several[str] | None = None,  # noqa: ARG002
        on_progress: OnProgress | None = None,
        wait_seconds: float = 0.0,  # noqa: ARG002
    ) -> IndexReport:
        """Make chunks, keywords and vectors of all documents anew, where the settings ask for
        other ones than are there; with ``rebuild`` in any case.
        """
        started = time.perf_counter()
        with self._refusing(), self._held(on_progress):
            self.present()

            def run() -> IndexReport:
                writer = self._writer()
                done = writer.renew(on_progress, rebuild=rebuild)
                with self._store.snapshot() as snapshot:
                    generation, size = snapshot.generation, snapshot.size()
                return IndexReport(
                    collection=self.name,
                    root=str(self.index_dir),
                    generation=generation,
                    added=0,
                    changed=done,
                    removed=0,
                    unchanged=size - done,
                    chunks_embedded=0,
                    failures=(),
                    skipped={},
                    skipped_examples={},
                    seconds=time.perf_counter() - started,
                    text_bytes=0,
                )

            return self._passed(run)

    def heal(self, damage: IndexCorrupt, on_progress: OnProgress | None = None) -> Incomplete:
        """Make keywords and vectors anew from the texts. Where anything else is damaged, refuse:
        documents may be lost, and only :meth:`verified` saves the others, when it is asked to."""
        if self.settings.store.read_only:
            raise self._refusal(damage)
        if self._remade(damage) is not None:
            detail = f"what was damaged of the index has been mended: {damage.developer}"
            return Incomplete("healed", detail)
        try:
            for _ in self._store.written():
                pass
        except LookfarError as worse:
            raise self._refusal(damage, worse.developer) from damage
        self.index(rebuild=True, on_progress=on_progress)
        detail = f"the index was damaged and has been made anew: {damage.developer}"
        return Incomplete("healed", detail)

    def _refusal(self, damage: IndexCorrupt, worse: str = "") -> IndexCorrupt:
        """What users are told of damage here: there is no folder to build it from."""
        return IndexCorrupt(
            f"The database {self.database!r} is damaged. Nothing was changed.",
            hint="Save what is intact: lookfar verify --repair (it keeps the damaged files aside)."
            " Or put back a copy of its folder, or import an export.",
            developer="; ".join(dict.fromkeys(filter(None, (damage.developer, worse)))),
            details={**damage.details, "database": self.database},
        )

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Damage that nobody heals comes out with what can be done about it."""
        try:
            yield
        except IndexCorrupt as damage:
            raise self._refusal(damage) from damage

    def check(self) -> None:
        """``IndexCorrupt`` where what every answer needs is not as it was written."""
        with self._refusing(), self._store.snapshot():
            pass

    @property
    def kept_aside(self) -> list[str]:
        """Damaged copies that a repair has kept; deleting a document removes them, too."""
        return self._store.kept_aside

    def _repair(self, found: Several[Damage], on_progress: OnProgress | None) -> Salvaged | None:
        """Mend what was derived; where documents are damaged, save all others."""
        try:
            return super()._repair(found, on_progress)
        except IndexCorrupt as damage:
            with self._building:
                rescue = self._writer().salvage(damage.developer, on_progress)
            self._store.mend_beside(self._writer().about, wait_seconds=PATIENCE)
            aside = next(iter(self._store.kept_aside[-1:]), "")
            lost = tuple(sorted(rescue.lost)[:_MOST_NAMED])
            return Salvaged(rescue.saved, rescue.missing, lost, aside)

    def _maker(self) -> Maker:
        return self._writer().maker()

    def roll_back(self, number: int, *, wait_seconds: float = 0.0) -> GenerationInfo:  # noqa: ARG002
        """Not here: what was inserted since would be lost."""
        raise InvalidArgument(
            "A database of inserted documents cannot be rolled back.",
            hint="Search an earlier generation with as_of, or delete documents by their doc_id.",
        )

    # -- what a question needs -------------------------------------------------

    def _freshen(self, on_progress: OnProgress | None) -> list[Incomplete]:
        """Nothing changes behind its back, but the settings may ask for another model."""
        try:
            if self._store.fingerprint() != self._writer().fingerprint:
                self.index(on_progress=on_progress, wait_seconds=PATIENCE)
        except IndexBusy:
            return [Incomplete("stale", "the database is being made anew at this moment")]
        return []

    def source(self, uri: str) -> str | None:
        """What is stored of a document is what was inserted, as long as it is there."""
        with self._refusing(), self._store.snapshot() as snapshot:
            return snapshot.text(uri)

    def _current(self, snapshot: Snapshot, uri: str) -> tuple[Document, bool]:
        return stored(snapshot, uri), True

    def status(self, *, collection: str = "", check: bool = True) -> Status:  # noqa: ARG002
        """What is in the database; there is nothing to compare it with."""
        return self._healing(
            lambda: self._status(collection, str(self.index_dir), self._writer().fingerprint, None)
        )

    def unwatch(self) -> None:
        """Nothing is followed here: what is inserted is there at once."""

    def close(self) -> None:
        """Let go of the files."""
        self._store.close()


# --- names, metadata ------------------------------------------------------------------------------


def checked_name(name: str) -> str:
    """A name that a database may have."""
    if not _NAME.fullmatch(name) or _DEVICE.fullmatch(name):
        raise InvalidArgument(
            f"{name[:100]!r} cannot be the name of a database.",
            hint="Use 1 to 64 letters, digits, underscores and hyphens, and none of the names that"
            " Windows keeps for devices, like CON.",
            details={"database": name[:100]},
        )
    return name


def databases_of(settings: Settings) -> list[str]:
    """The names of the databases that there are."""
    found = stored_names(Path(settings.documents.dir), settings, KIND_OF_DATABASES)
    return sorted(n for n in found if _NAME.fullmatch(n) and not _DEVICE.fullmatch(n))


def checked_metadata(metadata: Any) -> dict[str, Any]:
    """Metadata as it is stored: a JSON object, not too large."""
    hint = "Give a JSON object of texts, numbers, booleans, null, lists and objects."
    if not isinstance(metadata, Mapping):
        raise InvalidArgument("The metadata is no object.", hint=hint)
    _refuse_depth(metadata, _DEEPEST)
    try:
        told = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"The metadata is no JSON: {error}.", hint=hint) from error
    if len(told) > _MOST_METADATA:
        raise InvalidArgument(
            f"The metadata has {len(told):,} characters.",
            hint=f"Keep it below {_MOST_METADATA:,}; what is longer belongs into the text.",
        )
    _refuse_halves(told)
    found: dict[str, Any] = json.loads(told)
    return found


def _refuse_depth(value: Any, left: int) -> None:
    if left < 0:
        raise InvalidArgument("The metadata is too deep.", hint=f"Nest at most {_DEEPEST} levels.")
    inner = value.values() if isinstance(value, Mapping) else value
    for each in inner if isinstance(value, (Mapping, list, tuple)) else ():
        _refuse_depth(each, left - 1)


def _refuse_halves(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            "The text holds half of a character.", hint="Send valid Unicode text."
        ) from error


def tags_of(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """What a document can be filtered by: ``key=value`` for each plain value and each in a list,
    and of the key ``tags`` also each text by itself.
    """
    found: dict[str, None] = {}
    for key, value in metadata.items():
        for each in value if isinstance(value, list) else (value,):
            tag = _tag(key, each)
            if tag is not None:
                found[tag] = None
            if key == "tags" and isinstance(each, str) and 0 < len(each) <= _LONGEST_VALUE:
                found[each] = None
    return tuple(list(found)[:_MOST_TAGS])


def filter_tags(wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """The tags that a document has whose metadata has all of these values."""
    tags: list[str] = []
    for key, value in wanted.items():
        tag = _tag(key, value)
        if tag is None:
            raise InvalidArgument(
                f"Documents cannot be filtered by this value of {key[:100]!r}.",
                hint=f"Give a text of at most {_LONGEST_VALUE} characters, a number, a boolean"
                " or null.",
            )
        tags.append(tag)
    return tuple(tags)


def _tag(key: str, value: Any) -> str | None:
    """``key=value``; a text that could be taken for a number or the like is put in quotes."""
    if isinstance(value, (Mapping, list)):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    told = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str):
        told = told if _reads_as_json(value) else value
    return f"{key}={told}" if len(key) + len(told) <= 2 * _LONGEST_VALUE else None


def _reads_as_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _chunk_name(doc_id: str, ordinal: int, content: bytes) -> bytes:
    return ulids.decode(ulids.derived(doc_id, str(ordinal), content.hex()))


def _restored(kept: StoredDocument) -> Inserted:
    from lookfar.index.inserted import Inserted

    told: dict[str, Any] = json.loads(kept.metadata)["metadata"]
    return Inserted(kept.uri, kept.text, told, ulids.moment_of(kept.uri), tags_of(told))


def _timed(what: str, started: float, database: str, **more: float) -> None:
    took = (time.perf_counter() - started) * 1000
    provider = more.pop("provider", 0.0) * 1000
    told = ", ".join(f"{value:g} {name}" for name, value in more.items())
    asked = f", of which the model took {provider:.1f} ms" if provider else ""
    _log.info(
        "%s in %s: %s in %.1f ms%s", what, database, told, took, asked,
        extra={
            "operation": what,
            "database": database,
            "ms": round(took, 3),
            "provider_ms": round(provider, 3),
        },
    )  # fmt: skip


# --- what is nearest ------------------------------------------------------------------------------


@dataclass(slots=True)
class Measured:
    """Whether the scores of an answer are distances between vectors."""

    by_meaning: bool = False


def nearest(
    sources: Sequence[Source],
    settings: SearchSettings,
    explain: bool,
    measured: Measured | None = None,
) -> tuple[list[Hit], list[Incomplete]]:
    """An answering in single chunks, the nearest first; ``score`` is their cosine distance.

    Which chunks answer is found out as everywhere, by meaning and by words. Without a model,
    or where it knows no word of the question, ``score`` only orders them: it is what the ranking
    leaves to 1, and ``measured`` says so.
    """
    from lookfar.retrieve.search import rank

    ranking = rank(sources, settings)
    best = ranking.order()[: ranking.plan.top_k]
    by_meaning = ranking.plan.vector is not None
    if measured is not None:
        measured.by_meaning = by_meaning
    far = {
        # Rounded numbers may be a little nearer than the same.
        at: 1.0 - min(1.0, ranking.candidates[at].vector if by_meaning else ranking.scores[at])
        for at in best
    }
    best.sort(key=lambda at: round(far[at], 6))
    chosen = [
        Passage(
            best=at,
            score=far[at],
            place=each.place,
            source=each.source,
            start=each.place.start,
            end=each.place.end,
            start_line=each.place.start_line,
            end_line=each.place.end_line,
        )
        for at in best
        for each in (ranking.candidates[at],)
    ]
    told = ranking.explain if explain else None
    return cite(chosen, sources, max_chars=settings.max_excerpt_chars, explain=told)


def settings_for(chosen: SearchSettings) -> SearchSettings:
    """Those of a question whose answers are chunks, given whole."""
    return replace(chosen, merge_gap=0, per_document=0, max_excerpt_chars=_WHOLE)


def found_in(
    database: Documents, hits: Sequence[Hit], started: float, measured: Measured
) -> list[Similar]:
    """The chunks that hits of a database are, in their order."""
    found: list[Similar] = []
    for hit in hits:
        # One that was deleted while the answer was being made has no metadata any more.
        with suppress(NotFound):
            found.append(
                Similar(
                    chunk_id=ulids.encode(bytes.fromhex(hit.chunk_id)),
                    doc_id=hit.uri,
                    text=hit.text,
                    score=hit.score if measured.by_meaning else None,
                    chunk_index=hit.part - 1,
                    metadata=database.metadata_of(hit.uri),
                )
            )
    _timed("find", started, database.database, chunks=len(found))
    return found
