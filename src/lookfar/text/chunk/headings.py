"""Split a document into chunks along its headings.

A section is one chunk. Small sections join their neighbours under the same parent and take their
common heading path; large sections are split at paragraphs, then sentences, then words (see
``parts``), and very large ones into smaller parts. Without overlaps, the chunks tile the text after
the front matter. An atomic block such as a fence or table stays whole even if it is too large. A
blank document has no chunks. If chunks are made without headings, each begins after its heading; a
bare heading has none.

An edit affects only chunks that could have been joined with the edited section: its own parts if
the sections around it are large enough, and never beyond its top-level section, unless that was
joined with the text before the first heading. All other chunks keep their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from lookfar.common.lines import Lines
from lookfar.model import Chunk, Document, Section, Span
from lookfar.text.chunk.identity import chunk_id, common_path, content_name
from lookfar.text.chunk.parts import CountTokens, Part, Sizes, Splitter

__all__ = ["CountTokens", "Sizes", "chunk"]

_FLAT = 2
"""A section larger than this many chunks is flat text, which is found and cited better in small
parts. Other sections are split as little as possible: small parts lose words of their context."""


class _Group(NamedTuple):
    """Neighbouring sections that share a chunk, with their common path."""

    first: int
    path: tuple[str, ...]
    start: int
    end: int
    tokens: int
    bare: bool
    """Contains only headings."""


def chunk(document: Document, sizes: Sizes, count: CountTokens) -> list[Chunk]:
    """Split ``document`` into its chunks."""
    if not document.text[document.body :].strip():
        return []
    groups = _own_texts(document, count)
    if not sizes.with_headings:
        groups = [_strip_heading(document, group, count) for group in groups if not group.bare]
    if sizes.merge_small and groups:
        merge = _merge_upwards if sizes.merge_upwards else _merge_small
        groups = merge(document.sections, groups, sizes)
    usual = Splitter(document, sizes, count, sizes.max_tokens)
    small = Splitter(document, sizes, count, sizes.part_tokens or sizes.max_tokens)
    find_span = _make_span_finder(document)
    spans: list[tuple[_Group, Span, int, int, int]] = []
    for group in groups:
        parts = [Part(group.start, group.end, group.tokens)]
        splitter = small if group.tokens > _FLAT * sizes.max_tokens else usual
        if group.tokens > sizes.max_tokens:
            parts = splitter.parts(group.start, group.end, document.sections[group.first].body)
        for number, part in enumerate(parts, 1):
            overlap = splitter.overlap(parts[number - 2], part) if number > 1 else 0
            span = find_span(part.start - overlap, part.end)
            spans.append((group, span, overlap, number, len(parts)))
    return list(_make_chunks(document, spans))


def _make_span_finder(document: Document) -> Callable[[int, int], Span]:
    """Return a function for spans, which counts lines only if sections do not have them."""
    text, spans = document.text, [section.span for section in document.sections]
    line_at = {span.start: span.start_line for span in spans}
    if spans and spans[-1].end == len(text):
        line_at[len(text)] = spans[-1].end_line + 1
    find_lines = cache(lambda: Lines(text))

    def find_span(start: int, end: int) -> Span:
        first, after = line_at.get(start), line_at.get(end)
        if first is None or after is None or text[end - 1] != "\n" or end <= start:
            return find_lines().span(start, end)
        return Span(start, end, first, after - 1)

    return find_span


def _make_chunks(
    document: Document, spans: Sequence[tuple[_Group, Span, int, int, int]]
) -> Iterator[Chunk]:
    seen: dict[bytes, int] = {}
    for ordinal, (group, span, overlap, part, parts) in enumerate(spans):
        text = document.text[span.start : span.end]
        content = content_name(document.title, group.path, text)
        occurrence = seen.get(content, 0)
        seen[content] = occurrence + 1
        yield Chunk(
            id=chunk_id(document.uri, content, occurrence),
            content=content,
            ordinal=ordinal,
            section=group.first,
            path=group.path,
            span=span,
            overlap=overlap,
            part=part,
            parts=parts,
        )


def _own_texts(document: Document, count: CountTokens) -> list[_Group]:
    """Return each section's own text: from its heading to the next one of any level."""
    text, sections = document.text, document.sections
    starts = [section.span.start for section in sections]
    starts[0] = document.body
    ends = [*starts[1:], len(text)]
    return [
        _Group(
            first=section.ordinal,
            path=section.path,
            start=start,
            end=end,
            tokens=count(text[start:end]),
            bare=not text[section.body : end].strip(),
        )
        for section, start, end in zip(sections, starts, ends, strict=True)
    ]


def _strip_heading(document: Document, group: _Group, count: CountTokens) -> _Group:
    """Return a section's text from the first line with text after its heading."""
    text, body = document.text, document.sections[group.first].body
    start = max(group.start, body)
    first = len(text[start : group.end]) - len(text[start : group.end].lstrip())
    start = text.rfind("\n", start, start + first) + 1 or start
    return group._replace(start=start, tokens=count(text[start : group.end]))


def _merge_small(
    sections: Sequence[Section], groups: Sequence[_Group], sizes: Sizes
) -> list[_Group]:
    merged = [groups[0]]
    for group in groups[1:]:
        previous = merged[-1]
        small = group.tokens < sizes.min_tokens or previous.tokens < sizes.min_tokens
        fits = previous.tokens + group.tokens <= sizes.max_tokens
        if small and fits and _related(sections, previous.first, group.first):
            merged[-1] = _Group(
                first=previous.first,
                path=group.path if previous.bare else common_path(previous.path, group.path),
                start=previous.start,
                end=group.end,
                tokens=previous.tokens + group.tokens,
                bare=previous.bare and group.bare,
            )
        else:
            merged.append(group)
    return merged


def _merge_upwards(
    sections: Sequence[Section], groups: Sequence[_Group], sizes: Sizes
) -> list[_Group]:
    """Merge a small section into the chunk of its parent heading, if it follows that chunk.

    A chunk has the path of its first heading. One that would contain only headings, or nothing,
    becomes the beginning of the next.
    """
    merged: list[_Group] = []
    members: set[int] = set()
    for group in groups:
        previous, parent = merged[-1] if merged else None, sections[group.first].parent
        fits = previous is not None and previous.tokens + group.tokens <= sizes.max_tokens
        small = group.tokens < sizes.min_tokens and parent in members and sections[parent].level
        if previous is not None and fits and small:
            bare = previous.bare and group.bare
            tokens = previous.tokens + group.tokens
            merged[-1] = previous._replace(end=group.end, tokens=tokens, bare=bare)
            members.add(group.first)
            continue
        if previous is not None and previous.bare and (fits or not previous.tokens):
            tokens = previous.tokens + group.tokens
            merged[-1] = group._replace(start=previous.start, tokens=tokens)
        else:
            merged.append(group)
        members = {group.first}
    return merged


def _related(sections: Sequence[Section], earlier: int, later: int) -> bool:
    """Whether ``later`` is below ``earlier`` or its sibling.

    Compares positions and not titles, which may repeat.
    """
    section, start = sections[earlier], sections[later].span.start
    if section.level == 0 or start < section.span.end:
        return True
    return section.parent >= 0 and start < sections[section.parent].span.end
