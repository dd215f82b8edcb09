"""Weigh commits against documents, by what the question asks and by what each commit did."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from lookfar.ports import Place, Snapshot
from lookfar.retrieve.question.admission import resolve_globs
from lookfar.retrieve.question.intent import HISTORY_TERMS, asks_for_history, wants_commits
from lookfar.retrieve.ranking import Candidate, Ranking, Source, Stage
from lookfar.store.keywords.analyser import terms_of

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


def rank_commits(weight: float, sources: Sequence[Source]) -> Stage:
    """Weigh commits by all that is known of them."""
    others = [weigh_commits(weight), credit_merged_commits(sources), weigh_merges(sources)]

    def rank(ranking: Ranking) -> Ranking:
        if "commits" not in ranking.candidates.kinds:
            return ranking
        ranking = boost_titles(ranking)
        for stage in others:
            ranking = stage(ranking)
        return ranking

    return rank


def weigh_commits(weight: float) -> Stage:
    """Lower commits that compete with documents, and raise them if the question is about history.

    Commits are short and full of names, so by words alone they would outrank the right page.
    """

    def weigh(ranking: Ranking) -> Ranking:
        kinds = ranking.candidates.kinds
        plan = ranking.plan
        if len(kinds) == 1 or "commits" in plan.filters.lanes:
            return ranking
        factor = _IN_HISTORY if asks_for_history(plan.text) else weight
        added = [
            (factor - 1) * score if candidate.place.lane == "commits" else 0.0
            for candidate, score in zip(ranking.candidates, ranking.scores, strict=True)
        ]
        return ranking.add_step("lane", added, lambda _: f"factor {factor:g} for commits")

    return weigh


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


def weigh_merges(sources: Sequence[Source]) -> Stage:
    """Lower commits that change no file: a merge only repeats what its commits say.

    If all candidates are commits, raise them a little: the list shows both, and the title of a
    merge names the whole change, of which each commit is a part.
    """

    def weigh(ranking: Ranking) -> Ranking:
        kinds = ranking.candidates.kinds
        if _MERGE.search(ranking.plan.text):
            return ranking
        factor = _MERGE_AMONG_COMMITS if len(kinds) == 1 else _WITHOUT_FILES
        commits = [
            candidate for candidate in ranking.candidates if candidate.place.lane == "commits"
        ]
        bare: set[tuple[int, int]] = set()
        for number, source in enumerate(sources):
            documents = {c.place.document for c in commits if c.source == number}
            if documents:
                found = source.snapshot.without_links(sorted(documents))
                bare.update((number, document) for document in found)
        added = [
            (factor - 1) * score if candidate.document in bare else 0.0
            for candidate, score in zip(ranking.candidates, ranking.scores, strict=True)
        ]
        return ranking.add_step("merge", added, lambda _: "it changes no file")

    return weigh


def credit_merged_commits(sources: Sequence[Source]) -> Stage:
    """Raise the best commit of a merged branch to the score of the merge.

    Code hosts write the title of a pull request into the merge, and its commits may say less.
    """

    def credit(ranking: Ranking) -> Ranking:
        if not wants_commits(ranking.plan) or _MERGE.search(ranking.plan.text):
            return ranking
        best = _score_commits(ranking)
        scores = {(c.source, c.place.uri): score for score, c in reversed(best)}
        offers: dict[tuple[int, str], float] = {}
        for score, candidate in best[:_FEW_BEST]:
            snapshot = sources[candidate.source].snapshot
            for branch in _read_branches(snapshot, candidate.place):
                keys = [(candidate.source, commit) for commit in branch]
                # The commit of the branch with the best score of its own, or else the last commit.
                key = max(keys, key=lambda key: scores.get(key, 0.0))
                offers[key] = max(offers.get(key, 0.0), _CREDIT * score)
        ranking = _add_missing(ranking, offers, sources)
        keys = [(candidate.source, candidate.place.uri) for candidate in ranking.candidates]
        added = [max(0.0, offers.get(key, 0.0) - scores.get(key, 0.0)) for key in keys]
        return ranking.add_step(
            "merged", added, lambda _: "a merge of it answers", whole_document=True
        )

    return credit


def _score_commits(ranking: Ranking) -> list[tuple[float, Candidate]]:
    """Return the candidates that are commits with their scores, best first."""
    scored = zip(ranking.scores, ranking.candidates, strict=True)
    commits = [
        (score, candidate) for score, candidate in scored if candidate.place.lane == "commits"
    ]
    return sorted(commits, key=lambda pair: (-pair[0], pair[1].place.uri, pair[1].place.start))


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


def _add_missing(
    ranking: Ranking, offers: Mapping[tuple[int, str], float], sources: Sequence[Source]
) -> Ranking:
    """Add the first chunk of each commit in ``offers`` that is not a candidate yet."""
    present = {(candidate.source, candidate.place.uri) for candidate in ranking.candidates}
    missing = []
    for number, uri in sorted(offers.keys() - present):
        source = sources[number]
        filters = resolve_globs(source.plan.filters, source.snapshot)
        places = source.snapshot.admitted(uri, filters)
        missing += [Candidate(place, 0.0, 0.0, 0.0, number) for place in places[:1]]
    return ranking.add_candidates(missing) if missing else ranking
