"""Turn the bytes of one file into a version ready to be stored: parse, chunk, analyse, embed.

Files of credentials are skipped with a reason. A text of an unknown format is prepared like code
of an unknown language. Nothing that a file contains raises an error.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, TypeVar
from zlib import compress

from lookfar.common.properties import list_properties
from lookfar.index.content import Content
from lookfar.model import (
    Block,
    Chunk,
    Document,
    Fingerprint,
    Lane,
    Section,
    Skipped,
    Symbol,
)
from lookfar.ports import PATH_SEPARATOR, ChunkRow, Embedder, PropertyRow, SectionRow, Version
from lookfar.store.catalogue.link_names import link_name, list_names
from lookfar.store.keywords.analyser import analyse
from lookfar.store.keywords.signatures import sign
from lookfar.text.chunk import definitions as code
from lookfar.text.chunk import headings
from lookfar.text.chunk.identity import embedded_text
from lookfar.text.chunk.parts import Sizes
from lookfar.text.encodings import UTF8
from lookfar.text.parse.block_ids import strip_block_ids
from lookfar.text.parse.calls.extract import find_calls
from lookfar.text.parse.calls.facts import encode_facts
from lookfar.text.parse.formats import text_parser_for
from lookfar.text.parse.languages import language_of_fence

if TYPE_CHECKING:
    from lookfar.sources.secrets.screen import Secrets

T = TypeVar("T")

FASTEST = 1
"""The zlib level of stored texts."""
_BATCH = 256


@dataclass(slots=True)
class Prepared:
    """A version, and the texts of its chunks until they are embedded."""

    version: Version
    texts: dict[bytes, str] = field(default_factory=dict)
    """Text to embed by content name."""


def prepare(
    uri: str,
    content: Content,
    disk: Fingerprint,
    *,
    settled: bool,
    sizes: Sizes,
    count_tokens: Callable[[str], int],
    lane: Lane | None = None,
    secrets: Secrets | None = None,
) -> Prepared | Skipped:
    """Prepare everything about one file except its vectors, or say why it is skipped.

    ``lane`` is set where the whole collection is of one kind. ``secrets`` decides what is masked;
    leave it out for a stored text, which is masked already.
    """
    text, warnings, masked = content.text, content.warnings, 0
    if secrets is not None:
        screened = secrets.screen(uri, text)
        if screened.refused:
            return Skipped(uri, "secret", screened.refused)
        text, masked = screened.text, len(screened.findings)
        warnings = (*warnings, *screened.warnings())
    document = text_parser_for(uri, as_source=content.as_source)(uri, text)
    if content.title and not document.title:
        document = replace(document, title=content.title)
    if document.lane == "code":
        chunks = code.chunk(document, sizes)
        texts = {chunk.content: code.embedded_text(document, chunk) for chunk in chunks}
    else:
        chunks = headings.chunk(document, sizes, count_tokens)
        texts = {chunk.content: embedded_text(document, chunk) for chunk in chunks}
    version = _make_version(document, chunks, content, text, disk, settled)
    version.lane = lane or document.lane
    version.warnings = (*warnings, *document.warnings)
    version.masked = masked
    if version.lane == "code":
        version.calls = encode_facts(find_calls(document))
    version.doubts = content.warnings
    version.properties = _list_properties(document, version.lane)
    return Prepared(version, texts)


def _list_properties(document: Document, lane: Lane) -> list[PropertyRow]:
    # A memory is a record of its time of writing; only a note is about a day.
    uri = document.uri if lane == "docs" else ""
    properties = list_properties(
        document.metadata, inline=document.fields, tags=document.tags, uri=uri
    )
    return [(*row,) for row in properties]


def _make_version(
    document: Document,
    chunks: Sequence[Chunk],
    content: Content,
    text: str,
    disk: Fingerprint,
    settled: bool,
) -> Version:
    uri = document.uri
    encoded = text.encode("utf-8")
    name_terms, entries = analyse_document(document, chunks)
    return Version(
        uri=uri,
        lane=document.lane,
        language=document.language,
        title=document.title,
        body=document.body,
        metadata=_dump_metadata(document, content),
        warnings=document.warnings,
        tags=document.tags,
        fingerprint=disk,
        settled=settled,
        raw_sha=content.raw_sha,
        text_sha=sha256(encoded).digest(),
        text=compress(encoded, FASTEST),
        text_bytes=len(encoded),
        sections=make_section_rows(document.sections, document.symbols),
        chunks=[_make_chunk_row(document, chunk) for chunk in chunks],
        links=[
            (link.kind, link.target, link.anchor, link.text, link.start, link.end,
             link_name(uri, link.kind, link.target))
            for link in document.links
        ],
        names=[
            (*name,)
            for name in list_names(uri, document.title, document.aliases, document.labels)
        ],
        name_terms=name_terms,
        entries=entries,
        embedded={},
        signature=sign(encoded),
    )  # fmt: skip


def analyse_document(
    document: Document, chunks: Sequence[Chunk]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the keyword terms of a document's names, and those of each of its chunks."""
    analyse_chunks = _analyse_code if document.lane == "code" else _analyse_prose
    return _analyse_names(document), analyse_chunks(document, chunks)


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
    texts: dict[bytes, str] = {}
    code_names: set[bytes] = set()
    for item in prepared:
        texts.update(item.texts)
        if item.version.lane == "code":
            code_names.update(item.texts)
    lacking = missing(texts)
    vectors: dict[bytes, bytes] = {}
    for is_code, embed_texts in ((False, embedder.embed), (True, embedder.embed_code)):
        names = [name for name in texts if name in lacking and (name in code_names) == is_code]
        if names:
            rows = embed_texts([texts[name] for name in names]).astype("<f2")
            vectors.update(zip(names, (row.tobytes() for row in rows), strict=True))
    for item in prepared:
        item.version.embedded = {name: vectors[name] for name in item.texts if name in vectors}
        item.texts = {}
    return len(vectors)


def batched(items: Iterable[T], size: int = _BATCH) -> Iterator[list[T]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def token_counter(sizes: Sizes, embedder: Embedder | None) -> Callable[[str], int]:
    """Return the model's token counter, or four characters to a token if that is what counts."""
    return embedder.count_tokens if embedder and not sizes.by_length else _count_by_length


def _count_by_length(text: str) -> int:
    return -(-len(text) // 4)


def _analyse_names(document: Document) -> tuple[str, ...]:
    """Analyse what a document is called and how its front matter describes it."""
    metadata = document.metadata
    names = (
        document.title,
        document.uri,
        _join_words(metadata.get("description")),
        " ".join(document.aliases),
        _join_words(metadata.get("keywords")),
    )
    return tuple(map(analyse, names))


def _join_words(value: object) -> str:
    """Join the texts of a front matter value, which may be one text or a list."""
    parts = value if isinstance(value, list | tuple) else (value,)
    return " ".join(part for part in parts if isinstance(part, str))


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
    return json.dumps(metadata, ensure_ascii=False, sort_keys=True)


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


def _analyse_code(document: Document, chunks: Sequence[Chunk]) -> list[tuple[str, ...]]:
    """Analyse chunks of code; symbol names take the place of headings."""
    entries: list[tuple[str, ...]] = []
    for chunk in chunks:
        symbols = code.symbols_in(document, chunk)
        names = " ".join((*chunk.path, *(symbol.name for symbol in symbols)))
        tags = " ".join(sorted({tag for symbol in symbols for tag in symbol.tags}))
        documentation = "\n".join(symbol.docstring for symbol in symbols if chunk.part == 1)
        text = document.text[chunk.span.start : chunk.span.end]
        entries.append((analyse(names), analyse(tags), analyse(documentation), analyse(text)))
    return entries


def _analyse_prose(document: Document, chunks: Sequence[Chunk]) -> list[tuple[str, ...]]:
    """Analyse chunks of prose; code blocks have a field and a weight of their own."""
    code_blocks = [block for block in document.blocks if block.kind in ("fence", "indented")]
    ends = [block.end for block in code_blocks]
    paths: dict[tuple[str, ...], str] = {}
    tags = analyse(" ".join((*document.tags, *document.aliases)))
    entries: list[tuple[str, ...]] = []
    for chunk in chunks:
        if chunk.path not in paths:
            paths[chunk.path] = analyse(" ".join(chunk.path))
        prose, programs = _split_code_blocks(document.text, chunk, code_blocks, ends)
        if document.language == "markdown":
            prose = strip_block_ids(prose)
        entries.append((paths[chunk.path], tags, analyse(prose), analyse(programs)))
    return entries


def _split_code_blocks(
    text: str, chunk: Chunk, code_blocks: Sequence[Block], ends: Sequence[int]
) -> tuple[str, str]:
    """Split a chunk into its prose and its code; ``ends`` are the ends of ``code_blocks``."""
    prose: list[str] = []
    programs: list[str] = []
    at, end = chunk.span.start, chunk.span.end
    for block in islice(code_blocks, bisect_right(ends, at), None):
        if block.start >= end:
            break
        start, stop = max(at, block.start), min(block.end, end)
        prose.append(text[at:start])
        programs.append(text[start:stop])
        at = stop
    prose.append(text[at:end])
    return "".join(prose), "".join(programs)
