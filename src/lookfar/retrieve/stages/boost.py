"""Boost passages in the words of the question and what is new, and put first what it names."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from lookfar.ports import Snapshot
from lookfar.retrieve.locate.file_names import extract_path, matches_path_end
from lookfar.retrieve.neighbours.mentions import read_front_matter
from lookfar.retrieve.ranking import Candidate, Chunk, Document, Plan, Ranking, within_reach
from lookfar.store.keywords.analyser import analyse

_FARTHEST = 3
"""Largest distance of two words in a question that form a pair."""
_MOST_PAIRS = 8
"""A question with more pairs was pasted, and shares common phrases with many texts."""
_PAIRS = 0.1
"""Boost for a passage with all word pairs of the question."""
_SYNONYMS = 0.001
"""The same for words of the question or their synonyms: enough to decide between equals."""
_SYNONYM = 0.5
"""Weight of a synonym, relative to the word itself."""
_FEW_FILES: Final = 5
"""A name that more documents have says nothing about any of them."""
_WORD: Final = re.compile(r"\w+")
_STEP: Final = 0.01
"""Distance in score between a definition and what follows it."""


def boost_word_pairs(ranking: Ranking) -> Ranking:
    """Boost by the share of the question's word pairs that a passage contains."""
    near = [ranking.candidates[at] for at in within_reach(ranking, _PAIRS)]
    # Code is ranked by its names.
    shares = score_word_pairs(ranking, [c for c in near if c.place.lane != "code"])
    return _boost(ranking, _PAIRS, shares, "phrase", "of the question's word pairs")


def score_word_pairs(ranking: Ranking, among: Sequence[Candidate]) -> dict[Chunk, float]:
    """Return for each candidate the share of the question's word pairs that it contains.

    The fewer candidates contain a pair, the more it counts.
    """
    pairs = find_word_pairs(ranking.plan)
    if not pairs:
        return {}
    held: dict[Chunk, int] = {}
    for number, source in enumerate(ranking.sources):
        places = [candidate.place for candidate in among if candidate.source == number]
        bits_by_key = source.snapshot.adjoining(pairs, places) if places else {}
        held.update(((number, key), bits) for key, bits in bits_by_key.items())
    counts = [sum(bits >> at & 1 for bits in held.values()) for at in range(len(pairs))]
    weights = [math.log(1 + (len(among) - count + 0.5) / (count + 0.5)) for count in counts]
    total = sum(weights)
    return {
        chunk: sum(weight for at, weight in enumerate(weights) if bits >> at & 1) / total
        for chunk, bits in held.items()
        if bits
    }


def boost_synonyms(ranking: Ranking) -> Ranking:
    """Boost passages with the question's words, or by less with their synonyms."""
    plan = ranking.plan
    groups = [
        {term: 1.0, **dict.fromkeys(others, _SYNONYM)} for term, others in plan.synonyms.items()
    ]
    if plan.concepts:
        near = dict.fromkeys(plan.concepts, _SYNONYM)
        groups.append({**near, **dict.fromkeys(plan.terms, 1.0)})
    among = [ranking.candidates[at] for at in within_reach(ranking, _SYNONYMS)]
    shares: dict[Chunk, float] = {}
    for number, source in enumerate(ranking.sources):
        places = [candidate.place for candidate in among if candidate.source == number]
        matched = source.snapshot.wording(groups, places) if places else {}
        shares.update(((number, key), share / len(groups)) for key, share in matched.items())
    noted = "of the question's words or their synonyms"
    return _boost(ranking, _SYNONYMS, shares, "synonyms", noted)


def find_word_pairs(plan: Plan) -> list[tuple[str, str, int]]:
    """Return the significant words next to each other in a question, and their distance."""
    significant = frozenset(plan.terms)
    positions: list[tuple[int, str]] = []
    position = 0
    for run in plan.text.split():
        terms = analyse(run).split()
        if len(terms) == 1 and terms[0] in significant:
            positions.append((position, terms[0]))
        position += len(terms)
    pairs = dict.fromkeys(
        (left, right, after - before)
        for (before, left), (after, right) in pairwise(positions)
        if after - before <= _FARTHEST
    )
    return list(pairs) if len(pairs) <= _MOST_PAIRS else []


def _boost(
    ranking: Ranking, weight: float, shares: Mapping[Chunk, float], stage: str, noted: str
) -> Ranking:
    if not any(shares.values()):
        return ranking
    added = [weight * shares.get(chunk, 0.0) for chunk in ranking.candidates.chunks]
    return ranking.add_step(stage, added, lambda c: f"{shares.get(c.chunk, 0.0):.0%} {noted}")


def boost_exact(ranking: Ranking) -> Ranking:
    """Put first what the question is the path of, or else the title, or else a heading.

    The end of a path is enough, with or without extension. Names in code are ranked elsewhere. The
    best chunk with the name of each document is raised above all others; the rest of the document
    keeps its score, so that one long page does not fill the answer.
    """
    path, words = extract_path(ranking.plan.text), _WORD.findall(ranking.plan.text.casefold())
    candidates, scores = ranking.candidates, ranking.scores
    called: dict[str, set[int]] = {"path": set(), "title": set(), "heading": set()}
    for at, (place, *_) in enumerate(candidates):
        if path and place.lane != "commits" and matches_path_end(place.uri, path):
            called["path"].add(at)
        if words and place.lane not in ("code", "commits"):
            heading = place.path[-1] if place.path else ""
            for kind, name in (("title", place.title.casefold()), ("heading", heading.casefold())):
                if words[0] in name and _WORD.findall(name) == words:
                    called[kind].add(at)
    documents = candidates.documents
    kinds = (k for k, at in called.items() if 0 < len({documents[a] for a in at}) <= _FEW_FILES)
    kind = next(kinds, "")
    if not kind:
        return ranking
    best: dict[Document, int] = {}
    for at in ranking.order():
        if at in called[kind]:
            best.setdefault(documents[at], at)
    lift = 1 + max(scores) - min(scores[at] for at in best.values())
    added = [0.0] * len(candidates)
    for at in best.values():
        added[at] = lift
    return ranking.add_step(
        kind, added, lambda _: f"the question is its {kind}", whole_document=True
    )


def put_definitions_first(ranking: Ranking) -> Ranking:
    """Raise the best match of each name in the question just above all other candidates.

    A class comes before a function of that name, both before a constructor or a declaration, and
    all of them before code that merely uses the name. Among equals, the one in a file with the name
    comes first. A member whose type the question names as well comes before everything else.
    """
    named = {
        at: ranking.named[chunk]
        for at, chunk in enumerate(ranking.candidates.chunks)
        if chunk in ranking.named
    }
    if not named:
        return ranking
    best: dict[int, int] = {}
    order = sorted(
        named, key=lambda at: (named[at].tier, not named[at].namesake, -ranking.scores[at])
    )
    for at in order:
        best.setdefault(named[at].name, at)
    first = sorted(best.values(), key=lambda at: (not named[at].is_member, -ranking.scores[at]))
    lifted = frozenset(first)
    others = (score for at, score in enumerate(ranking.scores) if at not in lifted)
    least = max(others, default=0.0)
    added = [0.0] * len(ranking.candidates)
    for at in reversed(first):
        least = max(ranking.scores[at], least + _STEP)
        added[at] = least - ranking.scores[at]
    notes = {ranking.candidates[at]: place.why for at, place in named.items()}
    return ranking.add_step("name", added, lambda candidate: notes[candidate])


_DAY: Final = 86_400.0
RECENT: Final = ((7, 1.2), (30, 1.1))
"""The ages in days of recently changed documents, and their factors."""


def boost_recent(ranking: Ranking, clock: Callable[[], float] = time.time) -> Ranking:
    """Multiply scores by the factor of the first tier that the document is young enough for."""
    tiers, now = RECENT if ranking.settings.recency else (), clock()
    made: dict[Document, float] = {}
    for number, source in enumerate(ranking.sources):
        here = {c.place.document: c.place for c in ranking.candidates if c.source == number}
        memories = {
            document
            for document, place in here.items()
            if source.recent is not None and place.lane == "memory"
        }
        for document in memories:
            when = _find_creation_time(source.snapshot, here[document].uri)
            made.update({} if when is None else {(number, document): when})
        others = sorted(here.keys() - memories)
        modified = source.snapshot.modified(others) if tiers and others else {}
        made.update(((number, document), ns / 1e9) for document, ns in modified.items())
    ages = {document: max(0.0, now - when) / _DAY for document, when in made.items()}
    factors: dict[Document, float] = {}
    for candidate in ranking.candidates:
        age = ages.get(candidate.document)
        if age is not None and candidate.document not in factors:
            own = ranking.sources[candidate.source].recent
            theirs = [own] if own and candidate.place.lane == "memory" else tiers
            factors[candidate.document] = next((by for days, by in theirs if age <= days), 1.0)
    added = [
        (factors.get(document, 1.0) - 1) * score
        for document, score in zip(ranking.candidates.documents, ranking.scores, strict=True)
    ]

    def note(candidate: Candidate) -> str:
        days = int(ages[candidate.document])
        if candidate.place.lane == "memory":
            return "a recent memory"
        return f"changed {days} day{'s' if days > 1 else ''} ago" if days else "changed today"

    return ranking.add_step("recent", added, note) if any(added) else ranking


def _find_creation_time(snapshot: Snapshot, uri: str) -> float | None:
    """Return when a memory was created, from its front matter or else from the disk."""
    created = read_front_matter(snapshot, uri).get("created_at")
    try:
        when = datetime.fromisoformat(str(created))
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        known = snapshot.document(uri)
        return float(known["mtime_ns"]) / 1e9 if known else None


_NAMED: Final = 0.3
"""Added to a file that a long question names; less for each if it names several."""
_ORIGIN: Final = 0.1
"""Added to the file in which the error of a stack trace was raised."""
_SAME_NAME: Final = 2
"""A bare file name that more files than this have is ignored."""


def boost_named_files(ranking: Ranking) -> Ranking:
    """Raise files whose path occurs in the question, and the origin of an error most."""
    uris = list(dict.fromkeys(candidate.place.uri for candidate in ranking.candidates))
    named: dict[str, float] = {}
    for path in ranking.plan.paths:
        for uri in match_path(path, uris):
            named[uri] = max(named.get(uri, 0.0), _ORIGIN if path == ranking.plan.origin else 0.0)
    if not named:
        return ranking
    share = _NAMED / math.sqrt(len(named))
    added = [
        share + named[candidate.place.uri] if candidate.place.uri in named else 0.0
        for candidate in ranking.candidates
    ]
    return ranking.add_step("named", added, lambda _: "the question names it", whole_document=True)


def match_path(path: str, uris: Sequence[str]) -> list[str]:
    """Return the URIs that share the longest suffix with a path from another machine."""
    parts = path.split("/")
    for first in range(len(parts)):
        end = "/" + "/".join(parts[first:])
        matches = [uri for uri in uris if f"/{uri}".endswith(end)]
        if matches:
            bare = first == len(parts) - 1
            return [] if bare and len(matches) > _SAME_NAME else matches
    return []
