"""The documents of one transaction while they are edited, before anything is written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from hashlib import sha256
from typing import Final

from lookfar.edit.document_files import DocumentFiles, unknown_document
from lookfar.edit.shape import Change, Shape
from lookfar.errors import InvalidArgument, LookfarError, PermissionDenied
from lookfar.model import Document
from lookfar.sources.confine import components
from lookfar.sources.folder.policy import Policy
from lookfar.sources.folder.walk import judge_file
from lookfar.text.extract.formats import extractor_for
from lookfar.text.normalise import normalise
from lookfar.text.parse.formats import detect_format
from lookfar.text.parse.markdown import parse

CONTROL_CHARACTERS: Final = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]")
_CONTEXT: Final = 3
_MAX_COMPARED: Final = 4_000
_HUNK: Final = re.compile(r"@@ -(\d+)((?:,\d+)?) \+(\d+)((?:,\d+)?) @@\n")


def make_diff(uri: str, before: str | None, after: str | None, old_uri: str = "") -> str:
    """Return a unified diff; None is a document that does not exist.

    ``old_uri`` is the name that a renamed document had.

    Common lines at both ends are cut off first, because difflib is slow on long texts.
    """
    old, new = ([f"{line}\n" for line in (text or "").split("\n")[:-1]] for text in (before, after))
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    if start == len(old) == len(new):
        return ""
    same = 0
    while same < min(len(old), len(new)) - start and old[-1 - same] == new[-1 - same]:
        same += 1
    first = max(0, start - _CONTEXT)
    removed = old[first : len(old) - same + min(same, _CONTEXT)]
    added = new[first : len(new) - same + min(same, _CONTEXT)]
    name = CONTROL_CHARACTERS.sub("\ufffd", uri)
    old_name = CONTROL_CHARACTERS.sub("\ufffd", old_uri or uri)
    head = (f"--- {f'a/{old_name}' if before is not None else '/dev/null'}\n"
            f"+++ {f'b/{name}' if after is not None else '/dev/null'}\n")  # fmt: skip
    if max(len(removed), len(added)) > _MAX_COMPARED:
        hunk = f"@@ -{first + 1},{len(removed)} +{first + 1},{len(added)} @@\n"
        lines = [*(f"-{line}" for line in removed), *(f"+{line}" for line in added)]
        return head + hunk + "".join(lines)
    lines = list(unified_diff(removed, added, n=_CONTEXT))[2:]
    return head + "".join(_shift_hunk(line, first) for line in lines)


def _shift_hunk(line: str, offset: int) -> str:
    """Add the number of lines that were cut off to the line numbers of a hunk header."""
    match = _HUNK.fullmatch(line)
    if match is None:
        return line
    old, new = int(match[1]) + offset, int(match[3]) + offset
    return f"@@ -{old}{match[2]} +{new}{match[4]} @@\n"


@dataclass(slots=True)
class Work:
    uri: str
    old: bytes | None
    raw: bytes
    first: Document
    """Before the transaction."""
    now: Document
    became: dict[int, int]
    """Maps the number of a heading before the transaction to its number now."""
    place: tuple[tuple[str, ...], tuple[int, int]] | None = None
    """Heading path and offsets of the part that was edited last."""
    edited: bool = True
    """False for a document in which only links are rewritten."""
    lost: list[str] = field(default_factory=list)
    """Links, as written, whose definition was removed."""

    @property
    def moves_headings(self) -> bool:
        """Whether links to its headings may now lead elsewhere or nowhere."""
        same = all(first == now for first, now in self.became.items())
        return self.old is not None and not (same and _outline(self.first) == _outline(self.now))


class Workspace:
    """Loads the documents of one transaction and keeps their intermediate states."""

    def __init__(self, policy: Policy, documents: DocumentFiles) -> None:
        self.policy = policy
        self.documents = documents
        self.works: dict[str, Work] = {}

    def open(self, uri: str) -> Work:
        """Return a document to be edited, in its current state in this transaction."""
        work = self.works.get(uri) or self.load(uri)
        self.works[uri] = work
        return work

    def load(self, uri: str) -> Work:
        """Read a document that may be edited, without adding it to the transaction."""
        self.check_editable(uri, exists=True)
        raw = self.documents.read_writable(uri)
        document = parse(uri, self.shape(uri, raw).text)
        same = {section.ordinal: section.ordinal for section in document.sections}
        return Work(uri, raw, raw, document, document, same)

    def load_read_only(self, uri: str) -> Work | None:
        """Read a document that cannot be written; None if it cannot even be read."""
        try:
            document = parse(uri, self.masked(uri, self.documents.read(uri)))
        except LookfarError:
            return None
        return Work(uri, None, b"", document, document, {}, edited=False)

    def load_text(self, uri: str) -> bytes:
        """Return the bytes of a text that may be written, of any format; a canvas, for example."""
        self.check_admitted(uri)
        return self.documents.read_writable(uri)

    def apply(self, work: Work, changes: Sequence[Change]) -> None:
        """Make changes of links in a document; the caller adds it to the transaction."""
        shape = self.shape(work.uri, work.raw)
        raw = shape.apply(changes)
        shape.check_no_mask(work.uri, raw)
        work.raw, work.now = raw, parse(work.uri, self.shape(work.uri, raw).text)

    def shape(self, uri: str, raw: bytes) -> Shape:
        return Shape(uri, raw, self.policy.secrets)

    def masked(self, uri: str, raw: bytes) -> str:
        """Return the normalised text with secrets masked."""
        return self.policy.secrets.masked(uri, normalise(raw)[0]).text

    def check_editable(self, uri: str, *, exists: bool = False) -> None:
        """Raise unless the document is Markdown and would be indexed.

        With ``exists``, a name without an ending, or that of an extracted document, is unknown if
        there is no such file: it may be misspelt.
        """
        last = components(uri)[-1]
        unlike = "." not in last or extractor_for(uri) is not None
        if exists and unlike and not self.documents.root.contains(uri):
            raise unknown_document(uri)
        extracted = extractor_for(uri)
        if extracted is not None:
            raise InvalidArgument(
                f"{uri!r} is not a Markdown file: its text was extracted from a file of the format"
                f" {extracted.name}, which cannot be edited.",
                hint="Change it in the program that made it; the index follows.",
                details={"uri": uri, "reason": "format"},
            )
        if not self._is_markdown(uri):
            raise InvalidArgument(
                f"{uri!r} is not a Markdown file.",
                hint="Only files that end in .md can be edited by section.",
                details={"uri": uri, "reason": "format"},
            )
        self.check_admitted(uri)

    def _is_markdown(self, uri: str) -> bool:
        file_format = detect_format(uri)
        return file_format is not None and file_format.language == "markdown"

    def check_admitted(self, uri: str) -> None:
        """Raise if the rules exclude a document from the index."""
        components(uri)
        verdict = judge_file(self.documents.root, self.policy, uri)
        if verdict is not None:
            raise PermissionDenied(
                f"{uri!r} is excluded by the rule {verdict.rule!r} ({verdict.reason}).",
                hint="Excluded files cannot be edited; change the rule to allow it.",
                details={"uri": uri, "reason": verdict.reason},
            )


def hash_text(text: str) -> str:
    return sha256(text.encode("utf-8")).hexdigest()


def _outline(document: Document) -> list[tuple[int, str]]:
    return [(section.level, section.title) for section in document.sections if section.level]
