"""The ``search-mcp`` toolset: build, search, maintain and delete the index of one project.

Results have the shapes that Search MCP's clients know. Errors are ``{"code", "userMessage",
"developerMessage"}`` with Search MCP's codes.

Building, rebuilding and deleting an index need the user's consent: an answer to a question where
the client can ask one, or ``confirm: true``. Adjacent passages that match alike are merged into
one result; only a part of a split section has ``part`` and ``totalParts``.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeVar

from pydantic import Field

from lookfar import config
from lookfar.collections.read_documents import read_page, titles
from lookfar.collections.rulings import measure_files, skip_reason
from lookfar.errors import (
    ConfirmationNeeded,
    DiskFull,
    InvalidArgument,
    LookfarError,
    NotFound,
    NotIndexed,
    PermissionDenied,
)
from lookfar.model import Answer, Document, Filters, Hit, Lane, Mode, Symbol
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session, Tool
from lookfar.serve.toolsets.common import Filled
from lookfar.serve.toolsets.file_summary import render_summary
from lookfar.serve.toolsets.single import (
    WRITER_WAIT_SECONDS,
    build_warning,
    fit_to_budget,
    format_utc,
    get_only_folder,
)
from lookfar.sources.globs import glob_matcher
from lookfar.store.keywords.analyser import terms_of
from lookfar.text.parse.formats import FORMATS, detect_format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lookfar.collections.folder import Folder
    from lookfar.model import IndexReport

T = TypeVar("T")

_DEFAULT_ALPHA: Final = 0.5
_NO_EXCERPT_LIMIT: Final = 1_000_000
_INDEX_PER_TEXT: Final = 3
"""Bytes of index per byte of text, estimated high."""
_CHUNK_TYPES: Final = frozenset(
    ("function", "class", "method", "interface", "struct", "trait", "impl", "enum", "module")
)
"""The kinds of symbols that Search MCP names; any other kind is "other"."""
_MODES: Final[Mapping[str, Mode]] = {"hybrid": "hybrid", "vector": "vector", "fts": "keyword"}


class FileNotIndexed(NotFound):
    """The named file does not exist or is not indexed."""

    code = "FILE_NOT_FOUND"


class SymlinkNotAllowed(InvalidArgument):
    code = "SYMLINK_NOT_ALLOWED"


class DocsNotIndexed(NotIndexed):
    """The index has no documentation."""

    code = "DOCS_INDEX_NOT_FOUND"


class TooManyFiles(ConfirmationNeeded):
    code: ClassVar[str] = "FILE_LIMIT_WARNING"


def _get_folder(session: Session) -> Folder:
    return get_only_folder(session, "search-mcp")


def _get_indexed_folder(session: Session) -> Folder:
    folder = _get_folder(session)
    if not folder.indexed:
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


def _create(session: Session, given: ConfirmInput, call: Call) -> Result:
    folder = _get_folder(session)
    question = f"Index the project {folder.root.path} for searching?"
    if not _confirm_build(folder, given, call, question):
        return _report_cancelled(folder)
    shape = _build(folder, call, rebuild=False)
    return Result({**shape, "projectPath": folder.root.path}, "", verbatim=True)


def _reindex(session: Session, given: ConfirmInput, call: Call) -> Result:
    folder = _get_indexed_folder(session)
    question = f"Rebuild the whole index of {folder.root.path}? Every file is read again."
    if not _confirm_build(folder, given, call, question):
        return _report_cancelled(folder)
    shape = _build(folder, call, rebuild=True)
    return Result({**shape, "message": "The index was rebuilt."}, "", verbatim=True)


def _build(folder: Folder, call: Call, *, rebuild: bool) -> Json:
    started = time.monotonic()
    with _report_disk_space(folder):
        report = folder.index(
            rebuild=rebuild,
            on_progress=call.on_progress(),
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


def _reindex_file(session: Session, given: FileInput, _: Call) -> Result:
    folder = _get_indexed_folder(session)
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
    uri = _normalise_path(folder, path)
    reason = skip_reason(folder, uri)
    if reason == "symlink":
        raise SymlinkNotAllowed(
            f"{path} is a symbolic link.",
            hint="Name the file that it leads to.",
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


def _normalise_path(folder: Folder, path: str) -> str:
    """Return a path relative to the project's root, with forward slashes."""
    if os.path.isabs(path):
        return folder.root.uri_of(path)
    plain = path.replace(os.sep, "/")
    while plain.startswith("./"):
        plain = plain[2:].lstrip("/")
    return plain


# --- delete_index -------------------------------------------------------------------------------


def _delete(session: Session, given: ConfirmInput, call: Call) -> Result:
    folder = _get_indexed_folder(session)
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


# --- search_docs, search_code -------------------------------------------------------------------


class SearchInput(Input):
    query: Annotated[Filled, Field(description="Question or words")]
    top_k: Annotated[int, Field(ge=1, le=50, description="Most results")] = 10
    mode: Annotated[
        Literal["hybrid", "vector", "fts"], Field(description="Both, meaning only, words only")
    ] = "hybrid"
    alpha: Annotated[
        float,
        Field(ge=0, le=1, allow_inf_nan=False, description="Share of meaning in hybrid mode"),
    ] = _DEFAULT_ALPHA
    compact: Annotated[bool, Field(description="Short field names, no metadata")] = False


def _search_docs(session: Session, given: SearchInput, call: Call) -> Result:
    folder = _get_indexed_folder(session)
    answer, levels = _search_and_look_up(
        partial(_search, session, given, call, "docs"), folder, _load_levels
    )
    if not answer.hits and not any(detect_format(uri) in FORMATS for uri, _ in titles(folder)):
        raise DocsNotIndexed(
            "No documentation is indexed here.",
            hint="Add some, and call create_index.",
            developer=f"no documents in {folder.index_dir}",
        )
    return _render_answer(
        folder, given, answer, lambda hit: _describe_section(hit, levels), _add_breadcrumb
    )


def _search_code(session: Session, given: SearchInput, call: Call) -> Result:
    folder = _get_indexed_folder(session)
    answer, symbols = _search_and_look_up(
        partial(_search, session, given, call, "code"), folder, _load_symbols
    )
    return _render_answer(
        folder, given, answer, lambda hit: symbols[hit.chunk_id], lambda hit: hit.text
    )


def _search_and_look_up(
    search: Callable[[], Answer], folder: Folder, look_up: Callable[[Folder, Answer], T]
) -> tuple[Answer, T]:
    """Return an answer and what ``look_up`` reads from the generation that gave it."""
    answer = search()
    try:
        return answer, look_up(folder, answer)
    except InvalidArgument:
        # A rebuild has replaced that generation meanwhile: search the new one.
        answer = search()
        return answer, look_up(folder, answer)


def _search(session: Session, given: SearchInput, call: Call, kind: Lane) -> Answer:
    mode = _MODES[given.mode]
    if mode == "hybrid" and given.alpha in (0, 1):
        # Hybrid search weighs more than alpha, so 0 and 1 use the single modes.
        mode = "vector" if given.alpha else "keyword"
    return session.library.search(
        given.query,
        mode=mode,
        top_k=given.top_k,
        filters=Filters(lanes=(kind,)),
        tuned=replace(
            _get_folder(session).settings.search,
            vector_weight=given.alpha,
            keyword_weight=1 - given.alpha,
            code_vector_weight=given.alpha,
            expand_known=True,
            max_excerpt_chars=_NO_EXCERPT_LIMIT,
        ),
        on_progress=call.on_progress(),
    )


def _render_answer(
    folder: Folder,
    given: SearchInput,
    answer: Answer,
    describe: Callable[[Hit], Json],
    get_text: Callable[[Hit], str],
) -> Result:
    """Render an answer, full or compact, within the token budget."""
    warning = " ".join(filter(None, (_describe_state(folder), build_warning(answer))))
    longest = max((len(hit.text) for hit in answer.hits), default=0)

    def render(rows: int, chars: int) -> Json:
        cut = "Texts were cut to fit." if chars < longest or rows < len(answer.hits) else ""
        hits = [replace(hit, text=hit.text[:chars]) for hit in answer.hits[:rows]]
        warnings = " ".join(filter(None, (warning, cut)))
        took = round(answer.took_ms)
        if given.compact:
            return _render_compact(hits, get_text, took, warnings)
        return _render_full(hits, describe, get_text, took, warnings)

    return Result(fit_to_budget(len(answer.hits), longest, render), "", verbatim=True)


def _load_symbols(folder: Folder, answer: Answer) -> dict[str, Json]:
    """Return the symbol that each hit defines or is part of, by chunk."""
    from lookfar.text.parse.formats import parser_for

    parsed: dict[tuple[str, bool], Document] = {}
    symbols: dict[str, Json] = {}
    query_terms = frozenset(terms_of(answer.query))
    for hit in answer.hits:
        # The lines of a hit that is still on disk count in the file, not in the index.
        on_disk = hit.state in ("same", "moved")
        if (hit.uri, on_disk) not in parsed:
            text = folder.readable(hit.uri) if on_disk else None
            if text is None:
                text = read_page(folder, hit.uri, as_of=answer.generation).text
            parse = parser_for(hit.uri)
            assert parse is not None
            parsed[hit.uri, on_disk] = parse(hit.uri, text)
        symbol = _choose_symbol(parsed[hit.uri, on_disk], hit, query_terms)
        kind = symbol.kind if symbol is not None else "other"
        symbols[hit.chunk_id] = {
            "type": kind if kind in _CHUNK_TYPES else "other",
            "name": symbol.name if symbol is not None else "",
            "signature": symbol.signature if symbol is not None else "",
        }
    return symbols


def _choose_symbol(document: Document, hit: Hit, query_terms: frozenset[str]) -> Symbol | None:
    """Return the symbol starting in the hit that best matches the query, or the enclosing one."""
    inside: list[Symbol] = []
    around: Symbol | None = None
    for symbol in document.symbols:
        span = document.sections[symbol.section].span
        if hit.span.start <= span.start < hit.span.end:
            inside.append(symbol)
        elif span.start < hit.span.start < span.end:
            around = symbol
    return max(
        inside,
        key=lambda symbol: len(query_terms & set(terms_of(symbol.name))),
        default=around,
    )


def _load_levels(folder: Folder, answer: Answer) -> dict[str, int]:
    """Return the heading level of each hit, by chunk."""
    levels: dict[str, int] = {}
    for uri in dict.fromkeys(hit.uri for hit in answer.hits):
        try:
            page = read_page(folder, uri, as_of=answer.generation)
        except NotFound:  # No longer in the index: guess the level from the depth.
            levels |= {h.chunk_id: min(len(h.path), 6) for h in answer.hits if h.uri == uri}
        else:
            levels |= {chunk.id: chunk.level for chunk in page.chunks}
    return levels


def _describe_state(folder: Folder) -> str:
    if folder.building_since:
        return "The index is being built; more may be found when it is done."
    if folder.failure is not None:
        return "The last update of the index failed; newer changes may be missing."
    return ""


def _render_full(
    hits: list[Hit],
    describe: Callable[[Hit], Json],
    get_text: Callable[[Hit], str],
    took: int,
    warning: str,
) -> Json:
    rows = []
    for hit in hits:
        metadata = describe(hit)
        rows.append(
            {
                "path": _render_path(hit),
                "text": get_text(hit),
                "score": min(hit.score, 1.0),
                "startLine": hit.span.start_line,
                "endLine": hit.span.end_line,
                **({"metadata": metadata} if metadata else {}),
            }
        )
    shape: Json = {"results": rows, "totalResults": len(hits), "searchTimeMs": took}
    return {**shape, "warning": warning} if warning else shape


def _render_path(hit: Hit) -> str:
    return f"[code-comment]{hit.uri}" if hit.comment else hit.uri


def _describe_section(hit: Hit, levels: Mapping[str, int]) -> Json:
    """Return the headings above a passage; plain text and comments have none."""
    file_format = detect_format(hit.uri)
    if hit.comment or (file_format is not None and file_format.language == "text"):
        return {}
    metadata: Json = {
        "headerPath": list(hit.path[:-1]),
        "headerLevel": levels.get(hit.chunk_id, 0) if hit.path else 0,
        "sectionTitle": hit.path[-1] if hit.path else "",
    }
    if hit.parts > 1:
        metadata |= {"part": hit.part, "totalParts": hit.parts}
    return metadata


def _add_breadcrumb(hit: Hit) -> str:
    """Return the passage below a line with its outer headings."""
    outer = hit.path if hit.comment else hit.path[:-1]
    above = f"[{' > '.join(outer)}]" if outer else ""
    continued = "(continued)" if hit.part > 1 else ""
    crumb = " ".join(filter(None, (above, continued)))
    return f"{crumb}\n\n{hit.text}" if crumb else hit.text


def _render_compact(
    hits: list[Hit], get_text: Callable[[Hit], str], took: int, warning: str
) -> Json:
    rows = [
        {
            "l": f"{_render_path(hit)}:{hit.span.start_line}-{hit.span.end_line}",
            "t": get_text(hit),
            "s": round(min(hit.score, 1.0), 2),
        }
        for hit in hits
    ]
    shape: Json = {"r": rows, "n": len(rows), "ms": took}
    return {**shape, "w": warning} if warning else shape


# --- get_file_summary ---------------------------------------------------------------------------


class SummaryInput(Input):
    path: Annotated[Filled, Field(description="Path below the project, or absolute")]
    complexity: Annotated[
        bool, Field(alias="includeComplexity", description="With measures of complexity")
    ] = True
    docstrings: Annotated[
        bool, Field(alias="includeDocstrings", description="With documentation")
    ] = True


def _file_summary(session: Session, given: SummaryInput, _: Call) -> Result:
    from lookfar.text.parse.summary import summarise

    folder = _get_folder(session)
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
    shape = render_summary(summary, took, complexity=given.complexity, docstrings=given.docstrings)
    return Result(shape, "", verbatim=True)


# --- search_by_path -----------------------------------------------------------------------------


class PathInput(Input):
    pattern: Annotated[Filled, Field(description="Glob such as docs/**/*.md or *auth*")]
    limit: Annotated[int, Field(ge=1, le=100, description="Most paths")] = 20


def _search_by_path(session: Session, given: PathInput, _: Call) -> Result:
    folder = _get_indexed_folder(session)
    matches = glob_matcher(given.pattern)
    uris = sorted(uri for uri, _title in titles(folder) if matches(uri))

    def render(rows: int, _chars: int) -> Json:
        return {"matches": uris[:rows], "totalMatches": len(uris)}

    return Result(fit_to_budget(min(given.limit, len(uris)), 0, render), "", verbatim=True)


# --- get_index_status, get_config ---------------------------------------------------------------


class NoInput(Input):
    pass


def _status(session: Session, _given: NoInput, _: Call) -> Result:
    folder = _get_folder(session)
    state = folder.status(check=False)
    label = "ready"
    if folder.building_since:
        label = "indexing"
    elif folder.failure is not None:
        label = "failed"
    elif not state.indexed:
        label = "not_found"
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


def _config(session: Session, _given: NoInput, _: Call) -> Result:
    folder = _get_folder(session)
    settings = folder.settings
    project_file = Path(folder.root.path, config.PROJECT_FILE)
    path = project_file if project_file.is_file() else config.config_file()
    path = settings.foreign.files[-1] if settings.foreign.files else path
    include, exclude = settings.sources.include or ("**/*",), settings.sources.exclude
    extensions = (extension for known in FORMATS for extension in known.extensions)
    shape: Json = {
        "respectGitignore": settings.sources.respect_ignore_files,
        "maxFileSize": _format_file_size(settings.sources.max_file_bytes),
        "maxFiles": settings.sources.max_files,
        "docPatterns": [f"**/*{extension}" for extension in extensions],
        "indexDocs": True,
        "extractComments": settings.search.comments,
        "chunkingStrategy": "code-aware",
        "hybridSearch": {
            "enabled": settings.search.mode == "hybrid",
            "defaultAlpha": _DEFAULT_ALPHA,
        },
        "queryExpansion": {
            "enabled": settings.search.expansion,
            "maxExpansionTerms": settings.search.max_expansions,
        },
        "autoReindex": {
            "enabled": settings.index.max_auto_files > 0,
            "checkEveryNSearches": settings.index.check_every_searches,
            "maxAutoReindexFiles": settings.index.max_auto_files,
        },
        "enhancedToolDescriptions": settings.serve.enhanced_descriptions,
        "indexingStrategy": settings.watch.strategy,
    }

    def render(rows: int, _chars: int) -> Json:
        patterns = {"include": list(include[:rows]), "exclude": list(exclude[:rows])}
        return {"configPath": str(path), "config": {**patterns, **shape}}

    return Result(fit_to_budget(max(len(include), len(exclude)), 0, render), "", verbatim=True)


def _format_file_size(count: int) -> str:
    return f"{count // 1_048_576}MB" if count % 1_048_576 == 0 else f"{-(-count // 1024)}KB"


# --- refusals -----------------------------------------------------------------------------------

_CODES: Final[Mapping[str, str]] = {
    "NOT_INDEXED": "INDEX_NOT_FOUND",
    "MODEL_UNAVAILABLE": "MODEL_DOWNLOAD_FAILED",
    "INDEX_TOO_NEW": "INDEX_CORRUPT",
    "INDEX_HELD": "INDEX_BUSY",
    "OUTSIDE_ROOT": "INVALID_ARGUMENT",
    "INVALID_CONFIG": "INVALID_ARGUMENT",
    "AMBIGUOUS": "INVALID_ARGUMENT",
    "ROOT_NOT_FOUND": "PROJECT_NOT_DETECTED",
    "NOT_FOUND": "FILE_NOT_FOUND",
    "IO_ERROR": "INTERNAL",
    "INDEX_READ_ONLY": "PERMISSION_DENIED",
    "REPOSITORY_REFUSED": "PERMISSION_DENIED",
}

_USER_MESSAGES: Final[Mapping[str, Callable[[LookfarError], str]]] = {
    "INDEX_NOT_FOUND": lambda _: (
        "This project is not prepared for searching yet. Shall I index it now?"
    ),
    "DOCS_INDEX_NOT_FOUND": lambda _: (
        "No documentation was found to search. Run create_index once there is some."
    ),
    "MODEL_DOWNLOAD_FAILED": lambda _: (
        "The language model could not be set up. Check your connection and its settings."
    ),
    "INDEX_CORRUPT": lambda _: (
        "The stored search data cannot be read. It is being rebuilt; try again soon."
    ),
    "FILE_LIMIT_WARNING": lambda error: (
        f"This project has {error.details.get('files')} files, and indexing it may take some"
        " minutes. To continue, call again with confirm: true."
    ),
    "PERMISSION_DENIED": lambda _: (
        "Some files may not be read or written. Check the permissions of the folder."
    ),
    "DISK_FULL": lambda _: "There is no room left on the disk. Free some space and try again.",
    "FILE_NOT_FOUND": lambda error: (
        f"The file {error.details.get('path') or 'you named'} was not found among the project's"
        " documents. Check its path."
    ),
    "PROJECT_NOT_DETECTED": lambda _: (
        "No project was found here. Choose the folder that you want to search."
    ),
    "SYMLINK_NOT_ALLOWED": lambda error: (
        f"{error.details.get('path')} is a link to another place. For safety links are not"
        " followed; name the file itself."
    ),
    "INDEX_BUSY": lambda _: (
        "The search index is being updated right now. Try again in a moment; searching works."
    ),
    "INTERNAL": lambda _: "Something went wrong. Try again, and look into the log if it stays so.",
}


def refusal(error: LookfarError) -> Json:
    """Render an error in Search MCP's shape, with a message for users and one for developers."""
    code = _CODES.get(error.code, error.code)
    if code in _USER_MESSAGES:
        message = _USER_MESSAGES[code](error)
    else:
        message = f"{error.message} {error.hint}"
    return {
        "code": code,
        "userMessage": message,
        "developerMessage": f"{code}: {error.developer}",
    }


# --- the table ----------------------------------------------------------------------------------


def _make_tool(name: str, about: str, given: type[Input], handler: Any, **more: Any) -> Tool:
    return Tool(name, about, given, handler, refusal=refusal, **more)


TOOLS: tuple[Tool, ...] = (
    _make_tool(
        "create_index",
        "Index this project so that it can be searched. Asks first.",
        ConfirmInput, _create, read_only=False,
    ),
    _make_tool(
        "search_docs",
        "Search the project's documentation and the comments of its code by meaning and words."
        " Gives passages with their file, lines and headings.",
        SearchInput, _search_docs,
        enhanced="Tip: for another question on a document you have read, search again instead of"
        " reading the whole file again; that costs far fewer tokens.",
    ),
    _make_tool(
        "search_code",
        "Search the project's code by meaning and words. Gives functions, classes and the like"
        " with their file, lines and signature.",
        SearchInput, _search_code,
        enhanced="Tip: to find a function or how something is done, search instead of reading"
        " whole files.",
    ),
    _make_tool(
        "get_file_summary",
        "What a source file defines, imports and exports, and how complex it is, without its text.",
        SummaryInput, _file_summary,
    ),
    _make_tool(
        "search_by_path",
        "Find indexed files by a glob on their path.",
        PathInput, _search_by_path,
    ),
    _make_tool(
        "get_index_status",
        "Whether the project is indexed, how much of it, since when, and whether it is followed.",
        NoInput, _status, light=True,
    ),
    _make_tool(
        "get_config",
        "The settings that indexing and searching use here, and the file to change them in.",
        NoInput, _config,
    ),
    _make_tool(
        "reindex_project",
        "Read the whole project again and rebuild its index. Asks first; the old index answers"
        " until the new one is done.",
        ConfirmInput, _reindex, read_only=False,
    ),
    _make_tool(
        "reindex_file",
        "Bring one file of the index up to date.",
        FileInput, _reindex_file, read_only=False,
    ),
    _make_tool(
        "delete_index",
        "Delete the index of this project, never its files. Asks first.",
        ConfirmInput, _delete, read_only=False, destructive=True, idempotent=False,
    ),
)  # fmt: skip
