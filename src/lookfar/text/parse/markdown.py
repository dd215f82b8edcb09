"""Parse Markdown: headings, blocks, links, tags, front matter and inline fields.

Follows CommonMark with GitHub's tables, footnotes, strikethrough and task lists, wikilinks, and the
roles and labels of MyST.
Headings inside a block quote, list item or footnote are not sections. Math is not parsed, since
``$5 [a](b) or 6$`` would lose its link. Links, tags and fields inside code or HTML are
ignored.

The parser reports UTF-8 byte ranges. They are converted to character offsets at the end, because
most events are not needed, and the loop over the events takes most of the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyromark
from pyromark import Options

from lookfar.common.lines import Lines, inside_of
from lookfar.model import Block, BlockKind, Document, Link, LinkKind
from lookfar.text.normalise import ByteOffsets
from lookfar.text.parse import frontmatter
from lookfar.text.parse.block_ids import find_block_references
from lookfar.text.parse.links import (
    alias_names,
    sort_links,
    split_destination,
    split_wikilink,
    tag_names,
    tags_in,
)
from lookfar.text.parse.markup_links import find_myst_links, is_myst
from lookfar.text.parse.outline import Heading, build_sections, find_title

_SEPARATOR: Final = "::"
_LONGEST_KEY: Final = 100
_LONGEST_LINE: Final = 5_000
"""A longer line is data."""
_LINE_START: Final = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?:\[.\][ \t]+)?")
_KEY: Final = re.compile(r"[^\W_][^:\[\](){}<>|`*~#\"!?,;\\=\n]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,17})?")
_EMPHASIS: Final = re.compile(r"(\*{1,3}|_{1,3}|~~)(.+)\1")
_LINKS: Final = re.compile(r"!?\[\[[^\[\]]+\]\](?:\s*,\s*!?\[\[[^\[\]]+\]\])+")
_QUOTED: Final = re.compile(r'"[^"]*"(?:\s*,\s*"[^"]*")*')
_CLOSING: Final = {"[": "]", "(": ")"}
_PARSER = pyromark.Markdown(
    options=Options.ENABLE_TABLES
    | Options.ENABLE_FOOTNOTES
    | Options.ENABLE_STRIKETHROUGH
    | Options.ENABLE_TASKLISTS
    | Options.ENABLE_GFM
    | Options.ENABLE_WIKILINKS
)
_HEADING_ID = re.compile(r" ?\{#[^{}]*\}$")
# Code ends with a backtick, so an id in code is not at the end of the line.
_LINE_WITH_ID = re.compile(r"\{#[^{}`\n]*\}[ \t#]*$", re.MULTILINE)
_PROPERTY_LINK = re.compile(r"\[\[([^\[\]|\n]+)(?:\|([^\[\]\n]*))?\]\]")
_NOTE_NUMBER = re.compile(r"\d{8}[Tt]?\d{4,9}")
"""The id of a note in a Zettelkasten, by which other notes link to it."""
_DEEPEST_LINK_TEXT = 4
"""Images nest without limit, and each level would contain the text of all below it."""
_LONGEST_TAG = 500
"""Longer names are not tags, and would not fit into an index key of PostgreSQL."""


def parse(uri: str, text: str) -> Document:
    """Parse one Markdown file."""
    front = frontmatter.split(text)
    metadata, warnings = frontmatter.parse(front.raw, front.syntax) if front else ({}, ())
    body = front.body if front else 0
    source = text[body:] if body else text

    spelled_tags = list(tags_in(source)) if "#" in source else []
    spelled_fields = list(find_fields(source)) if "::" in source else []
    scan = _Scan(collect_prose=bool(spelled_tags or spelled_fields))
    try:
        scan.read(source)
    except BaseException as error:
        # A panic in the Rust parser must not end the process; the file loses its outline.
        if type(error).__name__ != "PanicException":
            raise
        warnings = (*warnings, "the Markdown parser failed here: read as plain text")
        scan = _Scan(collect_prose=False)

    offsets = ByteOffsets(source)
    place = _Placement(text, body, offsets)
    sections = build_sections(place.headings(scan.headings), text, Lines(text), body)
    blocks, links = place.blocks(scan.blocks), place.links(scan.links)
    char = offsets.char
    is_prose = inside_of((char(start), char(end)) for start, end in scan.prose)
    fields = tuple((field.name, field.value) for field in spelled_fields if is_prose(field.offset))
    inline_tags = [name for offset, name in spelled_tags if is_prose(offset)]
    labels: tuple[str, ...] = ()
    if is_myst(source):
        links, labels = find_myst_links(text, blocks, sections, links)
    if front and "[[" in front.raw:
        links = (*_find_property_links(text, body), *links)
    references, block_labels = find_block_references(text, body, blocks)
    if references:
        links = sort_links((*links, *references))
    return Document(
        uri=uri,
        text=text,
        title=_title(metadata) or find_title(sections),
        lane="docs",
        language="markdown",
        body=body,
        sections=sections,
        blocks=blocks,
        links=links,
        labels=(*labels, *block_labels),
        tags=_tags((*metadata.items(), *fields), inline_tags),
        aliases=_aliases((*metadata.items(), *fields)),
        fields=fields,
        metadata=metadata,
        warnings=warnings,
    )


class _FoundHeading(NamedTuple):
    level: int
    title: str
    start: int
    end: int


class _FoundBlock(NamedTuple):
    kind: BlockKind
    language: str
    start: int
    end: int


class _FoundLink(NamedTuple):
    image: bool
    data: Mapping[str, Any]
    text: str
    start: int
    end: int


class _Open(NamedTuple):
    """A heading or link whose text is being collected, from ``parts[mark]`` on."""

    name: str
    data: Mapping[str, Any]
    mark: int
    start: int
    end: int


class _Scan:
    """One pass over the parser's events; all offsets are bytes.

    An event is a string (a line break) or a dict with one key, and so are the tags inside
    ``Start`` and ``End``. The start of a container has its whole range, so most ends are skipped.
    """

    def __init__(self, collect_prose: bool) -> None:
        self.headings: list[_FoundHeading] = []
        self.blocks: list[_FoundBlock] = []
        self.links: list[_FoundLink] = []
        self.prose: list[tuple[int, int]] = []
        """Ranges of text with ``#`` or ``::`` that are not in code, HTML or a link."""
        self._collect_prose = collect_prose
        self._open: list[_Open] = []
        self._parts: list[str] = []
        self._container_end = 0
        self._code_end = 0
        self._link_end = 0

    def read(self, source: str) -> None:
        events: Iterable[tuple[Any, Any]] = _PARSER.events_with_range(source)
        still_open, collect_prose = self._open, self._collect_prose
        for event, where in events:
            if "Start" in event:
                tag = event["Start"]
                if tag.__class__ is dict:
                    ((name, data),) = tag.items()
                    self._start(name, data, where["start"], where["end"])
                elif tag == "HtmlBlock":
                    self.blocks.append(_FoundBlock("html", "", where["start"], where["end"]))
            elif still_open:
                if "End" in event:
                    self._end(event["End"])
                else:
                    self._inline(event, where)
            elif collect_prose and "Text" in event:
                self._note_prose(event["Text"], where)

    def _start(self, name: str, data: Any, start: int, end: int) -> None:
        if name == "Link" or name == "Image":
            self._open.append(_Open(name, data, len(self._parts), start, end))
            self._link_end = max(self._link_end, end)
        elif name == "CodeBlock":
            self._code_end = end
            if data == "Indented":
                self.blocks.append(_FoundBlock("indented", "", start, end))
            else:
                words = data["Fenced"].split(maxsplit=1)
                language = words[0].lower() if words else ""
                self.blocks.append(_FoundBlock("fence", language, start, end))
        elif name == "Heading":
            self._open.append(_Open(name, data, len(self._parts), start, end))
        elif name == "Table":
            self.blocks.append(_FoundBlock("table", "", start, end))
        else:  # BlockQuote, List, FootnoteDefinition
            self._container_end = max(self._container_end, end)

    def _inline(self, event: Any, where: Any) -> None:
        if event.__class__ is str:
            self._parts.append(" ")
        elif "Text" in event:
            self._parts.append(event["Text"])
            if self._collect_prose and where["start"] >= self._link_end:
                self._note_prose(event["Text"], where)
        elif "Code" in event:
            self._parts.append(event["Code"])

    def _end(self, tag: Any) -> None:
        if tag != "Link" and tag != "Image" and "Heading" not in tag:
            return
        depth = len(self._open)
        name, data, mark, start, end = self._open.pop()
        text = "".join(self._parts[mark:]) if depth <= _DEEPEST_LINK_TEXT else ""
        if name != "Heading":
            self.links.append(_FoundLink(name == "Image", data, text, start, end))
        elif start >= self._container_end:
            self.headings.append(_FoundHeading(int(data["level"][1]), text, start, end))
        if not self._open:
            self._parts.clear()

    def _note_prose(self, text: str, where: Any) -> None:
        if ("#" in text or "::" in text) and where["start"] >= self._code_end:
            self.prose.append((where["start"], where["end"]))


class _Placement:
    """Converts byte ranges of the source to character ranges and whole lines of the text."""

    def __init__(self, text: str, body: int, offsets: ByteOffsets) -> None:
        self._text = text
        self._body = body
        self._char = offsets.char

    def headings(self, items: Iterable[_FoundHeading]) -> list[Heading]:
        headings = []
        for level, title, start_byte, end_byte in items:
            start, end = self._lines(start_byte, end_byte)
            title = " ".join(title.split())
            if title.endswith("}") and _LINE_WITH_ID.search(self._text, start, end):
                title = _HEADING_ID.sub("", title)
            headings.append(Heading(level, title, start, end))
        return headings

    def blocks(self, items: Iterable[_FoundBlock]) -> tuple[Block, ...]:
        return tuple(
            Block(kind, *self._lines(start, end), language) for kind, language, start, end in items
        )

    def links(self, items: Iterable[_FoundLink]) -> tuple[Link, ...]:
        links = []
        for image, data, text, start, end in items:
            kind: LinkKind
            link_type, destination = data["link_type"], data["dest_url"]
            if link_type.__class__ is dict:
                kind = "embed" if image else "wikilink"
                target, anchor = split_wikilink(destination)
            else:
                kind = "image" if image else "link"
                target, anchor = split_destination(destination)
                target = f"mailto:{target}" if link_type == "Email" else target
            if target or anchor:
                begin, stop = self._char(start) + self._body, self._char(end) + self._body
                links.append(Link(kind, target, anchor, " ".join(text.split()), begin, stop))
        links.sort(key=lambda link: link.start)
        return tuple(links)

    def _lines(self, start_byte: int, end_byte: int) -> tuple[int, int]:
        """Extend a range to whole lines, to include quote marks and indentation."""
        text = self._text
        start, end = self._char(start_byte) + self._body, self._char(end_byte) + self._body
        start = text.rfind("\n", 0, start) + 1
        if text[end - 1] != "\n":
            end = text.find("\n", end) + 1 or len(text)
        return start, end


def _find_property_links(text: str, body: int) -> Iterator[Link]:
    """Yield the links of front matter, as in ``up: "[[Note]]"``."""
    for match in _PROPERTY_LINK.finditer(text, 0, body):
        target, anchor = split_wikilink(match[1])
        if target or anchor:
            yield Link("wikilink", target, anchor, match[2] or "", match.start(), match.end())


def _title(metadata: Mapping[str, Any]) -> str:
    title = metadata.get("title")
    return " ".join(title.split()) if isinstance(title, str) else ""


def _tags(properties: Sequence[tuple[str, Any]], inline: Iterable[str]) -> tuple[str, ...]:
    names = set(inline)
    for key, value in properties:
        if key.lower() in ("tags", "tag"):
            names.update(tag_names(_unlink(value)))
    return tuple(sorted(name for name in names if len(name) <= _LONGEST_TAG))


def _aliases(properties: Sequence[tuple[str, Any]]) -> tuple[str, ...]:
    values = [value for key, value in properties if key.lower() in ("aliases", "alias")]
    names = [name for value in values for name in alias_names(_unlink(value))]
    numbers = [str(value) for key, value in properties if key == "id"]
    names += filter(_NOTE_NUMBER.fullmatch, numbers)
    return tuple(dict.fromkeys(names))


def _unlink(value: Any) -> Any:
    """Return the names in wikilinks without their brackets; Logseq writes ``tags:: [[a]], b``."""
    if isinstance(value, list):
        return [_unlink(item) for item in value]
    return value.replace("[[", "").replace("]]", "") if isinstance(value, str) else value


class Field(NamedTuple):
    """An inline field, and the offset of its colons."""

    offset: int
    name: str
    value: Any
    """Text, a number, a boolean, or a list."""


def find_fields(text: str) -> Iterator[Field]:
    """Yield everything that looks like a field, also in code."""
    at = text.find(_SEPARATOR)
    while at >= 0:
        start = text.rfind("\n", 0, at) + 1
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        if end - start <= _LONGEST_LINE:
            yield from _find_in_line(text[start:end], start)
        at = text.find(_SEPARATOR, end)


def _find_in_line(line: str, start: int) -> Iterator[Field]:
    opening = _LINE_START.match(line)
    begin = opening.end() if opening else 0
    at = line.find(_SEPARATOR)
    name = _read_key(line[begin:at])
    if name and _is_separator(line, at):
        value = line[at + 2 :].strip()
        if value:
            yield Field(start + at, name, read_value(value))
        return
    while at >= 0:
        field = _find_in_brackets(line, at) if _is_separator(line, at) else None
        if field is None:
            at = line.find(_SEPARATOR, at + 2)
            continue
        name, value, end = field
        yield Field(start + at, name, read_value(value))
        at = line.find(_SEPARATOR, end)


def _is_separator(line: str, at: int) -> bool:
    """Whether the colons end a name and are followed by a space."""
    after = line[at + 2 : at + 3]
    return at > 0 and not line[at - 1].isspace() and (not after or after.isspace())


def _find_in_brackets(line: str, at: int) -> tuple[str, str, int] | None:
    """Return name, value and end of a field in brackets whose colons are at ``at``."""
    least = max(0, at - _LONGEST_KEY)
    begin = max(line.rfind("[", least, at), line.rfind("(", least, at))
    if begin < 0 or line[begin - 1 : begin] == "[":
        return None
    name = _read_key(line[begin + 1 : at])
    opening, closing = line[begin], _CLOSING[line[begin]]
    depth = 1
    for end in range(at + 2, len(line)):
        depth += (line[end] == opening) - (line[end] == closing)
        if not depth:
            value = line[at + 2 : end].strip()
            return (name, value, end) if name and value else None
    return None


def _read_key(text: str) -> str:
    text = text.strip()
    emphasis = _EMPHASIS.fullmatch(text)
    name = emphasis[2].strip() if emphasis else text
    return name if len(name) <= _LONGEST_KEY and _KEY.fullmatch(name) else ""


def read_value(text: str) -> Any:
    """Return the value of a field: a number, boolean, text, or a list of links or quoted texts."""
    emphasis = _EMPHASIS.fullmatch(text)
    text = emphasis[2].strip() if emphasis else text
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    if _LINKS.fullmatch(text):
        return re.findall(r"!?\[\[[^\[\]]+\]\]", text)
    if _QUOTED.fullmatch(text):
        items = re.findall(r'"([^"]*)"', text)
        return items if len(items) > 1 else items[0]
    return text
