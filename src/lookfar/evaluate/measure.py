"""Ask a library judged questions and score the answers.

If only whole documents are relevant, passages are grouped by document, each at the rank of its
best passage. If a section or lines are relevant, a target counts at the first passage that touches
it, and a passage that touches two targets takes two ranks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from lookfar.errors import InvalidArgument, NotFound
from lookfar.evaluate.judged import Judged, filters_as_json
from lookfar.evaluate.metrics import DEPTH, first_rank, ndcg, recall, reciprocal_rank, success
from lookfar.evaluate.results import Results, Scored
from lookfar.evaluate.targets import (
    Place,
    TargetFinder,
    asks_for_files,
    describe_question,
    ranked_targets,
)

if TYPE_CHECKING:
    from lookfar.library import Library
    from lookfar.model import Answer, Hit, Mode

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
) -> list[tuple[list[Place], tuple[str, ...]]]:
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
    targets: Sequence[Place],
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
