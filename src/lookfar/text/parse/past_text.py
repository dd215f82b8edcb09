"""Recognise text about the past: change logs, upgrade guides, and sentences on what was removed."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

from lookfar.model import Document

_PAST_FILES: Final = re.compile(
    r"(^|/)(change(s|log)?|history|news|release[-_ ]?notes?|releases?|whats?[-_ ]?new|migrat\w*|"
    r"upgrad\w*|blog|archive|adrs?|rfcs?|seps?|peps?|proposals?|roadmap|"
    r"authors|credits|contributors|thanks|_?posts)([-_./\d]|$)",
    re.IGNORECASE,
)
_PAST_HEADINGS: Final = re.compile(
    r"change ?log|release|deprecat|removed?\b|removal|upgrad|migrat|histor|what'?s new|"
    r"^v(ersion)? ?\d|^\d+\.\d+",
    re.IGNORECASE,
)
_PAST_WORDS: Final = re.compile(
    r"\b(removed?|removing|removal|renamed?|deprecat\w*|obsolete|no longer|replaced|formerly|"
    r"previously|used to (?:be|have|exist|work|live|return|support)|legacy|older|prior to|"
    r"dropped|discontinued|superseded|earlier|"
    r"not (?:yet )?(?:available|supported|implemented)|does(?: not|n't) exist|third[- ]party|"
    r"any ?more|in the past|originally|lower than|backwards?[- ]compatib\w*|proposes?|proposal|"
    r"before (?:version )?v?\d|until (?:version )?v?\d|in (?:version )?v?\d+\.\d+)",
    re.IGNORECASE,
)
_PAST_DIRECTIVE: Final = re.compile(
    r"^[ \t]*(?:\.\.|:{3,}|`{3,}|!!!)[ \t]*\{?(version(?:added|changed|removed)|deprecated)\b"
)
_ITEM: Final = re.compile(r"^[ \t]*(?:[-*+]|\d+[.)]|#\.)[ \t]+|^[ \t]*\|", re.MULTILINE)
"""The start of a list item, or of a row of a table."""


def is_about_the_past(uri: str) -> bool:
    """Whether a whole document is a record of changes, or says how to upgrade."""
    return _PAST_FILES.search(uri) is not None


class PastText:
    """Tells which parts of a document are about the past."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._starts = [section.span.start for section in document.sections]

    def covers(self, offset: int) -> bool:
        """Whether the headings, the paragraph or the list item around an offset say so."""
        number = bisect_right(self._starts, offset) - 1
        if number >= 0 and any(
            _PAST_HEADINGS.search(title) for title in self._document.sections[number].path
        ):
            return True
        text = self._document.text
        start = text.rfind("\n\n", 0, offset) + 2 if "\n\n" in text[:offset] else 0
        end = text.find("\n\n", offset)
        paragraph = text[start : end if end >= 0 else len(text)]
        if any(_PAST_WORDS.search(part) for part in self._narrow(paragraph, start, offset)):
            return True
        return self._in_directive(start)

    def _narrow(self, paragraph: str, start: int, offset: int) -> tuple[str, ...]:
        """Return the list item around an offset and what introduces the list, or the paragraph."""
        items = [match.start() for match in _ITEM.finditer(paragraph)]
        if not items:
            return (paragraph,)
        place = offset - start
        number = bisect_right(items, place) - 1
        lead = paragraph[: items[0]]
        if not lead.strip():
            before = self._document.text[:start].rstrip()
            lead = before[before.rfind("\n\n") + 1 :] if before.endswith(":") else ""
        if number < 0:
            return (lead,)
        end = items[number + 1] if number + 1 < len(items) else len(paragraph)
        return lead, paragraph[items[number] : end]

    def _in_directive(self, start: int) -> bool:
        """Whether the paragraph belongs to a directive such as ``versionchanged``."""
        text = self._document.text
        first = text[start:].partition("\n")[0]
        if _PAST_DIRECTIVE.match(first):
            return True
        indent = len(first) - len(first.lstrip())
        before = text[:start].rstrip("\n").split("\n")[-12:]
        for line in reversed(before if indent else []):
            if line.strip() and len(line) - len(line.lstrip()) < indent:
                return _PAST_DIRECTIVE.match(line) is not None
        return False
