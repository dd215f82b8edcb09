"""Name chunks: by content for vectors, by URI and content for citations.

Names contain no offset and no white space around a chunk, so an edit elsewhere in the file, or a
blank line before the next section, does not change them.
"""

from __future__ import annotations

from hashlib import blake2b

from lookfar.model import Chunk, Document

_FIELD = "\x1f"
# A page that is one long heading would otherwise be repeated with each of its parts.
_LONGEST_NAME = 200


def heading_context(title: str, path: tuple[str, ...]) -> str:
    """Return the document's title and the headings above a chunk, each once."""
    names = path if path and path[0] == title else (title, *path)
    return " > ".join(name[:_LONGEST_NAME] for name in names if name)


def embedded_text(document: Document, chunk: Chunk) -> str:
    """Return the text to embed: title and headings, then the text itself."""
    return f"{chunk_context(document, chunk)}\n{chunk_text(document, chunk)}"


def chunk_context(document: Document, chunk: Chunk) -> str:
    return heading_context(document.title, chunk.path)


def chunk_text(document: Document, chunk: Chunk) -> str:
    """Return a chunk's own text, without the white space around it."""
    return document.text[chunk.span.start : chunk.span.end].strip()


def content_name(title: str, path: tuple[str, ...], text: str) -> bytes:
    """Return a hash that is equal for equal embedded texts."""
    named = f"{heading_context(title, path)}{_FIELD}{text.strip()}"
    return blake2b(named.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def chunk_id(uri: str, content: bytes, occurrence: int) -> str:
    """Return an id from URI and content; ``occurrence`` distinguishes equal chunks."""
    digest = blake2b(digest_size=16)
    digest.update(f"{uri}{_FIELD}{occurrence}{_FIELD}".encode("utf-8", "surrogatepass"))
    digest.update(content)
    return digest.hexdigest()


def common_path(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    """Return the beginning that two paths share."""
    shared = 0
    while shared < min(len(left), len(right)) and left[shared] == right[shared]:
        shared += 1
    return left[:shared]
