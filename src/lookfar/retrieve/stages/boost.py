"""Put first what the question names: a path, a title, a heading, or a definition."""

from __future__ import annotations

import re
from typing import Final

from lookfar.retrieve.locate.file_names import extract_path, matches_path_end
from lookfar.retrieve.ranking import Document, Ranking

_FEW_FILES: Final = 5
"""A name that more documents have says nothing about any of them."""
_WORD: Final = re.compile(r"\w+")


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


_STEP: Final = 0.01
"""Distance in score between a definition and what follows it."""


def put_definitions_first(ranking: Ranking) -> Ranking:
    """Raise the best match of each name in the question just above all other candidates.

    A class comes before a function of that name, both before a constructor or a declaration, and
    all of them before code that merely uses the name. Of equal ones, that in a file of its name
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
