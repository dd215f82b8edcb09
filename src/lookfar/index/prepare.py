"""One file's bytes to one version ready to be stored: parse, chunk, analyse, embed.

Takes: the raw bytes and what the disk said of them. Gives: a ``Version`` of
plain rows. Refuses: binary content, formats no parser knows and files of
credentials, by naming the reason; it never raises for what a file contains.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING
from zlib import compress

from lookfar.model import Block, Chunk, Document, Fingerprint, Lane, Section, Skipped, Symbol
from lookfar.ports import PATH_SEPARATOR, ChunkRow, SectionRow, Version
from lookfar.store.catalogue.link_names import link_name, names_of
from lookfar.store.keywords.analyser import analyse
from lookfar.store.keywords.signatures import sign
from lookfar.text.chunk import definitions as code
from lookfar.text.chunk import headings
from lookfar.text.chunk.identity import embedded_text
from lookfar.text.chunk.parts import Sizes
from lookfar.text.normalise import normalise
from lookfar.text.parse.formats import parser_for
from lookfar.text.parse.languages import called

if TYPE_CHECKING:
    from lookfar.ports import Embedder
    from lookfar.sources.secrets.screen import Secrets

_FASTEST = 1


@dataclass(slots=True)
class Prepared:
    """A version, and the texts of its chunks until they are embedded."""

    version: Version
    texts: dict[bytes, str] = field(default_factory=dict)
    """Embedded text by content name."""


def prepare(
    uri: str,
    raw: bytes,
    disk: Fingerprint,
    *,
    settled: bool,
    sizes: Sizes,
    count_tokens: Callable[[str], int],
    lane: Lane | None = None,
    secrets: Secrets | None = None,
) -> Prepared | Skipped:
    """Everything about one file but its vectors, or why nothing of it is stored.

    ``lane`` is that of the whole collection, where it has one of its own. ``secrets`` says what
    is masked; a text that was stored is masked already, and needs none.
    """
    parse = parser_for(uri)
    if parse is None:
        return Skipped(uri, "no_parser", "no parser knows this format")
    text, warnings = normalise(raw)
    masked = 0
    if secrets is not None:
        screened = secrets.screen(uri, text)
        if screened.refused:
            return Skipped(uri, "secret", screened.refused)
        text, masked = screened.text, len(screened.findings)
        warnings = (*warnings, *screened.warnings())
    document = parse(uri, text)
    is_code = document.lane == "code"
    if is_code:
        chunks = code.chunk(document, sizes)
    else:
        chunks = headings.chunk(document, sizes, count_tokens)
    encoded = text.encode("utf-8")
    name_terms, entries = terms_of(document, chunks)
    version = Version(
        uri=uri,
        lane=lane or document.lane,
        language=document.language,
        title=document.title,
        body=document.body,
        metadata=_metadata(document),
        warnings=(*warnings, *document.warnings),
        tags=document.tags,
        fingerprint=disk,
        settled=settled,
        raw_sha=sha256(raw).digest(),
        text_sha=sha256(encoded).digest(),
        text=compress(encoded, _FASTEST),
        text_bytes=len(encoded),
        sections=section_rows(document.sections, document.symbols),
        chunks=[_chunk_row(document, each) for each in chunks],
        links=[
            (link.kind, link.target, link.anchor, link.text, link.start, link.end,
             link_name(uri, link.kind, link.target))
            for link in document.links
        ],
        names=[(*each,) for each in names_of(uri, document.title, document.aliases)],
        name_terms=name_terms,
        entries=entries,
        embedded={},
        signature=sign(encoded),
        masked=masked,
    )  # fmt: skip
    shown = code.embedded_text if is_code else embedded_text
    texts = {each.content: shown(document, each) for each in chunks}
    return Prepared(version, texts)


def terms_of(
    document: Document, chunks: Sequence[Chunk]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """What the keyword index sees of a document: its names, and each of its chunks."""
    make = _code_entries if document.lane == "code" else _entries
    return _name_terms(document), make(document, chunks)


def section_rows(sections: Iterable[Section], symbols: Iterable[Symbol] = ()) -> list[SectionRow]:
    """Sections as a store keeps them; those of code with what they define."""
    defined = {each.section: each for each in symbols}
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
    """Embed the contents that the store lacks, all at once; gives how many those were."""
    if embedder is None:
        return 0
    wanted: dict[bytes, str] = {}
    programs: set[bytes] = set()
    for each in prepared:
        wanted.update(each.texts)
        if each.version.lane == "code":
            programs.update(each.texts)
    lacking = missing(wanted)
    row_of: dict[bytes, bytes] = {}
    for is_code, make in ((False, embedder.embed), (True, embedder.embed_code)):
        contents = [name for name in wanted if name in lacking and (name in programs) == is_code]
        if contents:
            vectors = make([wanted[name] for name in contents]).astype("<f2")
            row_of.update(zip(contents, (row.tobytes() for row in vectors), strict=True))
    for each in prepared:
        each.version.embedded = {
            content: row_of[content] for content in each.texts if content in row_of
        }
        each.texts = {}
    return len(row_of)


def _name_terms(document: Document) -> tuple[str, ...]:
    """What a document is called, and what its front matter says of it."""
    said = document.metadata
    named = (
        document.title,
        document.uri,
        _words(said.get("description")),
        " ".join(document.aliases),
        _words(said.get("keywords")),
    )
    return tuple(map(analyse, named))


def _words(value: object) -> str:
    """The words of one entry of a front matter, be it a text or a list of them."""
    each = value if isinstance(value, list | tuple) else (value,)
    return " ".join(part for part in each if isinstance(part, str))


def _metadata(document: Document) -> str:
    kept: dict[str, object] = {}
    if document.metadata:
        kept["front_matter"] = dict(document.metadata)
    if document.aliases:
        kept["aliases"] = list(document.aliases)
    programs: dict[str, list[tuple[int, int]]] = {}
    for block in document.blocks:
        if block.language and block.kind in ("fence", "indented"):
            programs.setdefault(called(block.language), []).append((block.start, block.end))
    if programs:
        kept["programs"] = programs
    return json.dumps(kept, ensure_ascii=False, sort_keys=True)


def _chunk_row(document: Document, each: Chunk) -> ChunkRow:
    span = each.span
    text = document.text[span.start : span.end]
    return (
        bytes.fromhex(each.id),
        each.content,
        each.section,
        PATH_SEPARATOR.join(each.path),
        span.start,
        span.end,
        span.start_line,
        span.end_line,
        each.overlap,
        each.part,
        each.parts,
        sha256(text.encode("utf-8")).digest(),
    )


def _code_entries(document: Document, chunks: Sequence[Chunk]) -> list[tuple[str, ...]]:
    """What the keyword index sees of code: names count as headings do."""
    entries: list[tuple[str, ...]] = []
    for each in chunks:
        symbols = code.symbols_in(document, each)
        names = " ".join((*each.path, *(symbol.name for symbol in symbols)))
        tags = " ".join(sorted({tag for symbol in symbols for tag in symbol.tags}))
        documentation = "\n".join(symbol.docstring for symbol in symbols if each.part == 1)
        text = document.text[each.span.start : each.span.end]
        entries.append((analyse(names), analyse(tags), analyse(documentation), analyse(text)))
    return entries


def _entries(document: Document, chunks: Sequence[Chunk]) -> list[tuple[str, ...]]:
    """What the keyword index sees of each chunk: prose and code apart, each with its weight."""
    programs_at = [block for block in document.blocks if block.kind in ("fence", "indented")]
    ends = [block.end for block in programs_at]
    paths: dict[tuple[str, ...], str] = {}
    tags = analyse(" ".join((*document.tags, *document.aliases)))
    entries: list[tuple[str, ...]] = []
    for each in chunks:
        if each.path not in paths:
            paths[each.path] = analyse(" ".join(each.path))
        prose, programs = _apart(document.text, each, programs_at, ends)
        entries.append((paths[each.path], tags, analyse(prose), analyse(programs)))
    return entries


def _apart(text: str, each: Chunk, code: Sequence[Block], ends: Sequence[int]) -> tuple[str, str]:
    """The prose and the programs of one chunk; ``ends`` are those of the ``code`` blocks."""
    prose: list[str] = []
    programs: list[str] = []
    at, end = each.span.start, each.span.end
    for block in islice(code, bisect_right(ends, at), None):
        if block.start >= end:
            break
        start, stop = max(at, block.start), min(block.end, end)
        prose.append(text[at:start])
        programs.append(text[start:stop])
        at = stop
    prose.append(text[at:end])
    return "".join(prose), "".join(programs)
