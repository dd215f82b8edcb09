"""The question, understood: terms for the keyword index, a vector for the other.

Takes: the text of a query and the settings. Gives: a plan. Refuses: empty
questions, limits out of range, and vector search without a model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, get_args

from lookfar.errors import InvalidArgument, ModelUnavailable
from lookfar.model import Filters, Mode
from lookfar.retrieve.ranking import Plan
from lookfar.store.analyser import names_in, terms_of

if TYPE_CHECKING:
    from lookfar.ports import Embedder

_LONGEST_QUERY = 10_000
_MOST_RESULTS = 1_000
_MOST_TERMS = 256

# Words that say nothing about a topic. They are dropped only while other words remain.
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
# A single kana is a particle or a piece of a word; pairs of them carry the meaning.
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fc]")
_WORD_CHARACTERS = re.compile(r"[^\W_]")

# Characters per token: a model that spells a text out letter by letter does not know its words.
_SPELT_OUT, _KNOWN = 1.5, 2.0


def make_plan(
    text: str, *, mode: Mode, top_k: int, filters: Filters, embedder: Embedder | None
) -> Plan:
    """Read the question once, for all stages."""
    _check_types(text, mode, top_k, filters)
    if not text.strip():
        raise InvalidArgument("The query is empty.", hint="Ask for something.")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidArgument(
            "The query holds half of a character.", hint="Send valid Unicode text."
        )
    if len(text) > _LONGEST_QUERY:
        raise InvalidArgument(
            f"The query has {len(text):,} characters.",
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
    terms = terms_of(text)
    telling = [term for term in terms if not _says_nothing(term)] or terms
    vector = embedder.embed([text])[0] if embedder and mode != "keyword" else None
    if vector is not None and not vector.any():
        vector = None  # No word that the model knows: it has nothing to say.
    names = names_in(text)
    trust = _trust(text, embedder) if embedder and not _is_a_name(text, names) else 0.0
    return Plan(
        text=text,
        mode=mode,
        top_k=top_k,
        filters=filters,
        terms=tuple(telling[:_MOST_TERMS]),
        names=names,
        vector=vector,
        vector_trust=trust,
    )


def _check_types(text: object, mode: object, top_k: object, filters: object) -> None:
    """Callers without a type checker get an answer, too."""
    if not isinstance(text, str):
        raise InvalidArgument("The query is not a text.", hint="Pass a str.")
    if mode not in get_args(Mode):
        modes = ", ".join(get_args(Mode))
        raise InvalidArgument(f"There is no mode {mode!r}.", hint=f"Modes: {modes}.")
    if not isinstance(top_k, int) or isinstance(top_k, bool):
        raise InvalidArgument(f"top_k is {top_k!r}.", hint="Pass a whole number.")
    if not isinstance(filters, Filters):
        raise InvalidArgument("The filters are no Filters.", hint="Pass lookfar.Filters(...).")
    for name in ("uris", "tags", "lanes", "languages"):
        if isinstance(getattr(filters, name), str):
            raise InvalidArgument(f"Filters.{name} is a str.", hint="Pass a tuple of them.")


def _says_nothing(term: str) -> bool:
    return term in _FUNCTION_WORDS or (len(term) == 1 and _KANA.match(term) is not None)


def _is_a_name(text: str, names: Mapping[str, Sequence[str]]) -> bool:
    """Whether the question is one identifier: that has a spelling, and no meaning to be near to."""
    return bool(names) and len(text.split()) == 1 and not text.strip().replace("-", "").islower()


def _trust(text: str, embedder: Embedder) -> float:
    """How far the fusion may lean on the model for this question, whatever its language."""
    tokens = embedder.count_tokens(text)
    letters = len(_WORD_CHARACTERS.findall(text))
    if not tokens:
        return 0.0
    return min(1.0, max(0.0, (letters / tokens - _SPELT_OUT) / (_KNOWN - _SPELT_OUT)))
