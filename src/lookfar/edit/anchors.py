"""Links to headings: which section an anchor means, and how to write it after an edit.

Understands ``heading-text`` as web pages render it, with ``-1`` and so on for duplicates,
``{#own}`` where a heading has an explicit id, and ``Outer#Heading`` as in notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from lookfar.edit.headings import explicit_id
from lookfar.model import Document, Link, Section
from lookfar.store.catalogue.heading_paths import slug
from lookfar.store.catalogue.link_names import fold

Style = Literal["own", "slug", "path"]
_NOTES = ("wikilink", "embed")
_NOT_IN_NOTES = re.compile(r"[\[\]|#^]")


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
