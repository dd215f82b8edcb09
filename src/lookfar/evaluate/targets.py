"""Locate the targets of judged questions in a library, and find them among hits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lookfar.collections.read_documents import titles
from lookfar.common.target import Target
from lookfar.errors import Ambiguous, InvalidArgument, NotFound
from lookfar.evaluate.judged import Judged
from lookfar.model import Document, Hit, Page, Span
from lookfar.retrieve.locate.address import SCHEME, parse_address
from lookfar.retrieve.locate.target import locate, parse_target
from lookfar.text.parse.languages import detect_language

if TYPE_CHECKING:
    from lookfar.library import Library

_NOT_FILES = {"commits", "memory", "documents"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a relevant target is."""

    target: str
    collection: str
    """Empty for any collection."""
    uri: str
    span: Span | None
    """None for a whole document."""

    def touches(self, hit: Hit) -> bool:
        if hit.uri != self.uri or self.collection not in ("", hit.collection):
            return False
        return self.span is None or (
            hit.span.start < self.span.end and self.span.start < hit.span.end
        )


def ranked_targets(targets: Sequence[Place], hits: Sequence[Hit]) -> list[str]:
    """Return the targets that the hits touch, in order, each once; other hits get a placeholder.

    If only whole documents are relevant, hits of one document share a rank.
    """
    whole = all(target.span is None for target in targets)
    ranked: list[str] = []
    seen: set[object] = set()
    for position, hit in enumerate(hits):
        if whole and (hit.collection, hit.uri) in seen:
            continue
        seen.add((hit.collection, hit.uri))
        touched = [t.target for t in targets if t.target not in seen and t.touches(hit)]
        seen.update(touched)
        # No target contains a null character.
        ranked += touched or [f"\0{position}"]
    return ranked


def asks_for_files(question: Judged) -> bool:
    filters = question.filters
    of_commits = filters.authors or filters.touches or filters.branch
    return not of_commits and not _NOT_FILES.intersection(filters.kinds)


def describe_question(question: Judged) -> str:
    return question.place or f"the question {question.id!r}"


class TargetFinder:
    def __init__(self, library: Library, as_of: int | None) -> None:
        self._library = library
        self._pages: dict[tuple[str, str], Page | None] = {}
        self._documents: dict[str, list[tuple[str, str]]] = {}
        """Collection and URI, by URI and by URI without its file extension."""
        self._generations: dict[str, int] = {}
        for name in library.collections:
            active = library.status(collection=name, check=False).generation
            if not active:
                continue
            self._generations[name] = as_of or active
            for uri, _ in titles(library.folder(name)):
                stem, dot, extension = uri.rpartition(".")
                for key in (uri, stem) if dot and "/" not in extension else (uri,):
                    self._documents.setdefault(key, []).append((name, uri))
        self.requested: list[str] = []
        """Every target among files that was looked for."""
        self.count_found = 0

    def find(self, question: Judged) -> tuple[list[Place], tuple[str, ...]]:
        """Return the places of all relevant targets, and the targets that are missing."""
        places: list[Place] = []
        missing: list[str] = []
        for item in question.relevant:
            try:
                matches = self._find_target(item.target)
            except (Ambiguous, InvalidArgument) as error:
                where = describe_question(question)
                raise InvalidArgument(f"{where}: {error.message}", hint=error.hint) from error
            places += matches or [unindexed_place(item.target)]
            if asks_for_files(question):
                self.requested.append(item.target)
                self.count_found += bool(matches)
                missing += [] if matches else [item.target]
        return places, tuple(missing)

    def _find_target(self, text: str) -> list[Place]:
        if text.startswith(SCHEME):
            name, target = parse_address(text)
            return self._locate(text, [(name, target.uri)], target)
        if text in self._documents:
            return self._locate(text, self._documents[text], Target(text))
        target = parse_target(text, exists=False)
        anywhere = [(name, target.uri) for name in self._generations]
        return self._locate(text, self._documents.get(target.uri, anywhere), target)

    def _locate(
        self, text: str, documents: Sequence[tuple[str, str]], target: Target
    ) -> list[Place]:
        places: list[Place] = []
        for name, uri in documents:
            page = self._read_page(name, uri)
            if page is None:
                continue
            span: Span | None = None
            if target.chars:
                span = Span(*target.chars, 0, 0)
            elif target.heading or target.lines:
                try:
                    span = locate(_as_document(page), target)[1]
                except NotFound:
                    continue
            places.append(Place(text, name, uri, span))
        return places

    def _read_page(self, name: str, uri: str) -> Page | None:
        if (name, uri) not in self._pages:
            page: Page | None
            try:
                page = self._library.page(uri, collection=name, as_of=self._generations[name])
            except (NotFound, KeyError):
                page = None
            self._pages[name, uri] = page
        return self._pages[name, uri]


def unindexed_place(text: str) -> Place:
    """Return the place of a target that is not among the indexed files, such as a commit.

    A part of a document stays a part, so that the question is ranked the same way.
    """
    target = parse_address(text)[1] if text.startswith(SCHEME) else parse_target(text, exists=False)
    if target.heading or target.lines or target.chars:
        return Place(text, "", target.uri, Span(0, 0, 0, 0))
    return Place(text, "", text, None)


def _as_document(page: Page) -> Document:
    """Return as much of a document as is needed to locate a part of it."""
    language = detect_language(page.uri)
    return Document(
        uri=page.uri,
        text=page.text,
        title="",
        lane="code" if language else "docs",
        language=language.language if language else "",
        body=0,
        sections=page.sections,
    )
