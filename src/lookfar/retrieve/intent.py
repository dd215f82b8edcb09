"""What kind of answer a question asks for, as far as its words tell.

Takes: the text of a question. Gives: whether it is about what happened. Refuses: to guess
from less than a phrase that people use for it.
"""

from __future__ import annotations

import re

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


def asks_for_history(text: str) -> bool:
    """Whether a question is about what happened, not about what is."""
    return _HISTORY.search(text) is not None
