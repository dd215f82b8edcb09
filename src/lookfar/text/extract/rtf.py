"""Extract RTF: paragraphs, headings by outline level, tables, lists, links, any code page.

Pictures, embedded objects and the tables of fonts and styles are skipped.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field, replace

from lookfar.text.extract.extracted import CannotExtract, Extracted, Limits, Writer, link

_TOKEN = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|[\r\n]+"
    rb"|([^\\{}\r\n]+)|\\"
)
_SKIPPED = frozenset(
    "colortbl info pict object objdata header footer headerl headerr headerf footerl footerr"
    " footerf generator themedata colorschememapping datastore latentstyles listtable"
    " listoverridetable rsidtbl xmlnstbl mmathPr filetbl revtbl private nonshppict pntxtb pntxta"
    " bkmkstart bkmkend fchars lchars annotation atnid atnauthor".split()
)
_SYMBOLS = {
    "par": "\n", "sect": "\n", "page": "\n", "line": "\n", "tab": "\t", "emdash": "—",
    "endash": "–", "bullet": "•", "lquote": "‘", "rquote": "’", "ldblquote": "“",
    "rdblquote": "”", "emspace": " ", "enspace": " ", "qmspace": " ", "zwj": "\u200d",
    "zwnj": "\u200c",
}  # fmt: skip
_CHARSETS = {
    0: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 134: "gbk", 136: "big5",
    161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257",
    204: "cp1251", 222: "cp874", 238: "cp1250",
}  # fmt: skip
_HEADING = re.compile(r"heading (\d)|überschrift (\d)|titre (\d)", re.IGNORECASE)
_TARGET = re.compile(r'HYPERLINK\s+(?:\\l\s+)?"([^"]*)"')
_SHOWN = ("", "result", "note")
"""Destinations whose text is written."""
_HIGH_SURROGATE = re.compile("[\ud800-\udbff]")
_DEEPEST = 500


@dataclass(slots=True)
class _Group:
    """State that a closing brace restores."""

    destination: str = ""
    """``skip``, ``fonttbl``, ``stylesheet``, ``instruction``, ``result``, ``note``, or empty."""
    font: int = 0
    level: int = -1
    style: int = 0
    unicode_skip: int = 1
    hidden: bool = False
    in_table: bool = False
    starts: bool = True
    """Whether the group has no control word yet: the first one names the destination."""


@dataclass(slots=True)
class _State:
    code_page: str = "cp1252"
    fonts: dict[int, str] = field(default_factory=dict)
    heading_styles: dict[int, int] = field(default_factory=dict)
    target: str = ""
    link_start: int = -1
    style_name: str = ""


def extract_rtf(data: bytes, limits: Limits) -> Extracted:
    """Extract the text of a document."""
    if not data.lstrip()[:5].lower() == b"{\\rtf":
        raise CannotExtract("damaged", "the file is not RTF")
    writer = Writer(limits)
    _RtfReader(writer).read(data)
    return writer.finish()


class _RtfReader:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._state = _State()
        self._group = _Group()
        self._stack: list[_Group] = []
        self._bytes = bytearray()
        self._parts: list[str] = []
        self._row: list[str] = []
        self._rows: list[list[str]] = []
        self._to_skip = 0

    def read(self, data: bytes) -> None:
        """Read all tokens and write the blocks."""
        position = 0
        while position < len(data) and not self._writer.full:
            match = _TOKEN.match(data, position)
            if match is None:
                break
            position = match.end()
            word, number, code, symbol, brace, text = match.groups()
            if code is not None:
                self._byte(int(code, 16))
                continue
            if text is not None:
                self._literal(text)
                continue
            self._decode()
            if word is not None:
                value = int(number) if number is not None else None
                if word == b"bin" and value and value > 0:
                    position += value
                else:
                    self._control(word.decode("ascii"), value)
            elif symbol is not None:
                self._symbol(symbol)
            elif brace == b"{":
                self._open()
            elif brace == b"}":
                self._close()
        self._decode()
        self._end_paragraph()
        self._end_table()

    def _open(self) -> None:
        self._to_skip = 0
        if len(self._stack) >= _DEEPEST:
            raise CannotExtract("damaged", "groups are nested too deep")
        self._stack.append(self._group)
        self._group = replace(self._group, starts=True)

    def _close(self) -> None:
        self._to_skip = 0
        group = self._group
        if self._stack:
            self._group = self._stack.pop()
        if group.destination == "result" and self._group.destination != "result":
            self._end_link()
        if group.destination == "note" and self._group.destination != "note":
            self._parts.append(")")
        if group.destination == "stylesheet" and self._state.style_name:
            match = _HEADING.search(self._state.style_name)
            if match:
                level = next(part for part in match.groups() if part)
                self._state.heading_styles[group.style] = int(level)
            self._state.style_name = ""

    def _byte(self, value: int) -> None:
        if self._to_skip:
            self._to_skip -= 1
        else:
            self._bytes.append(value)

    def _literal(self, text: bytes) -> None:
        if self._to_skip:
            skipped = min(self._to_skip, len(text))
            self._to_skip -= skipped
            text = text[skipped:]
        self._bytes += text
        self._group.starts = False

    def _decode(self) -> None:
        """Decode the bytes collected so far: a character may have two bytes."""
        if self._bytes:
            page = self._state.fonts.get(self._group.font) or self._state.code_page
            text = bytes(self._bytes).decode(page, "replace")
            self._bytes.clear()
            self._add(text)

    def _add(self, text: str) -> None:
        group = self._group
        if group.destination == "stylesheet":
            self._state.style_name += text
        elif group.destination == "instruction":
            self._state.target = (self._state.target + text)[:4096]
        elif group.destination in _SHOWN and not group.hidden:
            self._parts.append(text)

    def _symbol(self, symbol: bytes) -> None:
        if symbol == b"*":
            # What follows may be skipped by readers that do not know it.
            self._group.destination = self._group.destination or "skip?"
        elif symbol in (b"\\", b"{", b"}"):
            self._add(symbol.decode("ascii"))
        elif symbol == b"~":
            self._add("\xa0")
        elif symbol == b"_":
            self._add("-")
        elif symbol in (b"\n", b"\r"):
            self._control("par", None)

    def _control(self, word: str, value: int | None) -> None:
        group = self._group
        if group.starts or group.destination == "skip?":
            group.starts = False
            if self._enter(word):
                return
        if group.destination == "fonttbl":
            if word == "f":
                group.font = value or 0
            elif word == "fcharset" and value in _CHARSETS:
                self._state.fonts[group.font] = _CHARSETS[value]
            return
        if word == "u" and value is not None:
            self._unicode(value)
        elif word == "uc":
            group.unicode_skip = max(0, min(value or 0, 10))
        elif word == "ansicpg" and value:
            self._state.code_page = _code_page(value)
        elif word == "f":
            group.font = value or 0
        elif word == "v":
            group.hidden = value != 0
        elif word == "s":
            group.style = value or 0
        elif word in ("mac", "pc", "pca"):
            self._state.code_page = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850"}[word]
        elif group.destination == "note":
            self._add(" " if word == "par" else _SYMBOLS.get(word, ""))
        elif group.destination in _SHOWN:
            self._layout(word, value)

    def _enter(self, word: str) -> bool:
        """Set the destination by the first control word of a group; return whether it names one."""
        group = self._group
        if word in ("fonttbl", "stylesheet"):
            group.destination = word
        elif word == "fldinst":
            group.destination = "instruction"
            self._state.target = ""
        elif word == "footnote":
            group.destination = "note"
            self._parts.append(" (")
        elif word == "fldrslt":
            group.destination = "result"
            self._state.link_start = sum(map(len, self._parts))
        elif word in _SKIPPED or group.destination == "skip?":
            # Word writes its modern text boxes and shapes below these.
            known = word in ("shpinst", "shptxt", "shppict", "listtext", "pntext")
            group.destination = "" if known and word != "shppict" else "skip"
        else:
            return False
        return True

    def _layout(self, word: str, value: int | None) -> None:
        group = self._group
        if word in ("par", "sect", "page"):
            self._end_paragraph()
        elif word == "cell":
            self._row.append("".join(self._parts))
            self._parts = []
        elif word in ("row", "nestrow"):
            if self._row:
                self._rows.append(self._row)
            self._row = []
        elif word == "pard":
            group.level, group.style, group.in_table = -1, 0, False
        elif word == "intbl":
            group.in_table = True
        elif word == "outlinelevel":
            group.level = value if value is not None and 0 <= value <= 8 else -1
        elif word in _SYMBOLS:
            self._add(_SYMBOLS[word])

    def _unicode(self, value: int) -> None:
        code = value + 0x10000 if value < 0 else value
        self._to_skip = self._group.unicode_skip
        if 0 < code < 0x110000:
            before = self._parts[-1] if self._parts else ""
            if 0xDC00 <= code < 0xE000 and _HIGH_SURROGATE.fullmatch(before):
                high = ord(self._parts.pop())
                code = 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00)
            self._add(chr(code))

    def _end_link(self) -> None:
        match = _TARGET.search(self._state.target)
        text = "".join(self._parts)
        start = self._state.link_start
        if match and 0 <= start <= len(text) and "\n" not in text[start:]:
            self._parts = [text[:start], link(text[start:], match[1])]
        self._state.target, self._state.link_start = "", -1

    def _end_paragraph(self) -> None:
        text = "".join(self._parts).strip()
        self._state.link_start = -1
        if self._group.in_table or self._row:
            self._parts = [f"{text} "] if text else []
            return
        self._parts = []
        self._end_table()
        level = self._group.level + 1 or self._state.heading_styles.get(self._group.style, 0)
        bullet = re.match(r"[•·\uf0b7▪◦–-]\s+", text)
        if level and text:
            self._writer.heading(level, text)
        elif bullet:
            self._writer.item(0, text[bullet.end() :])
        else:
            self._writer.paragraph(text)

    def _end_table(self) -> None:
        if self._rows:
            self._writer.table(self._rows)
            self._rows = []


def _code_page(number: int) -> str:
    names = {10000: "mac_roman", 65001: "utf-8", 936: "gbk", 950: "big5"}
    name = names.get(number, f"cp{number}")
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "cp1252"
