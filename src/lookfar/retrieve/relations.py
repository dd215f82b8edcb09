"""What kind of edge a link is, by where it stands.

Takes: a link, the URI of its document and the headings above it. Gives: the relation that
it expresses. Refuses: to read the sentence around it; position is all that counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lookfar.model import LinkKind, Relation

_IMPLEMENTS = re.compile(r"implement(ed|ation|ations|s)\b", re.IGNORECASE)
_RELATED = re.compile(r"(see also|related|further reading)\b", re.IGNORECASE)
_TEST_FILE = re.compile(
    r"(^|/)(tests?/|test_[^/]*$|[^/]*[._-](test|spec)s?\.[^/]+$)", re.IGNORECASE
)


def relation_of(kind: LinkKind, uri: str, headings: Sequence[str]) -> Relation:
    """The innermost heading that says something decides, then the file, then nothing does."""
    if kind in ("embed", "image"):
        return "transclusion"
    for heading in reversed(headings):
        if _IMPLEMENTS.match(heading):
            return "implements"
        if _RELATED.match(heading):
            return "related"
    return "tests" if _TEST_FILE.search(uri) else "links_to"
