"""Find the links that an edit breaks, and rewrite them if that is wanted.

Covers links to headings that were renamed, moved or removed, and wikilinks that name a document
by a title it no longer has. An anchor is ``heading-text`` as web pages render it, with ``-1`` and
so on for duplicates, ``{#own}`` where a heading has an explicit id, or ``Outer#Heading`` as in
notes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from posixpath import dirname, join, normpath
from typing import Literal

from lookfar.common.lines import Lines
from lookfar.edit.headings import explicit_id
from lookfar.edit.link_targets import Destination, rewrite_links
from lookfar.edit.sections import length
from lookfar.edit.shape import Change
from lookfar.edit.work import Work, Workspace
from lookfar.errors import LookfarError
from lookfar.model import Document, Link, LinkChange, Section
from lookfar.store.catalogue.heading_paths import slug
from lookfar.store.catalogue.link_names import fold

Style = Literal["own", "slug", "path"]
_NOTES = ("wikilink", "embed")
_NOT_IN_NOTES = re.compile(r"[\[\]|#^]")
Backlinks = Callable[[str], Iterable[tuple[str, str, str]]]
"""Returns who links to a document: URI of the source, kind of link, and target as written."""


def find_broken_links(space: Workspace, backlinks: Backlinks, rewrite: bool) -> list[LinkChange]:
    """Return the links that the edits break; with ``rewrite``, repair them in the transaction."""
    changes: list[LinkChange] = []
    for work in list(space.works.values()):
        if not work.moves_headings:
            continue
        sources: dict[str, set[tuple[str, str]]] = {work.uri: set()}
        for source, kind, target in backlinks(work.uri):
            sources.setdefault(source, set()).add((kind, target))
        for source, spellings in sources.items():
            changes += _broken_in(space, work, source, spellings, rewrite)
    return changes


def _broken_in(
    space: Workspace, work: Work, source: str, spellings: set[tuple[str, str]], rewrite: bool
) -> list[LinkChange]:
    """Return the broken links to ``work`` in one source; ``spellings`` are (kind, target)."""
    holder = space.works.get(source)
    if holder is None:
        try:
            holder = space.load(source)
            holder.edited = False
        except LookfarError:
            # Links in a document that cannot be written are still reported.
            rewrite, holder = False, space.load_read_only(source)
            if holder is None:
                return []
    document = holder.now
    own = source == work.uri
    links = [
        link
        for link in document.links
        if (link.kind, link.target) in spellings or (own and _links_to_itself(work.uri, link))
    ]
    broken = list(find_broken(links, work.first, work.now, work.became))
    repaired: set[int] = set()
    if broken and rewrite:
        wanted = {
            item.link.start: Destination(item.link.target, item.becomes)
            for item in broken
            if item.becomes
        }
        changes, repaired = rewrite_links(document, wanted)
        _apply_changes(space, holder, changes)
    lines = Lines(document.text)
    by_title = [] if own else _broken_by_title(space, work, holder, spellings, rewrite)
    return by_title + [
        LinkChange(
            uri=source,
            line=lines.line_of(item.link.start),
            written=document.text[item.link.start : item.link.end],
            anchor=item.link.anchor,
            heading_path=item.section.path,
            becomes=item.becomes,
            rewritten=item.link.start in repaired,
        )
        for item in broken
    ]


def _broken_by_title(
    space: Workspace, work: Work, holder: Work, spellings: set[tuple[str, str]], rewrite: bool
) -> list[LinkChange]:
    """Return the links that name a document by a title it no longer has."""
    before, after = work.first.title, work.now.title
    stem = work.uri.rpartition("/")[2].rpartition(".")[0]
    if fold(before) in {fold(name) for name in (stem, after, *work.now.aliases)}:
        return []
    document = holder.now
    candidates = [link for link in document.links if (link.kind, link.target) in spellings]
    links = links_by_title(candidates, before)
    title = after if after and not set(after) & set("[]|#^") else ""
    retitled: set[int] = set()
    if links and rewrite and title:
        wanted = {link.start: Destination(title, link.anchor) for link in links}
        changes, retitled = rewrite_links(document, wanted)
        _apply_changes(space, holder, changes)
    lines = Lines(document.text)
    return [
        LinkChange(
            uri=holder.uri,
            line=lines.line_of(link.start),
            written=document.text[link.start : link.end],
            anchor="",
            heading_path=(before,),
            becomes=title,
            rewritten=link.start in retitled,
        )
        for link in links
    ]


def _apply_changes(space: Workspace, holder: Work, changes: Sequence[Change]) -> None:
    """Make link changes in a document, and add it to the transaction."""
    if not changes:
        return
    before = holder.now
    space.apply(holder, changes)
    space.works[holder.uri] = holder
    if holder.place is not None:
        path, (start, end) = holder.place
        section = next((s for s in before.sections if s.path == path and path), None)
        path = holder.now.sections[section.ordinal].path if section is not None else path
        holder.place = path, (_shift(changes, start), _shift(changes, end))


def _links_to_itself(uri: str, link: Link) -> bool:
    if not link.target:
        return True
    if link.kind in ("wikilink", "embed"):
        stem = uri.rpartition("/")[2].rpartition(".")[0]
        return link.target.casefold() == stem.casefold()
    return normpath(join(dirname(uri), link.target)) == uri


def _shift(changes: Sequence[Change], offset: int) -> int:
    """Return where an offset is after changes that do not contain it."""
    before = [change for change in changes if change.end <= offset]
    return offset + sum(length(c.pieces) - (c.end - c.start) for c in before)


class Anchors:
    def __init__(self, document: Document) -> None:
        self._sections = [section for section in document.sections if section.level]
        self._ids: dict[str, Section] = {}
        self._slugs: dict[str, Section] = {}
        self._slug_by_ordinal: dict[int, str] = {}
        counts: dict[str, int] = {}
        for section in self._sections:
            own_id = explicit_id(document, section)
            if own_id:
                self._ids.setdefault(own_id, section)
            base = slug(section.title)
            number = counts.get(base, 0)
            counts[base] = number + 1
            name = f"{base}-{number}" if number else base
            if self._slugs.setdefault(name, section) is section:
                self._slug_by_ordinal[section.ordinal] = name

    def resolve(self, anchor: str, link: Link) -> tuple[Section, Style] | None:
        """Return the section that an anchor means, and the style of the anchor."""
        if anchor in self._ids:
            return self._ids[anchor], "own"
        by_path = self._resolve_path(anchor)
        readings: list[tuple[Section | None, Style]] = [
            (self._slugs.get(anchor), "slug"),
            (by_path, "path"),
            (self._slugs.get(anchor.lower()), "slug"),
        ]
        if link.kind in _NOTES:
            readings.insert(0, (by_path, "path"))
        for section, style in readings:
            if section is not None:
                return section, style
        return None

    def _resolve_path(self, anchor: str) -> Section | None:
        wanted = [_plain(part) for part in anchor.split("#")]
        for section in self._sections:
            titles = [_plain(title) for title in section.path]
            if titles[-1:] == wanted[-1:] and _in_order(wanted, titles):
                return section
        return None

    def write(self, section: Section, style: Style, parts: int, link: Link) -> str:
        """Return an anchor for a section, if possible in the style and length of the old one."""
        candidates: list[str] = []
        if style == "path":
            titles = [" ".join(_NOT_IN_NOTES.sub(" ", title).split()) for title in section.path]
            lengths = range(min(parts, len(titles)), len(titles) + 1)
            candidates = ["#".join(titles[-length:]) for length in lengths]
        candidates.append(self._slug_by_ordinal.get(section.ordinal, ""))
        for candidate in candidates:
            meaning = self.resolve(candidate, link) if candidate else None
            if meaning is not None and meaning[0] is section:
                return candidate
        return ""


@dataclass(frozen=True, slots=True)
class BrokenLink:
    """A link that leads elsewhere or nowhere after an edit."""

    link: Link
    section: Section
    """The section it led to before."""
    becomes: str
    """The anchor that leads there now; empty if the section is gone."""


def find_broken(
    links: Sequence[Link], before: Document, after: Document, became: dict[int, int]
) -> Iterator[BrokenLink]:
    """Yield the links to one document that an edit of it breaks."""
    old, new = Anchors(before), Anchors(after)
    for link in links:
        meaning = old.resolve(link.anchor, link) if link.anchor else None
        if meaning is None or link.anchor.startswith("^"):
            continue
        section, style = meaning
        now = after.sections[became[section.ordinal]] if section.ordinal in became else None
        new_meaning = new.resolve(link.anchor, link)
        if now is not None and new_meaning is not None and new_meaning[0] is now:
            continue
        parts = link.anchor.count("#") + 1
        yield BrokenLink(link, section, new.write(now, style, parts, link) if now else "")


def links_by_title(links: Sequence[Link], title: str) -> list[Link]:
    """Return the links that name a document by its title and not by its path."""
    return [link for link in links if link.kind in _NOTES and fold(link.target) == fold(title)]


def _in_order(wanted: Sequence[str], titles: Sequence[str]) -> bool:
    """Whether the names appear in this order among the titles, as nested anchors do."""
    left = iter(titles)
    return all(any(title == name for title in left) for name in wanted)


def _plain(title: str) -> str:
    return " ".join(_NOT_IN_NOTES.sub(" ", title).casefold().split())
