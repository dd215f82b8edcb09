"""Make a short plain text of a passage: without markup, with the answering sentence in front.

Markdown, HTML tags and front matter are removed; words, code and file names stay.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Final, NamedTuple

from lookfar.text.extract.formats import EXTRACTORS

_MARKDOWN: Final = frozenset(
    {"markdown", "mdx", "quarto", "rmarkdown", *(row.extensions[0][1:] for row in EXTRACTORS)}
)
"""Languages that are Markdown, including all formats whose text is extracted as Markdown."""
_HTML: Final = frozenset({"xml", "svg"})
_FACTOR: Final = 2
"""How many characters of a passage are read for one character of a snippet."""
_WORD_LENGTH: Final = 40
"""How many characters a snippet may give up to end between words."""
_SEPARATOR: Final = " · "
"""Put between headings, list items and table cells, which do not end with a full stop."""

# Repetitions are bounded, so that a hostile line cannot cause much backtracking.
_FRONT_MATTER: Final = re.compile(
    r"\A---[ \t]*\n(?:(?!---[ \t]*$).{0,2000}\n){0,400}---[ \t]*(?:\n|\Z)", re.M
)
_COMMENT: Final = re.compile(r"<!--.{0,4000}?-->|%%[^%]{0,4000}%%", re.S)
_SHORTCODE: Final = re.compile(r"\{\{[<%][^{}]{0,400}[%>]\}\}")
_TAG: Final = re.compile(r"</?[A-Za-z][A-Za-z0-9:-]{0,40}(?:\s[^<>]{0,1000})?/?>")
_HIDDEN_ELEMENT: Final = re.compile(
    r"<(script|style)\b[^<>]{0,400}>.{0,20000}?</\1\s*>", re.S | re.I
)
_WIKILINK: Final = re.compile(r"!?\[\[([^\[\]|\n]{1,400})(?:\|([^\[\]\n]{0,400}))?\]\]")
_IMAGE_IN_LINK: Final = re.compile(r"!\[([^\[\]\n]{0,400})\]\([^()\n]{0,1000}\)")
_INLINE_LINK: Final = re.compile(
    r"\[([^\[\]\n]{0,400})\]\((?:[^()\n]{0,1000}|[^()\n]{0,500}\([^()\n]{0,200}\)[^()\n]{0,500})\)"
)
_REFERENCE_LINK: Final = re.compile(r"!?\[([^\[\]\n]{1,400})\]\[[^\[\]\n]{0,200}\]")
_AUTOLINK: Final = re.compile(r"<((?:https?://|mailto:)[^<>\s]{1,1000})>")
_FOOTNOTE: Final = re.compile(r"\[\^[^\[\]\s]{1,100}\](?!:)")
_CODE: Final = re.compile(r"(?<!`)(`{1,3})(?!`)([^`\n]{1,1000}|[^\n]{1,1000}?)(?<!`)\1(?!`)")
_EMPHASIS: Final = (
    re.compile(r"(\*\*\*|\*\*|~~|==)(?=\S)([^\n]{1,1000}?)(?<=\S)\1"),
    re.compile(r"(?<!\w)(___|__|_)(?=\S)([^\n_]{1,1000}?)(?<=\S)\1(?!\w)"),
    re.compile(r"(?<![\w*])(\*)(?=[^\s*])([^\n*]{1,1000}?)(?<=[^\s*])\1(?![\w*])"),
)
_ESCAPE: Final = re.compile(r"\\([!-/:-@\[-`{-~])")
_LITERAL: Final = re.compile("\0(\\d+)\0")
_MARKS: Final = re.compile(r"[`\\\[<*_~=&]|\{\{%")
_BLOCK_ID: Final = re.compile(r"[ \t]\^[A-Za-z0-9-]{1,80}[ \t]*$")

_FENCE: Final = re.compile(r"[ \t]*(?:>[ \t]?){0,5}(?:```+|~~~+)[^`\n]{0,200}$")
_RULE: Final = re.compile(
    r"[ \t]*(?:[-*_=][ \t]*){2,}$|[ \t]*\|?(?:[ \t]*:?-+:?[ \t]*\|)+(?:[ \t]*:?-+:?)?[ \t]*$"
)
_DEFINITION: Final = re.compile(r"[ \t]{0,3}\[(?!\^)[^\[\]\n]{1,200}\]:[ \t]*\S")
_FOOTNOTE_TEXT: Final = re.compile(r"\A[ \t]{0,3}\[\^[^\[\]\s]{1,100}\]:[ \t]*")
_QUOTE: Final = re.compile(r"\A[ \t]*(?:>[ \t]?){1,5}")
_CALLOUT: Final = re.compile(r"\[![A-Za-z-]{1,40}\][+-]?[ \t]*")
_HEADING: Final = re.compile(r"[ \t]{0,3}#{1,6}(?:[ \t]+|$)")
_ITEM: Final = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX/-]\][ \t]+)?")


class Snippet(NamedTuple):
    text: str
    answer: int
    """How many characters of ``text`` are the answering sentence; 0 if none is known."""


def make_snippet(
    text: str, language: str, size: int, answering: tuple[int, int] | None = None
) -> Snippet:
    """Return about ``size`` characters of a passage, starting with the sentence that answers.

    ``answering`` is the span of that sentence in ``text``. Without it, the beginning is shown.
    """
    begin, end = answering or (0, 0)
    limit = size * _FACTOR
    lead = strip_markup(text[begin:end][:limit], language)
    rest = strip_markup(text[end : end + limit], language)
    whole = _join(lead, rest)
    if len(whole) <= size and len(text) <= end + limit:
        return Snippet(whole, len(lead))
    size = min(size, len(whole))
    cut = whole.rfind(" ", size - _WORD_LENGTH, size)
    whole = f"{whole[: cut if cut > 0 else size].rstrip(' ·')}…"
    return Snippet(whole, min(len(lead), len(whole)))


def strip_markup(text: str, language: str) -> str:
    """Return a text as it reads, on one line."""
    if language in _MARKDOWN:
        return _strip_markdown(text)
    if language in _HTML:
        return " ".join(unescape(_TAG.sub(" ", _HIDDEN_ELEMENT.sub(" ", text))).split())
    return " ".join(text.split())


def _strip_markdown(text: str) -> str:
    if text.startswith("---"):
        text = _FRONT_MATTER.sub("", text)
    if "<" in text or "%%" in text:
        text = _HIDDEN_ELEMENT.sub(" ", _COMMENT.sub(" ", text))
    blocks: list[str] = []
    fenced = apart = False
    for line in text.split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
            continue
        if fenced:
            blocks.append(" ".join(line.split()))
            continue
        if not line.strip() or _RULE.match(line) or _DEFINITION.match(line):
            continue
        line, separate = _strip_block(line)
        plain = _strip_inline(line)
        if plain and blocks and (separate or apart):
            blocks.append(_SEPARATOR.strip())
        if plain:
            blocks.append(plain)
            apart = separate
    return " ".join(filter(None, blocks))


def _strip_block(line: str) -> tuple[str, bool]:
    """Remove the marks at the start of a line; the flag says whether it is a heading or item."""
    line = _QUOTE.sub("", line)
    line = _FOOTNOTE_TEXT.sub("", line) if line.lstrip().startswith("[^") else line
    line = _BLOCK_ID.sub("", line) if "^" in line else line
    line = _CALLOUT.sub("", line, count=1) if line.startswith("[!") else line
    if (heading := _HEADING.match(line)) is not None:
        return line[heading.end() :].rstrip("# \t"), True
    if (item := _ITEM.match(line)) is not None:
        return line[item.end() :], True
    if line.lstrip().startswith("|"):
        cells = (cell.strip() for cell in line.strip().strip("|").split("|"))
        return _SEPARATOR.join(filter(None, cells)), True
    return line, False


def _strip_inline(line: str) -> str:
    """Remove the marks of links, emphasis and tags; code and escaped marks stay as written."""
    if not _MARKS.search(line):
        return " ".join(line.split())
    literal: list[str] = []

    def keep(text: str) -> str:
        literal.append(text)
        return f"\0{len(literal) - 1}\0"

    line = line.replace("\0", " ")
    if "`" in line:
        line = _CODE.sub(lambda match: keep(match[2].strip()), line)
    if "\\" in line:
        line = _ESCAPE.sub(lambda match: keep(match[1]), line)
    if "[" in line:
        line = _WIKILINK.sub(_read_wikilink, _IMAGE_IN_LINK.sub(r"\1", line))
        line = _FOOTNOTE.sub("", _REFERENCE_LINK.sub(r"\1", _INLINE_LINK.sub(r"\1", line)))
    if "<" in line:
        line = _TAG.sub("", _AUTOLINK.sub(r"\1", _SHORTCODE.sub(" ", line)))
    for pattern in _EMPHASIS:
        line = pattern.sub(r"\2", line)
    line = _LITERAL.sub(lambda match: literal[int(match[1])], unescape(line))
    return " ".join(line.split())


def _read_wikilink(match: re.Match[str]) -> str:
    """Return a wikilink as Obsidian shows it: its alias, or ``note > heading``."""
    if match[2]:
        return match[2]
    target = match[1].replace("#^", "#").strip("#")
    return " > ".join(filter(None, (part.strip() for part in target.split("#"))))


def _join(lead: str, rest: str) -> str:
    if not lead or not rest:
        return lead or rest
    ends = lead[-1] in ".!?:;,…。！？" or rest.startswith(_SEPARATOR.strip())
    return f"{lead} {rest}" if ends else f"{lead}{_SEPARATOR}{rest}"
