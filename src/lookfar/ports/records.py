"""The records that cross the seams between rooms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from lookfar.model import (
    Fingerprint,
    Kind,
    LinkKind,
    SymbolKind,
)


class Entry(NamedTuple):
    """One chunk as a keyword index sees it: terms by field."""

    headings: str
    tags: str
    body: str
    code: str


Streams = tuple[Sequence[str], Sequence[Sequence[str]]]
"""The terms of one document: of its names, and one entry for each chunk."""

SectionRow = tuple[int, int, int, str, int, int, int, int, int, str, bool]
"""ordinal, parent, level, title, start, end, start_line, end_line, body, kind, documented"""

ChunkRow = tuple[bytes, bytes, int, str, int, int, int, int, int, int, int, bytes]
"""id, content, section, path, start, end, start_line, end_line, overlap, part, parts, sha256"""

LinkRow = tuple[str, str, str, str, int, int, str]
"""kind, target, anchor, text, start, end, name"""

NameRow = tuple[str, int, str]
"""name, way, whole"""

PATH_SEPARATOR = "\x1f"
"""Separates the headings of a stored path."""


@dataclass(slots=True)
class Version:
    """One version of a document, parsed, chunked and analysed, ready to be stored.

    Rows are plain tuples because hundreds of thousands of them cross process boundaries, and
    plain tuples pickle ten times faster.
    """

    uri: str
    lane: Kind
    language: str
    title: str
    body: int
    metadata: str
    """JSON: front matter and aliases."""
    warnings: tuple[str, ...]
    tags: tuple[str, ...]
    fingerprint: Fingerprint
    settled: bool
    raw_sha: bytes
    text_sha: bytes
    text: bytes
    """The normalised text, compressed."""
    text_bytes: int
    sections: list[SectionRow]
    chunks: list[ChunkRow]
    links: list[LinkRow]
    names: list[NameRow]
    """Names by which links may refer to it."""
    name_terms: tuple[str, ...]
    """Terms of title, URI, description, aliases and keywords."""
    entries: list[tuple[str, ...]]
    """One per chunk, in the order of ``Entry``'s fields."""
    embedded: dict[bytes, bytes]
    """Float16 vectors of chunk contents that the store did not have."""
    adopted: dict[bytes, bytes] = field(default_factory=dict)
    """The same, but copied from another index of the same model."""
    signature: bytes = b""
    """Bits of its text that let line search skip it; if empty, the store computes them."""
    masked: int = 0
    """Number of passages that are masked because they look like secrets."""


class Known(NamedTuple):
    """What a store knows about a live document without reading its rows."""

    document: int
    fingerprint: Fingerprint
    settled: bool
    raw_sha: bytes


class LeftOut(NamedTuple):
    """A file or folder that a pass saw but did not store, with its state on disk at the time."""

    uri: str
    failed: bool
    """It could not be read or parsed; if False, there was simply nothing to store."""
    code: str
    message: str
    fingerprint: Fingerprint
    settled: bool


class Place(NamedTuple):
    """A chunk of a live document, with what ranking and citation need."""

    key: int
    id: bytes
    document: int
    vector: int | None
    uri: str
    title: str
    lane: Kind
    path: tuple[str, ...]
    ordinal: int
    part: int
    parts: int
    start: int
    end: int
    start_line: int
    end_line: int
    overlap: int
    sha: bytes


class Definition(NamedTuple):
    """A definition or a heading in a document."""

    start: int
    name: str
    kind: SymbolKind | Literal[""]
    """Empty for a heading."""
    documented: bool


class Edge(NamedTuple):
    """A link of a live document, and the live document it points to."""

    source: str
    source_title: str
    target: str
    """URI; empty if the link does not resolve."""
    target_title: str
    kind: LinkKind
    written: str
    """The target as written in the link."""
    anchor: str
    text: str
    start: int
    end: int


class Lead(NamedTuple):
    """A link between two live documents, reduced to what ranking needs."""

    source: int
    target: int
    kind: LinkKind
    start: int
    """Offset in the source document."""


class Member(NamedTuple):
    """A document of a community."""

    uri: str
    title: str
    closeness: float
    """To the queried document, by links and common neighbours."""
    links: int
    """Number of documents linked with it, in either direction."""


class Facts(NamedTuple):
    """A document in a listing, with the fields that filters use."""

    document: int
    uri: str
    title: str
    lane: Kind
    language: str
    modified_ns: int
    tags: tuple[str, ...]
    size: int = 0
    """Size on disk in bytes."""


Terms = Mapping[str, float] | Sequence[str]
"""Keyword terms, optionally with weights."""


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of these conditions; without any, every document matches."""

    parts: tuple[Need, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of these conditions."""

    parts: tuple[Need, ...]


Need = bytes | AllOf | AnyOf
"""A condition on documents: a lower-case text, as UTF-8, that they must contain."""
EVERYTHING = AllOf(())


class Statistics(NamedTuple):
    """Word frequencies, by which BM25 weights words."""

    entries: int
    frequency: Mapping[tuple[str, str], int]
    """Number of entries that contain a word, by field and word."""
