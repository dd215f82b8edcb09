"""Find the links that an edit breaks, and rewrite them if that is wanted.

Covers links to headings that were renamed, moved or removed, and wikilinks that name a document
by a title it no longer has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from posixpath import dirname, join, normpath

from lookfar.common.lines import Lines
from lookfar.edit.anchors import find_broken, links_by_title
from lookfar.edit.link_targets import Destination, rewrite_links
from lookfar.edit.sections import length
from lookfar.edit.shape import Change
from lookfar.edit.work import Work, Workspace
from lookfar.errors import LookfarError
from lookfar.model import Link, LinkChange
from lookfar.store.catalogue.link_names import fold

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
        _apply(space, holder, changes)
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
        _apply(space, holder, changes)
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


def _apply(space: Workspace, holder: Work, changes: Sequence[Change]) -> None:
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
