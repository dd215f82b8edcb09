"""Heading lines: how one reads at another level or with another title.

Takes: a text, and a section that the parser found in it. Gives: the pieces of its heading at
the level and with the title that are asked for. Refuses: titles that are no one line. What a
line is a heading was decided by the parser; here it is only respelled, and whoever uses the
pieces parses the result again.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lookfar.edit.shape import Piece
from lookfar.errors import InvalidArgument
from lookfar.model import Document, Section
from lookfar.text.parse.markdown import parse

DEEPEST = 6
_LONGEST = 500
_ATX = re.compile(r"(?P<hashes>#{1,6})(?P<gap>[ \t]*)(?P<title>.*?)(?P<closing>[ \t]+#+)?[ \t]*$")
_ID = re.compile(r"[ \t]*\{#(?P<id>[^{}`\n]*)\}$")
_LEADING = re.compile(r"#{1,6}(?:[ \t]|$)")
_CLOSING = re.compile(r"(?<=[ \t])(#+)$")
_UNDERLINE = re.compile(r"[ \t]*(?:=+|-+)[ \t]*$")


class Title(NamedTuple):
    """A title as it is written, and as the parser reads it."""

    written: str
    read: str


def checked_title(title: str) -> Title:
    """The title of a new heading; ``InvalidArgument`` for what would be none."""
    # Hashes at the end are part of the title that was asked for, not of its spelling.
    written = _CLOSING.sub(r"\\\1", title.strip())
    found = parse("title.md", f"# {written}\n").sections if "\n" not in written else ()
    # Who writes "## Setup" means the level and not the title, and would get "## ## Setup".
    marked = "\r" in written or _LEADING.match(written)
    if marked or len(written) > _LONGEST or len(found) != 1 or not found[0].title:
        raise InvalidArgument(
            f"{title[:100]!r} cannot be a heading.",
            hint=f"Give one line of text of at most {_LONGEST} characters, without leading #.",
        )
    return Title(written, found[0].title)


def id_of(document: Document, section: Section) -> str:
    """The anchor that a heading gives itself: ``# Title {#anchor}``."""
    line = document.text[section.span.start : section.body].split("\n", 1)[0]
    atx = _ATX.match(line.lstrip(" "))
    found = _ID.search(atx["title"] if atx else line.rstrip())
    return found["id"] if found else ""


def respelled(
    text: str, section: Section, level: int, *, title: str = "", suffix: str = ""
) -> list[Piece]:
    """The heading of a section at ``level``, with another title or with more after it."""
    start, end = section.span.start, section.body
    lines = [f"{line}\n" for line in text[start:end].split("\n")[:-1]]
    if len(lines) > 1 and _UNDERLINE.fullmatch(lines[-1].rstrip("\n")):
        return _underlined(lines, start, end, level, title, suffix)
    if level == section.level and not title and not suffix:
        return [(start, end)]
    line = text[start:end].rstrip("\n")
    indent = len(line) - len(line.lstrip(" "))
    atx = _ATX.match(line, indent)
    if atx is None:
        raise InvalidArgument(
            f"The heading {section.title!r} is written in a way that cannot be edited.",
            hint="Change it in an editor.",
        )
    own = _ID.search(atx["title"])
    shown = atx["title"][: own.start()] if own else atx["title"]
    rest = atx["title"][own.start() :] if own else ""
    first = start + indent
    pieces: list[Piece] = [(start, first), "#" * level]
    named = first + len(atx["hashes"])
    if title or suffix:
        pieces.append(f"{atx['gap'] or ' '}{(title or shown) + suffix}{rest}")
    else:
        pieces.append((named, first + atx.end("title") - indent))
    if atx["closing"]:
        pieces.append(f" {'#' * level}")
    tail = start + len(line)
    return [*pieces, (tail, end)]


def _underlined(
    lines: list[str], start: int, end: int, level: int, title: str, suffix: str
) -> list[Piece]:
    own = _ID.search(lines[-2].rstrip())
    rest = own[0] if own else ""
    said = [line.strip() for line in lines[:-1]]
    shown = " ".join(said).removesuffix(rest.strip()).rstrip() if rest else " ".join(said)
    if level > 2:
        return [f"{'#' * level} {(title or shown) + suffix}{rest}\n"]
    line = end - len(lines[-1])
    marks = len(lines[-1].strip())
    pieces: list[Piece]
    pieces = [f"{(title or shown) + suffix}{rest}\n"] if title or suffix else [(start, line)]
    sign = "=" if level == 1 else "-"
    if lines[-1].strip()[0] == sign:
        return [*pieces, (line, end)]
    return [*pieces, f"{sign * max(marks, 3)}\n"]
