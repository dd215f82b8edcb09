"""Judged questions asked of a library, and the answers scored.

Takes: an open library and judged questions. Gives: the scores of each. Refuses: questions of
which nothing that should be found is in the index, because then the folder is another one.

What is judged decides what is ranked. Where only whole documents are relevant, passages fold
to documents, each at the rank of its best passage. Where a section or lines are relevant,
passages are ranked as they come: a target counts at the first passage that touches it, and a
passage that touches two targets takes two ranks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from lookfar.common.target import Target
from lookfar.errors import Ambiguous, InvalidArgument, NotFound
from lookfar.evaluate.judged import Judged, shape_of_filters
from lookfar.evaluate.metrics import DEPTH, first_rank, ndcg, recall, reciprocal_rank, success
from lookfar.evaluate.results import Results, Scored
from lookfar.model import Document, Span
from lookfar.retrieve.locate.address import SCHEME, parse_address
from lookfar.retrieve.locate.target import locate, parse_target
from lookfar.text.parse.languages import language_of

if TYPE_CHECKING:
    from lookfar.index.progress import OnProgress
    from lookfar.library import Library
    from lookfar.model import Hit, Mode, Page

OnQuestion = Callable[[int, int], None]
"""Told how many questions were asked, and how many there are."""

_MOST_RESULTS = 1000
_SHOWN = 3
_PASSAGES_EACH = 5
"""Passages to look at for each document, where any number may come from one."""
_NOT_FILES = {"commits", "memory", "documents"}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where something relevant stands."""

    target: str
    collection: str
    """Empty where it may stand in any."""
    uri: str
    span: Span | None
    """None where the whole document is meant."""

    def touched(self, hit: Hit) -> bool:
        if hit.uri != self.uri or self.collection not in ("", hit.collection):
            return False
        return self.span is None or (
            hit.span.start < self.span.end and self.span.start < hit.span.end
        )


def evaluate(
    library: Library,
    judged: Sequence[Judged],
    *,
    k: int = DEPTH,
    mode: Mode | None = None,
    as_of: int | None = None,
    label: str = "",
    settings: Mapping[str, Any] | None = None,
    on_progress: OnProgress | None = None,
    on_question: OnQuestion | None = None,
) -> Results:
    """Ask every question and score the first ``k`` answers.

    The first question is asked once more before time is taken: it loads what has to be loaded.
    ``label`` and ``settings`` are only kept with the results.
    """
    if not judged:
        raise InvalidArgument("There is no question to ask.", hint="Give at least one.")
    if not 1 <= k <= _MOST_RESULTS:
        raise InvalidArgument(f"k is {k}.", hint=f"Choose 1 to {_MOST_RESULTS}.")

    def ask(each: Judged, depth: int) -> Any:
        try:
            return library.search(
                each.query,
                mode=mode,
                top_k=depth,
                filters=each.filters,
                as_of=as_of,
                on_progress=on_progress,
            )
        except InvalidArgument as error:
            place = each.place or f"the question {each.id!r}"
            raise InvalidArgument(
                f"{place}: {error.message}", hint=error.hint, developer=error.developer
            ) from error

    # A question about commits alone would leave the folder unindexed that others are about.
    first = dict.fromkeys((judged[0], next(filter(_about_files, judged), judged[0])))
    notes = dict.fromkeys(
        f"{note.reason}: {note.detail}" for each in first for note in ask(each, k).incomplete
    )
    places = _Places(library, as_of)
    known = [places.of(each) for each in judged]
    if places.asked and not places.found:
        raise NotFound(
            f"Nothing of what should be found is in the index ({places.asked[0]!r}, for example).",
            hint="Name the folder that the questions are about, and documents by their URI.",
        )
    scored: list[Scored] = []
    generations: dict[str, int] = {}
    used = ""
    for each, (targets, missing) in zip(judged, known, strict=True):
        whole = all(target.span is None for target in targets)
        began = time.perf_counter()
        answer = ask(each, _depth(library, k) if whole else k)
        took = (time.perf_counter() - began) * 1000
        generations |= answer.generations
        used = answer.mode
        scored.append(_scored(each, targets, missing, answer.hits, k, took))
        if on_question is not None:
            on_question(len(scored), len(judged))
    embedder = library.folder(library.collections[0]).embedder
    return Results(
        label=label,
        k=k,
        mode=used,
        model=embedder.name if embedder else "none",
        generations=generations,
        queries=tuple(scored),
        settings=dict(settings or {}),
        notes=tuple(notes),
    )


def _depth(library: Library, k: int) -> int:
    """How many passages have to be asked for to see ``k`` documents."""
    each = library.settings.search.per_document or _PASSAGES_EACH
    return min(k * each, _MOST_RESULTS)


def _scored(
    each: Judged,
    targets: Sequence[_Place],
    missing: tuple[str, ...],
    hits: Sequence[Hit],
    k: int,
    took: float,
) -> Scored:
    ranked = ranked_targets(targets, hits)
    gains = {one.target: one.grade for one in each.relevant}
    return Scored(
        id=each.id,
        query=each.query,
        category=each.category,
        mark=mark_of(each),
        scores={
            "ndcg": ndcg(ranked, gains, k),
            "mrr": reciprocal_rank(ranked, gains, k),
            "recall": recall(ranked, gains, k),
            "success": success(ranked, gains),
        },
        rank=first_rank(ranked, gains, k),
        took_ms=took,
        found=tuple(
            f"{hit.uri}:{hit.span.start_line}-{hit.span.end_line}" for hit in hits[:_SHOWN]
        ),
        missing=missing,
    )


def ranked_targets(targets: Sequence[_Place], hits: Sequence[Hit]) -> list[str]:
    """What the hits lead to, in order: targets by their name, each once, or something else."""
    whole = all(target.span is None for target in targets)
    ranked: list[str] = []
    seen: set[object] = set()
    for at, hit in enumerate(hits):
        if whole and (hit.collection, hit.uri) in seen:
            continue
        seen.add((hit.collection, hit.uri))
        reached = [t.target for t in targets if t.target not in seen and t.touched(hit)]
        seen.update(reached)
        # A name that no target has: none holds a null character.
        ranked += reached or [f"\0{at}"]
    return ranked


def mark_of(each: Judged) -> str:
    """Names a question with all that was judged about it."""
    said = [
        each.id,
        each.query,
        sorted([one.target, one.grade] for one in each.relevant),
        shape_of_filters(each.filters),
    ]
    return blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=8).hexdigest()


def _nowhere(text: str) -> _Place:
    """The place of what was not found among files: that of a commit, or one that nothing touches.

    A part stays a part, so that a question is ranked alike whether or not the index has it.
    """
    target = parse_address(text)[1] if text.startswith(SCHEME) else parse_target(text, exists=False)
    if target.heading or target.lines or target.chars:
        return _Place(text, "", target.uri, Span(0, 0, 0, 0))
    return _Place(text, "", text, None)


def _about_files(each: Judged) -> bool:
    filters = each.filters
    of_commits = filters.authors or filters.touches or filters.branch
    return not of_commits and not _NOT_FILES.intersection(filters.lanes)


class _Places:
    """Where the targets of judged questions stand in a library."""

    def __init__(self, library: Library, as_of: int | None) -> None:
        self._library = library
        self._as_of = as_of
        self._pages: dict[tuple[str, str], Page | None] = {}
        self._named: dict[str, list[tuple[str, str]]] = {}
        """Where documents stand, by their URI and by their URI without its ending."""
        self._generations: dict[str, int] = {}
        for name in library.collections:
            serving = library.status(collection=name, check=False).generation
            if not serving:
                continue
            self._generations[name] = as_of or serving
            for uri, _ in library.folder(name).documents():
                stem, dot, ending = uri.rpartition(".")
                for known in (uri, stem) if dot and "/" not in ending else (uri,):
                    self._named.setdefault(known, []).append((name, uri))
        self.asked: list[str] = []
        self.found = 0

    def of(self, each: Judged) -> tuple[list[_Place], tuple[str, ...]]:
        """The places of all that is relevant to a question, and what is nowhere."""
        places: list[_Place] = []
        missing: list[str] = []
        for one in each.relevant:
            try:
                found = self._find(one.target)
            except (Ambiguous, InvalidArgument) as error:
                place = each.place or f"the question {each.id!r}"
                raise InvalidArgument(f"{place}: {error.message}", hint=error.hint) from error
            places += found or [_nowhere(one.target)]
            if _about_files(each):
                self.asked.append(one.target)
                self.found += bool(found)
                missing += [] if found else [one.target]
        return places, tuple(missing)

    def _find(self, text: str) -> list[_Place]:
        if text.startswith(SCHEME):
            name, target = parse_address(text)
            return self._located(text, [(name, target.uri)], target)
        if text in self._named:
            return self._located(text, self._named[text], Target(text))
        target = parse_target(text, exists=False)
        anywhere = [(name, target.uri) for name in self._generations]
        return self._located(text, self._named.get(target.uri, anywhere), target)

    def _located(
        self, text: str, documents: Sequence[tuple[str, str]], target: Target
    ) -> list[_Place]:
        places: list[_Place] = []
        for name, uri in documents:
            page = self._page(name, uri)
            if page is None:
                continue
            span: Span | None = None
            if target.chars:
                span = Span(*target.chars, 0, 0)
            elif target.heading or target.lines:
                try:
                    span = locate(_document(page), target)[1]
                except NotFound:
                    continue
            places.append(_Place(text, name, uri, span))
        return places

    def _page(self, name: str, uri: str) -> Page | None:
        if (name, uri) not in self._pages:
            try:
                found = self._library.page(uri, collection=name, as_of=self._generations[name])
            except (NotFound, KeyError):
                found = None
            self._pages[name, uri] = found
        return self._pages[name, uri]


def _document(page: Page) -> Document:
    """As much of a document as finding a part of it takes."""
    language = language_of(page.uri)
    return Document(
        uri=page.uri,
        text=page.text,
        title="",
        lane="code" if language else "docs",
        language=language.language if language else "",
        body=0,
        sections=page.sections,
    )
