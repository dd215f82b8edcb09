"""Adapt a question to the corpus: correct typos, add synonyms, drop phrases that do not occur.

A word that does not occur is replaced by its other spelling (``k8s`` for ``kubernetes``), otherwise
by the nearest word by edit distance. Synonyms boost a passage by less than the word itself would.
On request, terms of the corpus whose meaning is close to the question are added. The index stores
stems but the model knows words, so the most frequent form of a stem is embedded: ``configure`` for
``configur``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from lookfar.config import SearchSettings
from lookfar.model import Filters, Incomplete
from lookfar.ports import Embedder, Snapshot
from lookfar.retrieve.question.admission import resolve_globs
from lookfar.retrieve.question.plan import add_words
from lookfar.retrieve.question.synonyms import find_spellings, find_synonyms, parse_own_synonyms
from lookfar.retrieve.ranking import Plan, QuestionKind
from lookfar.store.keywords.analyser import stem, terms_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Asked = Sequence[tuple["Plan", "Snapshot"]]

_TRUST: Mapping[QuestionKind, float] = {"identifier": 0.0}
"""Factor for vector scores by kind of question, 1 if not listed. An identifier has a spelling but
no meaning to compare."""
_READ_FOR_OPTIONS: Final = 20
_MOST_WORDS: Final = 50_000
"""Words of one first letter that a misspelt word is compared with, the most frequent ones."""
_WORDS: Final = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_SHORTEST_TYPO: Final = 4
_LONG: Final = 10
"""Length from which a word may have two typos: ``collision`` is not ``concision``."""


def ground_plans(asked: Asked, settings: SearchSettings) -> tuple[list[Plan], list[Incomplete]]:
    """Adapt plans to their collections; return them with notes on what was not possible."""
    snapshots = [snapshot for _, snapshot in asked]
    plans = [plan for plan, _ in asked]
    notes: list[Incomplete] = []
    if plans[0].dashed:
        plans = _resolve_dashed(plans, snapshots)
    if plans[0].filters.phrases:
        plans, notes = _drop_unknown_phrases(plans, snapshots)
    first = plans[0]
    kept = [f'with "{phrase}"' for phrase in first.required if phrase in first.filters.phrases]
    if understood := [*kept, *(f'without "{word}"' for word in first.excluded)]:
        notes.append(Incomplete("understood", f"only passages {' and '.join(understood)}"))

    def find_known(terms: Collection[str]) -> set[str]:
        """Return the terms that occur in some collection."""
        return set[str]().union(*(snapshot.known_terms(terms) for snapshot in snapshots))

    if first.mode != "vector" and not first.hypothesis:
        known_terms = find_known(first.terms)
        unknown = [term for term in first.terms if term not in known_terms]
        others: dict[str, tuple[str, ...]] = {}
        own = parse_own_synonyms(settings.synonyms)
        if settings.expansion:
            widened = [
                term
                for term in first.terms
                if settings.expand_known or term in unknown or term in own
            ]
            if widened:
                others = find_synonyms(
                    widened, own, settings.max_expansions, related=settings.related_words
                )
        if others:
            known_terms = find_known([s for synonyms in others.values() for s in synonyms])
            others = {
                term: known
                for term, synonyms in others.items()
                if (known := tuple(synonym for synonym in synonyms if synonym in known_terms))
            }
        instead = {}
        for term in unknown:
            if term in others:
                spellings = find_spellings(term, own)
                if spelt := tuple(other for other in others[term] if other in spellings):
                    instead[term] = spelt
        others = {term: synonyms for term, synonyms in others.items() if term not in instead}
        if settings.typos:
            # A word with synonyms is not a typo.
            left = [term for term in unknown if term not in instead and term not in others]
            instead |= {
                term: (best,)
                for term in left
                if term not in first.names and (best := _correct_typo(term, snapshots))
            }
        notes += [
            Incomplete(
                "corrected",
                f"no document contains {_find_word(term, first.text)}; also searched: "
                + ", ".join(_spell_out(replacement, snapshots) for replacement in replacements),
            )
            for term, replacements in instead.items()
        ]
        plans = [replace(plan, replacements=instead, synonyms=others) for plan in plans]
    if settings.concepts and not first.hypothesis:
        for at, (plan, snapshot) in enumerate(zip(plans, snapshots, strict=True)):
            # Embedding thousands of words would take too long or cost too much with other models.
            if plan.vector is not None and plan.embedder is not None and plan.embedder.quick:
                concepts = load_concepts(snapshot, plan.embedder)
                near = concepts.nearest(plan.vector, settings.concept_terms, _NEAR, plan.terms)
                plans[at] = replace(plan, concepts=near)
    if settings.adaptive:
        plans = [replace(p, vector_trust=p.vector_trust * _TRUST.get(p.kind, 1.0)) for p in plans]
    return plans, notes


def _resolve_dashed(plans: list[Plan], snapshots: Sequence[Snapshot]) -> list[Plan]:
    """Exclude words after a dash, unless some text writes them with a dash, as an option."""
    dashed = plans[0].dashed
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
    filters = [resolve_globs(p.filters, s) for p, s in zip(plans, snapshots, strict=True)]

    def occurs(phrase: str, *others: str) -> bool:
        """Return whether any admitted passage contains all of these."""
        return any(
            snapshot.holding(phrase, replace(admitted, phrases=others))
            for snapshot, admitted in zip(snapshots, filters, strict=True)
        )

    phrases = list(dict.fromkeys(plans[0].filters.phrases))
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


def _correct_typo(term: str, snapshots: Sequence[Snapshot]) -> str:
    """Return the nearest term that occurs, or an empty string."""

    def list_words(letter: str) -> list[tuple[str, int]]:
        """Return the words of a similar length that begin with a letter, and their frequency."""
        tables = [
            # Kept, because every letter of a word that a user types asks for it.
            snapshot.cached(f"words with {letter}", partial(_group_words, snapshot, letter))
            for snapshot in snapshots
        ]
        lengths = range(len(term) - 2, len(term) + 3)
        return [word for table in tables for length in lengths for word in table.get(length, ())]

    def occurs(known: str) -> bool:
        return any(s.page_search([known], {"page": 1.0}, 1, Filters()) for s in snapshots)

    return find_nearest(term, list_words, occurs)


def _group_words(snapshot: Snapshot, letter: str) -> Mapping[int, Sequence[tuple[str, int]]]:
    """Return the words that begin with a letter, by length."""
    table: dict[int, list[tuple[str, int]]] = {}
    for word, count in snapshot.vocabulary(letter, _MOST_WORDS):
        if word.isalpha():
            table.setdefault(len(word), []).append((word, count))
    return table


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


def find_nearest(
    term: str,
    vocabulary: Callable[[str], Iterable[tuple[str, int]]],
    occurs: Callable[[str], bool] = lambda _: True,
) -> str:
    """Return the known term nearest to an unknown one, or an empty string.

    Only terms that begin with one of its first two letters are compared, for speed. Of equally near
    terms, the most frequent is returned. ``vocabulary`` returns the known terms with a prefix and
    their numbers of documents, perhaps also terms of deleted documents; ``occurs`` tells whether a
    document still has one.
    """
    if len(term) < _SHORTEST_TYPO or not (term.isascii() and term.isalpha()):
        return ""
    most = 2 if len(term) >= _LONG else 1
    near: list[tuple[int, int, str]] = []
    letters = frozenset(term)
    for prefix in dict.fromkeys(term[:2]):
        for known, count in vocabulary(prefix):
            if abs(len(known) - len(term)) > most or not known.isalpha():
                continue
            # A typo changes at most two letters of the set, so this is a quick first check.
            if len(letters.symmetric_difference(known)) > 2 * most:
                continue
            apart = edit_distance(term, known, most)
            if apart <= most:
                near.append((apart, -count, known))
    return next((known for _, _, known in sorted(near) if occurs(known)), "")


def edit_distance(left: str, right: str, most: int) -> int:
    """Return how many letters to insert, remove, replace or swap; exact only up to ``most``."""
    if abs(len(left) - len(right)) > most:
        return most + 1
    while left and right and left[0] == right[0]:
        left, right = left[1:], right[1:]
    while left and right and left[-1] == right[-1]:
        left, right = left[:-1], right[:-1]
    before: list[int] = []
    row = list(range(len(right) + 1))
    for at, letter in enumerate(left, 1):
        older, before, row = before, row, [at]
        for to, other in enumerate(right, 1):
            cost = min(before[to] + 1, row[to - 1] + 1, before[to - 1] + (letter != other))
            swapped = at > 1 and to > 1 and letter == right[to - 2] and left[at - 2] == other
            row.append(min(cost, older[to - 2] + 1) if swapped else cost)
        if min(row) > most:
            return most + 1
    return row[-1]


_NEAR: Final = 0.4
"""Cosine similarity above which a term is near a question."""
_MOST_TERMS: Final = 20_000
_FEWEST_DOCUMENTS: Final = 2
_COMMON: Final = 0.1
"""Share of the documents above which a term is too common to be useful."""
_SHORTEST_CONCEPT: Final = 3
_MOST_READ: Final = 500
"""Documents read to find the usual form of each word."""
_PLAIN_WORD: Final = re.compile(r"[^\W\d_]{3,}")


class Concepts(NamedTuple):
    """Terms, and a unit vector for each."""

    terms: tuple[str, ...]
    vectors: NDArray[np.float16]

    def nearest(
        self,
        question: NDArray[np.float32],
        limit: int,
        threshold: float,
        besides: Collection[str] = (),
    ) -> tuple[str, ...]:
        """Return the terms closest to a question, best first, without those in ``besides``."""
        import numkong
        import numpy as np

        if not self.terms:
            return ()
        half = question.astype(np.float16).reshape(1, -1)
        scores = np.asarray(numkong.cdist(half, self.vectors, "dot")).reshape(-1)
        few = min(len(scores), limit + len(besides))
        best = np.argpartition(-scores, few - 1)[:few]
        ranked = sorted((-float(scores[at]), self.terms[at]) for at in best)
        near = [term for score, term in ranked if -score >= threshold and term not in besides]
        return tuple(near[:limit])


def load_concepts(snapshot: Snapshot, embedder: Embedder) -> Concepts:
    """Return the vocabulary of a generation; it is built on first use."""
    return snapshot.cached(
        f"concepts {embedder.fingerprint}", lambda: _build_concepts(snapshot, embedder)
    )


def _build_concepts(snapshot: Snapshot, embedder: Embedder) -> Concepts:
    import numpy as np

    most = max(_FEWEST_DOCUMENTS, int(snapshot.size() * _COMMON))
    terms = [
        term
        for term, count in snapshot.vocabulary(most=4 * _MOST_TERMS)
        if _FEWEST_DOCUMENTS <= count <= most and len(term) >= _SHORTEST_CONCEPT and term.isalpha()
    ][:_MOST_TERMS]
    if not terms:
        return Concepts((), np.empty((0, embedder.dimensions), dtype=np.float16))
    spelt = _find_spellings(snapshot, terms)
    vectors = embedder.embed([spelt[term] for term in terms])
    return Concepts(tuple(terms), vectors.astype(np.float16))


def _find_spellings(snapshot: Snapshot, terms: Collection[str]) -> dict[str, str]:
    """Return for each term the word that the texts use most often."""
    uris = snapshot.uris()
    some = uris[:: -(-len(uris) // _MOST_READ)] if uris else []
    counted: dict[str, Counter[str]] = {term: Counter() for term in terms}
    for uri in some:
        for word in _PLAIN_WORD.findall((snapshot.text(uri) or "").lower()):
            forms = counted.get(stem(word))
            if forms is not None:
                forms[word] += 1
    return {
        term: min(forms, key=lambda word: (-forms[word], word)) if forms else term
        for term, forms in counted.items()
    }
