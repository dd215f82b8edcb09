"""What flows between stages: candidates, their scores, and the story of each score.

Takes: places from a snapshot. Gives: an immutable ranking, kept in columns because
a question has hundreds of candidates and an answer ten. Refuses: hidden changes;
a stage can alter scores only by adding a step that says what it added and why.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import add
from typing import TYPE_CHECKING, Literal, NamedTuple

from lookfar.model import Contribution, Filters, Incomplete, Mode
from lookfar.ports import Place

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lookfar.ports import Embedder, Reranker, Snapshot

QuestionKind = Literal["identifier", "path", "error", "phrase", "question"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What the question asks for, worked out once."""

    text: str
    mode: Mode
    top_k: int
    filters: Filters
    terms: tuple[str, ...]
    """Distinct keyword terms, in the order of the question."""
    names: Mapping[str, Sequence[str]]
    """Compound names among the terms, each with its parts."""
    vector: NDArray[np.float32] | None
    vector_trust: float
    """0 to 1: how much of the question the model knows as words."""
    kind: QuestionKind = "question"
    dashed: tuple[str, ...] = ()
    """Words after a dash, until it is known whether they are options or not wanted."""
    hypothesis: bool = False
    """The vector is that of an answer somebody made up, not of the question."""
    embedder: Embedder | None = None
    instead: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For terms that nobody wrote, what is searched in their place."""
    alike: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For terms that are known, what others say for the same."""
    concepts: tuple[str, ...] = ()
    """Terms of the corpus that are near to the question."""
    focus: bool = False
    """Each hit is to say which of its sentences answer best."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The terms that say what the question is about: none that is only part of a name, since
        ``ClientSession`` is not a question about sessions; ``error-handling`` is two words."""
        names = {name: parts for name, parts in self.names.items() if "-" not in name}
        inside = frozenset(part for parts in names.values() for part in parts)
        return tuple(term for term in self.terms if term not in inside and term not in names)

    def describe(self) -> str:
        """How the question was understood, for people."""
        parts = [self.kind, *(f'"{phrase}"' for phrase in self.filters.phrases)]
        parts += [f"without {each}" for each in self.filters.without]
        for sign, words in (("for", self.instead), ("besides", self.alike)):
            parts += [f"{' '.join(others)} {sign} {term}" for term, others in words.items()]
        if self.concepts:
            parts.append(f"near: {' '.join(self.concepts)}")
        return "; ".join([*parts, *(["by hypothesis"] if self.hypothesis else [])])


ReadSource = Callable[[str], str | None]
"""The normalised text of a document as the disk has it now; ``None`` when it is gone."""


class Source(NamedTuple):
    """One collection that a question is asked of."""

    collection: str
    plan: Plan
    snapshot: Snapshot
    read: ReadSource
    aside: bool = False
    """It answers beside the others: how rare a word is, is counted without it."""
    recent: tuple[float, float] | None = None
    """Of memories: for how many days they count more, and how much."""
    reranker: Callable[[], Reranker] | None = None
    """Opens the model that reads question and text together; called where it is asked for."""


class Candidate(NamedTuple):
    """A chunk on its way to becoming a hit, with what each lane says of it."""

    place: Place
    keyword: float
    """BM25 of the chunk, 0 where no term matched."""
    page: float
    """BM25 of the whole document."""
    vector: float
    """Cosine similarity; 0 without a model."""
    source: int = 0
    """Which of the collections asked it stands in."""

    @property
    def document(self) -> tuple[int, int]:
        """The document it stands in, told apart from those of other collections."""
        return self.source, self.place.document


class NamedPlace(NamedTuple):
    """A chunk that a name leads to."""

    name: int
    """Which of the question's names."""
    tier: int
    """0 is what is looked for before all others."""
    why: str


@dataclass(frozen=True, slots=True)
class Step:
    """What one stage added to every score."""

    stage: str
    added: Sequence[float]
    note: Callable[[Candidate], str]
    whole_document: bool
    """It judged the document, and so added the same to all of its chunks."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates with their scores so far."""

    plan: Plan
    candidates: tuple[Candidate, ...]
    scores: tuple[float, ...]
    steps: tuple[Step, ...] = ()
    rarity: Mapping[str, float] = field(default_factory=dict)
    """How much each term says, by how few documents hold it."""
    entries: int = 0
    """Chunks and documents of all collections that were asked."""
    notes: tuple[Incomplete, ...] = ()
    """What of the question could not be done as it was asked."""
    named: Mapping[tuple[int, int], NamedPlace] = field(default_factory=dict)
    """Where the question's names lead to, by source and chunk."""

    def add_step(
        self,
        stage: str,
        added: Sequence[float],
        note: Callable[[Candidate], str],
        *,
        whole_document: bool = False,
    ) -> Ranking:
        """The ranking after a stage."""
        return replace(
            self,
            scores=tuple(map(add, self.scores, added)),
            steps=(*self.steps, Step(stage, added, note, whole_document)),
        )

    def add_candidates(self, candidates: Sequence[Candidate]) -> Ranking:
        """The ranking with further candidates, to which no stage has added anything yet."""
        none = (0.0,) * len(candidates)
        return replace(
            self,
            candidates=(*self.candidates, *candidates),
            scores=(*self.scores, *none),
            steps=tuple(replace(step, added=(*step.added, *none)) for step in self.steps),
        )

    def order(self) -> list[int]:
        """Positions of the candidates, best first; ties by URI, then by start, then by
        collection."""

        def key(at: int) -> tuple[float, str, int, int]:
            candidate = self.candidates[at]
            place = candidate.place
            return (-self.scores[at], place.uri, place.start, candidate.source)

        return sorted(range(len(self.candidates)), key=key)

    def own_score(self, at: int) -> float:
        """The part of a score that the chunk earned itself, not its document."""
        return sum(step.added[at] for step in self.steps if not step.whole_document)

    def explain(self, at: int) -> tuple[Contribution, ...]:
        """How the candidate at this position came by its score."""
        candidate = self.candidates[at]
        return tuple(
            Contribution(step.stage, round(step.added[at], 6), step.note(candidate))
            for step in self.steps
            if step.added[at]
        )

    def explain_fully(self, at: int) -> tuple[Contribution, ...]:
        """The same, with how the question was understood, which adds to no score."""
        return (*self.explain(at), Contribution("question", 0.0, self.plan.describe()))


DEPTH = 50
"""Candidates of a lane whose order every lift is sure to reach; a number that no question changes,
so that asking for one hit, for ten or for the next ten gives the same scores."""


def within_reach(ranking: Ranking, lift: float) -> list[Candidate]:
    """Those that do not stand so far back that the full lift could not bring them forward.

    Each lane is measured by itself, since commits as a whole may count less later on. Code is
    all within reach: tests and further passages of a file are set back later, so that what
    stands behind a hundred of them now may still be the answer.
    """
    lanes: dict[str, list[float]] = defaultdict(list)
    for each, score in zip(ranking.candidates, ranking.scores, strict=True):
        lanes[each.place.lane].append(score)
    least = {
        lane: -math.inf if lane == "code" else sorted(scores, reverse=True)[:DEPTH][-1] - lift
        for lane, scores in lanes.items()
    }
    scored = zip(ranking.candidates, ranking.scores, strict=True)
    return [each for each, score in scored if score >= least[each.place.lane]]


Stage = Callable[[Ranking], Ranking]
"""One step of ranking: pure, and every change of a score explains itself."""
