"""Links to headings: which section an anchor means, and how to write it after an edit.

Understands ``heading-text`` as web pages render it, with ``-1`` and so on for duplicates,
``{#own}`` where a heading has an explicit id, and ``Outer#Heading`` as in notes. A link is only
rewritten if the parser then reads it as intended and all other links as before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from lookfar.edit.headings import explicit_id
from lookfar.edit.shape import Change, apply_changes
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


def retitle_links(document: Document, links: Sequence[Link], title: str) -> tuple[Change, ...]:
    """Return the changes that make links use another title; none if that is not possible."""
    changes = []
    for link in links:
        start = document.text.find("[[", link.start, link.end) + 2
        ends = (document.text.find(sign, start, link.end) for sign in ("#", "|", "]]"))
        changes.append(Change(start, min(end for end in ends if end >= 0), (title,)))
    now = parse(document.uri, apply_changes(document.text, changes))
    starts = {link.start for link in links}
    wanted = [
        (link.kind, title if link.start in starts else link.target, link.anchor)
        for link in document.links
    ]
    same = [(link.kind, link.target, link.anchor) for link in now.links] == wanted
    return tuple(changes) if same else ()


def repair_links(
    document: Document, broken: Sequence[BrokenLink]
) -> tuple[tuple[Change, ...], set[int]]:
    """Return the changes that repair links, and the offsets of the links they repair."""
    repairable = [item for item in broken if item.becomes]
    pairs = _find_changes(document, repairable)
    if _reads_as_intended(document, repairable, [change for _, change in pairs]):
        return tuple({change: None for _, change in pairs}), {i.link.start for i, _ in pairs}
    # Together they fail, so try them one by one.
    changes: dict[Change, None] = {}
    repaired: set[int] = set()
    for item, change in pairs:
        same_change = [other for other, other_change in pairs if other_change == change]
        if _reads_as_intended(document, same_change, [*changes, change]):
            changes[change] = None
            repaired.add(item.link.start)
    return tuple(changes), repaired


def _find_changes(
    document: Document, broken: Sequence[BrokenLink]
) -> list[tuple[BrokenLink, Change]]:
    pairs: list[tuple[BrokenLink, Change]] = []
    for item in broken:
        change = _change_in_link(document.text, item) or _change_in_definition(document.text, item)
        if change is not None:
            pairs.append((item, change))
    return pairs


def _change_in_link(text: str, item: BrokenLink) -> Change | None:
    link = item.link
    written = text[link.start : link.end]
    if link.kind in _NOTES:
        start = written.find("#") + 1
        ends = [end for sign in ("|", "]]") if (end := written.find(sign, start)) >= 0]
        if not start or not ends:
            return None
        end = min(ends)
        if written[end] == "|" and written[end - 1] == "\\":
            end -= 1
        return Change(link.start + start, link.start + end, (item.becomes,))
    return _change_anchor(text, link.start, link.end, item, last=True)


def _change_in_definition(text: str, item: BrokenLink) -> Change | None:
    """Change the anchor in the definition of a reference link: ``[name]: page.md#anchor``."""
    if item.link.kind in _NOTES:
        return None
    for match in _DEFINITION.finditer(text):
        end = text.find("\n", match.end())
        end = end if end >= 0 else len(text)
        change = _change_anchor(text, match.start(), end, item, last=False)
        before = text[match.start() : change.start - 1] if change else ""
        spellings = quote(item.link.target), item.link.target
        if change is not None and before.endswith(spellings):
            return change
    return None


def _change_anchor(text: str, start: int, end: int, item: BrokenLink, last: bool) -> Change | None:
    """Replace the anchor in a range of the text, where it is plain or percent-encoded."""
    spellings: tuple[Callable[[str], str], ...] = (quote, str) if last else (str, quote)
    for spell in spellings:
        sign = f"#{spell(item.link.anchor)}"
        offset = text.rfind(sign, start, end) if last else text.find(sign, start, end)
        if offset >= 0 and _AFTER.match(text, offset + len(sign)):
            plain = spell is str and " " not in item.becomes
            anchor = item.becomes if plain else quote(item.becomes)
            return Change(offset + 1, offset + len(sign), (anchor,))
    return None


def _reads_as_intended(
    document: Document, broken: Sequence[BrokenLink], changes: Sequence[Change]
) -> bool:
    """Whether the parser finds the same links, and only those to repair have a new anchor."""
    now = parse(document.uri, apply_changes(document.text, list(dict.fromkeys(changes))))
    becomes = {(item.link.target, item.link.anchor): item.becomes for item in broken}
    if len(now.links) != len(document.links) or len(now.sections) != len(document.sections):
        return False
    starts = {item.link.start for item in broken}
    for old, new in zip(document.links, now.links, strict=True):
        if (old.kind, old.target) != (new.kind, new.target):
            return False
        wanted = becomes.get((old.target, old.anchor), old.anchor)
        if new.anchor != (wanted if old.start in starts else old.anchor) and new.anchor != wanted:
            return False
    return True


def _in_order(wanted: Sequence[str], titles: Sequence[str]) -> bool:
    """Whether the names appear in this order among the titles, as nested anchors do."""
    left = iter(titles)
    return all(any(title == name for title in left) for name in wanted)


def _plain(title: str) -> str:
    return " ".join(_NOT_IN_NOTES.sub(" ", title).casefold().split())
