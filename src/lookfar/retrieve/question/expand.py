"""Adapt a question to the corpus: correct typos, add synonyms, drop phrases that do not occur.

A word that does not occur is replaced by its other spelling (``k8s`` for ``kubernetes``), otherwise
by the nearest word. Synonyms boost a passage by less than the word itself would.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from lookfar.config import SearchSettings
from lookfar.model import Filters, Incomplete
from lookfar.ports import Snapshot
from lookfar.retrieve.question.admission import resolve_globs
from lookfar.retrieve.question.concepts import load_concepts
from lookfar.retrieve.question.plan import add_words
from lookfar.retrieve.question.synonyms import find_spellings, find_synonyms, parse_own_synonyms
from lookfar.retrieve.question.typos import count_allowed_typos, find_nearest
from lookfar.retrieve.ranking import Plan, QuestionKind
from lookfar.store.keywords.analyser import terms_of

Asked = Sequence[tuple["Plan", "Snapshot"]]

_TRUST: Mapping[QuestionKind, float] = {"identifier": 0.0}
"""Factor for vector scores by kind of question, 1 if not listed. An identifier has a spelling but
no meaning to compare."""
_READ_FOR_OPTIONS = 20
_MOST_WORDS = 50_000
"""Words of one first letter that a misspelt word is compared with, the most frequent ones."""
_WORDS = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")


def ground_plans(asked: Asked, settings: SearchSettings) -> tuple[list[Plan], list[Incomplete]]:
    """Adapt plans to their collections; return them with notes on what was not possible."""
    snapshots = [snapshot for _, snapshot in asked]
    plans = _resolve_dashed([plan for plan, _ in asked], snapshots)
    plans, notes = _drop_unknown_phrases(plans, snapshots)
    first = plans[0]
    notes += _note_operators(first)
    if first.mode != "vector" and not first.hypothesis:
        known_terms = _find_known(first.terms, snapshots)
        unknown = [term for term in first.terms if term not in known_terms]
        others: dict[str, tuple[str, ...]] = {}
        if settings.expansion:
            widened = (
                first.terms if settings.expand_known else _terms_to_widen(first, unknown, settings)
            )
            others = find_synonyms(
                widened, settings.synonyms, settings.max_expansions, related=settings.related_words
            )
            others = _keep_known(others, snapshots)
        instead = {}
        for term in unknown:
            spellings = find_spellings(term, settings.synonyms)
            known = tuple(other for other in others.get(term, ()) if other in spellings)
            if known:
                instead[term] = known
        others = {term: synonyms for term, synonyms in others.items() if term not in instead}
        if settings.typos:
            # A word with synonyms is not a typo.
            left = [term for term in unknown if term not in instead and term not in others]
            instead |= _correct_typos(first, left, snapshots)
        notes += _note_replacements(instead, first.text, snapshots)
        plans = [replace(plan, replacements=instead, synonyms=others) for plan in plans]
    if settings.concepts and not first.hypothesis:
        plans = [_add_concepts(p, s, settings) for p, s in zip(plans, snapshots, strict=True)]
    if settings.adaptive:
        plans = [replace(p, vector_trust=p.vector_trust * _TRUST.get(p.kind, 1.0)) for p in plans]
    return plans, notes


def _terms_to_widen(plan: Plan, unknown: Sequence[str], settings: SearchSettings) -> list[str]:
    """Return the terms that do not occur, and those with synonyms in the settings."""
    named = parse_own_synonyms(settings.synonyms)
    return [term for term in plan.terms if term in unknown or term in named]


def _resolve_dashed(plans: list[Plan], snapshots: Sequence[Snapshot]) -> list[Plan]:
    """Exclude words after a dash, unless some text writes them with a dash, as an option."""
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
            excluded=(*plan.excluded, *refused),
            dashed=(),
        )
        for plan in plans
    ]


def _is_written_as_option(snapshot: Snapshot, word: str, plan: Plan) -> bool:
    """Return whether a text that matches the question contains ``-word``."""
    option = re.compile(rf"(?<![\w-])-{re.escape(word)}(?![\w-])")
    terms = {**dict.fromkeys(plan.terms, 0.1), **dict.fromkeys(terms_of(word), 1.0)}
    fields = {"body": 1.0, "code": 1.0}
    filters = resolve_globs(plan.filters, snapshot)
    places = snapshot.keyword_search(terms, fields, _READ_FOR_OPTIONS, filters)
    for place, _ in places:
        text = snapshot.text(place.uri) or ""
        if option.search(text[place.start : place.end]):
            return True
    return False


def _drop_unknown_phrases(
    plans: list[Plan], snapshots: Sequence[Snapshot]
) -> tuple[list[Plan], list[Incomplete]]:
    """Search phrases that do not occur as single words, and note that."""
    asked = plans[0].filters.phrases
    if not asked:
        return plans, []
    filters = [resolve_globs(p.filters, s) for p, s in zip(plans, snapshots, strict=True)]

    def occurs(phrase: str, *others: str) -> bool:
        """Return whether any admitted passage contains all of these."""
        return any(
            snapshot.holding(phrase, replace(admitted, phrases=others))
            for snapshot, admitted in zip(snapshots, filters, strict=True)
        )

    phrases = list(dict.fromkeys(asked))
    notes: list[Incomplete] = []
    for phrase in tuple(phrases):
        if not occurs(phrase):
            phrases.remove(phrase)
            notes.append(
                Incomplete(
                    "no_phrase", f'no passage contains "{phrase}"; searched its words instead'
                )
            )
    if len(phrases) > 1 and not occurs(*phrases):
        listed = ", ".join(f'"{phrase}"' for phrase in phrases)
        notes.append(
            Incomplete(
                "no_phrase", f"no passage contains all of {listed}; searched their words instead"
            )
        )
        phrases = []
    return [replace(p, filters=replace(p.filters, phrases=tuple(phrases))) for p in plans], notes


def _note_operators(plan: Plan) -> list[Incomplete]:
    """Return a note if the syntax of the question left passages out."""
    required = [f'with "{phrase}"' for phrase in plan.required if phrase in plan.filters.phrases]
    excluded = [f'without "{word}"' for word in plan.excluded]
    if not required and not excluded:
        return []
    return [Incomplete("understood", f"only passages {' and '.join([*required, *excluded])}")]


def _keep_known(
    others: Mapping[str, Sequence[str]], snapshots: Sequence[Snapshot]
) -> dict[str, tuple[str, ...]]:
    """Keep the synonyms that occur in some collection."""
    known_terms = _find_known([s for synonyms in others.values() for s in synonyms], snapshots)
    known = {
        term: tuple(synonym for synonym in synonyms if synonym in known_terms)
        for term, synonyms in others.items()
    }
    return {term: synonyms for term, synonyms in known.items() if synonyms}


def _find_known(terms: Collection[str], snapshots: Sequence[Snapshot]) -> set[str]:
    """Return the terms that occur in some collection."""
    known: set[str] = set()
    return known.union(*(snapshot.known_terms(terms) for snapshot in snapshots))


def _correct_typos(
    plan: Plan, unknown: Sequence[str], snapshots: Sequence[Snapshot]
) -> dict[str, tuple[str, ...]]:
    """Return the nearest known term for each unknown term that seems to be misspelt."""
    corrections: dict[str, tuple[str, ...]] = {}
    for term in unknown:
        if term in plan.names or not count_allowed_typos(term):
            continue
        best = find_nearest(
            term,
            partial(_list_words, snapshots, range(len(term) - 2, len(term) + 3)),
            lambda known: any(
                s.page_search([known], {"page": 1.0}, 1, Filters()) for s in snapshots
            ),
        )
        if best:
            corrections[term] = (best,)
    return corrections


def _list_words(
    snapshots: Sequence[Snapshot], lengths: Iterable[int], letter: str
) -> list[tuple[str, int]]:
    """Return the words of these lengths that begin with a letter, and how often each occurs."""
    tables = [
        # Kept, because every letter of a word that a user types asks for it.
        snapshot.cached(f"words with {letter}", partial(_group_words, snapshot, letter))
        for snapshot in snapshots
    ]
    return [word for table in tables for length in lengths for word in table.get(length, ())]


def _group_words(snapshot: Snapshot, letter: str) -> Mapping[int, Sequence[tuple[str, int]]]:
    """Return the words that begin with a letter, by length."""
    table: dict[int, list[tuple[str, int]]] = {}
    for word, count in snapshot.vocabulary(letter, _MOST_WORDS):
        if word.isalpha():
            table.setdefault(len(word), []).append((word, count))
    return table


def _note_replacements(
    instead: Mapping[str, Sequence[str]], text: str, snapshots: Sequence[Snapshot]
) -> list[Incomplete]:
    """Return notes on which words were replaced."""
    return [
        Incomplete(
            "corrected",
            f"no document contains {_find_word(term, text)}; also searched: "
            + ", ".join(_spell_out(replacement, snapshots) for replacement in replacements),
        )
        for term, replacements in instead.items()
    ]


def _spell_out(term: str, snapshots: Sequence[Snapshot]) -> str:
    """Return the form of a term that some text uses, since users know words and not stems."""
    for snapshot in snapshots:
        for place, _ in snapshot.keyword_search([term], {"body": 1.0, "code": 1.0}, 1, Filters()):
            text = (snapshot.text(place.uri) or "")[place.start : place.end]
            return _find_word(term, text).lower()
    return term


def _find_word(term: str, text: str) -> str:
    """Return the first word of a text with this stem."""
    words = (match[0] for match in _WORDS.finditer(text))
    return next((word for word in words if term in terms_of(word)), term)


_NEAR: Final = 0.4
"""Cosine similarity above which a term is near a question."""


def _add_concepts(plan: Plan, snapshot: Snapshot, settings: SearchSettings) -> Plan:
    # Embedding thousands of words would take too long or cost too much with other models.
    if plan.vector is None or plan.embedder is None or not plan.embedder.quick:
        return plan
    near = load_concepts(snapshot, plan.embedder).nearest(
        plan.vector, settings.concept_terms, _NEAR, plan.terms
    )
    return replace(plan, concepts=near)
