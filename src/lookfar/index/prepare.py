"""Turn the bytes of one file into a version ready to be stored: parse, chunk, analyse, embed.

Files of credentials are skipped with a reason. A text of an unknown format is prepared like code
of an unknown language. Nothing that a file contains raises an error.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, TypeVar
from zlib import compress

from lookfar.common.properties import list_properties
from lookfar.config import Settings
from lookfar.index.analysis import Analysed, analyse
from lookfar.index.extraction import Content, restore_content
from lookfar.index.recipe import epoch_fingerprint, sizes_from
from lookfar.index.reconcile import NO_FINGERPRINT
from lookfar.index.words import Embeddable, Words, embed_all
from lookfar.model import (
    Chunk,
    Document,
    Fingerprint,
    Lane,
    Section,
    Skipped,
    Symbol,
)
from lookfar.ports import (
    NO_ENTRIES,
    PATH_SEPARATOR,
    ChunkRow,
    Embedder,
    Made,
    Maker,
    SectionRow,
    StoredDocument,
    StoredEntries,
    Version,
)
from lookfar.store.catalogue.link_names import link_name, list_names
from lookfar.store.keywords.signatures import sign
from lookfar.text.chunk import definitions as code
from lookfar.text.chunk import headings
from lookfar.text.chunk.parts import Sizes
from lookfar.text.normalise import UTF8
from lookfar.text.parse.calls.extract import find_calls
from lookfar.text.parse.calls.facts import encode_facts
from lookfar.text.parse.formats import find_searched_end, text_parser_for
from lookfar.text.parse.languages import language_of_fence

if TYPE_CHECKING:
    from lookfar.sources.secrets.screen import Secrets

T = TypeVar("T")

FASTEST = 1
"""The zlib level of stored texts."""
_BATCH = 256
_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True)


@dataclass(slots=True)
class Prepared:
    """A version, and the texts of its chunks until they are embedded."""

    version: Version
    texts: Mapping[bytes, Embeddable] = field(default_factory=dict)
    """Text to embed by content name."""


@dataclass(slots=True)
class File:
    """One file on its way through the stages."""

    uri: str
    content: Content
    disk: Fingerprint
    settled: bool
    text: str = ""
    warnings: tuple[str, ...] = ()
    masked: int = 0
    document: Document | None = None
    calls: bytes = b""
    stored: StoredEntries = NO_ENTRIES
    chunks: Sequence[Chunk] = ()
    analysed: Analysed | None = None
    prepared: Prepared | None = None


class Stages:
    """The steps that prepare files, each over many files at once.

    A step is quicker for many files in a row than one file after the other through all steps,
    because its code and its tables stay in the processor's caches: a fifth of the whole time.
    """

    def __init__(
        self,
        sizes: Sizes,
        words: Words,
        *,
        lane: Lane | None = None,
        secrets: Secrets | None = None,
    ) -> None:
        """``lane`` is set where the whole collection is of one kind.

        ``secrets`` decides what is masked; leave it out for a stored text, which is masked
        already.
        """
        self._sizes = sizes
        self._words = words
        self._lane = lane
        self._secrets = secrets
        self.in_order: tuple[Callable[[File], Skipped | None], ...] = (
            self._screen, self._parse, self._chunk, self._analyse, self._finish,
        )  # fmt: skip
        """Each changes the file, or says why it is skipped."""

    def _screen(self, file: File) -> Skipped | None:
        file.text, file.warnings = file.content.text, file.content.warnings
        if self._secrets is not None:
            screened = self._secrets.screen(file.uri, file.text)
            if screened.refused:
                return Skipped(file.uri, "secret", screened.refused)
            file.text, file.masked = screened.text, len(screened.findings)
            file.warnings = (*file.warnings, *screened.warnings())
        return None

    def _parse(self, file: File) -> None:
        parse = text_parser_for(file.uri, as_source=file.content.as_source)
        document = parse(file.uri, file.text)
        if file.content.title and not document.title:
            document = replace(document, title=file.content.title)
        file.document = document
        if (self._lane or document.lane) == "code":
            # In this stage, because only the last syntax tree is kept.
            file.calls = encode_facts(find_calls(document))

    def _chunk(self, file: File) -> None:
        assert file.document is not None
        if file.document.lane == "code":
            searched = file.text[: find_searched_end(file.uri, len(file.text))]
            file.chunks = code.chunk(replace(file.document, text=searched), self._sizes)
        else:
            file.chunks = headings.chunk(file.document, self._sizes, self._words.count)

    def _analyse(self, file: File) -> None:
        assert file.document is not None
        file.analysed = analyse(file.document, file.chunks, self._words, file.stored.chunks)

    def _finish(self, file: File) -> None:
        uri, content, document, analysed = file.uri, file.content, file.document, file.analysed
        assert document is not None
        assert analysed is not None
        encoded = file.text.encode("utf-8")
        lane = self._lane or document.lane
        # A memory is a record of its time of writing; only a note is about a day.
        properties = list_properties(
            document.metadata,
            inline=document.fields,
            tags=document.tags,
            uri=uri if lane == "docs" else "",
        )
        version = Version(
            uri=uri,
            lane=lane,
            language=document.language,
            title=document.title,
            body=document.body,
            metadata=_dump_metadata(document, content),
            warnings=(*file.warnings, *document.warnings),
            tags=document.tags,
            fingerprint=file.disk,
            settled=file.settled,
            raw_sha=content.raw_sha,
            text_sha=sha256(encoded).digest(),
            text=compress(encoded, FASTEST),
            text_bytes=len(encoded),
            sections=make_section_rows(document.sections, document.symbols),
            chunks=[_make_chunk_row(document, chunk) for chunk in file.chunks],
            links=[
                (link.kind, link.target, link.anchor, link.text, link.start, link.end,
                 link_name(uri, link.kind, link.target))
                for link in document.links
            ],
            names=[
                (*name,)
                for name in list_names(uri, document.title, document.aliases, document.labels)
            ],
            name_terms=analysed.names,
            entries=analysed.entries,
            embedded={},
            signature=sign(encoded),
            masked=file.masked,
            calls=file.calls,
            properties=[(*row,) for row in properties],
            doubts=content.warnings,
            sources=analysed.sources,
            stored=file.stored.document,
            copied=analysed.copied,
        )  # fmt: skip
        file.prepared = Prepared(version, analysed.texts)


def prepare(
    uri: str, content: Content, disk: Fingerprint, *, settled: bool, stages: Stages
) -> Prepared | Skipped:
    """Prepare everything about one file except its vectors, or say why it is skipped."""
    file = File(uri, content, disk, settled)
    for stage in stages.in_order:
        skipped = stage(file)
        if skipped is not None:
            return skipped
    assert file.prepared is not None
    return file.prepared


def make_section_rows(
    sections: Iterable[Section], symbols: Iterable[Symbol] = ()
) -> list[SectionRow]:
    """Convert sections to rows; sections of code include the symbol they define."""
    defined = {symbol.section: symbol for symbol in symbols}
    rows: list[SectionRow] = []
    for s in sections:
        symbol = defined.get(s.ordinal)
        rows.append(
            (s.ordinal, s.parent, s.level, s.title, s.span.start, s.span.end,
             s.span.start_line, s.span.end_line, s.body,
             symbol.kind if symbol else "", bool(symbol and symbol.docstring))
        )  # fmt: skip
    return rows


def embed(
    prepared: Sequence[Prepared],
    embedder: Embedder | None,
    missing: Callable[[Iterable[bytes]], set[bytes]],
) -> int:
    """Embed in one call what the store lacks, and return the number of vectors made."""
    if embedder is None:
        return 0
    texts: dict[bytes, Embeddable] = {}
    code_names: set[bytes] = set()
    for item in prepared:
        texts.update(item.texts)
        if item.version.lane == "code":
            code_names.update(item.texts)
    lacking = missing(texts)
    vectors: dict[bytes, bytes] = {}
    for is_code in (False, True):
        names = [name for name in texts if name in lacking and (name in code_names) == is_code]
        if names:
            rows = embed_all(embedder, [texts[name] for name in names], is_code=is_code)
            rows = rows.astype("<f2")
            vectors.update(zip(names, (row.tobytes() for row in rows), strict=True))
    for item in prepared:
        item.version.embedded = {name: vectors[name] for name in item.texts if name in vectors}
        item.texts = {}
    return len(vectors)


def batched(items: Iterable[T], size: int = _BATCH) -> Iterator[list[T]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def _dump_metadata(document: Document, content: Content) -> str:
    metadata: dict[str, object] = {}
    if content.encoding not in ("", UTF8):
        metadata["encoding"] = content.encoding
    if content.extractor:
        metadata["extractor"] = content.extractor
        metadata |= {"as_source": True} if content.as_source else {"places": content.places}
    if content.title and document.title == content.title:
        metadata["file_title"] = content.title
    if document.metadata:
        metadata["front_matter"] = dict(document.metadata)
    if document.aliases:
        metadata["aliases"] = list(document.aliases)
    programs: dict[str, list[tuple[int, int]]] = {}
    for block in document.blocks:
        if block.language and block.kind in ("fence", "indented"):
            programs.setdefault(language_of_fence(block.language), []).append(
                (block.start, block.end)
            )
    if programs:
        metadata["programs"] = programs
    return _ENCODER.encode(metadata)


def _make_chunk_row(document: Document, chunk: Chunk) -> ChunkRow:
    span = chunk.span
    text = document.text[span.start : span.end]
    return (
        bytes.fromhex(chunk.id),
        chunk.content,
        chunk.section,
        PATH_SEPARATOR.join(chunk.path),
        span.start,
        span.end,
        span.start_line,
        span.end_line,
        chunk.overlap,
        chunk.part,
        chunk.parts,
        sha256(text.encode("utf-8")).digest(),
    )


def file_maker(settings: Settings, embedder: Embedder | None, lane: Lane | None) -> Maker:
    """Return a maker that derives entries and vectors from the texts of files."""
    sizes = sizes_from(settings)
    stages = Stages(sizes, Words(embedder, by_length=sizes.by_length), lane=lane)

    def prepare_stored(stored: StoredDocument) -> Prepared | None:
        content = restore_content(stored.text, stored.metadata)
        prepared = prepare(stored.uri, content, NO_FINGERPRINT, settled=True, stages=stages)
        return prepared if isinstance(prepared, Prepared) else None

    return make_maker(epoch_fingerprint(settings, embedder), prepare_stored, embedder, sources=True)


def make_maker(
    fingerprint: str,
    prepare_stored: Callable[[StoredDocument], Prepared | None],
    embedder: Embedder | None,
    *,
    sources: bool,
) -> Maker:
    """Return a maker for documents that ``prepare_stored`` prepares from their stored text."""

    def make(stored: StoredDocument) -> Made | None:
        prepared = prepare_stored(stored)
        if prepared is None:
            return None
        version = prepared.version
        return Made([row[0] for row in version.chunks], (version.name_terms, version.entries))

    def make_vectors(
        documents: Sequence[StoredDocument], wanted: Collection[bytes]
    ) -> dict[bytes, bytes]:
        batch = [
            prepared for stored in documents if (prepared := prepare_stored(stored)) is not None
        ]
        embed(batch, embedder, lambda contents: set(contents).intersection(wanted))
        return {name: vector for item in batch for name, vector in item.version.embedded.items()}

    return Maker(fingerprint, sources, make, make_vectors)


_CHECKPOINT_SECONDS = 5.0
_CHECKPOINT_SHARE = 0.02


class CheckpointTimer:
    """Decide when the next checkpoint is due.

    Checkpoints are at least some seconds apart and take at most a small share of the time,
    however slow the disk is.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due = clock() + _CHECKPOINT_SECONDS

    def run_if_due(self, checkpoint: Callable[[], None]) -> None:
        started = self._clock()
        if started < self._due:
            return
        checkpoint()
        now = self._clock()
        self._due = now + max(_CHECKPOINT_SECONDS, (now - started) / _CHECKPOINT_SHARE)
