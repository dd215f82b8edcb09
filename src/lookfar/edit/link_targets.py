"""Write another target into the links of a Markdown document, in the style in which they are.

A link is only rewritten if the parser then reads it as intended and all other links as before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from posixpath import dirname, relpath
from urllib.parse import quote, unquote

from lookfar.edit.shape import Change, apply_changes
from lookfar.model import Document, Link
from lookfar.store.catalogue.link_names import Path, parent_folder
from lookfar.text.parse.markdown import parse

_NOTES = ("wikilink", "embed")
_INLINE = re.compile(r"\]\(\s*(?:<(?P<angled>[^<>\n]*)>|(?P<plain>[^\s<>]*))")
_DEFINITION = re.compile(
    r"^ {0,3}\[(?:[^\]\\]|\\.)+\]:[ \t]*\n?[ \t]*(?:<(?P<angled>[^<>\n]*)>|(?P<plain>\S+))",
    re.MULTILINE,
)
_SAFE = "/-_.~!$&'*+,;=:@"


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


def retarget_links(
    document: Document, targets: Mapping[int, str]
) -> tuple[tuple[Change, ...], set[int]]:
    """Return the changes that give links other targets, and the offsets of the changed links.

    ``targets`` has the new target of each link, by the offset at which the link starts.
    """
    pairs = []
    for link in document.links:
        change = (
            _find_change(document.text, link, targets[link.start])
            if (link.start in targets)
            else None
        )
        if change is not None:
            pairs.append((link.start, change))
    changes = tuple(dict.fromkeys(change for _, change in pairs))
    starts = {start for start, _ in pairs}
    if _reads_as_intended(document, targets, starts, changes):
        return changes, starts
    # Together they fail, so try them one by one.
    good: dict[Change, None] = {}
    rewritten: set[int] = set()
    for change in changes:
        own = {start for start, other in pairs if other == change}
        if _reads_as_intended(document, targets, rewritten | own, (*good, change)):
            good[change] = None
            rewritten |= own
    return tuple(good), rewritten


def _find_change(text: str, link: Link, target: str) -> Change | None:
    if link.kind in _NOTES:
        start = text.find("[[", link.start, link.end) + 2
        ends = [end for sign in ("#", "|", "]]") if (end := text.find(sign, start, link.end)) >= 0]
        end = min(ends, default=link.end)
        if text[end : end + 1] == "|" and text[end - 1] == "\\":
            end -= 1  # In a table the pipe is escaped.
        return Change(start, end, (target,))
    for pattern, start, end in ((_INLINE, link.start, link.end), (_DEFINITION, 0, len(text))):
        matches = [match for match in pattern.finditer(text, start, end) if _names(match, link)]
        if matches:
            match = matches[-1] if pattern is _INLINE else matches[0]
            return _change_destination(match, target)
    return None


def _names(match: re.Match[str], link: Link) -> bool:
    """Whether the destination of a link is the target as the parser read it."""
    written = _read_destination(match)[0].partition("#")[0]
    return link.target in (unquote(written), written)


def _read_destination(match: re.Match[str]) -> tuple[str, int]:
    """Return a destination as written, and where it begins."""
    if match["angled"] is not None:
        return match["angled"], match.start("angled")
    plain = match["plain"]
    while plain.endswith(")") and plain.count(")") > plain.count("("):
        plain = plain[:-1]
    return plain, match.start("plain")


def _change_destination(match: re.Match[str], target: str) -> Change:
    destination, start = _read_destination(match)
    written = destination.partition("#")[0]
    angled = match["angled"] is not None
    plain = angled and "%" not in written and not re.search(r"[<>\n%]", target)
    return Change(start, start + len(written), (target if plain else quote(target, safe=_SAFE),))


def _reads_as_intended(
    document: Document, targets: Mapping[int, str], starts: set[int], changes: Sequence[Change]
) -> bool:
    """Whether the parser finds the same links, and only these have a new target."""
    now = parse(document.uri, apply_changes(document.text, changes))
    wanted = [
        (link.kind, targets[link.start] if link.start in starts else link.target, link.anchor)
        for link in document.links
    ]
    same_links = [(link.kind, link.target, link.anchor) for link in now.links] == wanted
    return (
        same_links
        and len(now.sections) == len(document.sections)
        and (list(now.metadata) == list(document.metadata))
    )


def _relative(path: str, source: str, like: str) -> str:
    """Return the path from the folder of a document, with ``./`` in front if ``like`` has it."""
    relative = relpath(f"/{path}", f"/{dirname(source)}")
    return f"./{relative}" if like.startswith("./") and relative[0] != "." else relative


def _strip_ending(uri: str) -> str:
    stem, dot, ending = uri.rpartition(".")
    return stem if dot and Path.parse(uri).ending == ending.lower() else uri
