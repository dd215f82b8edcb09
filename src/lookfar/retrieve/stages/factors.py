"""Multiply the scores of code by small factors: for its kind, its docstring and its size.

Prose is not touched. ``boost_names_by_ladder`` and ``boost_path_words`` rank names as another
system does, for users who migrate from it; the default is in ``code``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from lookfar.retrieve.question.intent import Intent, detect_intents
from lookfar.retrieve.ranking import Candidate, Ranking
from lookfar.retrieve.stages.code import Defined, Judge
from lookfar.store.keywords.analyser import names_in, terms_of

LARGE: Final = ((8_000, 0.95), (4_000, 0.98))
"""Characters of a chunk, and the factor for larger ones."""
NAME_LADDER: Final = ((1.0, 1.4), (0.8, 1.3), (0.5, 1.2), (0.3, 1.1), (0.0, 1.05))
"""Minimum share of the question's words in a name, and the factor for it."""
PATH: Final = 1.2

_KINDS: Final[Mapping[Intent, frozenset[str]]] = {
    "function": frozenset(("function", "method", "macro")),
    "class": frozenset(("class", "interface", "struct", "trait", "enum", "type", "impl")),
}


def boost_kind(of_kind: float, of_topic: float) -> Judge:
    """Boost functions if the question asks for functions, errors if it asks for errors, etc."""

    def judge(ranking: Ranking, defined: Defined) -> Ranking:
        wanted = detect_intents(ranking.plan.topics)
        if not wanted:
            return ranking
        kinds = frozenset[str]().union(*(_KINDS[intent] for intent in wanted if intent in _KINDS))
        topics = frozenset(wanted).difference(_KINDS)

        def factor(candidate: Candidate) -> float:
            here = defined.get(candidate, ())
            if any(symbol.kind in kinds for symbol in here):
                return of_kind
            if topics and here:
                # Without reading the code, only names show what it is about.
                words = terms_of(" ".join((candidate.place.uri, *(symbol.name for symbol in here))))
                return of_topic if topics.intersection(detect_intents(words)) else 1.0
            return 1.0

        topics_asked = ", ".join(wanted)
        return _multiply(
            ranking, "kind", factor, lambda _: f"the question is about: {topics_asked}"
        )

    return judge


def boost_documented(documented: float) -> Judge:
    """Boost code with a docstring."""

    def judge(ranking: Ranking, defined: Defined) -> Ranking:
        def factor(candidate: Candidate) -> float:
            has_docstring = any(symbol.documented for symbol in defined.get(candidate, ()))
            return documented if has_docstring else 1.0

        return _multiply(ranking, "docstring", factor, lambda _: "it is documented")

    return judge


def demote_large(ranking: Ranking) -> Ranking:
    """Demote chunks that are too large for one answer."""

    def factor(candidate: Candidate) -> float:
        size = candidate.place.end - candidate.place.start
        return next((counts for least, counts in LARGE if size >= least), 1.0)

    return _multiply(
        ranking, "size", factor, lambda c: f"{c.place.end - c.place.start:,} characters"
    )


def boost_names_by_ladder(ranking: Ranking, defined: Defined) -> Ranking:
    """Boost code by the share of the question's words in its name."""
    asked = frozenset(ranking.plan.terms)

    def rung(name: str) -> float:
        if name.lower() in (ranking.plan.text.strip().lower(), *ranking.plan.names):
            return NAME_LADDER[0][1]
        words = frozenset(terms_of(name)).difference(names_in(name))
        share = len(asked & words) / len(asked) if asked else 0.0
        return next((counts for least, counts in NAME_LADDER[1:] if share and share >= least), 1.0)

    def factor(candidate: Candidate) -> float:
        return max((rung(symbol.name) for symbol in defined.get(candidate, ())), default=1.0)

    return _multiply(ranking, "name", factor, lambda _: "its name has words of the question")


def boost_path_words(ranking: Ranking) -> Ranking:
    """Boost code by the share of the question's words in its path."""
    asked = frozenset(ranking.plan.terms)

    def factor(candidate: Candidate) -> float:
        share = len(asked.intersection(terms_of(candidate.place.uri))) / (len(asked) or 1)
        return 1 + (PATH - 1) * share

    return _multiply(ranking, "path words", factor, lambda _: "its path has words of the question")


def _multiply(
    ranking: Ranking,
    stage: str,
    factor: Callable[[Candidate], float],
    note: Callable[[Candidate], str],
) -> Ranking:
    """Multiply the scores of code by a factor."""
    if "code" not in ranking.candidates.kinds:
        return ranking
    added = [
        (factor(candidate) - 1) * score if candidate.place.lane == "code" else 0.0
        for candidate, score in zip(ranking.candidates, ranking.scores, strict=True)
    ]
    return ranking.add_step(stage, added, note) if any(added) else ranking
