"""Search MCP's tools for an index: build, rebuild, update, delete, and show its state and files.

Building, rebuilding and deleting need the user's consent: an answer to a question where the client
can ask one, or ``confirm: true``.
"""

from __future__ import annotations

import os
import shutil
import time
import unicodedata
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from lookfar.collections.read_documents import read_page, titles
from lookfar.collections.rulings import measure_files, skip_reason
from lookfar.errors import ConfirmationNeeded, DiskFull, NotIndexed, PermissionDenied
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session
from lookfar.serve.toolsets.common import WHOLE, Filled
from lookfar.serve.toolsets.file_summary import render_summary
from lookfar.serve.toolsets.search_mcp_config import create_config_file
from lookfar.serve.toolsets.search_mcp_errors import (
    FileNotIndexed,
    SymlinkNotAllowed,
    TooManyFiles,
)
from lookfar.serve.toolsets.single import (
    WRITER_WAIT_SECONDS,
    fit_to_budget,
    format_utc,
    get_only_folder,
)
from lookfar.sources.globs import glob_matcher

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lookfar.collections.folder import Folder
    from lookfar.model import IndexReport

_INDEX_PER_TEXT: Final = 3
"""Bytes of index per byte of text; a high estimate."""


def get_folder(session: Session) -> Folder:
    return get_only_folder(session, "search-mcp")


def get_indexed_folder(session: Session) -> Folder:
    folder = get_folder(session)
    if not folder.was_indexed:
        raise NotIndexed(
            "This project has not been indexed yet.",
            hint="Call create_index.",
            developer=f"no index at {folder.index_dir}",
        )
    return folder


# --- consent ------------------------------------------------------------------------------------


class ConfirmInput(Input):
    confirm: Annotated[
        bool, Field(description="Go ahead without asking; for clients that cannot ask")
    ] = False


def _confirm(given: ConfirmInput, call: Call, question: str) -> bool:
    return given.confirm or call.confirm(question)


def _confirm_build(folder: Folder, given: ConfirmInput, call: Call, question: str) -> bool:
    """Ask once for the build, mentioning the number of files where it is large."""
    count, limit = len(measure_files(folder)), folder.settings.sources.max_files
    if count <= limit:
        return _confirm(given, call, question)
    large = f"It has {count:,} files, which may take some minutes."
    try:
        return _confirm(given, call, f"{large} {question}")
    except ConfirmationNeeded as error:
        raise TooManyFiles(
            f"{large} {error.message}",
            hint=error.hint,
            developer=f"{count} files, limit {limit}",
            details={"files": f"{count:,}"},
        ) from None


def _report_cancelled(folder: Folder) -> Result:
    shape = {"status": "cancelled", "projectPath": folder.root.path, "message": "Nothing was done."}
    return Result(shape, "", verbatim=True)


# --- create_index, reindex_project --------------------------------------------------------------


def create(session: Session, given: ConfirmInput, call: Call) -> Result:
    folder = get_folder(session)
    question = f"Index the project {folder.root.path} for searching?"
    if not _confirm_build(folder, given, call, question):
        return _report_cancelled(folder)
    shape = _build(folder, rebuild=False)
    create_config_file(folder)
    return Result({**shape, "projectPath": folder.root.path}, "", verbatim=True)


def reindex(session: Session, given: ConfirmInput, call: Call) -> Result:
    folder = get_indexed_folder(session)
    question = f"Rebuild the whole index of {folder.root.path}? Every file is read again."
    if not _confirm_build(folder, given, call, question):
        return _report_cancelled(folder)
    shape = _build(folder, rebuild=True)
    return Result({**shape, "message": "The index was rebuilt."}, "", verbatim=True)


def _build(folder: Folder, *, rebuild: bool) -> Json:
    started = time.monotonic()
    with _report_disk_space(folder):
        report = folder.index(
            rebuild=rebuild,
            wait_seconds=WRITER_WAIT_SECONDS,
            many=True,
        )
    _refuse_unreadable(report, ".")
    counts = next(entry for entry in folder.generations.list() if entry.active).counts
    return {
        "status": "success",
        "filesIndexed": counts.documents,
        "chunksCreated": counts.chunks,
        "duration": f"{round(time.monotonic() - started)}s",
    }


def _refuse_unreadable(report: IndexReport, uri: str) -> None:
    """Raise if the index pass could not read the file or folder that the call names."""
    for failure in report.failures:
        if failure.uri == uri:
            kind = PermissionDenied if failure.code == PermissionDenied.code else FileNotIndexed
            raise kind(
                failure.message,
                hint="Check its permissions.",
                developer=f"EACCES {failure.uri}: {failure.message}",
                details={"path": str(Path(report.root, uri))},
            )


@contextmanager
def _report_disk_space(folder: Folder) -> Iterator[None]:
    """Add the space needed and the space available to a disk-full error."""
    try:
        yield
    except DiskFull as full:
        needed = _INDEX_PER_TEXT * sum(measure_files(folder).values())
        free = _measure_free_bytes(folder.index_dir)
        space = f"ENOSPC, {_to_megabytes(needed)} MB needed, {_to_megabytes(free)} MB available"
        raise DiskFull(
            full.message,
            hint=full.hint,
            developer=f"{space}: {full.developer}",
            details=full.details,
        ) from full


def _measure_free_bytes(folder: Path) -> int:
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _to_megabytes(count: int) -> int:
    return -(-count // 1_048_576)


# --- reindex_file -------------------------------------------------------------------------------


class FileInput(Input):
    path: Annotated[Filled, Field(description="Path below the project")]


def reindex_file(session: Session, given: FileInput, _: Call) -> Result:
    folder = get_indexed_folder(session)
    uri = _resolve_file(folder, given.path)
    with _report_disk_space(folder):
        report = folder.index(only=(uri,), wait_seconds=WRITER_WAIT_SECONDS)
    _refuse_unreadable(report, uri)
    count = len(read_page(folder, uri, as_of=report.generation).chunks)
    done = "It was indexed." if report.added + report.changed else "It was up to date."
    shape = {"status": "success", "path": uri, "chunksCreated": count, "message": done}
    return Result(shape, "", verbatim=True)


def _resolve_file(folder: Folder, path: str) -> str:
    """Return the URI of a file that may be indexed, given any path to it."""
    uri = _make_relative(folder, path)
    reason = skip_reason(folder, uri)
    if reason:
        # The name on the disk may have another Unicode normal form.
        plain = _normalise(uri)
        same = (known for known in measure_files(folder) if _normalise(known) == plain)
        if known := next(same, plain if plain != uri else ""):
            uri, reason = known, skip_reason(folder, known)
    if reason == "symlink":
        raise SymlinkNotAllowed(
            f"{path} is a symbolic link.",
            hint="Name the file that it points to.",
            developer=f"{uri}: symbolic links are not followed",
            details={"path": path},
        )
    if reason:
        raise FileNotIndexed(
            f"There is no file {path} to index.",
            hint="Check the path, or list files with search_by_path.",
            developer=f"{uri}: not in the index ({reason})",
            details={"path": path},
        )
    return uri


def _normalise(path: str) -> str:
    """Return a path in Unicode form NFC, without invisible characters."""
    composed = unicodedata.normalize("NFC", path)
    return "".join(char for char in composed if unicodedata.category(char) != "Cf")


def _make_relative(folder: Folder, path: str) -> str:
    """Return a path relative to the project's root, with forward slashes."""
    if os.path.isabs(path):
        return folder.root.uri_of(path)
    plain = path.replace(os.sep, "/")
    while plain.startswith("./"):
        plain = plain[2:].lstrip("/")
    return plain


# --- delete_index -------------------------------------------------------------------------------


def delete(session: Session, given: ConfirmInput, call: Call) -> Result:
    folder = get_indexed_folder(session)
    question = (
        f"Delete the search index of {folder.root.path}? It cannot be restored, only"
        " rebuilt. The project's files stay as they are."
    )
    if not _confirm(given, call, question):
        return _report_cancelled(folder)
    folder.delete()
    shape = {
        "status": "success",
        "projectPath": folder.root.path,
        "message": "The index was deleted. The project's files are untouched.",
    }
    return Result(shape, "", verbatim=True)


# --- get_file_summary ---------------------------------------------------------------------------


class SummaryInput(Input):
    path: Annotated[Filled, Field(description="Path below the project, or absolute")]
    complexity: Annotated[
        bool, Field(alias="includeComplexity", description="With measures of complexity")
    ] = True
    docstrings: Annotated[
        bool, Field(alias="includeDocstrings", description="With documentation")
    ] = True
    cursor: Annotated[int, Field(ge=0, description="nextCursor of the page before"), WHOLE] = 0


def summarise_file(session: Session, given: SummaryInput, _: Call) -> Result:
    from lookfar.text.parse.summary import summarise

    folder = get_folder(session)
    uri = _resolve_file(folder, given.path)
    text = folder.source(uri)
    if text is None:
        raise FileNotIndexed(
            f"There is no file {given.path}.",
            hint="Check the path, or list files with search_by_path.",
            developer=f"{uri}: gone while it was read",
            details={"path": given.path},
        )
    started = time.perf_counter()
    summary = summarise(uri, text)
    took = (time.perf_counter() - started) * 1000
    shape = render_summary(
        summary,
        took,
        complexity=given.complexity,
        docstrings=given.docstrings,
        cursor=given.cursor,
    )
    return Result(shape, "", verbatim=True)


# --- search_by_path -----------------------------------------------------------------------------


class PathInput(Input):
    pattern: Annotated[Filled, Field(description="Glob such as docs/**/*.md or *auth*")]
    limit: Annotated[int, Field(ge=1, description="Most paths"), WHOLE] = 20


def search_by_path(session: Session, given: PathInput, _: Call) -> Result:
    folder = get_indexed_folder(session)
    matches = glob_matcher(given.pattern)
    uris = sorted(uri for uri, _title in titles(folder) if matches(uri))

    def render(rows: int, _chars: int) -> Json:
        return {"matches": uris[:rows], "totalMatches": len(uris)}

    return Result(fit_to_budget(min(given.limit, len(uris)), 0, render), "", verbatim=True)


# --- get_index_status ---------------------------------------------------------------------------


def get_status(session: Session, _given: Input, _: Call) -> Result:
    folder = get_folder(session)
    state = folder.status(check=False)
    label = "ready"
    if folder.failure is not None:
        label = "failed"
    elif not state.indexed:
        label = "indexing" if folder.building_since else "not_found"
    shape = {
        "status": label,
        "projectPath": folder.root.path,
        "totalFiles": state.counts.documents,
        "totalChunks": state.counts.chunks,
        "lastUpdated": format_utc(state.created_at) if state.created_at else None,
        "storageSize": _format_size(state.disk_bytes),
        "watcherActive": state.watcher is not None and state.watcher.running,
    }
    return Result(shape, "", verbatim=True)


def _format_size(count: float) -> str:
    units = ("B", "KB", "MB", "GB")
    power = 0
    while count >= 1024 and power < len(units) - 1:
        count, power = count / 1024, power + 1
    return f"{round(count, 1):g}{units[power]}" if count < 1000 else f"{round(count)}{units[power]}"
