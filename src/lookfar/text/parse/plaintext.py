"""Parse plain text, reStructuredText, AsciiDoc, Org and LaTeX with line rules.

Finds headings, code blocks, links and labels, but no other inline markup and no tags. A heading
that only a full parser could find is missed: a wrong heading would cut a code sample in two.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from lookfar.common.lines import Lines
from lookfar.model import Block, Document, Link
from lookfar.text.parse.links import FoundLinks, outside_of
from lookfar.text.parse.markup_links import find_asciidoc_links, find_org_links, find_rst_links
from lookfar.text.parse.outline import Heading, build_sections, find_title

_DEEPEST = 6

_RST_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*[ \t]*$")
_RST_CODE = re.compile(r"\.\. (?:code-block|code|sourcecode|highlight)::[ \t]*(\S*)")
_ADOC_HEADING = re.compile(r"(={1,6})[ \t]+(\S.*)$")
# Only these contain verbatim or hidden text; examples, sidebars and quotes contain prose.
_ADOC_FENCE = re.compile(r"(-{4,}|\.{4,}|\+{4,}|/{4,}|```)((?<=`)\w*|)$")
_ADOC_SOURCE = re.compile(r"\[(?:source)?(?:%[\w%]+)?,[ \t]*([\w+#-]+)[^\]]*\]$")
_ORG_HEADING = re.compile(r"(\*+)[ \t]+(\S.*)$")
_ORG_STATE = re.compile(r"(?:TODO|DONE)(?:\s+|$)|\[#[A-Za-z0-9]\]\s*")
_ORG_TAGS = re.compile(r"(?:^| ):[\w@#%:]+:$")
_ORG_BEGIN = re.compile(r"[ \t]*#\+begin_(\w+)[ \t]*(\S*)", re.IGNORECASE)
_TEX_CODE = re.compile(
    r"^[ \t]*\\begin\{(verbatim\*?|Verbatim|alltt|comment|lstlisting|minted)\}"
    r"(?:\[([^\]\n]*)\])?(?:\{(\w+)\})?",
    re.MULTILINE,
)
_TEX_LANGUAGE = re.compile(r"language=\{?([\w+#]+)")
_TEX_HEADING = re.compile(
    r"^[ \t]*(?:\\(part|chapter|(?:sub){0,2}section|(?:sub)?paragraph|frametitle)\*?[ \t]*"
    r"(?:\[[^\]\n]*\])?|\\begin\{(frame)\}(?:\[[^\]\n]*\])?)[ \t]*\{",
    re.MULTILINE,
)
_TEX_LEVELS = {
    "part": 1, "chapter": 1, "section": 2, "subsection": 3, "frametitle": 3, "frame": 3,
    "subsubsection": 4, "paragraph": 5, "subparagraph": 6,
}  # fmt: skip
_TEX_TITLE = re.compile(r"^[^%\n]*\\title[ \t]*(?:\[[^\]\n]*\])?\{", re.MULTILINE)
_TEX_BODY = re.compile(r"^[^%\n]*\\begin\{document\}[^\n]*\n?", re.MULTILINE)
_TEX_LINK = re.compile(r"\\(?:href\{([^{}\n]+)\}\{|url\{([^{}\n]+)\})")
_TEX_NOT_TITLE = re.compile(r"\\(?:label|index|footnote|thanks)\{[^{}]*\}|%.*\n?")
_TEX_COMMAND = re.compile(r"\\([A-Za-z]+\*?[ \t]*|[^A-Za-z\s])|[{}]")
_TEX_BLANK = re.compile(r"(?:[ \t]|\\label\{[^{}\n]*\})*(?:%[^\n]*)?\n")
"""The rest of a line that has no text after its heading."""
_TEX_LONGEST_TITLE = 500
_TEX_DEEPEST = 6


class _Line(NamedTuple):
    text: str
    start: int
    end: int
    """Offset after the newline."""


def parse_text(uri: str, text: str) -> Document:
    """Parse plain text as one section without a title."""
    return _document(uri, text, "text", (), (), FoundLinks((), ()))


def parse_rst(uri: str, text: str) -> Document:
    """Parse reStructuredText: titles by adornment, levels by order of first use."""
    headings, blocks = _rst(_lines(text))
    return _document(uri, text, "rst", headings, blocks, find_rst_links(text, blocks))


def parse_asciidoc(uri: str, text: str) -> Document:
    """Parse AsciiDoc: ``=`` to ``======`` titles outside verbatim blocks."""
    headings, blocks = _asciidoc(_lines(text))
    found = find_asciidoc_links(uri, text, blocks, headings)
    return _document(uri, text, "asciidoc", headings, blocks, found)


def parse_org(uri: str, text: str) -> Document:
    """Parse Org: ``*`` headings outside ``#+begin_`` blocks."""
    headings, blocks = _org(_lines(text))
    return _document(uri, text, "org", headings, blocks, find_org_links(text, blocks))


def parse_latex(uri: str, text: str) -> Document:
    """Parse LaTeX: the source itself by its sections, after the preamble; nothing is expanded."""
    blocks: list[Block] = []
    at = 0
    while begin := _TEX_CODE.search(text, at):
        end = text.find(f"\\end{{{begin[1]}}}", begin.end())
        if end < 0:
            break
        at = text.find("\n", end) + 1 or len(text)
        language = _TEX_LANGUAGE.search(begin[2] or "")
        name = language[1] if language else begin[3] or ""
        blocks.append(Block("fence", begin.start(), at, name.lower()))
    is_outside = outside_of(blocks)
    headings: list[Heading] = []
    for match in _TEX_HEADING.finditer(text):
        title = _tex_argument(text, match.end())
        if title and is_outside(match.start()):
            end = match.end() + len(title) + 1
            if rest := _TEX_BLANK.match(text, end):
                end = rest.end()
            level = _TEX_LEVELS[match[1] or match[2]]
            headings.append(Heading(level, _tex_plain(title), match.start(), end))
    links: list[Link] = []
    for match in _TEX_LINK.finditer(text):
        shown = _tex_argument(text, match.end()) if match[1] else ""
        end = match.end() + len(shown) + bool(shown)
        if is_outside(match.start()):
            target = match[1] or match[2]
            links.append(Link("link", target, "", _tex_plain(shown), match.start(), end))
    named = _TEX_TITLE.search(text)
    title = _tex_plain(_tex_argument(text, named.end())) if named else ""
    begins = _TEX_BODY.search(text)
    body = begins.end() if begins and is_outside(begins.start()) else 0
    headings = [heading for heading in headings if heading.start >= body]
    return _document(
        uri, text, "latex", headings, blocks, FoundLinks(tuple(links), ()), title, body
    )


def _tex_argument(text: str, start: int) -> str:
    """Return a command's argument in braces from ``start`` on; empty if it is not closed nearby."""
    depth = 1
    for match in re.compile(r"\\.|[{}]|\n[ \t]*\n", re.DOTALL).finditer(
        text, start, start + _TEX_LONGEST_TITLE
    ):
        if match[0].isspace() or depth > _TEX_DEEPEST:
            return ""
        depth += (match[0] == "{") - (match[0] == "}")
        if not depth:
            return text[start : match.start()]
    return ""


def _tex_plain(written: str) -> str:
    """Return a title without commands, braces and comments."""
    bare = _TEX_NOT_TITLE.sub("", written).replace("~", " ")
    shown = _TEX_COMMAND.sub(
        lambda match: "" if not match[1] or match[1][0].isalpha() else match[1], bare
    )
    return " ".join(shown.split())


def _document(
    uri: str,
    text: str,
    language: str,
    headings: Iterable[Heading],
    blocks: Iterable[Block],
    found: FoundLinks,
    title: str = "",
    body: int = 0,
) -> Document:
    sections = build_sections(tuple(headings), text, Lines(text), body)
    return Document(
        uri=uri,
        text=text,
        title=title or find_title(sections),
        lane="docs",
        language=language,
        body=body,
        sections=sections,
        blocks=tuple(blocks),
        links=found.links,
        labels=found.labels,
    )


def _lines(text: str) -> list[_Line]:
    lines = []
    start = 0
    for line in text.split("\n"):
        end = start + len(line) + 1
        lines.append(_Line(line, start, end))
        start = end
    # There is no line after the final newline.
    return lines[:-1]


def _rst(lines: list[_Line]) -> tuple[list[Heading], list[Block]]:
    headings: list[Heading] = []
    blocks: list[Block] = []
    styles: list[str] = []
    index = 0
    while index < len(lines):
        literal = _rst_literal(lines, index)
        title = None if literal else _rst_title(lines, index)
        if literal:
            block, index = literal
            blocks.append(block)
        elif title:
            style, text_line, after = title
            if style not in styles:
                styles.append(style)
            level = min(styles.index(style) + 1, _DEEPEST)
            name = " ".join(lines[text_line].text.split())
            headings.append(Heading(level, name, lines[index].start, lines[after - 1].end))
            index = after
        else:
            index += 1
    return headings, blocks


def _rst_title(lines: list[_Line], index: int) -> tuple[str, int, int] | None:
    """Return style, text line and following line of the title that starts at a line, if any."""
    if index and lines[index - 1].text.strip():
        return None
    over = _adornment(lines, index)
    if over:
        under = _adornment(lines, index + 2)
        if under == over and _fits(lines, index + 1, index) and _fits(lines, index + 1, index + 2):
            return over * 2, index + 1, index + 3
        return None
    under = _adornment(lines, index + 1)
    if under and not lines[index].text[:1].isspace() and _fits(lines, index, index + 1):
        return under, index, index + 2
    return None


def _adornment(lines: list[_Line], index: int) -> str:
    """Return the character that an adornment line repeats; empty for other lines."""
    match = _RST_ADORNMENT.match(lines[index].text) if index < len(lines) else None
    return match[1] if match else ""


def _fits(lines: list[_Line], title: int, adornment: int) -> bool:
    text = lines[title].text.strip()
    return bool(text) and _columns(text) <= len(lines[adornment].text.rstrip())


def _columns(text: str) -> int:
    """Return the display width, to which adornments are drawn: CJK takes two columns."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def _rst_literal(lines: list[_Line], index: int) -> tuple[Block, int] | None:
    """Return the code block that line ``index`` introduces, and the line after it."""
    text = lines[index].text
    directive = _RST_CODE.match(text.lstrip())
    if not directive and (not text.endswith("::") or text.lstrip().startswith("..")):
        return None
    inside = [
        number
        for number in range(index + 1, _rst_dedent(lines, index))
        if lines[number].text.strip()
    ]
    if not inside:
        return None
    first = index if directive else inside[0]
    language = directive[1].lower() if directive else ""
    return Block("fence", lines[first].start, lines[inside[-1]].end, language), inside[-1] + 1


def _rst_dedent(lines: list[_Line], index: int) -> int:
    """Return the first line after ``index`` that is not blank and not indented deeper."""
    limit = _indent(lines[index].text)
    for number in range(index + 1, len(lines)):
        text = lines[number].text
        if text.strip() and _indent(text) <= limit:
            return number
    return len(lines)


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _asciidoc(lines: list[_Line]) -> tuple[list[Heading], list[Block]]:
    headings: list[Heading] = []
    blocks: list[Block] = []
    last_seen = {line.text.rstrip(): number for number, line in enumerate(lines)}
    closing, start, language = "", 0, ""
    for number, line in enumerate(lines):
        text = line.text.rstrip()
        if closing:
            if text == closing:
                # A comment (////) hides headings like the others, but is not code.
                if closing[0] != "/":
                    blocks.append(Block("fence", start, line.end, language))
                closing = ""
            continue
        source = _ADOC_SOURCE.match(text)
        if source:
            language = source[1].lower()
        elif (fence := _ADOC_FENCE.match(text)) and last_seen.get(fence[1], -1) > number:
            closing, start, language = fence[1], line.start, fence[2].lower() or language
        else:
            language = ""
            if heading := _ADOC_HEADING.match(text):
                title = " ".join(heading[2].split())
                headings.append(Heading(len(heading[1]), title, line.start, line.end))
    return headings, blocks


def _org(lines: list[_Line]) -> tuple[list[Heading], list[Block]]:
    headings: list[Heading] = []
    blocks: list[Block] = []
    last_seen = {line.text.strip().lower(): number for number, line in enumerate(lines)}
    closing, start, opened = "", 0, ("", "")
    for number, line in enumerate(lines):
        if closing:
            if line.text.strip().lower() == closing:
                if opened[0] in ("src", "example"):
                    blocks.append(Block("fence", start, line.end, opened[1]))
                closing = ""
            continue
        begin = _ORG_BEGIN.match(line.text)
        end_line = f"#+end_{begin[1].lower()}" if begin else ""
        if begin and last_seen.get(end_line, -1) > number:
            name = begin[1].lower()
            closing, start = end_line, line.start
            opened = (name, begin[2].lower() if name == "src" else "")
        elif heading := _ORG_HEADING.match(line.text):
            level = min(len(heading[1]), _DEEPEST)
            headings.append(Heading(level, _org_title(heading[2]), line.start, line.end))
    return headings, blocks


def _org_title(written: str) -> str:
    """Return the title without state, priority and tags."""
    title = _ORG_TAGS.sub("", " ".join(written.split()))
    while marker := _ORG_STATE.match(title):
        title = title[marker.end() :]
    return title
