"""The ``msrl`` toolset: search and index a Markdown vault, with fixed hybrid weights.

Results have the shapes that MSRL's clients know: snake_case from ``msrl.query``, camelCase from
the other tools. Errors are ``{"code", "message", "details"}`` with MSRL's codes. A vault without an
index is indexed when the session begins, and again at the next call if its index was deleted.

Lookfar has no shards; a non-empty index is reported as one.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from lookfar.collections.read_documents import titles
from lookfar.collections.rulings import measure_files
from lookfar.common.lines import count_units, cut_units
from lookfar.config.presets import PRESETS
from lookfar.errors import IndexBusy, InvalidArgument, NotIndexed
from lookfar.model import Filters, GenerationInfo, Hit
from lookfar.serve.tools.tool import LONGEST_TIME, Call, Handler, Input, Json, Result, Session, Tool
from lookfar.serve.toolsets import msrl_documents
from lookfar.serve.toolsets.common import Filled
from lookfar.serve.toolsets.fixed_shares import Shares, ShareSearch
from lookfar.serve.toolsets.msrl_errors import complete_details, refusal
from lookfar.serve.toolsets.single import (
    WRITER_WAIT_SECONDS,
    build_warning,
    fit_to_budget,
    format_utc,
    get_only_folder,
)
from lookfar.serve.toolsets.startup import start_first_index

if TYPE_CHECKING:
    from lookfar.collections.folder import Folder
    from lookfar.errors import LookfarError

_SYNTAX = re.compile(r'["“”]|(?<!\S)(?:-(?=\w)|NOT(?=\s))')
"""Quotes and exclusions, which are filters in Lookfar but only words in MSRL."""
_WATCH_KEY = "msrl.watch"
"""The key under which a session remembers whether it watches, and with which pause."""


def _open_vault(session: Session) -> tuple[Folder, LookfarError | None]:
    """Return the vault, and why it cannot be indexed if it has no index and none is being built."""
    folder = get_only_folder(session, "msrl")
    if folder.indexed or folder.building_since:
        return folder, None
    return folder, folder.failure or start_first_index(folder)


def _get_setting(folder: Folder, key: str) -> Any:
    """Return a setting, or MSRL's default if neither the user nor the preset sets it."""
    section, _, name = key.partition(".")
    if folder.settings.origin.get(key, "default") == "default":
        return PRESETS["msrl"][key]
    return getattr(getattr(folder.settings, section), name)


# --- msrl.query ---------------------------------------------------------------------------------


class QueryFilters(Input):
    doc_uri_prefix: Annotated[str, Field(default_factory=str)]
    doc_uris: Annotated[list[str], Field(default_factory=list, min_length=1, max_length=200)]
    heading_path_contains: Annotated[str, Field(default_factory=str)]


class QueryDebug(Input):
    include_scores: bool = True
    include_shards_searched: bool = False


class QueryInput(Input):
    query: Filled
    top_k: Annotated[int, Field(ge=1, le=50)] = 8
    max_excerpt_chars: Annotated[int, Field(ge=200, le=20_000)] = 4000
    filters: Annotated[QueryFilters, Field(default_factory=QueryFilters)]
    debug: Annotated[QueryDebug, Field(default_factory=QueryDebug)]


def _query(session: Session, given: QueryInput, _: Call) -> Result:
    folder, failure = _open_vault(session)
    if not folder.indexed:
        raise _report_no_index(folder, failure)
    top_k, most = given.top_k, given.max_excerpt_chars
    if "top_k" not in given.model_fields_set:
        top_k = _get_setting(folder, "search.top_k")
    if "max_excerpt_chars" not in given.model_fields_set:
        most = _get_setting(folder, "search.max_excerpt_chars")
    utf16 = _get_setting(folder, "serve.offsets") == "utf16"
    search = ShareSearch(
        vector=_get_setting(folder, "search.vector_weight"),
        keyword=_get_setting(folder, "search.keyword_weight"),
        gap=_get_setting(folder, "search.merge_gap"),
        utf16=utf16,
    )
    try:
        answer = session.library.search(
            _SYNTAX.sub(" ", given.query).strip() or given.query,
            mode="hybrid",
            top_k=top_k,
            filters=_build_filters(given.filters),
            as_of=None if _get_watch_choice(session, folder)[0] else _get_serving(folder).number,
            tuned=replace(folder.settings.search, max_excerpt_chars=most),
            answering=search,
        )
    except InvalidArgument as error:
        raise _add_query_details(error, given.query) from error
    meta: Json = {"took_ms": LONGEST_TIME}
    if given.debug.include_shards_searched:
        meta["shards_searched"] = [0] if folder.status(check=False).counts.chunks else []
    if warning := build_warning(answer, "corrected"):
        meta["note"] = warning
    shares = search.shares if given.debug.include_scores else None

    def render(rows: int, chars: int) -> Json:
        results = [_render_hit(hit, chars, shares, utf16=utf16) for hit in answer.hits[:rows]]
        return {"results": results, "meta": meta}

    shape = fit_to_budget(len(answer.hits), most, render)
    meta["took_ms"] = round(answer.took_ms, 3)
    return Result(shape, "", verbatim=True)


def _report_no_index(folder: Folder, failure: LookfarError | None) -> NotIndexed:
    if failure is not None:
        return NotIndexed(
            f"Nothing is indexed, because the last build failed: {failure.message}",
            hint=f"{failure.hint} Then call msrl.reindex.",
        )
    progress = folder.passes.describe_progress()
    return NotIndexed(
        f"The vault is being indexed{progress}.", hint="Ask again once msrl.status says 'ready'."
    )


def _build_filters(given: QueryFilters) -> Filters:
    # A leading arrow makes arrows the only separator, so that ">" can be part of a title.
    heading = msrl_documents.read_markup(given.heading_path_contains)
    return Filters(
        prefix=given.doc_uri_prefix,
        uris=tuple(given.doc_uris),
        heading=f"→{heading}" if heading.strip() else "",
    )


def _add_query_details(error: InvalidArgument, query: str) -> InvalidArgument:
    """Return the error with the details that MSRL's clients expect."""
    details = {"field": "query", "value": query[:200], "reason": error.message, **error.details}
    return InvalidArgument(error.message, hint=error.hint, details=details)


def _render_hit(hit: Hit, chars: int, shares: dict[str, Shares] | None, *, utf16: bool) -> Json:
    excerpt = cut_units(hit.text, chars) if utf16 else hit.text[:chars]
    length = count_units(excerpt) if utf16 else len(excerpt)
    shape: Json = {
        "doc_uri": hit.uri,
        "heading_path": msrl_documents.join_titles(hit.path),
        "start_char": hit.span.start,
        "end_char": hit.span.end,
        "excerpt": excerpt,
        "excerpt_truncated": length < hit.span.end - hit.span.start,
    }
    if shares is not None:
        own = shares.get(hit.chunk_id, Shares(0.0, 0.0))
        shape["score"] = hit.score
        shape["vector_score"] = round(own.vector, 6)
        shape["bm25_score"] = round(own.keyword, 6)
    return shape


# --- msrl.status --------------------------------------------------------------------------------


class StatusInput(Input):
    pass


def _status(session: Session, _given: StatusInput, _: Call) -> Result:
    folder, failure = _open_vault(session)
    if folder.indexed:
        failure = folder.failure
    waiting = bool(folder.building_since) or not (folder.indexed or failure)
    shape: Json = {
        "state": "building" if waiting else "error" if failure else "ready",
        "snapshotId": None,
        "snapshotTimestamp": None,
        "stats": {"docs": 0, "nodes": 0, "leaves": 0, "shards": 0},
        "watcher": _render_watcher(session, folder),
    }
    if shape["state"] == "error" and failure is not None:
        shape["error"] = f"{failure.message} {failure.hint}"
    if folder.indexed:
        serving = _get_serving(folder)
        counts = serving.counts
        shape["snapshotId"] = _make_snapshot_id(serving.created_at, serving.number)
        shape["snapshotTimestamp"] = format_utc(serving.created_at)
        shape["stats"] = {
            "docs": counts.documents,
            "nodes": counts.sections,
            "leaves": counts.chunks,
            "shards": 1 if counts.chunks else 0,
        }
    return Result(shape, "", verbatim=True)


def _get_serving(folder: Folder) -> GenerationInfo:
    """Return the generation that answers queries."""
    return next(entry for entry in folder.generations.list() if entry.active)


def _make_snapshot_id(created_at: str, number: int) -> str:
    """Return the time of a generation without colons, and its number: two may share a second."""
    return f"{format_utc(created_at).replace(':', '')}-g{number}"


def _render_watcher(session: Session, folder: Folder) -> Json:
    wanted, debounce_ms = _get_watch_choice(session, folder)
    watching = folder.watching()
    # The watcher waits for an index, and a server starts it then.
    running = watching.running if watching else session.watches_by_itself or not folder.indexed
    return {"enabled": wanted and running, "debounceMs": debounce_ms}


def _get_watch_choice(session: Session, folder: Folder) -> tuple[bool, int]:
    """Return whether a session wants its vault watched, and the pause after changes."""
    default = folder.settings.watch.enabled, _get_setting(folder, "watch.debounce_ms")
    choice: tuple[bool, int] = session.memory.get(_WATCH_KEY, default)
    return choice


# --- msrl.reindex -------------------------------------------------------------------------------


class ReindexInput(Input):
    scope: Literal["changed", "full", "prefix"] = "changed"
    doc_uri_prefix: Annotated[str, Field(default_factory=str)]
    wait: bool = False


def _reindex(session: Session, given: ReindexInput, _: Call) -> Result:
    folder = get_only_folder(session, "msrl")
    only = _select_documents(folder, given)
    rebuild = given.scope == "full"
    if not given.wait:
        try:
            folder.start_index(rebuild=rebuild, only=only)
        except IndexBusy as busy:
            hint = "Wait until msrl.status says 'ready', or call with wait=true."
            raise IndexBusy(
                busy.message, hint=hint, developer=busy.developer, details=busy.details
            ) from busy
        return Result({"completed": False}, "", verbatim=True)
    report = folder.index(rebuild=rebuild, only=only, wait_seconds=WRITER_WAIT_SECONDS)
    generations = folder.generations.list()
    built = next(entry for entry in generations if entry.number == report.generation)
    shape: Json = {
        "completed": True,
        "snapshotId": _make_snapshot_id(built.created_at, built.number),
        "stats": {
            "docsAdded": report.added,
            "docsModified": report.changed,
            "docsDeleted": report.removed,
            "buildTimeMs": round(report.seconds * 1000, 1),
        },
    }
    return Result(shape, "", verbatim=True)


def _select_documents(folder: Folder, given: ReindexInput) -> frozenset[str] | None:
    """Return the documents in scope, or None for all. A full build takes no prefix."""
    prefix = given.doc_uri_prefix
    if given.scope == "prefix" and not prefix.strip():
        reason = "the scope 'prefix' needs it"
        raise InvalidArgument(
            f"The argument 'doc_uri_prefix' of msrl.reindex is wrong: {reason}.",
            hint="Give the prefix.",
            details={"field": "doc_uri_prefix", "value": prefix, "reason": reason},
        )
    if not prefix or given.scope == "full":
        return None
    known = {uri for uri, _ in titles(folder, prefix)}
    return frozenset(known.union(measure_files(folder, prefix)))


# --- msrl.watch ---------------------------------------------------------------------------------


class WatchInput(Input):
    enabled: bool
    debounce_ms: Annotated[int, Field(ge=250, le=30_000)] = 2000


def _watch(session: Session, given: WatchInput, _: Call) -> Result:
    folder = get_only_folder(session, "msrl")
    debounce_ms = given.debounce_ms
    if "debounce_ms" not in given.model_fields_set:
        debounce_ms = _get_setting(folder, "watch.debounce_ms")
    session.watch(given.enabled, debounce_ms)
    session.memory[_WATCH_KEY] = given.enabled, debounce_ms
    return Result(_render_watcher(session, folder), "", verbatim=True)


# --- the table ----------------------------------------------------------------------------------


def _make_tool(name: str, about: str, given: type[Input], handler: Handler, **more: Any) -> Tool:
    return Tool(name, about, given, complete_details(handler), refusal=refusal, **more)


QUERY = _make_tool(
    "msrl.query",
    "Search the vault by meaning and words together. Gives exact excerpts with document, heading"
    " path and character offsets.",
    QueryInput,
    _query,
    advice="Search this vault of notes by meaning and words with `{name}`; it gives exact excerpts."
    " Better than grep when you do not know the words that a note uses; grep is as good for an"
    " exact string.",
    by_reader=True,
)
STATUS = _make_tool(
    "msrl.status",
    "Whether the vault is indexed, how much of it, as of when, and whether changes are followed.",
    StatusInput,
    _status,
    light=True,
)
REINDEX = _make_tool(
    "msrl.reindex",
    "Bring the index up to date with the vault: what changed, everything, or the files below a"
    " prefix. Returns at once unless told to wait.",
    ReindexInput,
    _reindex,
    read_only=False,
)
WATCH = _make_tool(
    "msrl.watch",
    "Follow changes of the vault while the server runs, or stop that.",
    WatchInput,
    _watch,
    read_only=False,
)

TOOLS: tuple[Tool, ...] = (QUERY, STATUS, REINDEX, WATCH, *msrl_documents.TOOLS)
