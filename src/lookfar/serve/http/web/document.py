"""The route of the web page that gives a document to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import Field

from lookfar.common.hidden_characters import flags
from lookfar.errors import Ambiguous, NotFound
from lookfar.model import Reading
from lookfar.retrieve.locate.address import format_citation
from lookfar.serve.http.web.marks import find_marks, marked_terms
from lookfar.serve.show import json_shapes
from lookfar.serve.tools.related import usual_kinds
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session, Tool

_DOCUMENT_CHARS: Final = 400_000
"""How much of a document the page shows."""


class DocumentInput(Input):
    target: Annotated[
        str, Field(min_length=1, description="URI, URI#Heading, URI:10-20, symbol, or a cite")
    ]
    collection: str = ""
    query: Annotated[
        str, Field(description="Mark the words of this question", max_length=10_000)
    ] = ""


def _document(session: Session, given: DocumentInput, call: Call) -> Result:
    library = session.library
    library.first_index(on_progress=call.on_progress())
    part = library.read(given.target, collection=given.collection)
    if part.state == "gone":
        whole, outline, entries, totals = part, None, [], {}
    else:
        whole = library.read(part.uri, collection=part.collection)
        outline = json_shapes.outline(library.outline(part.uri, collection=part.collection))
        related = json_shapes.related(
            library.related(
                part.uri, kinds=usual_kinds(session), limit=50, collection=part.collection
            )
        )
        entries, totals = related["entries"], related["totals"]
        calls = _find_calls(session, part)
        entries, totals = [*calls["entries"], *entries], {**calls["totals"], **totals}
    text = whole.text[:_DOCUMENT_CHARS]
    terms = marked_terms(given.query) if given.query.strip() else frozenset[str]()
    # A request for the whole document has no part to highlight.
    is_part = (part.span.start, part.span.end) != (whole.span.start, whole.span.end)
    data = json_shapes.reading(whole)
    data |= {
        "text": text,
        "truncated": len(whole.text) > len(text),
        "state": part.state,
        "cite": format_citation(part.collection, part.uri, part.span, part.sha256),
        "part": [part.span.start, part.span.end] if is_part and part.state != "gone" else None,
        "flags": flags(text),
        "marks": [[start, end] for start, end in find_marks(text, terms)] if terms else [],
        "outline": outline,
        "related": entries,
        "totals": totals,
    }
    return Result(data, "")


def _find_calls(session: Session, part: Reading) -> Json:
    """Return the callers, callees and tests of the definition that a part is in."""
    if not part.heading_path:
        return {"entries": [], "totals": {}}
    target = f"{part.uri}#{' > '.join(part.heading_path)}"
    try:
        related = session.library.related(
            target, kinds=("callers", "callees", "tests"), limit=20, collection=part.collection
        )
    except (Ambiguous, NotFound):
        # It has no name of its own, or the file changed since it was indexed.
        return {"entries": [], "totals": {}}
    return json_shapes.related(related)


ROWS: Sequence[Tool] = (
    Tool(
        "document",
        "A document as it is on disk now, with its outline and related documents.",
        DocumentInput, _document,
    ),
)  # fmt: skip
