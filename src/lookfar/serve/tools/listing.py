"""The tool ``search`` with filters but no query: the documents that match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lookfar.errors import how_many
from lookfar.model import Listed
from lookfar.retrieve.answer.pack import tokens
from lookfar.serve.show import json_shapes
from lookfar.serve.show.locations import name_with_collection
from lookfar.serve.show.printable import safe_name
from lookfar.serve.tools.cursor import SEARCH_CURSOR, Cursor, missing_lines, next_page
from lookfar.serve.tools.inputs import LEAST_TOKENS
from lookfar.serve.tools.tool import Json, Result, Session, bounded

if TYPE_CHECKING:
    from lookfar.model import Filters
    from lookfar.serve.tools.search import SearchInput

_DOCUMENTS = 50
_TOKENS = 1_000


def show_listing(session: Session, given: SearchInput, filters: Filters, about: Json) -> Result:
    """Show the documents that match the filters, starting after the last page."""
    cursor = Cursor.read(given.cursor, about, SEARCH_CURSOR)
    listing = session.library.list_documents(
        filters,
        limit=given.top_k or _DOCUMENTS,
        offset=cursor.offset,
        as_of=given.as_of or cursor.generation or None,
        commits=True,
        memories=True,
        sources=True,
        newest_first=True,
    )
    several = len(session.library.collections) > 1

    def show(budget: int) -> Result:
        documents = _take_fitting(listing.documents, several, budget)
        reached = cursor.offset + len(documents)
        following = ""
        if reached < listing.total:
            following = next_page(session, given, about, (reached,), listing.generations)
        data = json_shapes.plain(replace(listing, documents=tuple(documents)))
        data["cursor"] = following
        lines = missing_lines(listing.incomplete)
        lines.append(how_many(listing.total, "document"))
        if following:
            lines[-1] += f". More: cursor {following}"
        body = "\n".join(_line(document, several) for document in documents)
        return Result(data, "\n".join(lines), body=body)

    return bounded(show, given.budget or _TOKENS, LEAST_TOKENS)


def _take_fitting(documents: Sequence[Listed], several: bool, budget: int) -> list[Listed]:
    """Return the first documents whose lines fit; at least one, so that the next page advances."""
    fitting: list[Listed] = []
    spent = 0
    for document in documents:
        spent += tokens(_line(document, several))
        if fitting and spent > budget:
            break
        fitting.append(document)
    return fitting


def _line(document: Listed, several: bool) -> str:
    """Format a document as one line: name, title and length."""
    name = name_with_collection(document, several)
    title = f"  {document.title}" if document.title else ""
    length = f"  {how_many(document.lines, 'line')}" if document.lines else ""
    return safe_name(f"{name}{title}{length}")
