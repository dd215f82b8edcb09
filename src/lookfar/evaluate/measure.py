"""Open the library of a configuration, ask it judged questions, and score the answers.

The index of the user is never changed: a configuration that needs another one gets its own. If
only whole documents are relevant, passages are grouped by document, each at the rank of its best
passage. If a section or lines are relevant, a target counts at the first passage that touches it,
and a passage that touches two targets takes two ranks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookfar.collections.read_documents import titles
from lookfar.errors import Ambiguous, InvalidArgument, NotFound
from lookfar.evaluate.judged import Judged, filters_as_json
from lookfar.evaluate.metrics import DEPTH, first_rank, ndcg, recall, reciprocal_rank, success
from lookfar.evaluate.results import Results, Scored
from lookfar.library import Library
from lookfar.model import Document, Hit, Page, Span, Target
from lookfar.retrieve.locate.address import SCHEME, parse_address
from lookfar.retrieve.locate.target import locate, parse_target
from lookfar.text.parse.languages import detect_language

if TYPE_CHECKING:
    from lookfar.model import Answer, Mode


_NEVER_CHECK = 100_000
"""Searches between two comparisons with the disk, so that all questions see the same state."""
_NOT_FILES = {"commits", "memory", "documents"}
OnQuestion = Callable[[int, int], None]
"""Called with the number of questions asked so far, and of all questions."""
_MAX_RESULTS = 1000
_HITS_LISTED = 3
_PASSAGES_PER_DOCUMENT = 5
"""Passages to request per document if any number may come from one."""


def evaluate(
    library: Library,
    judged: Sequence[Judged],
    *,
    k: int = DEPTH,
    mode: Mode | None = None,
    as_of: int | None = None,
    label: str = "",
    settings: Mapping[str, Any] | None = None,
    on_question: OnQuestion | None = None,
) -> Results:
    """Ask every question and score the first ``k`` answers.

    ``label`` and ``settings`` are only stored with the results.
    """
    if not judged:
        raise InvalidArgument("There are no questions.", hint="Give at least one.")
    if not 1 <= k <= _MAX_RESULTS:
        raise InvalidArgument(f"k is {k}.", hint=f"Choose 1 to {_MAX_RESULTS}.")
    search = _Search(library, mode, as_of)
    notes = _warm_up(search, judged, k)
    places = _find_targets(library, judged, as_of)
    scored: list[Scored] = []
    generations: dict[str, int] = {}
    used_mode = ""
    for question, (targets, missing) in zip(judged, places, strict=True):
        whole = all(target.span is None for target in targets)
        start = time.perf_counter()
        answer = search.ask(question, _depth_for_documents(library, k) if whole else k)
        took = (time.perf_counter() - start) * 1000
        generations |= answer.generations
        used_mode = answer.mode
        scored.append(_score(question, targets, missing, answer.hits, k, took))
        if on_question is not None:
            on_question(len(scored), len(judged))
    embedder = library.folder(library.collections[0]).embedder
    return Results(
        label=label,
        k=k,
        mode=used_mode,
        model=embedder.name if embedder else "none",
        generations=generations,
        queries=tuple(scored),
        settings=dict(settings or {}),
        notes=notes,
    )


@dataclass(frozen=True, slots=True)
class _Search:
    """How every question is asked."""

    library: Library
    mode: Mode | None
    as_of: int | None

    def ask(self, question: Judged, depth: int) -> Answer:
        try:
            return self.library.search(
                question.query,
                mode=self.mode,
                top_k=depth,
                filters=question.filters,
                as_of=self.as_of,
            )
        except InvalidArgument as error:
            raise InvalidArgument(
                f"{describe_question(question)}: {error.message}",
                hint=error.hint,
                developer=error.developer,
            ) from error


def _warm_up(search: _Search, judged: Sequence[Judged], k: int) -> tuple[str, ...]:
    """Load what a search needs before time is taken; return why answers may be incomplete."""
    # If the first question is about commits only, it would not index the folder.
    questions = dict.fromkeys((judged[0], next(filter(asks_for_files, judged), judged[0])))
    notes = [note for question in questions for note in search.ask(question, k).incomplete]
    return tuple(dict.fromkeys(f"{note.reason}: {note.detail}" for note in notes))


def _find_targets(
    library: Library, judged: Sequence[Judged], as_of: int | None
) -> list[tuple[list[TargetSpan], tuple[str, ...]]]:
    finder = TargetFinder(library, as_of)
    places = [finder.find(question) for question in judged]
    if finder.requested and not finder.count_found:
        raise NotFound(
            f"None of the relevant documents are in the index ({finder.requested[0]!r},"
            " for example).",
            hint="Name the folder that the questions are about, and documents by their URI.",
        )
    return places


def _depth_for_documents(library: Library, k: int) -> int:
    """Return how many passages to request to see ``k`` documents."""
    per_document = library.settings.search.per_document or _PASSAGES_PER_DOCUMENT
    return min(k * per_document, _MAX_RESULTS)


def _score(
    question: Judged,
    targets: Sequence[TargetSpan],
    missing: tuple[str, ...],
    hits: Sequence[Hit],
    k: int,
    took: float,
) -> Scored:
    ranked = ranked_targets(targets, hits)
    gains = {item.target: item.grade for item in question.relevant}
    return Scored(
        id=question.id,
        query=question.query,
        category=question.category,
        mark=hash_question(question),
        scores={
            "ndcg": ndcg(ranked, gains, k),
            "mrr": reciprocal_rank(ranked, gains, k),
            "recall": recall(ranked, gains, k),
            "success": success(ranked, gains),
        },
        rank=first_rank(ranked, gains, k),
        took_ms=took,
        found=tuple(
            f"{hit.uri}:{hit.span.start_line}-{hit.span.end_line}" for hit in hits[:_HITS_LISTED]
        ),
        missing=missing,
    )


def hash_question(question: Judged) -> str:
    parts = [
        question.id,
        question.query,
        sorted([item.target, item.grade] for item in question.relevant),
        filters_as_json(question.filters),
    ]
    return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Configuration:
    """What is measured: settings that override files and variables, and a generation."""

    label: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    as_of: int | None = None
    """An earlier generation of the index; None for the active one."""


@contextmanager
def open_configuration(
    paths: Sequence[str | Path],
    configuration: Configuration,
    *,
    elsewhere: Path,
    index_dir: str | Path | None = None,
) -> Iterator[Library]:
    """Open the library to measure; if it needs an index of its own, that is in ``elsewhere``."""
    settings = {**configuration.settings, "index.check_every_searches": _NEVER_CHECK}
    library = Library.open(*paths, index_dir=index_dir, settings=settings)
    if not _fits(library, paths, index_dir):
        library.close()
        if configuration.as_of is not None:
            raise InvalidArgument(
                f"Generation {configuration.as_of} was not made with the settings of"
                f" {configuration.label!r}.",
                hint="Compare generations with the settings that the index was built with.",
            )
        own = elsewhere / _folder_name(configuration.settings)
        library = Library.open(*paths, index_dir=own, settings=settings)
    with library:
        yield library


def _fits(library: Library, paths: Sequence[str | Path], index_dir: str | Path | None) -> bool:
    """Return whether this library can be searched without changing the index of its folders."""
    with Library.open(*paths, index_dir=index_dir) as default:
        for name in library.collections:
            ours, theirs = library.folder(name).settings, default.folder(name).settings
            if (ours.sources, ours.git, ours.memory) != (theirs.sources, theirs.git, theirs.memory):
                return False
    statuses = [library.status(collection=name, check=False) for name in library.collections]
    return all(status.current or not status.indexed for status in statuses)


def _folder_name(settings: Mapping[str, Any]) -> str:
    """Name a folder after the settings that decide how an index is built."""
    relevant = {key: value for key, value in settings.items() if not key.startswith("search.")}
    text = json.dumps(relevant, sort_keys=True, default=str)
    return blake2b(text.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class TargetSpan:
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


def ranked_targets(targets: Sequence[TargetSpan], hits: Sequence[Hit]) -> list[str]:
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

    def find(self, question: Judged) -> tuple[list[TargetSpan], tuple[str, ...]]:
        """Return the places of all relevant targets, and the targets that are missing."""
        places: list[TargetSpan] = []
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

    def _find_target(self, text: str) -> list[TargetSpan]:
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
    ) -> list[TargetSpan]:
        places: list[TargetSpan] = []
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
            places.append(TargetSpan(text, name, uri, span))
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


def unindexed_place(text: str) -> TargetSpan:
    """Return the place of a target that is not among the indexed files, such as a commit.

    A part of a document stays a part, so that the question is ranked the same way.
    """
    target = parse_address(text)[1] if text.startswith(SCHEME) else parse_target(text, exists=False)
    if target.heading or target.lines or target.chars:
        return TargetSpan(text, "", target.uri, Span(0, 0, 0, 0))
    return TargetSpan(text, "", text, None)


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
