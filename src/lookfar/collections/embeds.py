"""Read the notes that a note embeds (``![[Note#Heading]]``), each with its own place in its file.

The text of the note itself stays as it is on disk. Depth, number and size are bounded; what is not
shown is named with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lookfar.collections import read_documents
from lookfar.collections.collection import Collection
from lookfar.errors import Ambiguous, NotFound
from lookfar.model import Embed, EmbedProblem, Link, Reading, Span, Target
from lookfar.text.parse.formats import detect_format
from lookfar.text.parse.markdown import parse

_MOST_DEPTH: Final = 3
_MOST_EMBEDS: Final = 100
_MOST_CHARS: Final = 60_000
"""Characters of all embedded texts together."""


@dataclass(slots=True)
class _Left:
    """How much may still be shown."""

    embeds: int = _MOST_EMBEDS
    chars: int = _MOST_CHARS


def list_embeds(collection: Collection, reading: Reading, *, name: str = "") -> tuple[Embed, ...]:
    """Return what a text embeds, in order; embeds of embedded notes are inside them."""
    return tuple(_read_embeds(collection, reading, name, _Left(), ((reading.uri, reading.span),)))


def _read_embeds(
    collection: Collection,
    reading: Reading,
    name: str,
    left: _Left,
    above: tuple[tuple[str, Span], ...],
) -> Iterator[Embed]:
    file_format = detect_format(reading.uri)
    if file_format is None or file_format.language != "markdown":
        return
    links = [link for link in parse(reading.uri, reading.text).links if link.kind == "embed"]
    uris = _resolve(collection, reading.uri, links)
    for link, uri in zip(links, uris, strict=True):
        if left.embeds <= 0:
            return
        left.embeds -= 1
        yield _read_embed(collection, reading, link, uri, name, left, above)


def _read_embed(
    collection: Collection,
    reading: Reading,
    link: Link,
    uri: str,
    name: str,
    left: _Left,
    above: tuple[tuple[str, Span], ...],
) -> Embed:
    written = reading.text[link.start : link.end]
    problem: EmbedProblem = ""
    part: Reading | None = None
    if not uri:
        problem = "not_indexed"
    elif len(above) > _MOST_DEPTH:
        problem = "too_deep"
    else:
        try:
            part = read_documents.read(collection, Target(uri, link.anchor), name=name)
        except NotFound:
            problem = "not_found"
        except Ambiguous:
            problem = "ambiguous"
    if part is not None:
        if any(uri == other and _overlap(part.span, span) for other, span in above):
            problem = "cycle"
        elif len(part.text) > left.chars:
            problem = "too_large"
    if part is None or problem:
        return Embed(link.start, link.end, written, problem)
    left.chars -= len(part.text)
    inside = _read_embeds(collection, part, name, left, (*above, (uri, part.span)))
    return Embed(link.start, link.end, written, "", part, tuple(inside))


def _overlap(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < one.end


def _resolve(collection: Collection, source: str, links: list[Link]) -> list[str]:
    """Return the document of each link as the index knows it; empty for other files."""
    if not links:
        return []
    targets = [(source, link.kind, link.target) for link in links]
    uris = collection.ask(lambda snapshot: snapshot.resolve_from(targets))
    return [uri if link.target else source for uri, link in zip(uris, links, strict=True)]
