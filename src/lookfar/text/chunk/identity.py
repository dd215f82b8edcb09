"""What names a chunk: its content for vectors, its URI and content for citations.

Takes: a document and the span of a chunk. Gives: the text that is embedded,
its 16-byte content name, and a chunk id. Refuses: anything positional; neither
name contains an offset or the white space around a chunk, so an edit elsewhere
in the file changes neither, and nor does a blank line before the next section.
"""

from __future__ import annotations

from hashlib import blake2b

from lookfar.model import Chunk, Document

_FIELD = "\x1f"
# A page set in one heading would otherwise be repeated whole with each of its parts.
_LONGEST_NAME = 200


def context_of(title: str, path: tuple[str, ...]) -> str:
    """The document's title and the headings above a chunk, each once."""
    names = path if path and path[0] == title else (title, *path)
    return " > ".join(name[:_LONGEST_NAME] for name in names if name)


def embedded_text(document: Document, chunk: Chunk) -> str:
    """What the model sees: where the text stands, then the text itself."""
    context = context_of(document.title, chunk.path)
    return f"{context}\n{document.text[chunk.span.start : chunk.span.end].strip()}"


def content_name(title: str, path: tuple[str, ...], text: str) -> bytes:
    """Equal for equal embedded texts, wherever they stand."""
    named = f"{context_of(title, path)}{_FIELD}{text.strip()}"
    return blake2b(named.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def chunk_id(uri: str, content: bytes, occurrence: int) -> str:
    """Stable while text, headings, title and file stay; ``occurrence`` tells twins apart."""
    digest = blake2b(digest_size=16)
    digest.update(f"{uri}{_FIELD}{occurrence}{_FIELD}".encode("utf-8", "surrogatepass"))
    digest.update(content)
    return digest.hexdigest()
