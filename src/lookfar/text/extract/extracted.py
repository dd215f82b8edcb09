"""The result of an extractor: Markdown, where its parts are in the file, and what was lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Code = Literal["encrypted", "damaged", "no_text", "too_large", "unsupported"]


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
