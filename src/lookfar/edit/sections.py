"""Edits by section, as changes of a text and the outline that they have to lead to.

Takes: a parsed document, a place in it, and what is to be done. Gives: the changes, and what
the parser must find when they are made. Refuses: what would end the section too early, hide
under the wrong heading, leave a fence open over what follows, or give two neighbours one name.

Nothing here trusts its own spelling: :func:`verified` parses the result, and whatever reads
otherwise than it was meant is not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, get_args

from lookfar.edit.headings import DEEPEST, checked_title, respelled
from lookfar.edit.place import Place, refuse_no_section
from lookfar.edit.shape import Change, Piece
from lookfar.errors import Conflict, InvalidArgument
from lookfar.model import Document, Link, Position, Section
from lookfar.store.catalogue.heading_paths import shown
from lookfar.text.parse.markdown import parse

_NEW: Final = -1
"""Stands for what was not in the document before; as a parent, for whatever it will be."""


class Entry(NamedTuple):
    """A heading that the result must have."""

    level: int
    title: str
    was: int = _NEW
    """Its number in the document before."""
    parent: int | None = None
    """The number of the heading that it must stand below, -1 for none; None leaves it open."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Changes of one document, not made yet."""

    changes: tuple[Change, ...]
    before: tuple[Entry, ...]
    """The headings up to the part that the text of others may fill..."""
    after: tuple[Entry, ...] | None = None
    """...and those behind it; None where all headings are known."""
    edited: int = _NEW
    """The place of the edited section among the headings, or none."""
    span: tuple[int, int] | None = None
    """Where the edited part begins and ends in the result, where it is no section."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The result as the parser reads it."""

    document: Document
    became: dict[int, int] = field(default_factory=dict)
    """The number that each old heading has now; what is gone is not in it."""
    section: Section | None = None
    lost: tuple[Link, ...] = ()
    """Links outside of what was edited that were defined in it, and lead nowhere now."""


# -- the operations ----------------------------------------------------------


def replace(document: Document, place: Place, text: str, *, whole: bool) -> Draft:
    """Give a section another text of its own, or with ``whole`` replace all of it."""
    new = tidied(text)
    if place.section is not None:
        if whole:
            return _replace_whole(document, place.section, new)
        return _replace_own(document, place.section, new, keep=False)
    if place.everything:
        core = _core(document.text, document.body, len(document.text))
        lead = "\n" if document.body and core[0] == document.body else ""
        change = Change(core[0], core[1], (f"{lead}{new}\n",) if new else ())
        kept = _by_title(_sections(document), _headings(new))
        return Draft((change,), tuple(kept), span=(change.start, change.start + len(new) + 1))
    start, end = place.span.start, place.span.end
    lines = document.text[end - 1 : end] == "\n" and document.text[start - 1 : start] in ("", "\n")
    return _spanned(document, start, end, _verbatim(text, lines=lines))


def append(document: Document, place: Place, text: str) -> Draft:
    """Add to a section's own text, before its subsections; or after a span, or at the end."""
    new = tidied(text)
    if not new:
        raise InvalidArgument("There is nothing to append.", hint="Give a text.")
    if place.section is not None:
        return _replace_own(document, place.section, new, keep=True)
    if place.everything:
        end = len(document.text)
        lead = _apart(document.text, end)
        entries = [*_entries(_sections(document)), *_free(_headings(new))]
        start = end + len(lead)
        span = start, start + len(new) + 1
        return Draft((Change(end, end, (*lead, f"{new}\n")),), tuple(entries), span=span)
    end = place.span.end
    at_line = document.text[end - 1 : end] == "\n"
    return _spanned(document, end, end, _verbatim(text, lines=at_line))


def insert(
    document: Document, place: Place, heading: str, text: str, level: int, position: Position
) -> Draft:
    """Put a new section below a heading, or beside one."""
    title, new = checked_title(heading), tidied(text)
    sections = _sections(document)
    if place.section is None and not place.everything:
        refuse_no_section(place, "A new section")
    parent, beside = _meant(document, place.section, position)
    if beside is not None:
        usual = beside.level
    elif parent is not None:
        usual = parent.level + 1
    else:
        usual = min((each.level for each in sections), default=1)
    # Who names a level and no parent takes whichever heading it comes to stand below.
    below = parent.ordinal if parent else None if level else -1
    level = _checked_level(level or usual, parent)
    _refuse_twin(document, parent, title.read, level)
    inner = _headings(new)
    _refuse_shallow(inner, level, f"the new section {title.read!r}")
    at = _landing(document, parent, beside, position)
    above = next((s for s in reversed(sections) if s.span.start < at and s.level < level), None)
    if above is not None and below is not None and above.ordinal != below:
        raise InvalidArgument(
            f"At level {level} {title.read!r} would stand below {shown(above.path)!r}.",
            hint="Leave the level out, or name that heading as its parent.",
            details={"uri": document.uri},
        )
    body = f"\n{new}\n" if new else ""
    pieces = (*_apart(document.text, at), f"{'#' * level} {title.written}\n{body}")
    change = Change(at, at, (*pieces, "\n") if at < len(document.text) else pieces)
    entries = _entries(sections)
    index = sum(1 for each in sections if each.span.start < at)
    own = Entry(level, title.read, _NEW, below)
    entries[index:index] = [own, *_free(inner)]
    return Draft((change,), tuple(entries), edited=index)


def move(
    document: Document, place: Place, beside_or_parent: Section | None, position: Position
) -> Draft:
    """Put a section with its subsections below another heading, at the levels that fit there."""
    text, sections = document.text, _sections(document)
    moved = refuse_no_section(place, "Moving")
    parent, beside = _meant(document, beside_or_parent, position)
    inside = [each for each in sections if _within(each, moved)]
    for other in (parent, beside):
        if other is not None and _within(other, moved):
            raise InvalidArgument(
                f"{shown(moved.path)} cannot be moved into itself.", hint="Name another heading."
            )
    if beside is not None:
        level = beside.level
    elif parent is not None:
        level = parent.level + 1
    else:
        level = min(each.level for each in sections)
    shift = _checked_level(level, parent) - moved.level
    if max(each.level for each in inside) + shift > DEEPEST:
        raise InvalidArgument(
            f"{shown(moved.path)} has subsections that would lie deeper than level {DEEPEST}.",
            hint="Choose a parent that is less deep.",
        )
    if parent is None or parent.ordinal != moved.parent:
        _refuse_twin(document, parent, moved.title, level, besides=moved)
    at = _landing(document, parent, beside, position)
    start, end = moved.span.start, moved.span.end
    last = end if at < len(text) else max(_core(text, start, end)[1], moved.body)
    pieces = _shifted(text, inside, shift, last)
    entries = _entries([each for each in sections if not _within(each, moved)])
    index = sum(1 for each in sections if each.span.start < at and not _within(each, moved))
    carried = [
        each._replace(
            level=each.level + shift,
            parent=(parent.ordinal if parent else -1) if each.was == moved.ordinal else each.parent,
        )
        for each in _entries(inside)
    ]
    entries[index:index] = carried
    if at in (start, end):
        changes: tuple[Change, ...] = (Change(start, last, tuple(pieces)),)
    else:
        after = ("\n",) if at < len(text) and not text[:end].endswith("\n\n") else ()
        changes = (
            _removal(text, start, end),
            Change(at, at, (*_apart(text, at), *pieces, *after)),
        )
    return Draft(changes, tuple(entries), edited=index)


def delete(document: Document, place: Place) -> Draft:
    """Remove a section with its subsections, or a span."""
    if place.section is None:
        if place.everything:
            refuse_no_section(place, "Deleting")
        return _spanned(document, place.span.start, place.span.end, "")
    gone = place.section
    kept = [each for each in _sections(document) if not _within(each, gone)]
    change = _removal(document.text, gone.span.start, gone.span.end)
    return Draft((change,), tuple(_entries(kept)))


def rename(document: Document, place: Place, heading: str) -> Draft:
    """Give a section another title."""
    section = refuse_no_section(place, "Renaming")
    title = checked_title(heading)
    sections = _sections(document)
    parent = document.sections[section.parent] if section.parent >= 0 else None
    _refuse_twin(document, parent, title.read, section.level, besides=section)
    pieces = respelled(document.text, section, section.level, title=title.written)
    change = Change(section.span.start, section.body, tuple(pieces))
    index = sections.index(section)
    entries = _entries(sections)
    entries[index] = entries[index]._replace(title=title.read)
    return Draft((change,), tuple(entries), edited=index)


# -- what must come out ------------------------------------------------------


def verified(document: Document, draft: Draft, text: str) -> Verified:
    """Parse the result; ``InvalidArgument`` where it reads otherwise than it was meant to."""
    result = parse(document.uri, text)
    found = _sections(result)
    before, after = draft.before, draft.after or ()
    counted = len(before) + len(after)
    fits = len(found) == counted if draft.after is None else len(found) >= counted
    pairs = [*zip(before, found, strict=False)]
    if after and fits:
        pairs += zip(after, found[-len(after) :], strict=True)
    fits = fits and all((e.level, e.title) == (s.level, s.title) for e, s in pairs)
    if fits:
        became = {entry.was: section.ordinal for entry, section in pairs if entry.was >= 0}
        fits = all(_stands_well(entry, section, became) for entry, section in pairs)
    if fits and draft.after is not None and draft.span is not None:
        # A line outside must not become a heading by what stands below it now.
        start = draft.span[0]
        cut = {s.span.start for s in _sections(document) if s.span.start < start < s.body}
        made = (section.span.start for section in found[len(before) : len(found) - len(after)])
        fits = all(at >= start or at in cut for at in made)
    if not fits or not _fences_hold(document, draft.changes, result):
        raise InvalidArgument(
            f"With this text {document.uri} would read otherwise outside of what is edited.",
            hint="Close every code fence, comment and HTML block in the text, and leave out "
            "headings that are not below the edited one.",
            details={"uri": document.uri},
        )
    redirected, lost = _links_left(document, draft.changes, result)
    if redirected:
        one = redirected[0]
        raise InvalidArgument(
            f"With this text {document.text[one.start : one.end]!r} elsewhere in {document.uri}"
            " would lead to another place.",
            hint="Give the definition of the link in the text another name.",
            details={"uri": document.uri, "target": one.target},
        )
    section = found[draft.edited] if draft.edited >= 0 else None
    return Verified(result, became, section, tuple(lost))


def _links_left(
    document: Document, changes: Sequence[Change], result: Document
) -> tuple[list[Link], list[Link]]:
    """Links outside of the changes that lead elsewhere now, and those that are none any more:
    where a link by reference leads is defined somewhere else in the document.
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
            continue  # It is changed itself.
        there = now.get(link.start + shift)
        if there is None:
            lost.append(link)
        elif (there.target, there.anchor) != (link.target, link.anchor):
            redirected.append(link)
    return redirected, lost


def _stands_well(entry: Entry, section: Section, became: dict[int, int]) -> bool:
    if entry.parent is None:
        return True
    return section.parent == (became.get(entry.parent, _NEW) if entry.parent >= 0 else -1)


def _fences_hold(document: Document, changes: Sequence[Change], result: Document) -> bool:
    """Whether each fence and HTML block outside of the changes begins and ends as before, and
    one around a change still ends, whole or in parts, where it did."""
    now = {(block.kind, block.start, block.end) for block in result.blocks}
    ends = {(block.kind, block.end) for block in result.blocks}
    left = sorted(changes, key=lambda change: change.start, reverse=True)
    shift = 0
    for block in sorted(document.blocks, key=lambda block: block.start):
        while left and left[-1].end <= block.start:
            change = left.pop()
            shift += length(change.pieces) - (change.end - change.start)
        untouched = not left or left[-1].start >= block.end
        kept = (block.kind, block.start + shift, block.end + shift) in now
        if untouched and not kept and block.kind in ("fence", "html"):
            return False
        if untouched or block.kind != "fence" or not document.text[block.end :].strip():
            continue
        inside = [each for each in changes if block.start < each.start and each.end < block.end]
        grown = sum(length(each.pieces) - (each.end - each.start) for each in inside)
        if inside and ("fence", block.end + shift + grown) not in ends:
            return False
    return True


def length(pieces: Iterable[Piece]) -> int:
    """How long a text becomes of these pieces."""
    return sum(len(p) if isinstance(p, str) else p[1] - p[0] for p in pieces)


# -- parts -------------------------------------------------------------------


def tidied(text: str) -> str:
    """A text as it is put between others: its own lines, without blank ones around them."""
    lines = _line_ends(text).split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    while lines and not lines[-1].strip():
        lines.pop()
    return "\n".join(lines)


def _verbatim(text: str, *, lines: bool) -> str:
    """A text as it is put in the place of a span: with the blank lines around it, since those
    of a span are in it too. Where it takes the place of ``lines``, the last one ends.
    """
    put = _line_ends(text)
    return f"{put}\n" if lines and put and not put.endswith("\n") else put


def _line_ends(text: str) -> str:
    if "\0" in text:
        raise InvalidArgument("The text holds a zero byte.", hint="Give plain text.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            "The text holds half a character.", hint="Give text that can be written as UTF-8."
        ) from error
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _headings(text: str) -> list[Section]:
    """The headings of a text that will stand somewhere in a document, so not at its top."""
    return _sections(parse("text.md", f"\n{text}\n"))


def _sections(document: Document) -> list[Section]:
    return [section for section in document.sections if section.level]


def _entries(sections: Iterable[Section]) -> list[Entry]:
    return [Entry(each.level, each.title, each.ordinal, each.parent) for each in sections]


def _free(sections: Iterable[Section]) -> list[Entry]:
    return [Entry(each.level, each.title) for each in sections]


def _within(section: Section, outer: Section) -> bool:
    return outer.span.start <= section.span.start < outer.span.end


def _own_end(document: Document, section: Section) -> int:
    """Where a section's own text ends: at its first subsection."""
    inner = (each for each in document.sections if each.parent == section.ordinal)
    return min((each.span.start for each in inner), default=section.span.end)


def _core(text: str, start: int, end: int) -> tuple[int, int]:
    """The lines of a range without the blank ones around them; empty at its start if none."""
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
    """Put a text in the place of a section's own, or with ``keep`` behind it."""
    text, end = document.text, _own_end(document, section)
    first, last = _core(text, section.body, end)
    inner = _headings(new)
    _refuse_shallow(inner, section.level, f"{shown(section.path)!r}")
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
    behind = index + 1
    if keep:
        behind += sum(1 for each in sections if section.body <= each.span.start < end)
    entries[behind:behind] = _free(inner)
    return Draft((change,), tuple(entries), edited=index)


def _replace_whole(document: Document, section: Section, new: str) -> Draft:
    text, sections = document.text, _sections(document)
    inner = _headings(new)
    if not inner or inner[0].level != section.level or inner[0].span.start != 1:
        raise InvalidArgument(
            f"The text has to begin with a heading of level {section.level}, as the section does.",
            hint="Begin with the heading, or replace the section's own text only.",
        )
    _refuse_shallow(inner, section.level - 1, f"{shown(section.path)!r}")
    start, end = section.span.start, section.span.end
    last = max(_core(text, section.body, end)[1], section.body)
    follows = ("\n",) if last == end < len(text) else ()
    old = [each for each in sections if _within(each, section)]
    index = sections.index(section)
    entries = _entries(sections)
    renewed = _by_title(old, inner)
    renewed[0] = renewed[0]._replace(was=section.ordinal, parent=section.parent)
    entries[index : index + len(old)] = renewed
    change = Change(start, last, (f"{new}\n", *follows))
    return Draft((change,), tuple(entries), edited=index)


def _by_title(old: Sequence[Section], new: Sequence[Section]) -> list[Entry]:
    """New headings, each taken for the first old one with the same title that is left."""
    left: dict[str, list[int]] = {}
    for each in old:
        left.setdefault(each.title, []).append(each.ordinal)
    return [
        Entry(each.level, each.title, left[each.title].pop(0) if left.get(each.title) else _NEW)
        for each in new
    ]


def _spanned(document: Document, start: int, end: int, put: str) -> Draft:
    """A span gives way to a text, which may hold whatever headings it likes."""
    sections = _sections(document)
    before = [each for each in sections if each.body <= start]
    after = [each for each in sections if each.span.start >= end]
    change = Change(start, end, (put,) if put else ())
    return Draft(
        (change,),
        tuple(each._replace(parent=None) for each in _entries(before)),
        tuple(each._replace(parent=None) for each in _entries(after)),
        span=(start, start + len(put)),
    )


def _meant(
    document: Document, section: Section | None, position: Position
) -> tuple[Section | None, Section | None]:
    """The parent of what is put somewhere, and the neighbour where one was named."""
    if position not in get_args(Position):
        raise InvalidArgument(
            f"There is no position {position!r}.", hint="Use last, first, before or after."
        )
    if position in ("last", "first"):
        return section, None
    if section is None:
        raise InvalidArgument(
            f"{position!r} needs a section to stand beside.", hint="Name its heading."
        )
    return (document.sections[section.parent] if section.parent >= 0 else None), section


def _landing(
    document: Document, parent: Section | None, beside: Section | None, position: Position
) -> int:
    """The offset at which a section is put."""
    if beside is not None:
        return beside.span.start if position == "before" else beside.span.end
    if parent is not None:
        return parent.span.end if position == "last" else _own_end(document, parent)
    sections = _sections(document)
    return sections[0].span.start if sections and position == "first" else len(document.text)


def _apart(text: str, at: int) -> tuple[str, ...]:
    """A blank line, where none stands before an offset."""
    return () if at == 0 or text[:at].endswith("\n\n") else ("\n",)


def _removal(text: str, start: int, end: int) -> Change:
    """Take a section out; what is left keeps one blank line between, and none at the end."""
    apart = start == 0 or text[:start].endswith("\n\n")
    if end == len(text):
        return Change(start - 1 if apart and start > 1 else start, end)
    return Change(start, end, () if apart else ("\n",))


def _shifted(text: str, inside: Sequence[Section], shift: int, end: int) -> list[Piece]:
    """A section with its subsections, each some levels deeper."""
    pieces: list[Piece] = []
    at = inside[0].span.start
    for each in inside:
        pieces.append((at, each.span.start))
        pieces += respelled(text, each, each.level + shift)
        at = each.body
    pieces.append((at, end))
    return [piece for piece in pieces if isinstance(piece, str) or piece[0] < piece[1]]


def _checked_level(level: int, parent: Section | None) -> int:
    least = parent.level + 1 if parent else 1
    if not least <= level <= DEEPEST:
        raise InvalidArgument(
            f"Level {level} is not between {least} and {DEEPEST}.",
            hint="Leave the level out to stand one below the parent."
            if least <= DEEPEST
            else "Choose a parent that is less deep.",
        )
    return level


def _refuse_shallow(inner: Sequence[Section], level: int, what: str) -> None:
    for each in inner:
        if each.level <= level:
            raise InvalidArgument(
                f"The text has a heading of level {each.level}, {each.title!r}, which would end "
                f"{what}.",
                hint=f"Use levels deeper than {level}, or replace the whole section.",
            )


def _refuse_twin(
    document: Document,
    parent: Section | None,
    title: str,
    level: int,
    besides: Section | None = None,
) -> None:
    above = parent.ordinal if parent else -1
    for each in document.sections:
        same = each.parent == above and each.level == level and each.title == title
        if same and each is not besides:
            raise Conflict(
                f"{document.uri} has a section {shown(each.path)!r} already, on line "
                f"{each.span.start_line}.",
                hint="Append to it or replace it, or choose another heading.",
                details={"uri": document.uri, "heading_path": shown(each.path)},
            )
