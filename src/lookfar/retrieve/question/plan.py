"""Make a plan from the text of a question: filters, terms and a vector."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Final, get_args

from lookfar.common.conditions import parse_conditions
from lookfar.config import SearchSettings
from lookfar.errors import InvalidArgument, ModelUnavailable
from lookfar.model import Filters, Mode
from lookfar.ports import Embedder, QualityQuery, SecondModel
from lookfar.retrieve.question.query import (
    LONG,
    Question,
    find_origin,
    find_title,
    list_paths,
    parse_question,
)
from lookfar.retrieve.ranking import Plan
from lookfar.store.keywords.analyser import names_in, terms_of

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

PATH: Final = 0.3
"""The weight of a word in the path, which is not a setting."""


def field_weights(settings: SearchSettings) -> tuple[dict[str, float], dict[str, float]]:
    """Return the weights of the fields of a chunk, and of those of a whole document."""
    chunk = {"headings": settings.headings_weight, "tags": settings.tags_weight}
    page = {"title": settings.title_weight, "description": settings.description_weight}
    page |= {"aliases": settings.aliases_weight, "keywords": settings.keywords_weight}
    return chunk | {"code": settings.code_weight, "body": 1.0}, page | {"path": PATH, "page": 1.0}


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
    _check_arguments(text, mode, top_k, filters)
    for written, named in ((text, "query"), (hypothesis or text, "hypothesis")):
        if not written.strip():
            raise InvalidArgument(f"The {named} is empty.", hint="Write a question or some words.")
        if not written.isascii():
            _check_characters(written, f"The {named}")
        if len(written) > _LONGEST_QUERY:
            raise InvalidArgument(
                f"The {named} has {len(written):,} characters.",
                hint=f"Use at most {_LONGEST_QUERY:,}.",
            )
    if not 1 <= top_k <= _MOST_RESULTS:
        raise InvalidArgument(
            f"top_k is {top_k}.", hint=f"Use a number from 1 to {_MOST_RESULTS:,}."
        )
    if mode == "vector" and embedder is None:
        raise ModelUnavailable(
            "Vector search needs an embedding model, and none is configured.",
            hint="Use mode keyword, or set embed.provider to static.",
        )
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
    # A text that only the model reads has no syntax.
    question = (
        parse_question(text) if text != hypothesis else Question(text, (), (), (), "question")
    )
    terms = terms_of(question.text)
    significant = [term for term in terms if not is_stop_word(term)] or terms
    embedded = hypothesis or question.text
    vector, trust = None, 0.0
    if embedder is not None:
        if hypothesis:  # It is embedded as a document is.
            vector = embedder.embed([hypothesis])[0]
        elif mode != "keyword":
            vector = embedder.embed_query(embedded)
        letters = len(_WORD_CHARACTERS.findall(embedded))
        per_token = letters / (embedder.count_tokens(embedded) or math.inf)
        trust = min(1.0, max(0.0, (per_token - _SPELT_OUT) / (_KNOWN - _SPELT_OUT)))
    title, paths = None, []
    if len(text) >= LONG and not hypothesis and (line := find_title(text)):
        title = make_plan(line, mode=mode, top_k=top_k, filters=filters, embedder=embedder)
        paths = list_paths(text)
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
        # A vector of zeros says that the model knows no word of the question.
        vector=vector if vector is not None and vector.any() else None,
        vector_trust=trust,
        kind=question.kind,
        dashed=question.dashed,
        required=question.phrases,
        excluded=question.without,
        hypothesis=bool(hypothesis),
        embedder=embedder,
        title=title,
        paths=tuple(dict.fromkeys(paths)),
        origin=find_origin(text, paths) if paths else "",
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
    _check_arguments(text, "vector", 1, filters)
    _check_characters(text, "The text")
    # All distances to a text without known words are 1, like those to a zero vector.
    return Plan(text, "vector", 1, filters, (), {}, embedder.embed([text])[0], 1.0)


def make_line_plan(pattern: str, filters: Filters) -> Plan:
    """Return a plan for line search, which does not parse the pattern."""
    _check_arguments(pattern, "keyword", 1, filters)
    return Plan(pattern, "keyword", 1, filters, (), {}, None, 0.0)


def add_words(plan: Plan, words: Sequence[str]) -> Plan:
    """Return the plan with these words added to the question."""
    text = " ".join((plan.text, *words))
    added = [term for term in terms_of(text) if term not in plan.terms and not is_stop_word(term)]
    vector = plan.vector
    if vector is not None and plan.embedder is not None and not plan.hypothesis:
        vector = plan.embedder.embed_query(text)
    terms = (*plan.terms, *added)[:_MOST_TERMS]
    return replace(plan, text=text, terms=terms, names=names_in(text), vector=vector)


def _check_characters(text: str, named: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidArgument(
            f"{named} contains a lone surrogate.", hint="Send valid Unicode text."
        )


def _check_arguments(text: object, mode: object, top_k: object, filters: object) -> None:
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
