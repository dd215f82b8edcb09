"""Links that point at headings: which one is meant, and how the link reads afterwards.

Takes: documents before and after an edit, and links as the parser found them. Gives: the
section that an anchor means, the anchor that means the same section now, and the changes of
a text that put it there. Refuses: to touch a link that the parser would read differently.

Anchors are read as people write them: ``heading-text`` as the web renders it, with ``-1`` and
so on for twins, ``{#own}`` where a heading names itself, and ``Outer#Heading`` as notes do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from lookfar.edit.headings import id_of
from lookfar.edit.shape import Change, applied
from lookfar.model import Document, Link, Section
from lookfar.store.catalogue.heading_paths import slug
from lookfar.store.catalogue.link_names import fold
from lookfar.text.parse.markdown import parse

Style = Literal["own", "slug", "path"]
_NOTES = ("wikilink", "embed")
_NOT_IN_NOTES = re.compile(r"[\[\]|#^]")
_DEFINITION = re.compile(r"^ {0,3}\[(?:[^\]\\]|\\.)+\]:[ \t]*\n?[ \t]*<?[^\n>]*?#", re.MULTILINE)
_AFTER = re.compile(r"[\s)>\]|\"'\\]|$")


class Anchors:
    """What the anchors of one document mean."""

    def __init__(self, document: Document) -> None:
        self._sections = [section for section in document.sections if section.level]
        self._own: dict[str, Section] = {}
        self._slugs: dict[str, Section] = {}
        self._slug_of: dict[int, str] = {}
        counts: dict[str, int] = {}
        for section in self._sections:
            own = id_of(document, section)
            if own:
                self._own.setdefault(own, section)
            base = slug(section.title)
            number = counts.get(base, 0)
            counts[base] = number + 1
            name = f"{base}-{number}" if number else base
            if self._slugs.setdefault(name, section) is section:
                self._slug_of[section.ordinal] = name

    def meant(self, anchor: str, link: Link) -> tuple[Section, Style] | None:
        """The section that an anchor means, and by which kind of name."""
        if anchor in self._own:
            return self._own[anchor], "own"
        by_path = self._by_path(anchor)
        ways: list[tuple[Section | None, Style]] = [
            (self._slugs.get(anchor), "slug"),
            (by_path, "path"),
            (self._slugs.get(anchor.lower()), "slug"),
        ]
        if link.kind in _NOTES:
            ways.insert(0, (by_path, "path"))
        return next(((found, style) for found, style in ways if found is not None), None)

    def _by_path(self, anchor: str) -> Section | None:
        wanted = [_plain(part) for part in anchor.split("#")]
        for section in self._sections:
            titles = [_plain(title) for title in section.path]
            if titles[-1:] == wanted[-1:] and _in_order(wanted, titles):
                return section
        return None

    def name_of(self, section: Section, style: Style, parts: int, link: Link) -> str:
        """An anchor that means a section, in the style and as long as before where it can be."""
        candidates: list[str] = []
        if style == "path":
            titles = [" ".join(_NOT_IN_NOTES.sub(" ", title).split()) for title in section.path]
            lengths = range(min(parts, len(titles)), len(titles) + 1)
            candidates = ["#".join(titles[-length:]) for length in lengths]
        candidates.append(self._slug_of.get(section.ordinal, ""))
        for candidate in candidates:
            found = self.meant(candidate, link) if candidate else None
            if found is not None and found[0] is section:
                return candidate
        return ""


@dataclass(frozen=True, slots=True)
class Pointing:
    """A link that an edit leaves pointing elsewhere, or nowhere."""

    link: Link
    section: Section
    """What it meant."""
    becomes: str


def pointing(
    links: Sequence[Link], before: Document, after: Document, became: dict[int, int]
) -> Iterator[Pointing]:
    """The links among these, all to one document, that the edit of it would mislead."""
    old, new = Anchors(before), Anchors(after)
    for link in links:
        found = old.meant(link.anchor, link) if link.anchor else None
        if found is None or link.anchor.startswith("^"):
            continue
        section, style = found
        now = after.sections[became[section.ordinal]] if section.ordinal in became else None
        still = new.meant(link.anchor, link)
        if now is not None and still is not None and still[0] is now:
            continue
        parts = link.anchor.count("#") + 1
        yield Pointing(link, section, new.name_of(now, style, parts, link) if now else "")


def called(links: Sequence[Link], title: str) -> list[Link]:
    """The links among these that name a document by its title and not by its path."""
    return [each for each in links if each.kind in _NOTES and fold(each.target) == fold(title)]


def retitled(document: Document, links: Sequence[Link], title: str) -> tuple[Change, ...]:
    """The changes that make links call a document by another title; none if they cannot."""
    changes = []
    for link in links:
        start = document.text.find("[[", link.start, link.end) + 2
        ends = (document.text.find(sign, start, link.end) for sign in ("#", "|", "]]"))
        changes.append(Change(start, min(end for end in ends if end >= 0), (title,)))
    now = parse(document.uri, applied(document.text, changes))
    meant = {link.start for link in links}
    wanted = [
        (each.kind, title if each.start in meant else each.target, each.anchor)
        for each in document.links
    ]
    same = [(each.kind, each.target, each.anchor) for each in now.links] == wanted
    return tuple(changes) if same else ()


def rewritten(document: Document, found: Sequence[Pointing]) -> tuple[tuple[Change, ...], set[int]]:
    """The changes that make links point right again, and the starts of the links they mend."""
    wanted = [each for each in found if each.becomes]
    together = _changes(document, wanted)
    if _reads(document, wanted, [change for _, change in together]):
        return tuple({c: None for _, c in together}), {each.link.start for each, _ in together}
    changes: dict[Change, None] = {}
    mended: set[int] = set()
    for each, change in together:
        alone = [one for one, other in together if other == change]
        if _reads(document, alone, [*changes, change]):
            changes[change] = None
            mended.add(each.link.start)
    return tuple(changes), mended


def _changes(document: Document, wanted: Sequence[Pointing]) -> list[tuple[Pointing, Change]]:
    found: list[tuple[Pointing, Change]] = []
    for each in wanted:
        change = _in_link(document.text, each) or _in_definition(document.text, each)
        if change is not None:
            found.append((each, change))
    return found


def _in_link(text: str, each: Pointing) -> Change | None:
    link = each.link
    shown = text[link.start : link.end]
    if link.kind in _NOTES:
        start = shown.find("#") + 1
        ends = [at for sign in ("|", "]]") if (at := shown.find(sign, start)) >= 0]
        if not start or not ends:
            return None
        end = min(ends)
        if shown[end] == "|" and shown[end - 1] == "\\":
            end -= 1
        return Change(link.start + start, link.start + end, (each.becomes,))
    return _spelled(text, link.start, link.end, each, last=True)


def _in_definition(text: str, each: Pointing) -> Change | None:
    """Of a link by reference, where its address is written: ``[name]: page.md#anchor``."""
    if each.link.kind in _NOTES:
        return None
    for match in _DEFINITION.finditer(text):
        end = text.find("\n", match.end())
        found = _spelled(text, match.start(), end if end >= 0 else len(text), each, last=False)
        target = quote(each.link.target), each.link.target
        before = text[match.start() : found.start - 1] if found else ""
        if found is not None and any(before.endswith(way) for way in target):
            return found
    return None


def _spelled(text: str, start: int, end: int, each: Pointing, last: bool) -> Change | None:
    """The anchor as it is spelled in a range of the text, plainly or percent-encoded."""
    ways: tuple[Callable[[str], str], ...] = (quote, str) if last else (str, quote)
    for way in ways:
        sign = f"#{way(each.link.anchor)}"
        at = text.rfind(sign, start, end) if last else text.find(sign, start, end)
        if at >= 0 and _AFTER.match(text, at + len(sign)):
            plain = way is str and " " not in each.becomes
            put = each.becomes if plain else quote(each.becomes)
            return Change(at + 1, at + len(sign), (put,))
    return None


def _reads(document: Document, wanted: Sequence[Pointing], changes: Sequence[Change]) -> bool:
    """Whether the parser finds the same links, of which those that are meant read anew."""
    now = parse(document.uri, applied(document.text, list(dict.fromkeys(changes))))
    becomes = {(each.link.target, each.link.anchor): each.becomes for each in wanted}
    if len(now.links) != len(document.links) or len(now.sections) != len(document.sections):
        return False
    starts = {each.link.start for each in wanted}
    for was, link in zip(document.links, now.links, strict=True):
        if (was.kind, was.target) != (link.kind, link.target):
            return False
        meant = becomes.get((was.target, was.anchor), was.anchor)
        if link.anchor != (meant if was.start in starts else was.anchor) and link.anchor != meant:
            return False
    return True


def _in_order(wanted: Sequence[str], titles: Sequence[str]) -> bool:
    """Whether the names appear in this order among the titles, as nested anchors do."""
    left = iter(titles)
    return all(any(title == name for title in left) for name in wanted)


def _plain(title: str) -> str:
    return " ".join(_NOT_IN_NOTES.sub(" ", title).casefold().split())
