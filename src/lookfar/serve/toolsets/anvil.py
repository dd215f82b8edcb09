"""The ``anvil`` toolset: search documentation, read pages and sections, list pages.

Results have the shapes that clients of Anvil know, with heading paths joined by `` > ``. A
``note`` says what was cut or may be missing.

Only Markdown is searched, unless the settings name the files to read. With several folders a
path begins with the name of its collection.
"""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Annotated, Final

from pydantic import Field

from lookfar.errors import InvalidArgument, LookfarError, NotFound
from lookfar.library import Library
from lookfar.library.compat import search_for_clients
from lookfar.model import ROOT_HEADING, Answer, Filters, Page
from lookfar.serve.tools.cursor import Cursor
from lookfar.serve.tools.tool import LONGEST_TIME, Call, Input, Json, Result, Session, Tool
from lookfar.serve.toolsets.common import (
    UNLIMITED,
    Filled,
    add_note,
    describe_gaps,
    describe_hidden_characters,
    display_path,
    fit_list,
    fit_text,
    format_time,
    resolve_path,
    search_and_look_up,
    split_collection,
    suggest_prefixes,
    trim_path,
)
from lookfar.text.parse.formats import detect_format

_SEPARATOR: Final = " > "


def refusal(error: LookfarError) -> Json:
    """Render an error in Anvil's shape."""
    return {"error": error.message, "code": error.code, "hint": error.hint}


# --- search_docs --------------------------------------------------------------------------------


class SearchDocsInput(Input):
    query: Annotated[Filled, Field(description="Question or words")]
    top_k: Annotated[int, Field(ge=1, le=20)] = 5
    file_filter: Annotated[str, Field(description="Glob, or start of a path")] = ""


def _search_docs(session: Session, given: SearchDocsInput, _: Call) -> Result:
    library = session.library
    answer, pages = search_and_look_up(
        lambda: _search(library, given), partial(_load_pages, library)
    )
    results: list[Json] = []
    for hit in answer.hits:
        page = pages[hit.collection, hit.uri]
        chunk = next(chunk for chunk in page.chunks if chunk.id == hit.chunk_id)
        metadata = {
            "file_path": display_path(library, hit.collection, hit.uri),
            "heading_path": _SEPARATOR.join(hit.heading_path),
            "heading_level": max(1, chunk.level),
            "last_modified": format_time(page.modified_ns),
            "char_count": len(hit.text),
        }
        results.append({"content": hit.text, "score": hit.score, "metadata": metadata})
    shape: Json = {
        "results": results,
        "total_chunks": _count_chunks(library),
        "query_ms": LONGEST_TIME,
    }
    notes = fit_list(shape, "results", "content", narrow="Ask for fewer, or use file_filter.")
    shape["query_ms"] = round(answer.took_ms, 3)
    texts = [(row["metadata"]["file_path"], row["content"]) for row in shape["results"]]
    notes += [*describe_gaps(answer.incomplete), *describe_hidden_characters(texts)]
    return Result(add_note(shape, notes), f"{len(results)} results", verbatim=True)


def _search(library: Library, given: SearchDocsInput) -> Answer:
    """Search for single chunks, each with its whole text."""
    collections, filters = _parse_filter(library, given.file_filter)
    return library.search(
        given.query,
        top_k=given.top_k,
        filters=filters,
        collections=collections,
        tuned=replace(
            library.settings.search,
            per_document=0,
            merge_gap=-1,
            max_excerpt_chars=UNLIMITED,
            # Anvil's shape has no field for copies of a text, so each copy is a result.
            dedup_exact=False,
        ),
        answering=search_for_clients,
    )


def _load_pages(library: Library, answer: Answer) -> dict[tuple[str, str], Page]:
    """Load the pages that contain the hits from the generation that answered."""
    documents = dict.fromkeys((hit.collection, hit.uri) for hit in answer.hits)
    return {
        (name, uri): library.page(uri, collection=name, as_of=answer.generations[name])
        for name, uri in documents
    }


def _parse_filter(library: Library, file_filter: str) -> tuple[tuple[str, ...], Filters]:
    """Return the collections and the filters that ``file_filter`` selects."""
    wanted, languages = trim_path(file_filter), _select_languages(library)
    owner, rest = split_collection(library, wanted)
    if owner:
        by_glob = Filters(glob=rest, languages=languages)
        by_prefix = Filters(prefix=rest, languages=languages)
        return (owner,), by_glob if "*" in rest else by_prefix
    if "*" in wanted and ("/" not in wanted or wanted.startswith("**/")):
        return (), Filters(glob=wanted, languages=languages)
    matching = tuple(name for name in library.collections if f"{name}/".startswith(wanted))
    if not matching:
        raise InvalidArgument(
            f"No path begins with {file_filter[:100]!r}.", hint=suggest_prefixes(library)
        )
    return matching, Filters(languages=languages)


def _select_languages(library: Library) -> tuple[str, ...]:
    return () if library.settings.sources.include else ("markdown",)


def _count_chunks(library: Library) -> int:
    return sum(
        generation.counts.chunks
        for name in library.collections
        if library.folder(name).indexed
        for generation in library.snapshots(collection=name)
        if generation.active
    )


# --- long lists ---------------------------------------------------------------------------------

Cursored = Annotated[str, Field(description="next_cursor of the last answer, for the rest")]


def _fit_from_cursor(shape: Json, key: str, text: str, cursor: str, about: object) -> list[str]:
    """Keep the items at ``key`` that follow a cursor and fit; ``next_cursor`` leads to the rest.

    ``about`` is what the list depends on: a cursor of another list is refused.
    """
    items = shape[key]
    offset = Cursor.read(cursor, about, key).offset
    shape[key] = items[offset:]
    notes = fit_list(shape, key, text, narrow="Pass next_cursor as cursor for the rest.")
    if len(shape[key]) > 1 and shape[key][-1].get("truncated"):
        shape[key].pop()  # Leave it for the next answer, which has all of it.
    if not shape[key] and offset < len(items):
        # The headings of a single page exceed the budget.
        shape[key] = [{**items[offset], "headings": []}]
    reached = offset + len(shape[key])
    if reached < len(items):
        shape["next_cursor"] = Cursor((reached,)).write(about, key)
    return notes


# --- get_page -----------------------------------------------------------------------------------


class GetPageInput(Input):
    file_path: Annotated[Filled, Field(description="As search_docs and list_pages give it")]
    cursor: Cursored = ""


def _get_page(session: Session, given: GetPageInput, _: Call) -> Result:
    library = session.library
    page = _load_page(library, given.file_path)
    chunks = [
        {
            "content": page.text[chunk.start : chunk.end],
            "heading_path": _SEPARATOR.join(chunk.heading_path),
            "heading_level": max(1, chunk.level),
            "char_count": chunk.end - chunk.start,
            "ordinal": ordinal,
        }
        for ordinal, chunk in enumerate(page.chunks)
    ]
    shape: Json = {
        "file_path": display_path(library, page.collection, page.uri),
        "title": _find_title(page),
        "last_modified": format_time(page.modified_ns),
        "total_chars": sum(chunk.end - chunk.start for chunk in page.chunks),
        "chunks": chunks,
    }
    about = {"page": page.uri, "text": sha256(page.text.encode("utf-8", "replace")).hexdigest()}
    notes = _fit_from_cursor(shape, "chunks", "content", given.cursor, about)
    notes += [*describe_gaps(page.incomplete), *describe_hidden_characters([(page.uri, page.text)])]
    return Result(add_note(shape, notes), f"{len(chunks)} chunks", verbatim=True)


def _load_page(library: Library, path: str) -> Page:
    collection, uri = resolve_path(library, path)
    near: list[str] = []
    try:
        page = library.page(uri, collection=collection)
        if page.chunks and _is_page(library, uri):
            return page
    except NotFound as missing:
        if "candidates" not in missing.details:
            raise  # The folder itself is missing.
        near = [display_path(library, collection, uri) for uri in missing.details["candidates"]]
    nearest = f" Nearest: {', '.join(near)}." if near else ""
    raise NotFound(f"Page {path[:200]!r} not found.", hint=f"list_pages lists all pages.{nearest}")


def _is_page(library: Library, uri: str) -> bool:
    """Return whether list_pages lists such a document."""
    languages, format_ = _select_languages(library), detect_format(uri)
    return not languages or (format_ is not None and format_.language in languages)


def _find_title(page: Page) -> str:
    first = next((section.title for section in page.sections if section.level == 1), "")
    return first or PurePosixPath(page.uri).stem


# --- get_section --------------------------------------------------------------------------------


class GetSectionInput(Input):
    file_path: Annotated[Filled, Field(description="As search_docs and list_pages give it")]
    heading_path: Annotated[Filled, Field(description="Headings from the outermost, A > B")]


def _get_section(session: Session, given: GetSectionInput, _: Call) -> Result:
    library = session.library
    page = _load_page(library, given.file_path)
    path, level, content = _find_section(page, given.heading_path.strip())
    metadata = {
        "file_path": display_path(library, page.collection, page.uri),
        "heading_path": path,
        "heading_level": max(1, level),
        "last_modified": format_time(page.modified_ns),
        "char_count": len(content),
    }
    shape: Json = {"content": content, "metadata": metadata}
    notes = fit_text(
        shape, "content", narrow="Read its subsections, or its parts as get_page names them."
    )
    notes += [
        *describe_gaps(page.incomplete),
        *describe_hidden_characters([(page.uri, shape["content"])]),
    ]
    return Result(add_note(shape, notes), path, verbatim=True)


def _find_section(page: Page, wanted: str) -> tuple[str, int, str]:
    """Return the heading path, level and text of a section with its subsections, or of a chunk.

    Sections with the same path are joined, because the path cannot tell them apart.
    """
    sections = [
        section
        for section in page.sections
        if section.path and _SEPARATOR.join(section.path) == wanted
    ]
    if sections:
        text = "".join(page.text[section.span.start : section.span.end] for section in sections)
        return wanted, sections[0].level, text
    # Only chunks have the text above the first heading and the parts of long sections.
    root = wanted == ROOT_HEADING
    chunks = [
        chunk
        for chunk in page.chunks
        if _SEPARATOR.join(chunk.heading_path) == wanted or (root and not chunk.level)
    ]
    if chunks:
        text = "".join(page.text[chunk.start : chunk.end] for chunk in chunks)
        return wanted, chunks[0].level, text
    paths = dict.fromkeys(
        _SEPARATOR.join(section.path) or ROOT_HEADING for section in page.sections
    )
    near = get_close_matches(wanted, list(paths), n=3, cutoff=0.3)
    nearest = f" Nearest: {'; '.join(near)}." if near else ""
    raise NotFound(
        f"{page.uri!r} has no section {wanted[:200]!r}.",
        hint=f"get_page lists its headings.{nearest}",
    )


# --- list_pages ---------------------------------------------------------------------------------


class ListPagesInput(Input):
    prefix: Annotated[str, Field(description="A folder")] = ""
    cursor: Cursored = ""


def _list_pages(session: Session, given: ListPagesInput, _: Call) -> Result:
    library = session.library
    folder = trim_path(given.prefix).rstrip("/")
    languages = _select_languages(library)
    pages: list[Json] = []
    notes: list[str] = []
    for name in library.collections:
        entries, gaps = library.pages(collection=name)
        notes += describe_gaps(gaps)
        for entry in entries:
            path = display_path(library, name, entry.uri)
            below = not folder or path.startswith(f"{folder}/")
            if below and (not languages or entry.language in languages):
                pages.append(
                    {
                        "file_path": path,
                        "title": entry.heading or PurePosixPath(entry.uri).stem,
                        "headings": list(dict.fromkeys(map(_SEPARATOR.join, entry.headings))),
                        "chunk_count": entry.chunks,
                        "total_chars": entry.chars,
                        "last_modified": format_time(entry.modified_ns),
                    }
                )
    pages.sort(key=lambda page: str(page["file_path"]))
    about = {"prefix": folder, "pages": [page["file_path"] for page in pages]}
    shape: Json = {"pages": pages, "total_pages": len(pages)}
    notes += _fit_from_cursor(shape, "pages", "", given.cursor, about)
    return Result(add_note(shape, notes), f"{len(pages)} pages", verbatim=True)


# --- the table ----------------------------------------------------------------------------------

TOOLS: tuple[Tool, ...] = (
    Tool(
        "search_docs",
        "Search the documentation by meaning. Gives the best chunks with file, headings and"
        " score. file_filter narrows to a glob or to the start of a path.",
        SearchDocsInput,
        _search_docs,
        advice="Search this folder's documentation by meaning with `{name}`; cite file and heading."
        " Better than grep when you do not know the words that a page uses; grep is as good for an"
        " exact string.",
        refusal=refusal,
        by_reader=True,
    ),
    Tool(
        "get_page",
        "A whole documentation page, chunk by chunk in document order.",
        GetPageInput,
        _get_page,
        refusal=refusal,
        by_reader=True,
    ),
    Tool(
        "get_section",
        "One section of a page with all below it, by its headings joined with ' > '."
        " Text above the first heading is called (root).",
        GetSectionInput,
        _get_section,
        advice="`{name}` gives a whole section instead of a file.",
        refusal=refusal,
        by_reader=True,
    ),
    Tool(
        "list_pages",
        "The documentation pages with title, headings, size and time of change; all, or those"
        " below a folder.",
        ListPagesInput,
        _list_pages,
        refusal=refusal,
        by_reader=True,
    ),
)
