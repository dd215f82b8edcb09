"""Plan edits by section: the changes of the text, and the outline they must result in.

:func:`verify` parses the result; an edit that reads differently than planned is not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, get_args

from lookfar.edit.headings import DEEPEST, check_title, respell
from lookfar.edit.place import NamedPart, require_section
from lookfar.edit.shape import Change, Piece
from lookfar.errors import Conflict, InvalidArgument
from lookfar.model import Document, Link, Position, Section
from lookfar.store.catalogue.heading_paths import format_path
from lookfar.text.parse.markdown import parse

_NEW: Final = -1
"""Marks a heading that was not in the document before; as a parent, it matches any."""


class Entry(NamedTuple):
    """A heading that the result must have."""

    level: int
    title: str
    was: int = _NEW
    """Its number in the old document."""
    parent: int | None = None
    """The old number of the parent it must have, -1 for no parent; None allows any."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Planned changes of one document."""

    changes: tuple[Change, ...]
    before: tuple[Entry, ...]
    """The headings before a part whose headings are free, or all headings."""
    after: tuple[Entry, ...] | None = None
    """The headings after that part; None if all headings are known."""
    edited: int = _NEW
    """Index of the edited section among the headings, or -1."""
    span: tuple[int, int] | None = None
    """Offsets of the edited part in the result, if it is not a section."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The result as the parser reads it."""

    document: Document
    became: dict[int, int] = field(default_factory=dict)
    """Maps the number of each remaining old heading to its number now."""
    section: Section | None = None
    lost: tuple[Link, ...] = ()
    """Links outside the edited part whose definition was in it and is gone."""


# -- operations --------------------------------------------------------------


def replace(document: Document, place: NamedPart, text: str, *, whole: bool) -> Draft:
    """Replace a section's own text, or with ``whole`` the section with its subsections."""
    new = tidy(text)
    if place.section is not None:
        if whole:
            return _replace_whole(document, place.section, new)
        return _replace_own(document, place.section, new, keep=False)
    if place.preamble:
        return _replace_preamble(document, place, new, keep=False)
    if place.everything:
        core = _core(document.text, document.body, len(document.text))
        lead = "\n" if document.body and core[0] == document.body else ""
        change = Change(core[0], core[1], (f"{lead}{new}\n",) if new else ())
        entries = _match_titles(_sections(document), _headings(new))
        return Draft((change,), tuple(entries), span=(change.start, change.start + len(new) + 1))
    start, end = place.span.start, place.span.end
    lines = document.text[end - 1 : end] == "\n" and document.text[start - 1 : start] in ("", "\n")
    return _replace_span(document, start, end, _verbatim(text, lines=lines))


def append(document: Document, place: NamedPart, text: str) -> Draft:
    """Add text to a section before its subsections, after a span, or at the end."""
    new = tidy(text)
    if not new:
        raise InvalidArgument("There is nothing to append.", hint="Give some text.")
    if place.section is not None:
        return _replace_own(document, place.section, new, keep=True)
    if place.preamble:
        return _replace_preamble(document, place, new, keep=True)
    if place.everything:
        end = len(document.text)
        lead = _blank_before(document.text, end)
        entries = [*_entries(_sections(document)), *_unmatched(_headings(new))]
        start = end + len(lead)
        span = start, start + len(new) + 1
        return Draft((Change(end, end, (*lead, f"{new}\n")),), tuple(entries), span=span)
    end = place.span.end
    at_line = document.text[end - 1 : end] == "\n"
    return _replace_span(document, end, end, _verbatim(text, lines=at_line))


def insert(
    document: Document, place: NamedPart, heading: str, text: str, level: int, position: Position
) -> Draft:
    """Insert a new section below a heading, or beside one."""
    title, new = check_title(heading), tidy(text)
    sections = _sections(document)
    if place.section is None and not place.everything:
        require_section(place, "A new section")
    parent, beside = _parent_and_neighbour(document, place.section, position)
    if beside is not None:
        default = beside.level
    elif parent is not None:
        default = parent.level + 1
    else:
        default = min((section.level for section in sections), default=1)
    # With a level and no parent, any heading above it may become the parent.
    below = parent.ordinal if parent else None if level else -1
    level = _check_level(level or default, parent)
    _refuse_twin(document, parent, title.read, level)
    inner = _headings(new)
    _refuse_shallow(inner, level, f"the new section {title.read!r}")
    at = _insert_offset(document, parent, beside, position)
    above = next((s for s in reversed(sections) if s.span.start < at and s.level < level), None)
    if above is not None and below is not None and above.ordinal != below:
        raise InvalidArgument(
            f"At level {level}, {title.read!r} would become a subsection of"
            f" {format_path(above.path)!r}.",
            hint="Omit the level, or name that heading as the parent.",
            details={"uri": document.uri},
        )
    body = f"\n{new}\n" if new else ""
    pieces = (*_blank_before(document.text, at), f"{'#' * level} {title.written}\n{body}")
    change = Change(at, at, (*pieces, "\n") if at < len(document.text) else pieces)
    entries = _entries(sections)
    index = sum(1 for section in sections if section.span.start < at)
    own = Entry(level, title.read, _NEW, below)
    entries[index:index] = [own, *_unmatched(inner)]
    return Draft((change,), tuple(entries), edited=index)


def move(
    document: Document, place: NamedPart, beside_or_parent: Section | None, position: Position
) -> Draft:
    """Move a section with its subsections, and adapt their levels."""
    text, sections = document.text, _sections(document)
    moved = require_section(place, "Moving")
    parent, beside = _parent_and_neighbour(document, beside_or_parent, position)
    inside = [section for section in sections if _within(section, moved)]
    for other in (parent, beside):
        if other is not None and _within(other, moved):
            raise InvalidArgument(
                f"{format_path(moved.path)} cannot be moved into itself.",
                hint="Name another heading.",
            )
    if beside is not None:
        level = beside.level
    elif parent is not None:
        level = parent.level + 1
    else:
        level = min(section.level for section in sections)
    shift = _check_level(level, parent) - moved.level
    if max(section.level for section in inside) + shift > DEEPEST:
        raise InvalidArgument(
            f"{format_path(moved.path)} has subsections that would be deeper than level {DEEPEST}.",
            hint="Choose a parent at a higher level.",
        )
    if parent is None or parent.ordinal != moved.parent:
        _refuse_twin(document, parent, moved.title, level, except_for=moved)
    at = _insert_offset(document, parent, beside, position)
    start, end = moved.span.start, moved.span.end
    last = end if at < len(text) else max(_core(text, start, end)[1], moved.body)
    pieces = _shift_levels(text, inside, shift, last)
    others = [section for section in sections if not _within(section, moved)]
    entries = _entries(others)
    index = sum(1 for section in others if section.span.start < at)
    new_parent = parent.ordinal if parent else -1
    entries[index:index] = [
        entry._replace(
            level=entry.level + shift,
            parent=new_parent if entry.was == moved.ordinal else entry.parent,
        )
        for entry in _entries(inside)
    ]
    if at in (start, end):
        changes: tuple[Change, ...] = (Change(start, last, tuple(pieces)),)
    else:
        after = ("\n",) if at < len(text) and not text[:end].endswith("\n\n") else ()
        changes = (
            _removal(text, start, end),
            Change(at, at, (*_blank_before(text, at), *pieces, *after)),
        )
    return Draft(changes, tuple(entries), edited=index)


def delete(document: Document, place: NamedPart) -> Draft:
    """Remove a section with its subsections, or a span."""
    if place.section is None:
        if place.everything:
            require_section(place, "Deleting")
        return _replace_span(document, place.span.start, place.span.end, "")
    deleted = place.section
    remaining = [section for section in _sections(document) if not _within(section, deleted)]
    change = _removal(document.text, deleted.span.start, deleted.span.end)
    return Draft((change,), tuple(_entries(remaining)))


def rename(document: Document, place: NamedPart, heading: str) -> Draft:
    """Give a section another title."""
    section = require_section(place, "Renaming")
    title = check_title(heading)
    sections = _sections(document)
    parent = document.sections[section.parent] if section.parent >= 0 else None
    _refuse_twin(document, parent, title.read, section.level, except_for=section)
    pieces = respell(document.text, section, section.level, title=title.written)
    change = Change(section.span.start, section.body, tuple(pieces))
    index = sections.index(section)
    entries = _entries(sections)
    entries[index] = entries[index]._replace(title=title.read)
    return Draft((change,), tuple(entries), edited=index)


# -- verification ------------------------------------------------------------


def verify(document: Document, draft: Draft, text: str) -> Verified:
    """Parse the result; ``InvalidArgument`` if it does not read as planned."""
    result = parse(document.uri, text)
    headings = _sections(result)
    before, after = draft.before, draft.after or ()
    counted = len(before) + len(after)
    fits = len(headings) == counted if draft.after is None else len(headings) >= counted
    pairs = [*zip(before, headings, strict=False)]
    if after and fits:
        pairs += zip(after, headings[-len(after) :], strict=True)
    fits = fits and all((e.level, e.title) == (s.level, s.title) for e, s in pairs)
    if fits:
        became = {entry.was: section.ordinal for entry, section in pairs if entry.was >= 0}
        fits = all(_has_parent(entry, section, became) for entry, section in pairs)
    if fits and draft.after is not None and draft.span is not None:
        # A line before the span must not become a heading because of what follows it now.
        start = draft.span[0]
        cut = {s.span.start for s in _sections(document) if s.span.start < start < s.body}
        made = (
            section.span.start for section in headings[len(before) : len(headings) - len(after)]
        )
        fits = all(at >= start or at in cut for at in made)
    if not fits or not _fences_unchanged(document, draft.changes, result):
        raise InvalidArgument(
            f"With this text {document.uri} would read differently outside the edited part.",
            hint="Close every code fence, comment and HTML block in the text, and use only "
            "headings below the edited one.",
            details={"uri": document.uri},
        )
    redirected, lost = _compare_links(document, draft.changes, result)
    if redirected:
        link = redirected[0]
        raise InvalidArgument(
            f"With this text {document.text[link.start : link.end]!r} elsewhere in {document.uri}"
            " would lead elsewhere.",
            hint="Use another name for the link definition in the text.",
            details={"uri": document.uri, "target": link.target},
        )
    section = headings[draft.edited] if draft.edited >= 0 else None
    return Verified(result, became, section, tuple(lost))


def _compare_links(
    document: Document, changes: Sequence[Change], result: Document
) -> tuple[list[Link], list[Link]]:
    """Return the links outside the changes that lead elsewhere now, and those that are gone.

    A reference link depends on its definition, which may be inside a change.
    """
    now = {link.start: link for link in result.links}
    left = sorted(changes, key=lambda change: change.start, reverse=True)
    shift = 0
    redirected, lost = [], []
    for link in sorted(document.links, key=lambda link: link.start):
        while left and left[-1].end <= link.start:
            change = left.pop()
            shift += length(change.pieces) - (change.end - change.start)
        if left and left[-1].start < link.end:
            continue  # The change contains the link.
        moved = now.get(link.start + shift)
        if moved is None:
            lost.append(link)
        elif (moved.target, moved.anchor) != (link.target, link.anchor):
            redirected.append(link)
    return redirected, lost


def _has_parent(entry: Entry, section: Section, became: dict[int, int]) -> bool:
    if entry.parent is None:
        return True
    return section.parent == (became.get(entry.parent, _NEW) if entry.parent >= 0 else -1)


def _fences_unchanged(document: Document, changes: Sequence[Change], result: Document) -> bool:
    """Whether fences and HTML blocks outside the changes start and end as before.

    A fence around a change must still end at the same place, even if it is now several fences.
    """
    now = {(block.kind, block.start, block.end) for block in result.blocks}
    ends = {(block.kind, block.end) for block in result.blocks}
    left = sorted(changes, key=lambda change: change.start, reverse=True)
    shift = 0
    for block in sorted(document.blocks, key=lambda block: block.start):
        while left and left[-1].end <= block.start:
            change = left.pop()
            shift += length(change.pieces) - (change.end - change.start)
        untouched = not left or left[-1].start >= block.end
        same = (block.kind, block.start + shift, block.end + shift) in now
        if untouched and not same and block.kind in ("fence", "html"):
            return False
        if untouched or block.kind != "fence" or not document.text[block.end :].strip():
            continue
        inside = [c for c in changes if block.start < c.start and c.end < block.end]
        grown = sum(length(c.pieces) - (c.end - c.start) for c in inside)
        if inside and ("fence", block.end + shift + grown) not in ends:
            return False
    return True


def length(pieces: Iterable[Piece]) -> int:
    return sum(len(p) if isinstance(p, str) else p[1] - p[0] for p in pieces)


# -- helpers -----------------------------------------------------------------


def tidy(text: str) -> str:
    """Normalise line ends, and remove blank lines at both ends."""
    lines = _line_ends(text).split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    while lines and not lines[-1].strip():
        lines.pop()
    return "\n".join(lines)


def _verbatim(text: str, *, lines: bool) -> str:
    """Normalise line ends, and keep blank lines at both ends, which a span contains, too.

    A text that replaces whole ``lines`` gets a newline at its end.
    """
    new = _line_ends(text)
    return f"{new}\n" if lines and new and not new.endswith("\n") else new


def _line_ends(text: str) -> str:
    if "\0" in text:
        raise InvalidArgument("The text contains a NUL byte.", hint="Send plain text.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            "The text contains a lone surrogate.", hint="Send valid Unicode text."
        ) from error
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _headings(text: str) -> list[Section]:
    """Return the headings of a new text; the newline keeps it from having front matter."""
    return _sections(parse("text.md", f"\n{text}\n"))


def _sections(document: Document) -> list[Section]:
    return [section for section in document.sections if section.level]


def _entries(sections: Iterable[Section]) -> list[Entry]:
    return [Entry(s.level, s.title, s.ordinal, s.parent) for s in sections]


def _unmatched(sections: Iterable[Section]) -> list[Entry]:
    return [Entry(section.level, section.title) for section in sections]


def _within(section: Section, outer: Section) -> bool:
    return outer.span.start <= section.span.start < outer.span.end


def _own_end(document: Document, section: Section) -> int:
    """Return where a section's own text ends: at its first subsection."""
    starts = (s.span.start for s in document.sections if s.parent == section.ordinal)
    return min(starts, default=section.span.end)


def _core(text: str, start: int, end: int) -> tuple[int, int]:
    """Trim blank lines from a range; an empty range at its start if there are no others."""
    first = start
    while first < end:
        line = text.index("\n", first) + 1
        if text[first:line].strip():
            break
        first = line
    if first >= end:
        return start, start
    last = end
    while not text[text.rfind("\n", first, last - 1) + 1 : last].strip():
        last = text.rfind("\n", first, last - 1) + 1
    return first, last


def _replace_own(document: Document, section: Section, new: str, *, keep: bool) -> Draft:
    """Replace a section's own text, or with ``keep`` add to it."""
    text, end = document.text, _own_end(document, section)
    first, last = _core(text, section.body, end)
    inner = _headings(new)
    _refuse_shallow(inner, section.level, f"{format_path(section.path)!r}")
    follows = ("\n",) if last == end < len(text) else ()
    if not new:
        change = Change(section.body, last)
    elif first == last:
        follows = ("\n",) if section.body == end < len(text) else ()
        change = Change(section.body, section.body, (f"\n{new}\n", *follows))
    elif keep:
        change = Change(last, last, (f"\n{new}\n", *follows))
    else:
        change = Change(first, last, (f"{new}\n", *follows))
    sections = _sections(document)
    index = sections.index(section)
    entries = _entries(sections)
    position = index + 1
    if keep:
        position += sum(1 for other in sections if section.body <= other.span.start < end)
    entries[position:position] = _unmatched(inner)
    return Draft((change,), tuple(entries), edited=index)


def _replace_preamble(document: Document, place: NamedPart, new: str, *, keep: bool) -> Draft:
    """Replace the text before the first heading, or with ``keep`` add to it."""
    text, body, end = document.text, place.span.start, place.span.end
    first, last = _core(text, body, end)
    blank = first == last
    follows = ("\n",) if (body if blank else last) == end < len(text) else ()
    lead = "\n" if (blank and body) or (keep and not blank) else ""
    start = last if keep and not blank else first
    pieces = (f"{lead}{new}\n", *follows) if new else ()
    change = Change(start if new else body, start if blank else last, pieces)
    span = (start + len(lead), start + len(lead) + len(new) + 1) if new else None
    return Draft((change,), (), tuple(_entries(_sections(document))), span=span)


def _replace_whole(document: Document, section: Section, new: str) -> Draft:
    text, sections = document.text, _sections(document)
    inner = _headings(new)
    if not inner or inner[0].level != section.level or inner[0].span.start != 1:
        raise InvalidArgument(
            f"The text must start with a heading of level {section.level}, like the section.",
            hint="Start with the heading, or replace only the section's own text.",
        )
    _refuse_shallow(inner, section.level - 1, f"{format_path(section.path)!r}")
    start, end = section.span.start, section.span.end
    last = max(_core(text, section.body, end)[1], section.body)
    follows = ("\n",) if last == end < len(text) else ()
    old = [other for other in sections if _within(other, section)]
    index = sections.index(section)
    entries = _entries(sections)
    replaced = _match_titles(old, inner)
    replaced[0] = replaced[0]._replace(was=section.ordinal, parent=section.parent)
    entries[index : index + len(old)] = replaced
    change = Change(start, last, (f"{new}\n", *follows))
    return Draft((change,), tuple(entries), edited=index)


def _match_titles(old: Sequence[Section], new: Sequence[Section]) -> list[Entry]:
    """Match each new heading with the first unmatched old one of the same title."""
    left: dict[str, list[int]] = {}
    for section in old:
        left.setdefault(section.title, []).append(section.ordinal)
    return [
        Entry(s.level, s.title, left[s.title].pop(0) if left.get(s.title) else _NEW) for s in new
    ]


def _replace_span(document: Document, start: int, end: int, new: str) -> Draft:
    """Replace a span with a text that may contain any headings."""
    sections = _sections(document)
    before = _entries(section for section in sections if section.body <= start)
    after = _entries(section for section in sections if section.span.start >= end)
    change = Change(start, end, (new,) if new else ())
    return Draft(
        (change,),
        tuple(entry._replace(parent=None) for entry in before),
        tuple(entry._replace(parent=None) for entry in after),
        span=(start, start + len(new)),
    )


def _parent_and_neighbour(
    document: Document, section: Section | None, position: Position
) -> tuple[Section | None, Section | None]:
    """Return the parent of a new or moved section, and its neighbour if ``position`` names one."""
    if position not in get_args(Position):
        raise InvalidArgument(
            f"There is no position {position!r}.", hint="Use last, first, before or after."
        )
    if position in ("last", "first"):
        return section, None
    if section is None:
        raise InvalidArgument(f"{position!r} needs a section.", hint="Name its heading.")
    return (document.sections[section.parent] if section.parent >= 0 else None), section


def _insert_offset(
    document: Document, parent: Section | None, beside: Section | None, position: Position
) -> int:
    if beside is not None:
        return beside.span.start if position == "before" else beside.span.end
    if parent is not None:
        return parent.span.end if position == "last" else _own_end(document, parent)
    sections = _sections(document)
    return sections[0].span.start if sections and position == "first" else len(document.text)


def _blank_before(text: str, at: int) -> tuple[str, ...]:
    """Return a blank line unless there is one before the offset."""
    return () if at == 0 or text[:at].endswith("\n\n") else ("\n",)


def _removal(text: str, start: int, end: int) -> Change:
    """Remove a section; keep one blank line between its neighbours, and none at the end."""
    separate = start == 0 or text[:start].endswith("\n\n")
    if end == len(text):
        return Change(start - 1 if separate and start > 1 else start, end)
    return Change(start, end, () if separate else ("\n",))


def _shift_levels(text: str, inside: Sequence[Section], shift: int, end: int) -> list[Piece]:
    """Return a section and its subsections with all levels shifted."""
    pieces: list[Piece] = []
    at = inside[0].span.start
    for section in inside:
        pieces.append((at, section.span.start))
        pieces += respell(text, section, section.level + shift)
        at = section.body
    pieces.append((at, end))
    return [piece for piece in pieces if isinstance(piece, str) or piece[0] < piece[1]]


def _check_level(level: int, parent: Section | None) -> int:
    least = parent.level + 1 if parent else 1
    if not least <= level <= DEEPEST:
        raise InvalidArgument(
            f"Level {level} is not between {least} and {DEEPEST}.",
            hint="Omit the level to use one below the parent."
            if least <= DEEPEST
            else "Choose a parent at a higher level.",
        )
    return level


def _refuse_shallow(inner: Sequence[Section], level: int, outer: str) -> None:
    for section in inner:
        if section.level <= level:
            raise InvalidArgument(
                f"The heading {section.title!r} in the text has level {section.level}, which would "
                f"end {outer}.",
                hint=f"Use levels deeper than {level}, or replace the whole section.",
            )


def _refuse_twin(
    document: Document,
    parent: Section | None,
    title: str,
    level: int,
    except_for: Section | None = None,
) -> None:
    above = parent.ordinal if parent else -1
    for section in document.sections:
        same = section.parent == above and section.level == level and section.title == title
        if same and section is not except_for:
            raise Conflict(
                f"{document.uri} already has a section {format_path(section.path)!r}, on line "
                f"{section.span.start_line}.",
                hint="Append to it or replace it, or choose another heading.",
                details={"uri": document.uri, "heading_path": format_path(section.path)},
            )
