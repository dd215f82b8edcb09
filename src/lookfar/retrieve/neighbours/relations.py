"""What kind of edge a link is, by where it stands.

Takes: a link, the URI of its document and the headings above it. Gives: the relation that
it expresses. Refuses: to read the sentence around it, but for memories; position is all that
counts elsewhere.
"""

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
    """The innermost heading that says something decides, then the file, then nothing does."""
    if kind in ("embed", "image"):
        return "transclusion"
    for heading in reversed(headings):
        if _IMPLEMENTS.match(heading):
            return "implements"
        if _RELATED.match(heading):
            return "related"
    return "tests" if _TEST_FILE.search(uri) else "links_to"


def classify_memory_link(relation: Relation | None, type: str, context: str) -> Relation:
    """What a memory says of what it links to, where its place does not tell already.

    Here the words around it count, too: memories are short, and seldom have headings.
    """
    if relation not in (None, "links_to", "tests"):
        return relation
    if _REFACTORS.search(context):
        return "refactors"
    return "plans" if type == "plan" else "mentions"
