"""Answer questions about history: weigh commits against documents, and read release notes.

Commits are short and full of names, so by words alone they would outrank the right page. They are
weighed by what the question asks and by what each commit did.

Release notes are long lists in which one item is the answer, so as a whole they would rank low.
Therefore the items are compared with the question, and the passage with the best item is ranked
first. If the question names a version ("what changed in 3.1 about sessions?"), only the sections of
that version are used, and the commits that their items describe are ranked next to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from lookfar.ports import Place, Snapshot
from lookfar.retrieve.question.admission import resolve_globs
from lookfar.retrieve.question.intent import HISTORY_TERMS, asks_for_history, wants_commits
from lookfar.retrieve.question.plan import field_weights, make_plan
from lookfar.retrieve.ranking import Candidate, Chunk, Ranking, Source
from lookfar.store.keywords.analyser import terms_of

Rank = Callable[[Sequence[Source]], Ranking]

_IN_HISTORY: Final = 1.5
"""Factor for commits if the question asks what happened."""
_WITHOUT_FILES: Final = 0.6
"""Factor for commits that change no file (merges and empty commits) beside documents."""
_MERGE_AMONG_COMMITS: Final = 1.1
"""The same in a list of commits alone."""
_TITLE: Final = 0.3
"""Added to a commit whose title has every word of the question."""
_CREDIT: Final = 1.0
"""The share of the score of a merge that a commit of the merged branch gets."""
_LAST_COMMITS: Final = 5
"""How many of the last commits of a branch are considered."""
_FEW_BEST: Final = 20
_INTO_TOPIC: Final = re.compile(r"^Merge .*\binto\b", re.IGNORECASE)
"""The title of a merge that brought a main branch into another one."""
_MERGE: Final = re.compile(r"\bmerg(?:e|es|ed|ing)\b|\bpull requests?\b|#\d", re.IGNORECASE)
_CHANGELOG: Final = re.compile(
    r"(?:^|/)(?:changes|change-?log|history|news|releases?|release[-_ ]?notes|what'?s[-_ ]?new"
    r"|upgrad\w*)(?:[./_-]|$)",
    re.IGNORECASE,
)
_VERSION: Final = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+)+)(?!\w)")
_ITEM: Final = re.compile(r"^[ \t]*(?:[-*+•]|\d+[.)])[ \t]+", re.MULTILINE)
_BLANK: Final = re.compile(r"\n[ \t]*\n")
_LEAST_SHARE: Final = 0.6
"""An item must contain at least this share of the question; rare words count more."""
_MOST_SECTIONS: Final = 2
_MOST_ITEMS: Final = 2
_LONGEST_ITEM: Final = 500
_DEEP: Final = 50
_STEP: Final = 0.95
"""Each further section or commit gets this share of the score of the one before it."""


def rank_commits(ranking: Ranking) -> Ranking:
    """Weigh commits by all that is known of them."""
    ranking = boost_titles(ranking)
    kinds, plan = ranking.candidates.kinds, ranking.plan
    if len(kinds) > 1 and "commits" not in plan.filters.lanes:
        asked = asks_for_history(plan.text)
        factor = _IN_HISTORY if asked else ranking.settings.commits_weight
        added = [
            (factor - 1) * score if lane == "commits" else 0.0
            for lane, score in zip(ranking.candidates.lanes, ranking.scores, strict=True)
        ]
        ranking = ranking.add_step("lane", added, lambda _: f"factor {factor:g} for commits")
    if _MERGE.search(plan.text):
        return ranking
    if wants_commits(plan):
        ranking = credit_merged_commits(ranking)
    return weigh_merges(ranking)


def boost_titles(ranking: Ranking) -> Ranking:
    """Raise commits by the share of the question in their title, if it asks about history.

    Rare words count more. The body does not count, because it may quote release notes that mention
    much that the commit did not do.
    """
    topics = [term for term in ranking.plan.terms if term not in HISTORY_TERMS]
    total = sum(ranking.rarity.get(term, 0.0) for term in topics)
    if not total or not asks_for_history(ranking.plan.text):
        return ranking
    shares: dict[str, float] = {}
    for candidate in ranking.candidates:
        place = candidate.place
        if place.lane == "commits" and place.uri not in shares:
            present = frozenset(terms_of(place.title))
            # In the order of the question, since the order of a sum changes its last digits.
            known = sum(ranking.rarity.get(term, 0.0) for term in topics if term in present)
            shares[place.uri] = known / total
    added = [_TITLE * shares.get(candidate.place.uri, 0.0) for candidate in ranking.candidates]
    return ranking.add_step(
        "title", added, lambda c: f"its title has {shares[c.place.uri]:.0%} of the question"
    )


def weigh_merges(ranking: Ranking) -> Ranking:
    """Lower commits that change no file: a merge only repeats what its commits say.

    If all candidates are commits, raise them a little: the list shows both, and the title of a
    merge names the whole change, of which each commit is a part.
    """
    factor = _MERGE_AMONG_COMMITS if len(ranking.candidates.kinds) == 1 else _WITHOUT_FILES
    bare: set[tuple[int, int]] = set()
    for number, source in enumerate(ranking.sources):
        commits = (c.place for c in ranking.candidates if c.source == number)
        if documents := sorted({place.document for place in commits if place.lane == "commits"}):
            without = source.snapshot.without_links(documents)
            bare.update((number, document) for document in without)
    added = [
        (factor - 1) * score if document in bare else 0.0
        for document, score in zip(ranking.candidates.documents, ranking.scores, strict=True)
    ]
    return ranking.add_step("merge", added, lambda _: "it changes no file")


def credit_merged_commits(ranking: Ranking) -> Ranking:
    """Raise the best commit of a merged branch to the score of the merge.

    Code hosts write the title of a pull request into the merge, and its commits may say less.
    """
    scored = [
        (-score, c.place.uri, c.place.start, at)
        for at, (score, c) in enumerate(zip(ranking.scores, ranking.candidates, strict=True))
        if c.place.lane == "commits"
    ]
    best = [(-least, ranking.candidates[at]) for least, _, _, at in sorted(scored)]
    scores = {(c.source, c.place.uri): score for score, c in reversed(best)}
    offers: dict[tuple[int, str], float] = {}
    for score, candidate in best[:_FEW_BEST]:
        snapshot = ranking.sources[candidate.source].snapshot
        for branch in _read_branches(snapshot, candidate.place):
            keys = [(candidate.source, commit) for commit in branch]
            # The commit of the branch with the best score of its own, or else the last commit.
            key = max(keys, key=lambda key: scores.get(key, 0.0))
            offers[key] = max(offers.get(key, 0.0), _CREDIT * score)
    present = {(candidate.source, candidate.place.uri) for candidate in ranking.candidates}
    missing = []
    for number, uri in sorted(offers.keys() - present):
        source = ranking.sources[number]
        filters = resolve_globs(source.plan.filters, source.snapshot)
        places = source.snapshot.admitted(uri, filters)
        missing += [Candidate(place, 0.0, 0.0, 0.0, number) for place in places[:1]]
    ranking = ranking.add_candidates(missing)
    keys = [(candidate.source, candidate.place.uri) for candidate in ranking.candidates]
    added = [max(0.0, offers.get(key, 0.0) - scores.get(key, 0.0)) for key in keys]
    return ranking.add_step("merged", added, lambda _: "a merge of it answers", whole_document=True)


def _read_branches(snapshot: Snapshot, place: Place) -> Iterator[list[str]]:
    """Yield the last commits of each branch that a merge brought in; none for other commits."""
    if _INTO_TOPIC.search(place.title):
        return
    for commit in _read_parents(snapshot, place.uri)[1:]:
        branch = [commit]
        while len(branch) < _LAST_COMMITS:
            parents = _read_parents(snapshot, branch[-1])
            # If pull requests are merged, the branch begins at another merge.
            if len(parents) != 1 or len(_read_parents(snapshot, parents[0])) > 1:
                break
            branch.append(parents[0])
        yield branch


def _read_parents(snapshot: Snapshot, commit: str) -> list[str]:
    document = snapshot.document(commit) or {}
    return list(document.get("commit", {}).get("parents", ()))


class _Item(NamedTuple):
    """One entry of a release note."""

    share: float
    """The share of the question that it contains."""
    score: float
    """The keyword score of its chunk."""
    source: int
    place: Place
    text: str


def add_release_notes(ranking: Ranking, rank: Rank) -> Ranking:
    """Rank the release notes that answer a question about history first.

    ``rank`` scores the candidates of some sources.
    """
    named = _VERSION.search(ranking.plan.text)
    version = named[1] if named else ""
    items = _find_items(ranking, version) if version else []
    if not items:  # The question names no version, or that of something else, such as "Python 3.7".
        version = ""
        items = _find_items(ranking, version)
        items = [item for item in items if item.share >= _LEAST_SHARE][:1]
    if not items:
        return ranking
    top = max(ranking.scores, default=1.0)
    offers: dict[Candidate, tuple[float, str]] = {}
    for item in items:
        if len(offers) < _MOST_SECTIONS:
            note = Candidate(item.place, item.score, 0.0, 0.0, item.source)
            offers.setdefault(note, (top * _STEP ** len(offers), "release notes"))
    described = _find_commits(items[:_MOST_ITEMS], ranking, rank) if version else []
    for number, commit in enumerate(described, 1):
        offers.setdefault(commit, (top * _STEP**number, "a release note describes it"))
    wanted: Mapping[Chunk, tuple[float, str]] = {c.chunk: offer for c, offer in offers.items()}
    present = frozenset(ranking.candidates.chunks)
    ranking = ranking.add_candidates([c for c in offers if c.chunk not in present])
    added = [
        max(0.0, wanted.get(chunk, (0.0, ""))[0] - score)
        for chunk, score in zip(ranking.candidates.chunks, ranking.scores, strict=True)
    ]
    return ranking.add_step("release", added, lambda c: wanted[c.chunk][1])


def _find_items(ranking: Ranking, version: str) -> list[_Item]:
    """Return the items that share words with the question, best matches first."""
    topics = frozenset(ranking.plan.terms).difference(HISTORY_TERMS, terms_of(version))
    weights = {term: ranking.rarity.get(term, 0.0) for term in ranking.plan.terms if term in topics}
    total = sum(weights.values())
    fields = field_weights(ranking.settings)[0]
    items: list[_Item] = []
    for number, (_, plan, snapshot, *_) in enumerate(ranking.sources) if total else ():
        # The changelogs among the candidates, and the sections of the version.
        changelogs = {
            candidate.place.uri
            for candidate in ranking.candidates
            if candidate.source == number
            and candidate.place.lane == "docs"
            and _CHANGELOG.search(candidate.place.uri)
        }
        scopes = [replace(plan.filters, uris=tuple(sorted(changelogs)))]
        scopes += [replace(plan.filters, heading=version)] if version else []
        places: dict[int, tuple[Place, float]] = {}
        for filters in scopes:
            if filters.uris or filters.heading:
                resolved = resolve_globs(filters, snapshot)
                for place, score in snapshot.keyword_search(
                    sorted(topics), fields, _DEEP, resolved
                ):
                    places.setdefault(place.key, (place, score))
        # Changelogs are long, and have many chunks.
        notes = [(place, score) for place, score in places.values() if place.lane == "docs"]
        texts = {uri: snapshot.text(uri) or "" for uri in {place.uri for place, _ in notes}}
        for place, score in notes:
            for start, end in _find_spans(snapshot, place, version):
                for part in _ITEM.split(texts[place.uri][start:end]):
                    text = " ".join(_BLANK.split(part)[0].split())[:_LONGEST_ITEM]
                    terms = frozenset(terms_of(text))
                    if not terms.isdisjoint(weights):
                        # In the order of the question: the order of a sum changes its last digits.
                        shared = sum(weight for term, weight in weights.items() if term in terms)
                        items.append(_Item(shared / total, score, number, place, text))
    items.sort(key=lambda item: (-item.share, -item.score, item.place.uri, item.place.start))
    return items


def _find_spans(snapshot: Snapshot, place: Place, version: str) -> list[tuple[int, int]]:
    """Return the parts of a chunk that are below a heading with the version."""
    if not version:
        return [(place.start, place.end)]
    heading = re.compile(rf"(?<![\w.])v?{re.escape(version)}(?:\.\w+)*(?![\w.]*\d)", re.IGNORECASE)
    spans = []
    for section in snapshot.sections(place.uri):
        start, end = max(section.body, place.start), min(section.span.end, place.end)
        if start < end and heading.search(section.title):
            spans.append((start, end))
    return spans


def _find_commits(items: Sequence[_Item], ranking: Ranking, rank: Rank) -> list[Candidate]:
    """Return the best commit for each item of a release note."""
    numbers = sorted({c.source for c in ranking.candidates if c.place.lane == "commits"})
    commits: list[Candidate] = []
    for item in items if numbers else ():
        plan = ranking.plan
        asked = make_plan(
            item.text,
            mode=plan.mode,
            top_k=plan.top_k,
            filters=replace(plan.filters, lanes=("commits",)),
            embedder=plan.embedder,
        )
        answer = rank([ranking.sources[number]._replace(plan=asked) for number in numbers])
        best = next((answer.candidates[at] for at in answer.order()), None)
        if best is not None and best.place.lane == "commits":
            commits.append(best._replace(source=numbers[best.source]))
    return commits
