"""The result of an extractor, its limits, and the writer of its Markdown, block by block.

Characters inside a line are not escaped, because quotations must match the file. Only what would
start a block (``#``, a fence, a table rule) gets a backslash. Control characters are removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Code = Literal["encrypted", "damaged", "no_text", "too_large", "unsupported"]
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f\ud800-\udfff\xad\ufffe\uffff]")
_LINE_END = re.compile("\r\n?|[\x85\u2028\u2029]")
_STARTS_BLOCK = re.compile(
    r"^(?=#{1,6}(?:[ \t]|$)|>|```|~~~|<[A-Za-z/!?]|\+\+\+|(?:[-*_][ \t]*){3,}$|=+[ \t]*$|-+[ \t]*$"
    r"|[|: \t-]*-[|: \t-]*$)",
    re.MULTILINE,
)
# A title is shown without its markup: __init__ must not become init, nor List<T> become List.
_IN_TITLE = re.compile(r"(?<![^\W_])_|_(?![^\W_])|\*(?=\S)|(?<=\S)\*|<(?=[A-Za-z/!?])|`")
_INDENTATION = re.compile(r"^[ \t]+|[ \t]+$", re.MULTILINE)
_BACKTICKS = re.compile(r"`{3,}")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the file a run of the extracted text comes from."""

    start: int
    """Offset in the text (code points) where this place begins; it ends where the next begins.

    A place without text, such as a scanned page, has the same start as the next one.
    """
    label: str
    """What a reader sees and may ask for: ``page=3``, ``Budget!A1:F20``, ``cell=4``."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """The text of a file as Markdown. The same bytes always give the same result."""

    text: str
    """Headings with ``#``, pipe tables, fenced code, links; ``\\n`` line ends."""
    places: tuple[Place, ...] = ()
    """Ascending by start; empty where the format has none."""
    title: str = ""
    """The title in the file's metadata, used if no heading is the title."""
    warnings: tuple[str, ...] = ()
    """What was lost, in words for users: ``page 7 has no text (a scan?)``."""


class CannotExtract(Exception):
    """Raised when a file has no text that can be extracted; the reason is for users."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(code, reason)
        self.code: Code = code
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for extracting one file; the caller also limits the time and memory of the process."""

    max_output_chars: int = 20_000_000
    """The text is truncated after this many characters, with a warning."""
    max_expanded_bytes: int = 400_000_000
    """A compressed file is refused if the total expanded size of its parts exceeds this."""
    max_ratio: int = 1_000
    """A compressed part that expands by more than this factor is refused, unless it is small."""
    max_parts: int = 20_000
    """The most pages, slides, sheets, notebook cells, messages or members of an archive."""
    max_depth: int = 64
    """How deep nested elements, groups and lists are followed."""
    max_attached: int = 3
    """How deep attached messages are followed."""
    max_output_lines: int = 60
    """The most lines kept of one output of a notebook cell."""
    header_every: int = 40
    """Rows after which the header of a sheet is repeated."""


class Allowance(NamedTuple):
    """What extracting one file may cost."""

    seconds: float = 60.0
    """Processor time."""
    memory_bytes: int = 1 << 30
    """Address space of the process; on Windows and macOS its physical memory."""


def clean(text: str) -> str:
    """Remove control characters, soft hyphens and lone surrogates, and unify line ends."""
    return _CONTROL.sub("", _LINE_END.sub("\n", text))


def join_words(text: str) -> str:
    """Return a text on one line, with single spaces."""
    return " ".join(clean(text).split())


def link(text: str, target: str) -> str:
    """Return a Markdown link, or only the text if there is no target."""
    target = "".join(clean(target).split("\n")).strip()
    if not target or not text.strip() or target.lower().startswith(("javascript:", "data:")):
        return text
    if re.search(r"[\s()<>]", target):
        target = "<" + target.replace("<", "%3C").replace(">", "%3E") + ">"
    return f"[{text.replace('[', '(').replace(']', ')')}]({target})"


def close_fences(text: str) -> str:
    """Return Markdown in which a code fence that was left open is closed."""
    fence = ""
    for match in _FENCE.finditer(text):
        if not fence:
            fence = match[1]
        elif match[1].startswith(fence) and not match[2].strip():
            fence = ""
    return f"{text}\n{fence}" if fence else text


class Writer:
    """Collects blocks, separated by blank lines, and the places they come from."""

    def __init__(self, limits: Limits) -> None:
        self.warnings: list[str] = []
        self.full = False
        """Whether the output limit is reached; anything written after that is dropped."""
        self._limits = limits
        self._parts: list[str] = []
        self._length = 0
        self._places: list[Place] = []
        self._pending: list[str] = []
        self._in_list = False

    def place(self, label: str) -> None:
        """Record where the blocks that follow come from."""
        self._pending.append(join_words(label))

    def heading(self, level: int, text: str, anchor: str = "") -> None:
        """Write a heading of level 1 to 6, with its id unless the title already implies it."""
        title = _IN_TITLE.sub(r"\\\g<0>", join_words(text).rstrip("#").rstrip())
        if title:
            own = f" {{#{anchor}}}" if anchor and anchor.lower() != _slug(title) else ""
            self._write(f"{'#' * max(1, min(level, 6))} {title}{own}")

    def paragraph(self, text: str) -> None:
        """Write text of the file as a paragraph; keep its line breaks but not its blank lines."""
        text = _INDENTATION.sub("", clean(text).replace("\t", " "))
        self._write(_STARTS_BLOCK.sub(r"\\", re.sub(r"\n{2,}", "\n", text.strip("\n"))))

    def item(self, depth: int, text: str, marker: str = "-") -> None:
        """Write a list item; ``depth`` is 0 for the outermost list."""
        text = join_words(text)
        if text:
            indent = "  " * min(depth, 8)
            self._write(f"{indent}{marker} {_STARTS_BLOCK.sub(chr(92) * 2, text)}", in_list=True)

    def code(self, text: str, language: str = "") -> None:
        """Write a fenced code block."""
        text = clean(text).strip("\n")
        if text.strip():
            longest = max((len(match[0]) for match in _BACKTICKS.finditer(text)), default=2)
            fence = "`" * (longest + 1)
            word = re.sub(r"[^\w+#.-]", "", language)[:40]
            self._write(f"{fence}{word}\n{text}\n{fence}")

    def table(self, rows: Iterable[Sequence[str]]) -> None:
        """Write a pipe table; the first row is its header. Rows may have different lengths."""
        cells = [[join_words(value).replace("|", "\\|") for value in row] for row in rows]
        width = max((len(row) for row in cells), default=0)
        if not width or not any(value for row in cells for value in row):
            return
        lines = [_row(row, width) for row in cells]
        lines.insert(1, "|" + "---|" * width)
        self._write("\n".join(lines))

    def markdown(self, text: str) -> None:
        """Write text that is already Markdown, and close its open fences."""
        text = clean(text).strip("\n")
        if text.strip():
            self._write(close_fences(text))

    def finish(self, title: str = "") -> Extracted:
        """Return what was written. Raises ``CannotExtract`` if there is no text at all."""
        if not self._parts:
            reason = self.warnings[0] if self.warnings else "the file has no text"
            raise CannotExtract("no_text", reason)
        self._flush_places(self._length)
        return Extracted(
            "".join(self._parts),
            tuple(self._places),
            join_words(title),
            tuple(dict.fromkeys(self.warnings)),
        )

    @property
    def length(self) -> int:
        """Characters written so far."""
        return self._length

    def _write(self, block: str, in_list: bool = False) -> None:
        if self.full or not block.strip():
            return
        if self._parts and not (in_list and self._in_list and not self._pending):
            self._add("\n")
        self._in_list = in_list
        self._flush_places(self._length)
        limit = self._limits.max_output_chars
        if self._length + len(block) + 1 > limit:
            self.full = True
            self.warnings.append(f"the text was cut after {limit:,} characters")
            block = close_fences(block[: max(0, limit - self._length - 1)])
        self._add(block + "\n")

    def _add(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)

    def _flush_places(self, start: int) -> None:
        self._places += [Place(start, label) for label in self._pending]
        self._pending.clear()


def _slug(title: str) -> str:
    return re.sub(r"[^\w-]", "", title.lower().replace(" ", "-"))


def _row(row: Sequence[str], width: int) -> str:
    return "| " + " | ".join([*row, *[""] * (width - len(row))]) + " |"
