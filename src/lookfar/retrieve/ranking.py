"""The data that flows between stages: plans, candidates, and a ranking of scored candidates.

A ranking is immutable and stored in columns, because a question has hundreds of candidates and an
answer ten. A stage changes scores only by adding a step that records how much it added and why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from operator import add
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from lookfar.common.recent import RecentValues
from lookfar.config import SearchSettings
from lookfar.model import Confidence, Contribution, Filters, Hit, Incomplete, Mode, Unit
from lookfar.ports import Embedder, Place, QualityQuery, Reranker, Snapshot

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
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
    """0 to 1: the share of the question that the model knows as words."""
    kind: QuestionKind = "question"
    quality: QualityQuery | None = None
    """The question as the second model reads it; None without that model."""
    dashed: tuple[str, ...] = ()
    """Words after a dash, until the corpus shows whether they are options or exclusions."""
    required: tuple[str, ...] = ()
    """Phrases that the question demands by its syntax; also in ``filters``."""
    excluded: tuple[str, ...] = ()
    """Words that the question excludes by its syntax; also in ``filters``."""
    hypothesis: bool = False
    """Whether the vector is that of a hypothetical answer instead of the question."""
    embedder: Embedder | None = None
    replacements: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Replacements for terms that do not occur in any document."""
    synonyms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Synonyms of terms that do occur."""
    concepts: tuple[str, ...] = ()
    """Terms of the corpus whose meaning is close to the question."""
    focus: bool = False
    """Whether each hit reports which of its sentences answer best."""
    units: int = 0
    """How many whole definitions and passages of documents the answer lists."""
    title: Plan | None = None
    """The title of a long question, which is asked beside the whole."""
    paths: tuple[str, ...] = ()
    """Files that a long question names."""
    origin: str = ""
    """The one of them in which the error of a stack trace was raised."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The terms that the question is about.

        Parts of a name are excluded: ``ClientSession`` is not a question about sessions. The parts
        of ``error-handling`` are words of their own.
        """
        names = {name: parts for name, parts in self.names.items() if "-" not in name}
        inside = frozenset(part for parts in names.values() for part in parts)
        return tuple(term for term in self.terms if term not in inside and term not in names)

    def describe(self) -> str:
        """Describe for the reader how the question was understood."""
        parts = [self.kind, *(f'"{phrase}"' for phrase in self.filters.phrases)]
        parts += [f"without {word}" for word in self.filters.without]
        for sign, words in (("instead of", self.replacements), ("as well as", self.synonyms)):
            parts += [f"{' '.join(others)} {sign} {term}" for term, others in words.items()]
        if self.concepts:
            parts.append(f"related terms: {' '.join(self.concepts)}")
        return "; ".join([*parts, *(["compared with the hypothesis"] if self.hypothesis else [])])


ReadSource = Callable[[str], str | None]
"""Returns the normalised text of a document as it is on disk now; ``None`` if it is gone."""


class Source(NamedTuple):
    """A collection that is searched, with the plan for it."""

    collection: str
    plan: Plan
    snapshot: Snapshot
    read: ReadSource
    aside: bool = False
    """Whether it is excluded from the count of how rare each word is."""
    recent: tuple[float, float] | None = None
    """For memories: for how many days they rank higher, and by which factor."""
    reranker: Callable[[], Reranker] | None = None
    """Opens the reranking model; called only if reranking is on."""


class Results(NamedTuple):
    """Cited hits, notes on what may be missing, and how well the best hit fits the question."""

    hits: list[Hit]
    notes: list[Incomplete]
    confidence: Confidence | None = None
    listed: int = 0
    """Documents that were listed instead of hits."""
    units: Sequence[Unit] = ()
    """The best definitions and sections, if the plan asks for them."""


Document = tuple[int, int]
"""The position of a collection and a document number, which is unique in its collection only."""
Chunk = tuple[int, int]
"""The same with a chunk number, to look candidates up; hashing all of a candidate takes longer."""


class Candidate(NamedTuple):
    """A chunk that may become a hit, with its score from each retriever."""

    place: Place
    keyword: float
    """BM25 of the chunk; 0 if no term matched."""
    page: float
    """BM25 of the whole document."""
    vector: float
    """Cosine similarity; 0 without a model."""
    source: int = 0
    """Index of its collection in the list of those searched."""
    quality: float | None = None
    """Cosine similarity by the second model; None if it has no vector of this chunk."""

    @property
    def document(self) -> Document:
        return self.source, self.place.document

    @property
    def chunk(self) -> Chunk:
        return self.source, self.place.key


class RetrieverScores(NamedTuple):
    """The scores of all candidates, a column for each retriever; see ``Candidate``."""

    keyword: Sequence[float]
    page: Sequence[float]
    vector: Sequence[float]
    quality: Sequence[float | None]


class Candidates(tuple[Candidate, ...]):
    """The candidates of a question, with the columns that many stages need, each made once."""

    @cached_property
    def scores_by_retriever(self) -> RetrieverScores:
        if not self:
            return RetrieverScores((), (), (), ())
        _, keyword, page, vector, _, quality = zip(*self, strict=True)
        return RetrieverScores(keyword, page, vector, quality)

    @cached_property
    def documents(self) -> list[Document]:
        return [(candidate.source, candidate.place.document) for candidate in self]

    @cached_property
    def chunks(self) -> list[Chunk]:
        return [(candidate.source, candidate.place.key) for candidate in self]

    @cached_property
    def lanes(self) -> list[str]:
        return [candidate.place.lane for candidate in self]

    @cached_property
    def kinds(self) -> frozenset[str]:
        """All kinds of documents among them."""
        return frozenset(self.lanes)


class NamedPlace(NamedTuple):
    """A chunk that a name in the question refers to."""

    name: int
    """Index of the name among those of the question."""
    tier: int
    """0 is the best kind of match."""
    why: str
    namesake: bool = False
    """Whether its file has the name, as the main part of a class in several files has."""
    is_member: bool = False
    """Whether the question names its type as well, such as ``Session get``."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one stage added to every score."""

    stage: str
    added: Sequence[float]
    note: Callable[[Candidate], str]
    whole_document: bool
    """Whether the stage judged the document, and so added the same to all of its chunks."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates with their scores so far."""

    plan: Plan
    candidates: Candidates
    scores: tuple[float, ...]
    sources: Sequence[Source] = ()
    """The collections that are searched; candidates name them by their position."""
    settings: SearchSettings = field(default_factory=SearchSettings)
    steps: tuple[Step, ...] = ()
    rarity: Mapping[str, float] = field(default_factory=dict)
    """Weight of each term: the fewer documents contain it, the higher."""
    known_share: float = 1.0
    """Share of the question's words, by weight, that occur in the collections searched."""
    entries: int = 0
    """Number of chunks and documents in all collections searched."""
    notes: tuple[Incomplete, ...] = ()
    """What could not be done as the question asked."""
    relevance: tuple[float, float] | None = None
    """Fit and lead of the best candidate, see ``answer.relevance``."""
    named: Mapping[Chunk, NamedPlace] = field(default_factory=dict)
    """Chunks that the question's names refer to, by collection and chunk."""
    packages: Mapping[int, int] = field(default_factory=dict)
    """The major versions of packages among the collections searched, by their position."""

    def add_step(
        self,
        stage: str,
        added: Sequence[float],
        note: Callable[[Candidate], str],
        *,
        whole_document: bool = False,
    ) -> Ranking:
        """Return the ranking with the scores that a stage adds."""
        return replace(
            self,
            scores=tuple(map(add, self.scores, added)),
            steps=(*self.steps, Step(stage, added, note, whole_document)),
        )

    def add_candidates(self, candidates: Sequence[Candidate]) -> Ranking:
        """Return the ranking with further candidates, whose scores start at 0."""
        none = (0.0,) * len(candidates)
        return replace(
            self,
            candidates=Candidates((*self.candidates, *candidates)),
            scores=(*self.scores, *none),
            steps=tuple(replace(step, added=(*step.added, *none)) for step in self.steps),
        )

    def order(self) -> list[int]:
        """Return the positions of the candidates, best first; ties go by URI, start, collection."""
        scores = self.scores
        order = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
        # Equal scores are few, and making the whole key of every candidate takes longer.
        last = 0
        for rank in range(1, len(order) + 1):
            if rank == len(order) or scores[order[rank]] != scores[order[last]]:
                if rank > last + 1:
                    order[last:rank] = sorted(order[last:rank], key=self._rank_key)
                last = rank
        return order

    def best(self) -> Candidate:
        """Return the first candidate of :meth:`order`, without sorting the others."""
        best = max(self.scores)
        ties = (at for at, score in enumerate(self.scores) if score == best)
        return self.candidates[min(map(self._rank_key, ties))[-1]]

    def _rank_key(self, at: int) -> tuple[float, str, int, int, int]:
        candidate = self.candidates[at]
        place = candidate.place
        return (-self.scores[at], place.uri, place.start, candidate.source, at)

    def own_steps(self) -> list[Sequence[float]]:
        """Return what each step added to chunks for themselves, not for their documents."""
        return [step.added for step in self.steps if not step.whole_document]

    def explain(self, at: int) -> tuple[Contribution, ...]:
        """Explain the score of the candidate at this position."""
        candidate = self.candidates[at]
        return tuple(
            Contribution(step.stage, round(step.added[at], 6), step.note(candidate))
            for step in self.steps
            if step.added[at]
        )

    def explain_fully(self, at: int) -> tuple[Contribution, ...]:
        """Explain the score, and how the question was understood."""
        return (*self.explain(at), Contribution("question", 0.0, self.plan.describe()))


def read_parts(
    sources: Sequence[Source],
    chunks: Iterable[tuple[int, Place]],
    make: Callable[[str], T],
    recent: RecentValues[bytes, T],
    bytes_each: int,
    bytes_per_character: int,
) -> dict[bytes, T]:
    """Return what ``make`` returns for the texts of these chunks, by their hashes.

    Only texts that are not in the cache ``recent`` are read. Chunks are given with the position of
    their collection, and their sizes in the cache are estimated in bytes.
    """
    made: dict[bytes, T] = {}
    unread: dict[tuple[int, str], list[Place]] = {}
    for number, place in chunks:
        known = recent.get(place.sha)
        if known is None:
            unread.setdefault((number, place.uri), []).append(place)
        else:
            made[place.sha] = known
    for (number, uri), places in unread.items():
        text = sources[number].snapshot.text(uri)
        for place in places:
            part = (text or "")[place.start : place.end]
            made[place.sha] = make(part)
            if text is not None:
                recent.add(place.sha, made[place.sha], bytes_each + bytes_per_character * len(part))
    return made


LINKS = "links"
"""The name of the stage that boosts what the best documents lead to."""

DEPTH = 50
"""Candidates of each kind that every boost is sure to reach. It does not depend on ``top_k``, so
that asking for one hit, for ten or for the next ten gives the same scores."""


def within_reach(ranking: Ranking, lift: float) -> list[int]:
    """Return the positions of the candidates that a boost of ``lift`` could bring to the front.

    Each kind is measured by itself, since a later stage may lower all commits. All code is within
    reach, since later stages demote tests and repeated files.
    """
    candidates, scores = ranking.candidates, ranking.scores
    least = {}
    for kind in candidates.kinds:
        own = scores
        if len(candidates.kinds) > 1:
            own = tuple(compress(scores, [lane == kind for lane in candidates.lanes]))
        depth = sorted(own, reverse=True)[:DEPTH][-1] - lift
        least[kind] = -math.inf if kind == "code" else depth
    if len(least) == 1:
        (depth,) = least.values()
        return [at for at, score in enumerate(scores) if score >= depth]
    limits = map(least.__getitem__, candidates.lanes)
    return [at for at, (score, depth) in enumerate(zip(scores, limits, strict=True))
            if score >= depth]  # fmt: skip


Stage = Callable[[Ranking], Ranking]
"""One step of ranking: a pure function that explains every change of a score."""
