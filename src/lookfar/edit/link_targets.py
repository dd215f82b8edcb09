"""Write another target or anchor into the links of a Markdown document, in the style they have.

A link is only rewritten if the parser then reads it as intended and all other links as before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from posixpath import dirname, relpath
from typing import NamedTuple
from urllib.parse import quote, unquote

from lookfar.edit.shape import Change, apply_changes
from lookfar.model import Document, Link
from lookfar.store.catalogue.link_names import Path, parent_folder
from lookfar.text.parse.markdown import parse

_NOTES = ("wikilink", "embed")
# Looks ahead, because the text of a link may contain an image with a destination of its own.
_INLINE = re.compile(r"\]\((?=\s*(?:<(?P<angled>[^<>\n]*)>|(?P<plain>[^\s<>]*)))")
_DEFINITION = re.compile(
    r"^ {0,3}\[(?:[^\]\\]|\\.)+\]:[ \t]*\n?[ \t]*(?:<(?P<angled>[^<>\n]*)>|(?P<plain>\S+))",
    re.MULTILINE,
)
_SAFE = "/-_.~!$&'*+,;=:@"


class Destination(NamedTuple):
    """Where a link leads; one of the two differs from what is written."""

    target: str
    anchor: str


def spell_targets(link: Link, source: str, uri: str) -> list[str]:
    """Return the ways to write a link from one document to another, the preferred one first.

    A path stays a path, a name stays a name if it can, and an extension is written if it was.
    """
    ending = Path.parse(link.target).ending
    page = _strip_ending(uri)
    written = uri if ending and uri.lower().endswith(f".{ending}") else page
    if link.kind in _NOTES:
        if link.target.startswith(("./", "../")):
            return [_relative(written, source, link.target)]
        root = "/" if link.target.startswith("/") else ""
        if "/" in link.target:
            return [f"{root}{written}"]
        return [written.rpartition("/")[2], written]
    if ending in ("html", "htm") and written == page:
        written = f"{page}.{ending}"
    elif not ending and (not link.target or link.target.endswith("/")):
        written = uri  # A link to a folder, whose index page this was.
    if link.target.startswith("/"):
        return [f"/{written}"]
    return [_relative(written, source, link.target)]


def move_relative(link: Link, old: str, new: str) -> str:
    """Return a relative path of a document that moves, as it is seen from the new place."""
    from_root = relpath(f"/{parent_folder(old)}/{link.target}", "/")
    moved = _relative(from_root, new, link.target)
    return f"{moved}/" if link.target.endswith("/") else moved


def rewrite_links(
    document: Document, wanted: Mapping[int, Destination]
) -> tuple[tuple[Change, ...], set[int]]:
    """Return the changes that give links other destinations, and the offsets of these links.

    ``wanted`` has the destination of each link to change, by the offset at which the link starts.
    """
    pairs = []
    for link in document.links:
        if link.start in wanted:
            change = _find_change(document.text, link, wanted[link.start])
            if change is not None:
                pairs.append((link.start, change))
    changes = tuple(dict.fromkeys(change for _, change in pairs))
    starts = {start for start, _ in pairs}
    if _reads_as_intended(document, wanted, starts, changes):
        return changes, starts
    # Together they fail, so try them one by one.
    good: dict[Change, None] = {}
    rewritten: set[int] = set()
    for change in changes:
        own = {start for start, other in pairs if other == change}
        if _reads_as_intended(document, wanted, rewritten | own, (*good, change)):
            good[change] = None
            rewritten |= own
    return tuple(good), rewritten


def _find_change(text: str, link: Link, wanted: Destination) -> Change | None:
    """Return the change in a link, or in the definition that it refers to."""
    if link.kind in _NOTES:
        start = text.find("[[", link.start, link.end) + 2
        ends = [end for sign in ("|", "]]") if (end := text.find(sign, start, link.end)) >= 0]
        end = min(ends, default=link.end)
        if text[end : end + 1] == "|" and text[end - 1] == "\\":
            end -= 1  # In a table the pipe is escaped.
        sign = text.find("#", start, end)
        if wanted.target != link.target:
            return Change(start, end if sign < 0 else sign, (wanted.target,))
        return Change(sign + 1, end, (wanted.anchor,)) if sign >= 0 else None
    for pattern, start, end in ((_INLINE, link.start, link.end), (_DEFINITION, 0, len(text))):
        changes = [
            change
            for match in pattern.finditer(text, start, end)
            if (change := _change_destination(match, link, wanted)) is not None
        ]
        if changes:
            return changes[-1] if pattern is _INLINE else changes[0]
    return None


def _change_destination(match: re.Match[str], link: Link, wanted: Destination) -> Change | None:
    """Return the change of a destination if it is that of a link, as the parser read it."""
    angled = match["angled"] is not None
    destination = match["angled"] if angled else match["plain"]
    start = match.start("angled" if angled else "plain")
    while not angled and destination.endswith(")"):
        if destination.count(")") <= destination.count("("):
            break
        destination = destination[:-1]
    target, _, anchor = destination.partition("#")
    if link.target not in (unquote(target), target) or link.anchor not in (unquote(anchor), anchor):
        return None
    if wanted.target != link.target:
        plain = angled and "%" not in target and not re.search(r"[<>\n%]", wanted.target)
        new = wanted.target if plain else quote(wanted.target, safe=_SAFE)
        return Change(start, start + len(target), (new,))
    special = r"[<>\n%]" if angled else r"[\s()<>%]"
    plain = "%" not in anchor and not re.search(special, wanted.anchor)
    new = wanted.anchor if plain else quote(wanted.anchor)
    end = start + len(destination)
    return Change(end - len(anchor), end, (new,))


def _reads_as_intended(
    document: Document,
    wanted: Mapping[int, Destination],
    starts: set[int],
    changes: Sequence[Change],
) -> bool:
    """Whether the parser finds the same links, and only these have a new destination."""
    now = parse(document.uri, apply_changes(document.text, changes))
    intended = [
        (link.kind, *(wanted[link.start] if link.start in starts else (link.target, link.anchor)))
        for link in document.links
    ]
    return (
        [(link.kind, link.target, link.anchor) for link in now.links] == intended
        and len(now.sections) == len(document.sections)
        and list(now.metadata) == list(document.metadata)
    )


def _relative(path: str, source: str, like: str) -> str:
    """Return the path from the folder of a document, with ``./`` in front if ``like`` has it."""
    relative = relpath(f"/{path}", f"/{dirname(source)}")
    return f"./{relative}" if like.startswith("./") and relative[0] != "." else relative


def _strip_ending(uri: str) -> str:
    stem, dot, ending = uri.rpartition(".")
    return stem if dot and Path.parse(uri).ending == ending.lower() else uri
