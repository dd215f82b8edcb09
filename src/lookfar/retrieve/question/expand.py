"""The question as the corpus bears it out: what it can be asked, and in which other words.

Takes: plans with the snapshots they are for, and the settings. Gives: plans that know which
words nobody wrote, what to search for instead or besides, and what was not to be had as
asked. Refuses: to replace a word that is known; and to widen a question that a hypothesis
stands in for.

Synonyms and concepts add recall and never push out an exact match. A word that nobody wrote
is searched for by its other spelling (``k8s`` for ``kubernetes``), else by the nearest word.
Words for the same thing bring in documents that nothing else found, and lift those that hold
one by less than a passage that has the word itself: see :mod:`lookfar.retrieve.stages.wording`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lookfar.model import Filters, Incomplete
from lookfar.retrieve.question.admission import resolve_globs
from lookfar.retrieve.question.concepts import load_concepts
from lookfar.retrieve.question.plan import add_words
from lookfar.retrieve.question.synonyms import find_spellings, find_synonyms, parse_own_synonyms
from lookfar.retrieve.question.typos import count_allowed_typos, find_nearest
from lookfar.store.keywords.analyser import terms_of

if TYPE_CHECKING:
    from lookfar.config import SearchSettings
    from lookfar.ports import Snapshot
    from lookfar.retrieve.ranking import Plan, QuestionKind

Asked = Sequence[tuple["Plan", "Snapshot"]]

_TRUST: Mapping[QuestionKind, float] = {"identifier": 0.0}
"""How far meaning is asked, by the kind of the question; not named here, as far as the model
knows its words. An identifier has a spelling, and no meaning to be near to."""
_READ_FOR_OPTIONS = 20
_WORDS = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")


def ground_plans(asked: Asked, settings: SearchSettings) -> tuple[list[Plan], list[Incomplete]]:
    """The plans as their collections together bear them out, and what was asked in vain."""
    snapshots = [snapshot for _, snapshot in asked]
    plans = _resolve_dashed([plan for plan, _ in asked], snapshots)
    plans, notes = _drop_unknown_phrases(plans, snapshots)
    first = plans[0]
    if first.mode != "vector" and not first.hypothesis:
        unknown = [term for term in first.terms if not any(s.knows(term) for s in snapshots)]
        others: dict[str, tuple[str, ...]] = {}
        if settings.expansion:
            widened = (
                first.terms if settings.expand_known else _terms_to_widen(first, unknown, settings)
            )
            others = find_synonyms(widened, settings.synonyms, settings.max_expansions)
            others = _keep_known(others, snapshots)
        instead = {
            term: spelt
            for term in unknown
            if (
                spelt := tuple(
                    o for o in others.get(term, ()) if o in find_spellings(term, settings.synonyms)
                )
            )
        }
        others = {term: found for term, found in others.items() if term not in instead}
        if settings.typos:
            # A word that has synonyms is no slip.
            left = [term for term in unknown if term not in instead and term not in others]
            instead |= _correct_typos(first, left, snapshots)
        notes += _note_replacements(instead, first.text, snapshots)
        plans = [replace(plan, instead=instead, alike=others) for plan in plans]
    if settings.concepts and not first.hypothesis:
        plans = [_add_concepts(p, s, settings) for p, s in zip(plans, snapshots, strict=True)]
    if settings.adaptive:
        plans = [replace(p, vector_trust=p.vector_trust * _TRUST.get(p.kind, 1.0)) for p in plans]
    return plans, notes


def _terms_to_widen(plan: Plan, unknown: Sequence[str], settings: SearchSettings) -> list[str]:
    """Terms that nobody wrote here, and those for which the user named others."""
    named = parse_own_synonyms(settings.synonyms)
    return [term for term in plan.terms if term in unknown or term in named]


def _resolve_dashed(plans: list[Plan], snapshots: Sequence[Snapshot]) -> list[Plan]:
    """Words after a dash: options where some text writes them so, else what is not wanted."""
    dashed = plans[0].dashed
    if not dashed:
        return plans
    options = [
        word for word in dashed if any(_is_written_as_option(s, word, plans[0]) for s in snapshots)
    ]
    refused = tuple(word for word in dashed if word not in options)
    return [
        replace(
            add_words(plan, options) if options else plan,
            filters=replace(plan.filters, without=(*plan.filters.without, *refused)),
            dashed=(),
        )
        for plan in plans
    ]


def _is_written_as_option(snapshot: Snapshot, word: str, plan: Plan) -> bool:
    """Whether a text that holds the words of the question writes this one with its dash."""
    option = re.compile(rf"(?<![\w-])-{re.escape(word)}(?![\w-])")
    terms = {**dict.fromkeys(plan.terms, 0.1), **dict.fromkeys(terms_of(word), 1.0)}
    fields = {"body": 1.0, "code": 1.0}
    filters = resolve_globs(plan.filters, snapshot)
    found = snapshot.keyword_search(terms, fields, _READ_FOR_OPTIONS, filters)
    for place, _ in found:
        text = snapshot.text(place.uri) or ""
        if option.search(text[place.start : place.end]):
            return True
    return False


def _drop_unknown_phrases(
    plans: list[Plan], snapshots: Sequence[Snapshot]
) -> tuple[list[Plan], list[Incomplete]]:
    """Phrases that nobody wrote are told, and searched as words."""
    asked = plans[0].filters.phrases
    if not asked:
        return plans, []
    filters = [resolve_globs(p.filters, s) for p, s in zip(plans, snapshots, strict=True)]

    def held(phrase: str, *others: str) -> bool:
        """Whether a passage that may answer holds all of these."""
        return any(
            snapshot.holding(phrase, replace(admitted, phrases=others))
            for snapshot, admitted in zip(snapshots, filters, strict=True)
        )

    kept = list(dict.fromkeys(asked))
    notes: list[Incomplete] = []
    for phrase in tuple(kept):
        if not held(phrase):
            kept.remove(phrase)
            notes.append(
                Incomplete("no_phrase", f'nothing holds "{phrase}"; its words are searched')
            )
    if len(kept) > 1 and not held(*kept):
        listed = ", ".join(f'"{phrase}"' for phrase in kept)
        notes.append(Incomplete("no_phrase", f"no passage holds all of {listed}"))
        kept = []
    return [replace(p, filters=replace(p.filters, phrases=tuple(kept))) for p in plans], notes


def _keep_known(
    others: Mapping[str, Sequence[str]], snapshots: Sequence[Snapshot]
) -> dict[str, tuple[str, ...]]:
    """Of synonyms those that somebody wrote."""
    known = {
        term: tuple(each for each in found if any(s.knows(each) for s in snapshots))
        for term, found in others.items()
    }
    return {term: found for term, found in known.items() if found}


def _correct_typos(
    plan: Plan, unknown: Sequence[str], snapshots: Sequence[Snapshot]
) -> dict[str, tuple[str, ...]]:
    """For each unknown term the nearest known one, if there is one near enough."""
    found: dict[str, tuple[str, ...]] = {}
    for term in unknown:
        if term in plan.names or not count_allowed_typos(term):
            continue
        best = find_nearest(
            term, lambda prefix: [w for s in snapshots for w in s.vocabulary(prefix)]
        )
        if best:
            found[term] = (best,)
    return found


def _note_replacements(
    instead: Mapping[str, Sequence[str]], text: str, snapshots: Sequence[Snapshot]
) -> list[Incomplete]:
    """Who reads the answer is told what was searched in place of which word."""
    return [
        Incomplete(
            "corrected",
            f"nothing holds {_find_word(term, text)}; searched instead: "
            + ", ".join(_spell_out(each, snapshots) for each in found),
        )
        for term, found in instead.items()
    ]


def _spell_out(term: str, snapshots: Sequence[Snapshot]) -> str:
    """A term as some text spells it: people know words, not stems."""
    for snapshot in snapshots:
        for place, _ in snapshot.keyword_search([term], {"body": 1.0, "code": 1.0}, 1, Filters()):
            text = (snapshot.text(place.uri) or "")[place.start : place.end]
            return _find_word(term, text).lower()
    return term


def _find_word(term: str, text: str) -> str:
    """The first word of a text that is of this stem."""
    words = (found[0] for found in _WORDS.finditer(text))
    return next((word for word in words if term in terms_of(word)), term)


def _add_concepts(plan: Plan, snapshot: Snapshot, settings: SearchSettings) -> Plan:
    # A model that is slow or paid for is not asked for thousands of words.
    if plan.vector is None or plan.embedder is None or not plan.embedder.quick:
        return plan
    near = load_concepts(snapshot, plan.embedder).nearest(
        plan.vector, settings.concept_terms, settings.concept_threshold, plan.terms
    )
    return replace(plan, concepts=near)
