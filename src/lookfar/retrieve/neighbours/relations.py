"""Classify links by their position: the headings above them and the file they are in."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lookfar.model import LinkKind, Relation

_IMPLEMENTS = re.compile(r"implement(ed|ation|ations|s)\b", re.IGNORECASE)
_RELATED = re.compile(r"(see also|related|further reading)\b", re.IGNORECASE)
_REFACTORS = re.compile(r"\brefactor(s|ed|ing)?\b", re.IGNORECASE)
_TEST_FILE = re.compile(
    r"(^|/)(tests?/|test_[^/]*$|[^/]*[._-](test|spec)s?\.[^/]+$)", re.IGNORECASE
)


def classify_link(kind: LinkKind, uri: str, headings: Sequence[str]) -> Relation:
    """Return the relation by the innermost telling heading, otherwise by the file."""
    if kind in ("embed", "image"):
        return "transclusion"
    for heading in reversed(headings):
        if _IMPLEMENTS.match(heading):
            return "implements"
        if _RELATED.match(heading):
            return "related"
    return "tests" if _TEST_FILE.search(uri) else "links_to"


def classify_memory_link(relation: Relation | None, type: str, context: str) -> Relation:
    """Return the relation of a link in a memory.

    The words around it count as well: memories are short and seldom have headings.
    """
    if relation not in (None, "links_to", "tests"):
        return relation
    if _REFACTORS.search(context):
        return "refactors"
    return "plans" if type == "plan" else "mentions"
