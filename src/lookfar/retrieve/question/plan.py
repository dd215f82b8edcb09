"""Make a plan from the text of a question: filters, terms and a vector."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, get_args

from lookfar.common.conditions import parse_conditions
from lookfar.errors import InvalidArgument, ModelUnavailable
from lookfar.model import Filters, Mode
from lookfar.ports import Embedder, QualityQuery, SecondModel
from lookfar.retrieve.question.long_question import find_origin, find_title, list_paths
from lookfar.retrieve.question.query import Question, parse_question
from lookfar.retrieve.ranking import Plan
from lookfar.store.keywords.analyser import names_in, terms_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LONGEST_QUERY = 50_000
_MOST_RESULTS = 1_000
_MOST_TERMS = 256

# Words without a topic. They are dropped unless nothing else remains.
_FUNCTION_WORDS = frozenset(
    terms_of(
        """
    a about an and any are as at be been but by can could did do does for from get had has have
    how i if in into is it its just me my no not of on or our should so some such than that the
    their them then there these they this those to us was we were what when where which who why
    will with would you your
    """
    )
)
# A single kana is a particle or part of a word; pairs of kana carry the meaning.
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fc]")
_WORD_CHARACTERS = re.compile(r"[^\W_]")

# Characters per token: a model that needs a token per letter does not know the words.
_SPELT_OUT, _KNOWN = 1.5, 2.0


def make_plan(
    text: str,
    *,
    mode: Mode,
    top_k: int,
    filters: Filters,
    embedder: Embedder | None,
    hypothesis: str = "",
) -> Plan:
    """Check the arguments and parse the question.

    With a ``hypothesis``, a guess at the answer, the model embeds that instead of the question.
    """
    _check_types(text, mode, top_k, filters)
    _check_text(text, "query")
    _check_text(hypothesis or text, "hypothesis")
    if not 1 <= top_k <= _MOST_RESULTS:
        raise InvalidArgument(
            f"top_k is {top_k}.", hint=f"Use a number from 1 to {_MOST_RESULTS:,}."
        )
    if mode == "vector" and embedder is None:
        raise ModelUnavailable(
            "Vector search needs an embedding model, and none is configured.",
            hint="Use mode keyword, or set embed.provider to static.",
        )
    _check_hypothesis(hypothesis, mode, embedder)
    # A text that only the model reads has no syntax.
    question = (
        parse_question(text) if text != hypothesis else Question(text, (), (), (), "question")
    )
    terms = terms_of(question.text)
    significant = [term for term in terms if not is_stop_word(term)] or terms
    embedded = hypothesis or question.text
    title = None if hypothesis else _plan_title(text, mode, top_k, filters, embedder)
    paths = list_paths(text) if title else []
    return Plan(
        text=question.text,
        mode=mode,
        top_k=top_k,
        filters=replace(
            filters,
            phrases=(*filters.phrases, *question.phrases),
            without=(*filters.without, *question.without),
        ),
        terms=tuple(significant[:_MOST_TERMS]),
        names=names_in(question.text),
        vector=_embed(embedded, embedder, bool(hypothesis)) if mode != "keyword" else None,
        vector_trust=_measure_trust(embedded, embedder) if embedder else 0.0,
        kind=question.kind,
        dashed=question.dashed,
        required=question.phrases,
        excluded=question.without,
        hypothesis=bool(hypothesis),
        embedder=embedder,
        title=title,
        paths=tuple(dict.fromkeys(paths)),
        origin=find_origin(text, paths),
    )


def add_quality(plan: Plan, model: SecondModel, hypothesis: str = "") -> Plan:
    """Return the plan with the vector of the second model, if that understands the question."""
    text = hypothesis or plan.text
    if plan.vector is None or plan.vector_trust <= 0 or not model.reads(text):
        return plan
    vector = model.embed([text])[0] if hypothesis else model.embed_query(text)
    title = plan.title and add_quality(plan.title, model)
    return replace(plan, quality=QualityQuery(model.fingerprint, vector), title=title)


def make_vector_plan(text: str, filters: Filters, embedder: Embedder) -> Plan:
    """Return a plan that compares a text by its vector alone, without syntax or length limit.

    The text is embedded like a document, so that its distance to itself is 0.
    """
    _check_types(text, "vector", 1, filters)
    _check_characters(text, "The text")
    # All distances to a text without known words are 1, like those to a zero vector.
    return _plan_without_terms(text, "vector", filters, embedder.embed([text])[0])


def _check_hypothesis(hypothesis: str, mode: Mode, embedder: Embedder | None) -> None:
    if hypothesis and mode == "keyword":
        raise InvalidArgument(
            "A hypothesis is compared by meaning, and mode keyword compares words only.",
            hint="Use mode hybrid or vector, or leave the hypothesis empty.",
        )
    if hypothesis and embedder is None:
        raise ModelUnavailable(
            "A hypothesis needs an embedding model, and none is configured.",
            hint="Search without a hypothesis, or set embed.provider to static.",
        )


def _plan_title(
    text: str, mode: Mode, top_k: int, filters: Filters, embedder: Embedder | None
) -> Plan | None:
    """Return a plan for the title of a long question; None for other questions."""
    title = find_title(text)
    if not title:
        return None
    return make_plan(title, mode=mode, top_k=top_k, filters=filters, embedder=embedder)


def make_line_plan(pattern: str, filters: Filters) -> Plan:
    """Return a plan for line search, which does not parse the pattern."""
    _check_types(pattern, "keyword", 1, filters)
    return _plan_without_terms(pattern, "keyword", filters, None)


def _plan_without_terms(
    text: str, mode: Mode, filters: Filters, vector: NDArray[np.float32] | None
) -> Plan:
    """Return a plan for a text that is not split into words; its caller limits the results."""
    trust = 0.0 if vector is None else 1.0
    return Plan(text, mode, 1, filters, (), {}, vector, trust)


def add_words(plan: Plan, words: Sequence[str]) -> Plan:
    """Return the plan with these words added to the question."""
    text = " ".join((plan.text, *words))
    added = [term for term in terms_of(text) if term not in plan.terms and not is_stop_word(term)]
    vector = plan.vector
    if vector is not None and not plan.hypothesis:
        vector = _embed(text, plan.embedder)
    terms = (*plan.terms, *added)[:_MOST_TERMS]
    return replace(plan, text=text, terms=terms, names=names_in(text), vector=vector)


def _embed(
    text: str, embedder: Embedder | None, as_answer: bool = False
) -> NDArray[np.float32] | None:
    """Embed a question, or an answer like a document; ``None`` if the model knows no word of it."""
    if embedder is None:
        return None
    vector = embedder.embed([text])[0] if as_answer else embedder.embed_query(text)
    return vector if vector.any() else None


def _check_text(text: str, named: str) -> None:
    if not text.strip():
        raise InvalidArgument(f"The {named} is empty.", hint="Write a question or some words.")
    _check_characters(text, f"The {named}")
    if len(text) > _LONGEST_QUERY:
        raise InvalidArgument(
            f"The {named} has {len(text):,} characters.",
            hint=f"Use at most {_LONGEST_QUERY:,}.",
        )


def _check_characters(text: str, named: str) -> None:
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidArgument(
            f"{named} contains a lone surrogate.", hint="Send valid Unicode text."
        )


def _check_types(text: object, mode: object, top_k: object, filters: object) -> None:
    """Check types at run time, for callers without a type checker."""
    if not isinstance(text, str):
        raise InvalidArgument("The query must be a string.", hint="Pass a str.")
    if mode not in get_args(Mode):
        modes = ", ".join(get_args(Mode))
        raise InvalidArgument(f"{mode!r} is not a search mode.", hint=f"Use one of: {modes}.")
    if not isinstance(top_k, int) or isinstance(top_k, bool):
        raise InvalidArgument(f"top_k is {top_k!r}.", hint="Use a whole number.")
    check_filters(filters)


def check_filters(filters: object) -> None:
    """Check the types of filters at run time."""
    if not isinstance(filters, Filters):
        raise InvalidArgument(
            "filters must be a Filters object.", hint="Pass lookfar.Filters(...)."
        )
    if not filters:
        return
    for name in ("uris", "tags", "lanes", "languages", "phrases", "without", "where"):
        if isinstance(getattr(filters, name), str):
            raise InvalidArgument(
                f"Filters.{name} must be a tuple, not a string.", hint="Pass a tuple of strings."
            )
    for name in ("after", "before"):
        time = getattr(filters, name)
        if time is not None and type(time) is not int:
            raise InvalidArgument(
                f"Filters.{name} must be a time in nanoseconds since 1970, not {time!r:.60}.",
                hint="Pass an int, such as int(datetime(2026, 1, 31).timestamp()) * 10**9.",
            )
    for field in fields(filters):
        value = getattr(filters, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            _check_characters(item if isinstance(item, str) else "", f"Filters.{field.name}")
    parse_conditions(filters.where)


def is_stop_word(term: str) -> bool:
    """Return whether a term has no topic: a word such as "the", or a single kana."""
    return term in _FUNCTION_WORDS or (len(term) == 1 and _KANA.match(term) is not None)


def _measure_trust(text: str, embedder: Embedder) -> float:
    """Return how much weight the model deserves for this question, from 0 to 1."""
    tokens = embedder.count_tokens(text)
    letters = len(_WORD_CHARACTERS.findall(text))
    if not tokens:
        return 0.0
    return min(1.0, max(0.0, (letters / tokens - _SPELT_OUT) / (_KNOWN - _SPELT_OUT)))
