"""Suggest what to ask and where to look, from the collection itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from lookfar.errors import LookfarError
from lookfar.library import Library
from lookfar.model import Listed, Outline
from lookfar.serve.http.web.facets import Facets
from lookfar.serve.show.snippet import strip_markup
from lookfar.serve.tools.tool import Json

_MOST_TITLES: Final = 3
_MOST_QUESTIONS: Final = 3
_MOST_VALUES: Final = 6
_MOST_READ: Final = 12
"""How many documents are searched for headings."""
_WORDS: Final = range(3, 9)
"""A heading with this many words reads like a question."""
_LONGEST: Final = 60


def suggest(library: Library, latest: Sequence[Listed], facets: Facets) -> Json:
    """Return frequent tags and folders, titles, headings to ask for, and a name in the code.

    ``latest`` are all documents, the latest first.
    """
    spread = list(_spread_over_folders(latest))
    notes = [document for document in spread if document.lane == "docs"]
    titles = (document.title for document in notes if 1 < len(document.title.split()) <= _WORDS[-1])
    return {
        "titles": _choose(titles, _MOST_TITLES),
        "questions": _choose(_list_headings(library, notes), _MOST_QUESTIONS),
        "symbols": _choose(_list_symbols(library, spread), 1),
        "tags": [facet.value for facet in facets["tag"][:_MOST_VALUES]],
        "folders": [facet.value for facet in facets["path"][:_MOST_VALUES]],
    }


def _choose(texts: Iterable[str], most: int) -> list[str]:
    short = (text for text in texts if 0 < len(text) <= _LONGEST)
    return list(islice(dict.fromkeys(short), most))


def _spread_over_folders(documents: Sequence[Listed]) -> Iterator[Listed]:
    """Yield the latest document of each folder, then the others."""
    seen: set[str] = set()
    others: list[Listed] = []
    for document in documents:
        folder = document.uri.partition("/")[0] if "/" in document.uri else ""
        if folder in seen:
            others.append(document)
        else:
            seen.add(folder)
            yield document
    yield from others


def _list_headings(library: Library, notes: Iterable[Listed]) -> Iterator[str]:
    """Yield headings below the title that are long enough to be asked for."""
    for outline in _outlines(library, notes):
        for section in outline.sections:
            title = strip_markup(section.title, "markdown")
            if section.level > 1 and len(title.split()) in _WORDS:
                yield title
                break


def _list_symbols(library: Library, documents: Iterable[Listed]) -> Iterator[str]:
    code = (document for document in documents if document.lane == "code")
    for outline in _outlines(library, code):
        names = (section.title for section in outline.sections if section.level)
        yield from islice((name for name in names if not name.startswith("_")), 1)


def _outlines(library: Library, documents: Iterable[Listed]) -> Iterator[Outline]:
    for document in islice(documents, _MOST_READ):
        try:
            yield library.outline(document.uri, collection=document.collection)
        except LookfarError:
            continue  # It was removed or locked since it was indexed; others will do.
