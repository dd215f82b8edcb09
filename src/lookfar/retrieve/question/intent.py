"""Detect what kind of answer a question asks for: history, or certain kinds of code."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, Literal

from lookfar.store.keywords.analyser import terms_of

if TYPE_CHECKING:
    from lookfar.retrieve.ranking import Plan

Intent = Literal["function", "class", "error", "database", "api", "auth", "test", "config"]

_CHANGED = (
    "add|chang|remov|delet|renam|replac|drop|revert|introduc|deprecat|fix|mov|switch|stop|start"
    "|br[eo]ak|broke|disabl|enabl|migrat|rewr[io]t|merg|upgrad|downgrad|teach|taught|learn"
)
_HISTORY = re.compile(
    r"\bcommits?\b|\bchangelog\b|\bgit (?:log|blame|history)\b|\bhistory of\b"
    rf"|\b(?:when|why|who)\b.*\b(?:did|was|were|has|have|had)\b.*\b(?:we\b|{_CHANGED})"
    rf"|\bwho (?:{_CHANGED})\w*ed\b"
    r"|\bwhat (?:has )?changed\b|\bwhich change\b|\bchanges? since\b",
    re.IGNORECASE,
)

HISTORY_TERMS: Final = frozenset(
    terms_of("commit change changed changelog history since version release when why who what")
)
"""Terms that ask for history and say nothing about its topic."""

_ABOUT_TESTS: Final = frozenset(terms_of("test spec mock fixture"))

_WORDS: Final[Mapping[Intent, str]] = {
    "function": "function func method def callback subroutine procedure",
    "class": "class interface struct type enum trait model component object",
    "error": "error exception fail failure crash panic raise throw traceback fault invalid",
    "database": "database db sql query table schema migration orm transaction postgres sqlite",
    "api": "api endpoint route router rest http request response handler controller graphql",
    "auth": "auth authentication authorization login logout password credential token"
    " permission oauth jwt session",
    "test": "test spec mock fixture assert assertion stub",
    "config": "config configuration setting option env environment preference default",
}
INTENTS: Final[Mapping[Intent, frozenset[str]]] = {
    intent: frozenset(terms_of(words)) for intent, words in _WORDS.items()
}
"""Terms that reveal what a question, or a piece of code, is about."""


def asks_for_history(text: str) -> bool:
    """Return whether a question asks what happened, as opposed to how things are."""
    return _HISTORY.search(text) is not None


def asks_about_tests(plan: Plan) -> bool:
    """Return whether a question is about tests, which otherwise stand back."""
    return not _ABOUT_TESTS.isdisjoint(plan.topics)


def wants_commits(plan: Plan) -> bool:
    """Return whether commits are asked for, by a filter or by the question itself."""
    return "commits" in plan.filters.lanes or asks_for_history(plan.text)


def detect_intents(terms: Collection[str]) -> tuple[Intent, ...]:
    """Return the kinds of code that the terms of a question, or of a name, are about."""
    return tuple(intent for intent, words in INTENTS.items() if not words.isdisjoint(terms))
