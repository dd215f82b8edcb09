"""Write heading lines at another level or with another title.

Works on sections that the parser found. The caller parses the result again, so nothing here has
to know every rule of Markdown.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lookfar.edit.shape import Piece
from lookfar.errors import InvalidArgument
from lookfar.model import Document, Section
from lookfar.text.parse.markdown import parse

DEEPEST = 6
_MAX_TITLE = 500
_ATX = re.compile(r"(?P<hashes>#{1,6})(?P<gap>[ \t]*)(?P<title>.*?)(?P<closing>[ \t]+#+)?[ \t]*$")
_ID = re.compile(r"[ \t]*\{#(?P<id>[^{}`\n]*)\}$")
_LEADING = re.compile(r"#{1,6}(?:[ \t]|$)")
_CLOSING = re.compile(r"(?<=[ \t])(#+)$")
_UNDERLINE = re.compile(r"[ \t]*(?:=+|-+)[ \t]*$")


class Title(NamedTuple):
    """A title as it is written in Markdown, and as the parser reads it."""

    written: str
    read: str


def check_title(title: str) -> Title:
    """Return the title for a new heading; ``InvalidArgument`` if it cannot be one."""
    # Trailing hashes belong to the title, so they must not be read as a closing sequence.
    written = _CLOSING.sub(r"\\\1", title.strip())
    sections = parse("title.md", f"# {written}\n").sections if "\n" not in written else ()
    # "## Setup" gives a level, not a title, and would become "## ## Setup".
    has_marks = "\r" in written or _LEADING.match(written)
    if has_marks or len(written) > _MAX_TITLE or len(sections) != 1 or not sections[0].title:
        raise InvalidArgument(
            f"{title[:100]!r} cannot be a heading.",
            hint=f"Give one line of at most {_MAX_TITLE} characters, without a leading #.",
        )
    return Title(written, sections[0].title)


def explicit_id(document: Document, section: Section) -> str:
    """Return the anchor written in a heading, as in ``# Title {#anchor}``; empty if none."""
    line = document.text[section.span.start : section.body].split("\n", 1)[0]
    atx = _ATX.match(line.lstrip(" "))
    match = _ID.search(atx["title"] if atx else line.rstrip())
    return match["id"] if match else ""


def respell(
    text: str, section: Section, level: int, *, title: str = "", suffix: str = ""
) -> list[Piece]:
    """Return a section's heading at ``level``, with another title or with a suffix."""
    start, end = section.span.start, section.body
    lines = [f"{line}\n" for line in text[start:end].split("\n")[:-1]]
    if len(lines) > 1 and _UNDERLINE.fullmatch(lines[-1].rstrip("\n")):
        return _respell_underlined(lines, start, end, level, title, suffix)
    if level == section.level and not title and not suffix:
        return [(start, end)]
    line = text[start:end].rstrip("\n")
    indent = len(line) - len(line.lstrip(" "))
    atx = _ATX.match(line, indent)
    if atx is None:
        raise InvalidArgument(
            f"The heading {section.title!r} is written in a form that cannot be edited here.",
            hint="Change it in a text editor.",
        )
    own_id = _ID.search(atx["title"])
    old_title = atx["title"][: own_id.start()] if own_id else atx["title"]
    id_text = atx["title"][own_id.start() :] if own_id else ""
    first = start + indent
    pieces: list[Piece] = [(start, first), "#" * level]
    title_start = first + len(atx["hashes"])
    if title or suffix:
        pieces.append(f"{atx['gap'] or ' '}{(title or old_title) + suffix}{id_text}")
    else:
        pieces.append((title_start, first + atx.end("title") - indent))
    if atx["closing"]:
        pieces.append(f" {'#' * level}")
    return [*pieces, (start + len(line), end)]


def _respell_underlined(
    lines: list[str], start: int, end: int, level: int, title: str, suffix: str
) -> list[Piece]:
    own_id = _ID.search(lines[-2].rstrip())
    id_text = own_id[0] if own_id else ""
    old_title = " ".join(line.strip() for line in lines[:-1])
    if id_text:
        old_title = old_title.removesuffix(id_text.strip()).rstrip()
    if level > 2:
        return [f"{'#' * level} {(title or old_title) + suffix}{id_text}\n"]
    underline = end - len(lines[-1])
    width = len(lines[-1].strip())
    pieces: list[Piece] = [(start, underline)]
    if title or suffix:
        pieces = [f"{(title or old_title) + suffix}{id_text}\n"]
    sign = "=" if level == 1 else "-"
    if lines[-1].strip()[0] == sign:
        return [*pieces, (underline, end)]
    return [*pieces, f"{sign * max(width, 3)}\n"]
