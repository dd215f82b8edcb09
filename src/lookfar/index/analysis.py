"""Read the words of a document: the terms of its names and chunks, and what to embed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from lookfar.index.words import Embeddable, Words
from lookfar.model import Block, Chunk, Document
from lookfar.ports import Streams
from lookfar.text.chunk import definitions as code
from lookfar.text.chunk.identity import chunk_context, chunk_text
from lookfar.text.parse.block_ids import strip_block_ids


class Analysed(NamedTuple):
    """What the words of a document give."""

    names: tuple[str, ...]
    """Terms of its names."""
    entries: list[tuple[str, ...]]
    """Terms of each chunk."""
    texts: dict[bytes, Embeddable]
    """What to embed, by content name."""
    sources: list[int]
    """A hash of what each entry was read from."""
    copied: dict[int, int]
    """The chunks that were not read, because the store has the same, with their number there."""


class _Source(NamedTuple):
    """What the terms of a chunk are read from."""

    described: tuple[str, ...]
    """The texts of the fields that only the keyword index reads."""
    shown: tuple[str, ...]
    """The texts of the other fields, which are embedded as well."""
    whole: bool = True
    """Whether these have all words of the chunk as they are in its text."""


def analyse_document(document: Document, chunks: Sequence[Chunk], words: Words) -> Streams:
    """Return the keyword terms of a document's names, and those of each of its chunks."""
    analysed = analyse(document, chunks, words)
    return analysed.names, analysed.entries


def analyse(
    document: Document,
    chunks: Sequence[Chunk],
    words: Words,
    stored: Mapping[int, int] = MappingProxyType({}),
) -> Analysed:
    """Read the words of all chunks but those that are ``stored``, by the hash of their source."""
    list_sources = _list_code if document.lane == "code" else _list_prose
    describe = code.context_of if document.lane == "code" else chunk_context
    entries: list[tuple[str, ...]] = []
    texts: dict[bytes, Embeddable] = {}
    hashes: list[int] = []
    copied: dict[int, int] = {}
    terms, pieces = cache(words.terms), cache(words.pieces)
    for chunk, source in zip(chunks, list_sources(document, chunks), strict=True):
        hashed = _hash_source(chunk, source)
        hashes.append(hashed)
        if hashed in stored:
            copied[len(entries)] = stored[hashed]
            entries.append(())
            continue
        context, read = describe(document, chunk), [words.read(text) for text in source.shown]
        entries.append((*map(terms, source.described), *(text.terms for text in read)))
        if not words.uses_pieces:
            texts[chunk.content] = f"{context}\n{chunk_text(document, chunk)}"
        elif source.whole:
            texts[chunk.content] = b"".join([pieces(context), *(text.pieces for text in read)])
        else:
            texts[chunk.content] = pieces(context) + words.pieces(chunk_text(document, chunk))
    return Analysed(_analyse_names(document, words), entries, texts, hashes, copied)


def _hash_source(chunk: Chunk, source: _Source) -> int:
    """Return a number that is equal for chunks with equal terms and equal vectors."""
    read = "\x1f".join((*source.described, *source.shown)).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(chunk.content + read, digest_size=8).digest(), "little")


def _analyse_names(document: Document, words: Words) -> tuple[str, ...]:
    """Analyse what a document is called and how its front matter describes it."""
    metadata = document.metadata
    names = (
        document.title,
        document.uri,
        _join_words(metadata.get("description")),
        " ".join(document.aliases),
        _join_words(metadata.get("keywords")),
    )
    return tuple(map(words.terms, names))


def _join_words(value: object) -> str:
    """Join the texts of a front matter value, which may be one text or a list."""
    parts = value if isinstance(value, list | tuple) else (value,)
    return " ".join(part for part in parts if isinstance(part, str))


def _list_code(document: Document, chunks: Sequence[Chunk]) -> Iterator[_Source]:
    """Yield the sources of chunks of code; symbol names take the place of headings."""
    for chunk in chunks:
        symbols = code.symbols_in(document, chunk)
        names = " ".join((*chunk.path, *(symbol.name for symbol in symbols)))
        tags = " ".join(sorted({tag for symbol in symbols for tag in symbol.tags}))
        documentation = "\n".join(symbol.docstring for symbol in symbols if chunk.part == 1)
        body = document.text[chunk.span.start : chunk.span.end]
        yield _Source((names, tags, documentation), (body,))


def _list_prose(document: Document, chunks: Sequence[Chunk]) -> Iterator[_Source]:
    """Yield the sources of prose; code blocks have a field and a weight of their own."""
    code_blocks = [block for block in document.blocks if block.kind in ("fence", "indented")]
    ends = [block.end for block in code_blocks]
    tags = " ".join((*document.tags, *document.aliases))
    for chunk in chunks:
        parts = _split_code_blocks(document.text, chunk, code_blocks, ends)
        # Block ids are not searched by keyword, but they are part of the embedded text.
        shown = strip_block_ids(parts.prose) if document.language == "markdown" else parts.prose
        whole = not parts.glued and len(shown) == len(parts.prose)
        yield _Source((" ".join(chunk.path), tags), (shown, parts.programs), whole)


class _Parts(NamedTuple):
    """The prose and the code of a chunk."""

    prose: str
    programs: str
    glued: bool
    """Whether a code block begins or ends inside a word, which only the whole text has."""


def _split_code_blocks(
    text: str, chunk: Chunk, code_blocks: Sequence[Block], ends: Sequence[int]
) -> _Parts:
    """Split a chunk into its prose and its code; ``ends`` are the ends of ``code_blocks``."""
    prose: list[str] = []
    programs: list[str] = []
    glued = False
    at, end = chunk.span.start, chunk.span.end
    for block in islice(code_blocks, bisect_right(ends, at), None):
        if block.start >= end:
            break
        start, stop = max(at, block.start), min(block.end, end)
        prose.append(text[at:start])
        programs.append(text[start:stop])
        glued = glued or _divides_word(text, start) or _divides_word(text, stop)
        at = stop
    prose.append(text[at:end])
    return _Parts("".join(prose), "".join(programs), glued)


def _divides_word(text: str, cut: int) -> bool:
    return 0 < cut < len(text) and not (text[cut - 1].isspace() or text[cut].isspace())
