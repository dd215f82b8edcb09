"""The ``msrl`` toolset: search and index a Markdown vault, with fixed hybrid weights.

Results have the shapes that MSRL's clients know: snake_case from ``msrl.query``, camelCase from
the other tools. Errors are ``{"code", "message", "details"}`` with MSRL's codes.

Lookfar has no shards; a non-empty index is reported as one.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from lookfar.collections.read_documents import titles
from lookfar.collections.rulings import measure_files
from lookfar.errors import (
    IndexBusy,
    IndexCorrupt,
    IndexTooNew,
    InvalidArgument,
    IOFailed,
    LookfarError,
    ModelUnavailable,
    NotFound,
    NotIndexed,
    RootNotFound,
)
from lookfar.model import Filters, Hit
from lookfar.retrieve.fixed_shares import MEANING, WORDS, make_share_search
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session, Tool
from lookfar.serve.toolsets import msrl_documents
from lookfar.serve.toolsets.common import Filled
from lookfar.serve.toolsets.single import (
    WRITER_WAIT_SECONDS,
    build_warning,
    fit_to_budget,
    format_utc,
    get_only_folder,
)

if TYPE_CHECKING:
    from lookfar.collections.folder import Folder

_VECTOR_WEIGHT, _BM25_WEIGHT = 0.75, 0.25
_MERGE_GAP = 200
_ARROW = " → "
_DEBOUNCE_KEY = "msrl.debounce_ms"
_ERRNO = re.compile(r"\[(E[A-Z0-9]+)\]")
_READ_MESSAGE = re.compile(r"while (reading|opening|examining)\b")


def _get_folder(session: Session) -> Folder:
    return get_only_folder(session, "msrl")


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


def _query(session: Session, given: QueryInput, call: Call) -> Result:
    folder = _get_folder(session)
    if not folder.indexed:
        building = " It is being built." if folder.building_since else ""
        raise NotIndexed(f"Nothing is indexed yet.{building}", hint="Call msrl.reindex first.")
    try:
        answer = session.library.search(
            given.query,
            mode="hybrid",
            top_k=given.top_k,
            filters=_build_filters(given.filters),
            explain=True,
            tuned=replace(folder.settings.search, max_excerpt_chars=given.max_excerpt_chars),
            answering=make_share_search(
                vector=_VECTOR_WEIGHT, keyword=_BM25_WEIGHT, gap=_MERGE_GAP
            ),
            on_progress=call.on_progress(),
        )
    except InvalidArgument as error:
        raise _add_query_details(error, given.query) from error
    meta: Json = {"took_ms": round(answer.took_ms, 3)}
    if given.debug.include_shards_searched:
        meta["shards_searched"] = [0] if folder.status(check=False).counts.chunks else []
    if warning := build_warning(answer):
        meta["note"] = warning

    def render(rows: int, chars: int) -> Json:
        scores = given.debug.include_scores
        results = [_render_hit(hit, chars, scores=scores) for hit in answer.hits[:rows]]
        return {"results": results, "meta": meta}

    shape = fit_to_budget(len(answer.hits), given.max_excerpt_chars, render)
    return Result(shape, "", verbatim=True)


def _build_filters(given: QueryFilters) -> Filters:
    # A leading arrow makes arrows the only separator, so that ">" can be part of a title.
    heading = given.heading_path_contains
    return Filters(
        prefix=given.doc_uri_prefix,
        uris=tuple(given.doc_uris),
        heading=f"→{heading}" if heading.strip() else "",
    )


def _add_query_details(error: InvalidArgument, query: str) -> InvalidArgument:
    """Return the error with the details that MSRL's clients expect."""
    details = {"field": "query", "value": query[:200], "reason": error.message, **error.details}
    return InvalidArgument(error.message, hint=error.hint, details=details)


def _render_hit(hit: Hit, chars: int, *, scores: bool) -> Json:
    shape: Json = {
        "doc_uri": hit.uri,
        "heading_path": _ARROW.join(hit.path),
        "start_char": hit.span.start,
        "end_char": hit.span.end,
        "excerpt": hit.text[:chars],
        "excerpt_truncated": hit.truncated or len(hit.text) > chars,
    }
    if scores:
        shares = {step.stage: float(step.value) for step in hit.explanation}
        shape["score"] = hit.score
        shape["vector_score"] = round(shares.get(MEANING, 0.0) / _VECTOR_WEIGHT, 6)
        shape["bm25_score"] = round(shares.get(WORDS, 0.0) / _BM25_WEIGHT, 6)
    return shape


# --- msrl.status --------------------------------------------------------------------------------


class StatusInput(Input):
    pass


def _status(session: Session, _given: StatusInput, _: Call) -> Result:
    folder = _get_folder(session)
    failure = folder.failure
    shape: Json = {
        "state": "building" if folder.building_since else "error" if failure else "ready",
        "snapshotId": None,
        "snapshotTimestamp": None,
        "stats": {"docs": 0, "nodes": 0, "leaves": 0, "shards": 0},
        "watcher": _render_watcher(session, folder),
    }
    if shape["state"] == "error" and failure is not None:
        shape["error"] = f"{failure.message} {failure.hint}"
    if folder.indexed:
        serving = next(entry for entry in folder.generations.list() if entry.active)
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


def _make_snapshot_id(created_at: str, number: int) -> str:
    return f"{re.sub(r'[-:]', '', format_utc(created_at))}-g{number}"


def _render_watcher(session: Session, folder: Folder) -> Json:
    watching = folder.watching()
    debounce_ms = session.memory.get(_DEBOUNCE_KEY, folder.settings.watch.debounce_ms)
    return {"enabled": watching is not None and watching.running, "debounceMs": debounce_ms}


# --- msrl.reindex -------------------------------------------------------------------------------


class ReindexInput(Input):
    scope: Literal["changed", "full", "prefix"] = "changed"
    doc_uri_prefix: Annotated[str, Field(default_factory=str)]
    wait: bool = False


def _reindex(session: Session, given: ReindexInput, call: Call) -> Result:
    folder = _get_folder(session)
    only = _select_documents(folder, given)
    rebuild = given.scope == "full"
    if not given.wait:
        folder.start_index(rebuild=rebuild, only=only)
        return Result({"completed": False}, "", verbatim=True)
    report = folder.index(
        rebuild=rebuild, only=only, on_progress=call.on_progress(), wait_seconds=WRITER_WAIT_SECONDS
    )
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
    """Return the documents in scope, or None for all."""
    prefix = given.doc_uri_prefix
    if given.scope == "prefix":
        if not prefix.strip():
            raise _reject_prefix(prefix, "the scope 'prefix' needs it", "Give the prefix.")
        known = {uri for uri, _ in titles(folder, prefix)}
        return frozenset(known.union(measure_files(folder, prefix)))
    if prefix:
        # Ignoring it would index more than the client expects.
        reason = f"the scope {given.scope!r} takes no prefix"
        raise _reject_prefix(prefix, reason, "Use the scope 'prefix', or omit it.")
    return None


def _reject_prefix(value: str, reason: str, hint: str) -> InvalidArgument:
    return InvalidArgument(
        f"The argument 'doc_uri_prefix' of msrl.reindex is wrong: {reason}.",
        hint=hint,
        details={"field": "doc_uri_prefix", "value": value, "reason": reason},
    )


# --- msrl.watch ---------------------------------------------------------------------------------


class WatchInput(Input):
    enabled: bool
    debounce_ms: Annotated[int, Field(ge=250, le=30_000)] = 2000


def _watch(session: Session, given: WatchInput, _: Call) -> Result:
    folder = _get_folder(session)
    if given.enabled:
        folder.watch(debounce_ms=given.debounce_ms)
    else:
        folder.unwatch()
    session.memory[_DEBOUNCE_KEY] = given.debounce_ms
    return Result(_render_watcher(session, folder), "", verbatim=True)


# --- refusals -----------------------------------------------------------------------------------


def refusal(error: LookfarError) -> Json:
    """Render an error in MSRL's shape; its message includes the hint."""
    code, details = _translate_error(error)
    shape: Json = {"code": code, "message": f"{error.message} {error.hint}"}
    if details:
        shape["details"] = details
    return shape


def _translate_error(error: LookfarError) -> tuple[str, Json]:
    """Return MSRL's code and details for an error."""
    given = error.details
    path = str(given.get("path", ""))
    match error:
        case RootNotFound():
            return "IO_ERROR", {"path": path, "operation": "read", "errno": "ENOENT"}
        case NotFound():
            keys = (("docUri", "uri"), ("headingPath", "heading_path"))
            return "NOT_FOUND", {name: given[key] for name, key in keys if key in given}
        case NotIndexed():
            return "NOT_INDEXED", {}
        case IndexBusy():
            since = given.get("since")
            return "INDEX_BUSY", {"currentBuildStartedAt": format_utc(since)} if since else {}
        case IndexCorrupt() | IndexTooNew():
            missing = bool(path) and not Path(path).exists()
            more: Json = {"missingFiles": [Path(path).name]} if missing else {}
            epoch = next((p for p in Path(path).parts if p.startswith("epoch-")), "")
            return "INDEX_CORRUPT", {"snapshotId": epoch, "reason": error.developer, **more}
        case IOFailed():
            errno = _ERRNO.search(error.developer)
            operation = "read" if _READ_MESSAGE.search(error.message) else "write"
            more = {"errno": errno[1]} if errno else {}
            return "IO_ERROR", {"path": path, "operation": operation, **more}
        case ModelUnavailable():
            return "MODEL_DOWNLOAD_FAILED", {"url": path or "bundled", "reason": error.message}
        case _ if type(error).code == LookfarError.code:
            return "INTERNAL", {"originalError": error.developer}
        case _:
            argument = {key: given.get(key) for key in ("field", "value")}
            options = {key: given[key] for key in ("validOptions",) if key in given}
            reason = given.get("reason", error.message)
            return "INVALID_ARGUMENT", {**argument, "reason": reason, **options}


# --- the table ----------------------------------------------------------------------------------

QUERY = Tool(
    "msrl.query",
    "Search the vault by meaning and words together. Gives exact excerpts with document, heading"
    " path and character offsets.",
    QueryInput,
    _query,
    refusal=refusal,
)
STATUS = Tool(
    "msrl.status",
    "Whether the vault is indexed, how much of it, as of when, and whether changes are followed.",
    StatusInput,
    _status,
    refusal=refusal,
    light=True,
)
REINDEX = Tool(
    "msrl.reindex",
    "Bring the index up to date with the vault: what changed, everything, or the files below a"
    " prefix. Returns at once unless told to wait.",
    ReindexInput,
    _reindex,
    read_only=False,
    refusal=refusal,
)
WATCH = Tool(
    "msrl.watch",
    "Follow changes of the vault while the server runs, or stop that.",
    WatchInput,
    _watch,
    read_only=False,
    refusal=refusal,
)

TOOLS: tuple[Tool, ...] = (QUERY, STATUS, REINDEX, WATCH, *msrl_documents.make_tools(refusal))
