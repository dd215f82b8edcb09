"""Find the links and labels of reStructuredText, MyST Markdown, AsciiDoc and Org documents.

In Sphinx projects a ``:ref:`` names a label, which is unique in its project; a ``:doc:`` and an
entry of a ``toctree`` name a document. Roles of a programming language, such as ``:class:``, name
neither and are ignored. In AsciiDoc there are ``xref:``, ``<<anchor>>``, ``link:`` and
``include::``; in an Antora project a page is named by its module instead of its path, which is
derived from that. In Org they are links in double brackets; an ``:ID:`` is a label.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from posixpath import relpath
from typing import Final

from lookfar.model import Block, Link, LinkKind, Section
from lookfar.text.parse.links import FoundLinks, is_external, outside_of, sort_links
from lookfar.text.parse.outline import Heading

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
_ATTRIBUTE: Final = re.compile(r"^:([\w-]+):[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_REFERENCE: Final = re.compile(r"\{([\w-]+)\}")
_ADOC_MACRO: Final = re.compile(
    r"(?<![\w\\:])(xref|link):(?!:)([^\s\[\]]{1,500})\[((?:\\\]|[^\]]){0,1000})\]"
)
_ADOC_ANGLES: Final = re.compile(r"(?<![\\<])<<([^<>,\n]+?)(?:,\s*([^<>]{0,1000}?))?>>")
_ADOC_INCLUDE: Final = re.compile(r"^include::([^\s\[\]]+)\[", re.MULTILINE)
_ADOC_LABEL: Final = re.compile(
    r"(?<!\[)\[\[([\w:][\w:.-]{0,200})(?:,[^\]\n]{0,500})?\]\](?!\])"
    r"|^\[(?:[\w-]+,?)?#([\w:][\w:-]{0,200})[^\]\n]*\]"
    r"|^\[[^\]\n]*\bid=\"?([\w:][\w:.-]{0,200})\"?[^\]\n]*\]"
    r"|(?<!\w)anchor:([\w:][\w:.-]{0,200})\[",
    re.MULTILINE,
)
_ADOC_ENDING: Final = re.compile(r"\.(?:adoc|asciidoc|asc|ad)$", re.IGNORECASE)
_ANTORA: Final = re.compile(r"(?:^|.*/)modules/([^/]+)/")
_FAMILIES: Final = {
    "page": "pages", "partial": "partials", "example": "examples", "attachment": "attachments",
    "image": "images",
}  # fmt: skip
_ORG_LINK: Final = re.compile(
    r"(?<![=~\[])\[\[((?:[^\[\]\\]|\\.){1,2000})\](?:\[((?:(?!\]\]).){1,2000})\])?\]"
)
_ORG_ID: Final = re.compile(r"^[ \t]*:ID:[ \t]+(\S+)[ \t]*$", re.MULTILINE | re.IGNORECASE)
_ORG_INCLUDE: Final = re.compile(
    r"^[ \t]*#\+(?:include|setupfile):[ \t]+\"?([^\"\s]+)", re.MULTILINE | re.IGNORECASE
)
_PICTURE: Final = re.compile(r"\.(?:png|jpe?g|gif|svg|webp|bmp|tiff?)$", re.IGNORECASE)
_ORG_FILE: Final = re.compile(r"file(?:\+\w+)?:|attachment:")


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


def find_asciidoc_links(
    uri: str, text: str, blocks: Sequence[Block], headings: Iterable[Heading]
) -> FoundLinks:
    """Return the links and labels of an AsciiDoc document."""
    outside = outside_of(blocks)
    labels = [
        match[1] or match[2] or match[3] or match[4]
        for match in _ADOC_LABEL.finditer(text)
        if outside(match.start())
    ]
    own = {_fold_anchor(name) for name in (*labels, *(heading.title for heading in headings))}
    attributes = dict(_ATTRIBUTE.findall(text))
    links: list[Link] = []
    for match in _ADOC_MACRO.finditer(text):
        target = _substitute(match[2], attributes)
        if not target or not outside(match.start()):
            continue
        shown = " ".join(match[3].replace("\\]", "]").split())
        if match[1] == "link":
            path, _, anchor = target.removeprefix("++").removesuffix("++").partition("#")
            links.append(Link("link", path, anchor, shown, match.start(), match.end()))
        else:
            links += _read_xref(uri, target, own, shown, match.span())
    for match in _ADOC_ANGLES.finditer(text):
        target = _substitute(match[1], attributes)
        if target and outside(match.start()):
            links += _read_xref(uri, target, own, " ".join((match[2] or "").split()), match.span())
    for match in _ADOC_INCLUDE.finditer(text):
        target = _substitute(match[1], attributes)
        path = _resolve_antora(uri, target, "page") if target else ""
        if path and outside(match.start()) and "://" not in target:
            links.append(Link("link", path, "", "", match.start(1), match.end(1)))
    return FoundLinks(sort_links(links), tuple(labels))


def _read_xref(
    uri: str, target: str, own: set[str], shown: str, span: tuple[int, int]
) -> Iterator[Link]:
    """Yield the link of a cross reference: to a file, to an anchor here, or to a label."""
    path, hash_sign, anchor = target.partition("#")
    if not hash_sign and not _ADOC_ENDING.search(path):
        # A name without a file is an anchor: of this document, or else of another one.
        here = _fold_anchor(path) in own
        yield Link("link" if here else "label", "" if here else path, path if here else "",
                   shown, *span)  # fmt: skip
    elif not path:
        yield Link("link", "", anchor, shown, *span)
    else:
        if not re.search(r"\.\w+$", path):
            path += ".adoc"
        path = _resolve_antora(uri, path, "page")
        if path:
            yield Link("link", path, anchor, shown, *span)


def _resolve_antora(uri: str, target: str, family: str) -> str:
    """Return the path of a resource relative to its document; empty if it cannot be known.

    ``2.0@component:module:family$path`` is the whole form. A page of another component is in a
    folder that nothing here names. Outside of Antora, a target is a relative path.
    """
    project = _ANTORA.match(uri)
    if project is None:
        relative = not target.startswith((".", "/"))
        return "" if ":" in target else f"./{target}" if relative else target
    own_module = project[1]
    *place, path = target.rpartition("@")[2].split(":")
    if len(place) > 1:
        return ""
    module = (place[0] if place else "") or own_module
    named, dollar, rest = path.partition("$")
    family, path = (named, rest) if dollar else (family, path)
    if family not in _FAMILIES:
        return ""
    if path.startswith(("./", "../")) and not place:
        return path
    modules = uri[: project.start(1)]
    folder = uri.rpartition("/")[0]
    return _make_relative(relpath(f"{modules}{module}/{_FAMILIES[family]}/{path}", folder or "."))


def _substitute(target: str, attributes: dict[str, str]) -> str:
    """Replace the attributes that the document itself defines; empty if others are used."""
    target = _REFERENCE.sub(lambda match: attributes.get(match[1], match[0]), target)
    return "" if "{" in target else target


def _fold_anchor(name: str) -> str:
    """Return an anchor in the form in which titles and generated ids are equal."""
    return re.sub(r"[\W_]+", "-", name.casefold()).strip("-")


def find_org_links(text: str, blocks: Sequence[Block]) -> FoundLinks:
    """Return the links and labels of an Org document."""
    outside = outside_of(blocks)
    links: list[Link] = []
    for match in _ORG_LINK.finditer(text):
        if outside(match.start()):
            destination = match[1].replace("\\", "")
            links += _read_org_link(destination, match[2] or "", match.span())
    for match in _ORG_INCLUDE.finditer(text):
        path = match[1].partition("::")[0]
        if outside(match.start()) and not is_external(path) and not path.startswith(("/", "~")):
            links.append(Link("link", _make_relative(path), "", "", match.start(1), match.end(1)))
    labels = [match[1] for match in _ORG_ID.finditer(text) if outside(match.start())]
    return FoundLinks(sort_links(links), tuple(labels))


def _read_org_link(destination: str, shown: str, span: tuple[int, int]) -> Iterator[Link]:
    shown = " ".join(shown.split())
    if destination.startswith("id:"):
        yield Link("label", destination[3:].partition("::")[0], "", shown, *span)
        return
    file = _ORG_FILE.match(destination)
    if file or destination.startswith(("./", "../")):
        path, _, search = destination[file.end() if file else 0 :].partition("::")
        # An absolute path names a file of one machine.
        if path and not path.startswith(("/", "~")):
            kind: LinkKind = "image" if _PICTURE.search(path) else "link"
            yield Link(kind, _make_relative(path), search.lstrip("*#"), shown, *span)
    elif is_external(destination):
        yield Link("link", destination, "", shown, *span)
    elif not destination.startswith(("/", "~")):
        yield Link("link", "", destination.lstrip("*#"), shown, *span)


def _make_relative(path: str) -> str:
    return path if path.startswith(".") else f"./{path}"
