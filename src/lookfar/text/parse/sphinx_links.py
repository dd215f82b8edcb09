"""Find the links and labels of Sphinx projects, in reStructuredText and in MyST Markdown.

A ``:ref:`` names a label, which is unique in its project; a ``:doc:`` and an entry of a ``toctree``
name a document. Roles of a programming language, such as ``:class:``, name neither and are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from lookfar.model import Block, Link, LinkKind, Section
from lookfar.text.parse.links import FoundLinks, is_external, outside_of, sort_links

_ROLES: Final = r"(?:std:)?(ref|numref|doc|any)"
# Literals come first, so that a role in one is not read as a role.
_RST_ROLE: Final = re.compile(
    rf"``(?:[^`]|`(?!`)){{1,2000}}``|(?<![\w:`]):{_ROLES}:`([^`]{{1,500}})`"
)
_MYST_ROLE: Final = re.compile(
    rf"\{{{_ROLES}\}}`([^`]{{1,500}})`|(?<!`)(`+)(?!`)(?:(?!\n[ \t]*\n).)+?(?<!`)\3(?!`)", re.DOTALL
)
_ROLE_START: Final = re.compile(rf"\{{{_ROLES}\}}`")
_RST_LABEL: Final = re.compile(
    r"^[ \t]*\.\. _(?!_)(?:`([^`\n]+)`|((?:[^:\\\n]|\\.|:(?=\S))+)):[ \t]*$(?!\n[ \t]+\S+:/)",
    re.MULTILINE,
)
_RST_NAME: Final = re.compile(r"^[ \t]+:name:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
_RST_TOCTREE: Final = re.compile(
    r"^([ \t]*)\.\. toctree::[ \t]*\n((?:[ \t]*\n|\1[ \t]+\S.*(?:\n|$))*)", re.MULTILINE
)
_RST_INCLUDE: Final = re.compile(r"^[ \t]*\.\. include::[ \t]+(\S+)[ \t]*$", re.MULTILINE)
_RST_INLINE: Final = re.compile(r"(?<![\w:`])`([^`<>]*)<([^`<>]+[^`<>_])>`__?(?!\w)")
_MYST_TOCTREE: Final = re.compile(
    r"^[ \t]*(`{3,}|~{3,}|:{3,})\{toctree\}[^\n]*\n(.*?)^[ \t]*\1[ \t]*$", re.MULTILINE | re.DOTALL
)
_MYST_LABEL: Final = re.compile(r"^[ \t]*\(([^()\n]+)\)=[ \t]*$", re.MULTILINE)
_MYST_DIRECTIVE: Final = re.compile(
    r"^[ \t]*(?:`{3,}|~{3,}|:{3,})\{(?:toctree|note|warning|tip|important|admonition|seealso|figure"
    r"|eval-rst|code-block|literalinclude|include|contents|glossary|versionadded|versionchanged"
    r"|deprecated|grid|tab-set|dropdown|card|auto\w+)\}",
    re.MULTILINE,
)
_ENTRY: Final = re.compile(r"^[ \t]*(\S[^\n]*?)[ \t]*$", re.MULTILINE)
_OPTION: Final = re.compile(r":[\w-]+:|---|#")
_WILDCARD: Final = re.compile(r"[*?\[]")
_MADE_BY_SPHINX: Final = frozenset(("genindex", "modindex", "py-modindex", "search", "self"))


def find_rst_links(text: str, blocks: Sequence[Block]) -> FoundLinks:
    """Return the links and labels of a reStructuredText document."""
    outside = outside_of(blocks)
    links = [
        *_find_roles(_RST_ROLE, text, outside),
        *_find_toctrees(_RST_TOCTREE, text, outside),
    ]
    links += (
        Link("document", match[1], "", "", match.start(1), match.end(1))
        for match in _RST_INCLUDE.finditer(text)
        if outside(match.start()) and not match[1].startswith("<")
    )
    for match in _RST_INLINE.finditer(text):
        if outside(match.start()) and not is_external(match[2]):
            target, _, anchor = " ".join(match[2].split()).partition("#")
            shown = " ".join(match[1].split())
            links.append(Link("link", target, anchor, shown, match.start(), match.end()))
    labels = [
        (match[1] or match[2]).replace("\\", "")
        for match in _RST_LABEL.finditer(text)
        if outside(match.start())
    ]
    labels += [match[1] for match in _RST_NAME.finditer(text) if outside(match.start())]
    return FoundLinks(sort_links(links), tuple(labels))


def is_myst(text: str) -> bool:
    """Whether a Markdown text uses the roles, labels or directives of MyST."""
    # Most texts do not, and to look for a few characters is much quicker than a pattern.
    if (
        "}`" in text
        and _ROLE_START.search(text)
        and any(match[1] for match in _MYST_ROLE.finditer(text))
    ):
        return True
    if ")=" in text and _MYST_LABEL.search(text):
        return True
    has_fence = "`{" in text or ":{" in text or "~{" in text
    return has_fence and _MYST_DIRECTIVE.search(text) is not None


def find_myst_links(
    text: str, blocks: Sequence[Block], sections: Iterable[Section], links: Iterable[Link]
) -> FoundLinks:
    """Return all links of a MyST document, and its labels; ``links`` are those of Markdown."""
    outside = outside_of([block for block in blocks if block.kind in ("fence", "indented")])
    labels = [match[1] for match in _MYST_LABEL.finditer(text) if outside(match.start())]
    anchors = {_slug(section.title) for section in sections} | {_slug(label) for label in labels}
    found = [_read_as_label(link, anchors) for link in links]
    found += _find_roles(_MYST_ROLE, text, outside)
    # A toctree is a fence itself.
    fences = [block for block in blocks if block.language != "{toctree}"]
    found += _find_toctrees(_MYST_TOCTREE, text, outside_of(fences))
    return FoundLinks(sort_links(found), tuple(labels))


def _read_as_label(link: Link, anchors: set[str]) -> Link:
    """Return a link to an anchor as a label if its page has no such heading or label."""
    if link.kind != "link" or link.target or _slug(link.anchor) in anchors:
        return link
    return Link("label", f"#{link.anchor}", "", link.text, link.start, link.end)


def _find_roles(
    pattern: re.Pattern[str], text: str, outside: Callable[[int], bool]
) -> Iterator[Link]:
    for match in pattern.finditer(text):
        role, content = match[1], match[2]
        if not role or not outside(match.start()):
            continue
        shown, target = _split_title(content)
        is_document = role == "doc" or (role == "any" and "/" in target)
        if target and target not in _MADE_BY_SPHINX:
            kind: LinkKind = "document" if is_document else "label"
            yield Link(kind, target, "", shown, match.start(), match.end())


def _find_toctrees(
    pattern: re.Pattern[str], text: str, outside: Callable[[int], bool]
) -> Iterator[Link]:
    for match in pattern.finditer(text):
        if not outside(match.start()):
            continue
        for entry in _ENTRY.finditer(text, match.start(2), match.end(2)):
            shown, target = _split_title(entry[1])
            if _OPTION.match(entry[1]) or target in _MADE_BY_SPHINX or is_external(target):
                continue
            if not _WILDCARD.search(target):  # A pattern names no single document.
                yield Link("document", target, "", shown, entry.start(1), entry.end(1))


def _split_title(content: str) -> tuple[str, str]:
    """Split ``text <target>`` into both; a target alone has no text."""
    shown, bracket, target = content.removesuffix(">").rpartition("<")
    if not bracket or not content.endswith(">"):
        shown, target = "", content
    return " ".join(shown.split()), " ".join(target.split()).removeprefix("!")


def _slug(title: str) -> str:
    return re.sub(r"[\W_]+", "-", title.casefold()).strip("-")
