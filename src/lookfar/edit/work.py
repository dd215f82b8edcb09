"""The documents of one transaction while they are edited, before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

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
