"""The question, understood: terms for the keyword index, a vector for the other.

Takes: the text of a query and the settings. Gives: a plan. Refuses: empty
questions, limits out of range, and vector search without a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lookfar.errors import InvalidArgument, ModelUnavailable
from lookfar.model import Filters, Mode
from lookfar.retrieve.ranking import Plan
from lookfar.store.analyser import terms_of

if TYPE_CHECKING:
    from lookfar.ports import Embedder

_LONGEST_QUERY = 10_000
_MOST_RESULTS = 1_000
_MOST_TERMS = 64

# Words that say nothing about a topic. They are dropped only while other words remain.
_FUNCTION_WORDS = frozenset(
    "a about an and any are as at be been but by can could did do does for from get had has hav how"
    " i if in into is it its just me my no not of on or our should so some such than that the their"
    " them then there these they this those to us was we were what when where which who whi will"
    " with would you your".split()
)


def make_plan(
    text: str, *, mode: Mode, top_k: int, filters: Filters, embedder: Embedder | None
) -> Plan:
    """Read the question once, for all stages."""
    if not text.strip():
        raise InvalidArgument("The query is empty.", hint="Ask for something.")
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
    telling = [term for term in terms if term not in _FUNCTION_WORDS] or terms
    vector = embedder.embed([text])[0] if embedder and mode != "keyword" else None
    return Plan(text, mode, top_k, filters, tuple(telling[:_MOST_TERMS]), vector)
