"""Read the words of a document: the terms of its names and chunks, and what to embed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
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


def analyse_document(document: Document, chunks: Sequence[Chunk], words: Words) -> Streams:
    """Return the keyword terms of a document's names, and those of each of its chunks."""
    analysed = analyse(document, chunks, words)
    return analysed.names, analysed.entries


def analyse(document: Document, chunks: Sequence[Chunk], words: Words) -> Analysed:
    read_chunks = _read_code if document.lane == "code" else _read_prose
    describe = code.context_of if document.lane == "code" else chunk_context
    entries: list[tuple[str, ...]] = []
    texts: dict[bytes, Embeddable] = {}
    contexts: dict[str, bytes] = {}
    for chunk, (entry, pieces) in zip(chunks, read_chunks(document, chunks, words), strict=True):
        entries.append(entry)
        context = describe(document, chunk)
        if words.uses_pieces:
            if context not in contexts:
                contexts[context] = words.pieces(context)
            texts[chunk.content] = contexts[context] + pieces
        else:
            texts[chunk.content] = f"{context}\n{chunk_text(document, chunk)}"
    return Analysed(_analyse_names(document, words), entries, texts)


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


def _read_code(
    document: Document, chunks: Sequence[Chunk], words: Words
) -> Iterator[tuple[tuple[str, ...], bytes]]:
    """Yield terms and pieces of chunks of code; symbol names take the place of headings."""
    terms = words.terms
    for chunk in chunks:
        symbols = code.symbols_in(document, chunk)
        names = " ".join((*chunk.path, *(symbol.name for symbol in symbols)))
        tags = " ".join(sorted({tag for symbol in symbols for tag in symbol.tags}))
        documentation = "\n".join(symbol.docstring for symbol in symbols if chunk.part == 1)
        body = words.read(document.text[chunk.span.start : chunk.span.end])
        yield (terms(names), terms(tags), terms(documentation), body.terms), body.pieces


def _read_prose(
    document: Document, chunks: Sequence[Chunk], words: Words
) -> Iterator[tuple[tuple[str, ...], bytes]]:
    """Yield terms and pieces of prose; code blocks have a field and a weight of their own."""
    code_blocks = [block for block in document.blocks if block.kind in ("fence", "indented")]
    ends = [block.end for block in code_blocks]
    paths: dict[tuple[str, ...], str] = {}
    tags = words.terms(" ".join((*document.tags, *document.aliases)))
    for chunk in chunks:
        if chunk.path not in paths:
            paths[chunk.path] = words.terms(" ".join(chunk.path))
        parts = _split_code_blocks(document.text, chunk, code_blocks, ends)
        # Block ids are not searched by keyword, but they are part of the embedded text.
        shown = strip_block_ids(parts.prose) if document.language == "markdown" else parts.prose
        prose, programs = words.read(shown), words.read(parts.programs)
        pieces = prose.pieces + programs.pieces
        if words.uses_pieces and (parts.glued or len(shown) != len(parts.prose)):
            pieces = words.pieces(chunk_text(document, chunk))
        yield (paths[chunk.path], tags, prose.terms, programs.terms), pieces


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
