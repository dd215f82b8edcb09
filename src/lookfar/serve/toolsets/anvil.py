"""The toolset ``anvil``: documentation by meaning, page, section and list.

Takes: checked arguments and a session. Gives: the shapes that clients of Anvil know, heading
paths joined by `` > ``; where something was cut or may be missing, a ``note`` says so.
Refuses: what is not there, with the tool that lists what is.

Markdown only, unless the settings name the files to read. With several folders a path begins
with the name of its collection.
"""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import Annotated, Final

from pydantic import Field

from lookfar.errors import InvalidArgument, LookfarError, NotFound
from lookfar.library import Library
from lookfar.model import ROOT_HEADING, Answer, Filters, Page
from lookfar.serve.tools.tool import MOST_TOKENS, Call, Input, Json, Result, Session, Tool
from lookfar.serve.toolsets.common import (
    WHOLE,
    Filled,
    admitted,
    begin_with,
    cost,
    fit,
    fit_text,
    flagged,
    located,
    noted,
    owner_of,
    relaxed,
    shown,
    when,
)

_BETWEEN: Final = " > "


def refusal(error: LookfarError) -> Json:
    """An error as Anvil's clients read it."""
    return {"error": error.message, "code": error.code, "hint": error.hint}


# --- search_docs --------------------------------------------------------------------------------


class SearchDocsInput(Input):
    query: Annotated[Filled, Field(description="Question or words")]
    top_k: Annotated[int, Field(ge=1, le=20)] = 5
    file_filter: Annotated[str, Field(description="Glob, or start of a path")] = ""


def _search_docs(session: Session, given: SearchDocsInput, call: Call) -> Result:
    library = session.library
    answer = _asked(library, given, call)
    try:
        pages = _pages(library, answer)
    except InvalidArgument:
        # The generation that answered was purged before its pages were looked up.
        answer = _asked(library, given, call)
        pages = _pages(library, answer)
    results: list[Json] = []
    for hit in answer.hits:
        page = pages[hit.collection, hit.uri]
        chunk = next(each for each in page.chunks if each.id == hit.chunk_id)
        about = {
            "file_path": shown(library, hit.collection, hit.uri),
            "heading_path": _BETWEEN.join(hit.heading_path),
            "heading_level": max(1, chunk.level),
            "last_modified": when(page.modified_ns),
            "char_count": len(hit.text),
        }
        score = min(1.0, max(0.0, hit.score))
        results.append({"content": hit.text, "score": score, "metadata": about})
    shape: Json = {
        "results": results,
        "total_chunks": _chunks_in(library),
        "query_ms": round(answer.took_ms, 3),
    }
    notes = fit(shape, "results", "content", narrow="Ask for fewer, or use file_filter.")
    texts = [(each["metadata"]["file_path"], each["content"]) for each in shape["results"]]
    notes += [*admitted(answer.incomplete), *flagged(texts)]
    return Result(noted(shape, notes), f"{len(results)} results", verbatim=True)


def _asked(library: Library, given: SearchDocsInput, call: Call) -> Answer:
    """The answer, chunk by chunk and each chunk whole."""
    collections, filters = _narrowed(library, given.file_filter)
    return library.search(
        given.query,
        top_k=given.top_k,
        filters=filters,
        collections=collections,
        tuned=replace(
            library.settings.search,
            per_document=0,
            merge_gap=-1,
            max_excerpt_chars=WHOLE,
            # Its answers have no place for where else a text stands.
            dedup_exact=False,
        ),
        on_progress=call.on_progress(),
    )


def _pages(library: Library, answer: Answer) -> dict[tuple[str, str], Page]:
    """The pages that hits stand in, as the generation that answered has them."""
    named = dict.fromkeys((hit.collection, hit.uri) for hit in answer.hits)
    return {
        (name, uri): library.page(uri, collection=name, as_of=answer.generations[name])
        for name, uri in named
    }


def _narrowed(library: Library, file_filter: str) -> tuple[tuple[str, ...], Filters]:
    """The collections and documents that a filter admits."""
    wanted, languages = relaxed(file_filter), _languages(library)
    owner, rest = owner_of(library, wanted)
    if owner:
        by_glob = Filters(glob=rest, languages=languages)
        by_prefix = Filters(prefix=rest, languages=languages)
        return (owner,), by_glob if "*" in rest else by_prefix
    if "*" in wanted and ("/" not in wanted or wanted.startswith("**/")):
        return (), Filters(glob=wanted, languages=languages)
    begun = tuple(name for name in library.collections if f"{name}/".startswith(wanted))
    if not begun:
        raise InvalidArgument(
            f"No path here begins with {file_filter[:100]!r}.", hint=begin_with(library)
        )
    return begun, Filters(languages=languages)


def _languages(library: Library) -> tuple[str, ...]:
    return () if library.settings.sources.include else ("markdown",)


def _chunks_in(library: Library) -> int:
    return sum(
        each.counts.chunks
        for name in library.collections
        if library.folder(name).indexed
        for each in library.snapshots(collection=name)
        if each.active
    )


# --- get_page -----------------------------------------------------------------------------------


class GetPageInput(Input):
    file_path: Annotated[Filled, Field(description="As search_docs and list_pages give it")]


def _get_page(session: Session, given: GetPageInput, call: Call) -> Result:
    library = session.library
    page = _page(library, given.file_path, call)
    chunks = [
        {
            "content": page.text[each.start : each.end],
            "heading_path": _BETWEEN.join(each.heading_path),
            "heading_level": max(1, each.level),
            "char_count": each.end - each.start,
            "ordinal": ordinal,
        }
        for ordinal, each in enumerate(page.chunks)
    ]
    shape: Json = {
        "file_path": shown(library, page.collection, page.uri),
        "title": _title(page),
        "last_modified": when(page.modified_ns),
        "total_chars": sum(each.end - each.start for each in page.chunks),
        "chunks": chunks,
    }
    notes = fit(shape, "chunks", "content", narrow="Read the rest by heading with get_section.")
    notes += [*admitted(page.incomplete), *flagged([(page.uri, page.text)])]
    return Result(noted(shape, notes), f"{len(chunks)} chunks", verbatim=True)


def _page(library: Library, path: str, call: Call) -> Page:
    collection, uri = located(library, path)
    near: list[str] = []
    try:
        page = library.page(uri, collection=collection, on_progress=call.on_progress())
        if page.chunks:
            return page
    except NotFound as missing:
        if "candidates" not in missing.details:
            raise  # It is the folder that is missing.
        near = [shown(library, collection, each) for each in missing.details["candidates"]]
    nearest = f" Nearest: {', '.join(near)}." if near else ""
    raise NotFound(
        f"There is no page {path[:200]!r}.", hint=f"list_pages tells which there are.{nearest}"
    )


def _title(page: Page) -> str:
    first = next((each.title for each in page.sections if each.level == 1), "")
    return first or PurePosixPath(page.uri).stem


# --- get_section --------------------------------------------------------------------------------


class GetSectionInput(Input):
    file_path: Annotated[Filled, Field(description="As search_docs and list_pages give it")]
    heading_path: Annotated[Filled, Field(description="Headings from the outermost, A > B")]


def _get_section(session: Session, given: GetSectionInput, call: Call) -> Result:
    library = session.library
    page = _page(library, given.file_path, call)
    path, level, content = _section(page, given.heading_path.strip())
    about = {
        "file_path": shown(library, page.collection, page.uri),
        "heading_path": path,
        "heading_level": max(1, level),
        "last_modified": when(page.modified_ns),
        "char_count": len(content),
    }
    shape: Json = {"content": content, "metadata": about}
    notes = fit_text(
        shape, "content", narrow="Read its subsections, or its parts as get_page names them."
    )
    notes += [*admitted(page.incomplete), *flagged([(page.uri, shape["content"])])]
    return Result(noted(shape, notes), path, verbatim=True)


def _section(page: Page, wanted: str) -> tuple[str, int, str]:
    """The heading path, level and text meant: a section with all below it, or a chunk.

    Sections that are called the same are given together: a path cannot tell them apart.
    """
    named = [each for each in page.sections if _BETWEEN.join(each.path) == wanted and each.path]
    if named:
        text = "".join(page.text[each.span.start : each.span.end] for each in named)
        return wanted, named[0].level, text
    # What stands above the first heading, and single parts of long sections.
    root = wanted == ROOT_HEADING
    chunks = [
        each
        for each in page.chunks
        if _BETWEEN.join(each.heading_path) == wanted or (root and not each.level)
    ]
    if chunks:
        text = "".join(page.text[each.start : each.end] for each in chunks)
        return wanted, chunks[0].level, text
    paths = dict.fromkeys(_BETWEEN.join(each.path) or ROOT_HEADING for each in page.sections)
    near = get_close_matches(wanted, list(paths), n=3, cutoff=0.3)
    nearest = f" Nearest: {'; '.join(near)}." if near else ""
    raise NotFound(
        f"{page.uri!r} has no section {wanted[:200]!r}.",
        hint=f"get_page gives its headings.{nearest}",
    )


# --- list_pages ---------------------------------------------------------------------------------


class ListPagesInput(Input):
    prefix: Annotated[str, Field(description="A folder")] = ""


def _list_pages(session: Session, given: ListPagesInput, call: Call) -> Result:
    library = session.library
    folder = relaxed(given.prefix).rstrip("/")
    languages = _languages(library)
    pages: list[Json] = []
    notes: list[str] = []
    for name in library.collections:
        found, said = library.pages(collection=name, on_progress=call.on_progress())
        notes += admitted(said)
        for each in found:
            path = shown(library, name, each.uri)
            below = not folder or path.startswith(f"{folder}/")
            if below and (not languages or each.language in languages):
                pages.append(
                    {
                        "file_path": path,
                        "title": each.heading or PurePosixPath(each.uri).stem,
                        "headings": list(dict.fromkeys(map(_BETWEEN.join, each.headings))),
                        "chunk_count": each.chunks,
                        "total_chars": each.chars,
                        "last_modified": when(each.modified_ns),
                    }
                )
    pages.sort(key=lambda page: str(page["file_path"]))
    shape: Json = {"pages": pages, "total_pages": len(pages)}
    if cost(shape) > MOST_TOKENS // 2:
        # Names of pages are worth more than their headings, which get_page gives too.
        shape["pages"] = [{**page, "headings": []} for page in pages]
        notes.append("Headings are left out of so long a list.")
    notes += fit(shape, "pages", narrow="Name a folder as prefix, or use search_docs.")
    return Result(noted(shape, notes), f"{len(pages)} pages", verbatim=True)


# --- the table ----------------------------------------------------------------------------------

TOOLS: tuple[Tool, ...] = (
    Tool(
        "search_docs",
        "Search the documentation by meaning. Gives the best chunks with file, headings and"
        " score. file_filter narrows to a glob or to the start of a path.",
        SearchDocsInput,
        _search_docs,
        refusal=refusal,
    ),
    Tool(
        "get_page",
        "A whole documentation page, chunk by chunk in document order.",
        GetPageInput,
        _get_page,
        refusal=refusal,
    ),
    Tool(
        "get_section",
        "One section of a page with all below it, by its headings joined with ' > '."
        " Text above the first heading is called (root).",
        GetSectionInput,
        _get_section,
        refusal=refusal,
    ),
    Tool(
        "list_pages",
        "The documentation pages with title, headings, size and time of change; all, or those"
        " below a folder.",
        ListPagesInput,
        _list_pages,
        refusal=refusal,
    ),
)
