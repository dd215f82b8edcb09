"""The tools of Search MCP: the index of one project, made, searched, looked after and removed.

Takes: checked arguments and a session over one folder, the project. Gives: the shapes that
Search MCP's clients know. Refuses: as ``{"code", "userMessage", "developerMessage"}`` with
Search MCP's codes; to make, rebuild or remove an index before somebody agreed.

Agreement is an answer to a question where the client can ask one, or ``confirm: true``.
Passages that stand beside each other and answer alike come as one result; only a result
that is one part of a split section has ``part`` and ``totalParts``.
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
from lookfar.serve.toolsets.file_summary import summary_shape
from lookfar.serve.toolsets.single import PATIENCE, fitting, only_folder, utc, worth_saying
from lookfar.sources.globs import glob_matcher
from lookfar.store.keywords.analyser import terms_of
from lookfar.text.parse.formats import FORMATS, detect_format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lookfar.collections.folder import Folder
    from lookfar.model import IndexReport

T = TypeVar("T")

_ALPHA: Final = 0.5
_WHOLE_CHUNK: Final = 1_000_000
_INDEX_PER_TEXT: Final = 3
"""Bytes that an index takes for each byte of text, rather too many than too few."""
_CHUNK_TYPES: Final = frozenset(
    ("function", "class", "method", "interface", "struct", "trait", "impl", "enum", "module")
)
"""Of symbols, as Search MCP names them; all else is "other"."""
_MODES: Final[Mapping[str, Mode]] = {"hybrid": "hybrid", "vector": "vector", "fts": "keyword"}


class FileNotIndexed(NotFound):
    """The file that a call names is not there, or nothing that is indexed."""

    code = "FILE_NOT_FOUND"


class SymlinkNotAllowed(InvalidArgument):
    code = "SYMLINK_NOT_ALLOWED"


class DocsNotIndexed(NotIndexed):
    """There is an index, and no documentation in it."""

    code = "DOCS_INDEX_NOT_FOUND"


class TooManyFiles(ConfirmationNeeded):
    code: ClassVar[str] = "FILE_LIMIT_WARNING"


def _folder(session: Session) -> Folder:
    return only_folder(session, "search-mcp")


def _indexed(session: Session) -> Folder:
    folder = _folder(session)
    if not folder.indexed:
        raise NotIndexed(
            "This project has not been indexed yet.",
            hint="Call create_index.",
            developer=f"no index at {folder.index_dir}",
        )
    return folder


# --- agreeing -----------------------------------------------------------------------------------


class ConfirmInput(Input):
    confirm: Annotated[
        bool, Field(description="Go ahead without asking; for clients that cannot ask")
    ] = False


def _agreed(given: ConfirmInput, call: Call, question: str) -> bool:
    return given.confirm or call.confirm(question)


def _agreed_to_build(folder: Folder, given: ConfirmInput, call: Call, question: str) -> bool:
    """One question for both: the build, and the number of files where that is large."""
    count, most = len(measure_files(folder)), folder.settings.sources.max_files
    if count <= most:
        return _agreed(given, call, question)
    large = f"It has {count:,} files, which may take some minutes."
    try:
        return _agreed(given, call, f"{large} {question}")
    except ConfirmationNeeded as error:
        raise TooManyFiles(
            f"{large} {error.message}",
            hint=error.hint,
            developer=f"{count} files, limit {most}",
            details={"files": f"{count:,}"},
        ) from None


def _cancelled(folder: Folder) -> Result:
    shape = {"status": "cancelled", "projectPath": folder.root.path, "message": "Nothing was done."}
    return Result(shape, "", verbatim=True)


# --- create_index, reindex_project --------------------------------------------------------------


def _create(session: Session, given: ConfirmInput, call: Call) -> Result:
    folder = _folder(session)
    question = f"Index the project {folder.root.path} for searching?"
    if not _agreed_to_build(folder, given, call, question):
        return _cancelled(folder)
    shape = _built(folder, call, rebuild=False)
    return Result({**shape, "projectPath": folder.root.path}, "", verbatim=True)


def _reindex(session: Session, given: ConfirmInput, call: Call) -> Result:
    folder = _indexed(session)
    question = f"Rebuild the whole index of {folder.root.path}? Every file is read again."
    if not _agreed_to_build(folder, given, call, question):
        return _cancelled(folder)
    shape = _built(folder, call, rebuild=True)
    return Result({**shape, "message": "The index was rebuilt."}, "", verbatim=True)


def _built(folder: Folder, call: Call, *, rebuild: bool) -> Json:
    started = time.monotonic()
    with _space_told(folder):
        report = folder.index(
            rebuild=rebuild, on_progress=call.on_progress(), wait_seconds=PATIENCE, many=True
        )
    _refuse_unreadable(report, ".")
    counts = next(each for each in folder.generations.list() if each.active).counts
    return {
        "status": "success",
        "filesIndexed": counts.documents,
        "chunksCreated": counts.chunks,
        "duration": f"{round(time.monotonic() - started)}s",
    }


def _refuse_unreadable(report: IndexReport, uri: str) -> None:
    """What a pass could not read it reports; here it is the very thing that was asked for."""
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
def _space_told(folder: Folder) -> Iterator[None]:
    """A full disk says how much room is wanted and how much there is."""
    try:
        yield
    except DiskFull as full:
        wanted = _INDEX_PER_TEXT * sum(measure_files(folder).values())
        free = _free_bytes(folder.index_dir)
        told = f"ENOSPC, {_megabytes(wanted)} MB needed, {_megabytes(free)} MB available"
        raise DiskFull(
            full.message,
            hint=full.hint,
            developer=f"{told}: {full.developer}",
            details=full.details,
        ) from full


def _free_bytes(folder: Path) -> int:
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _megabytes(count: int) -> int:
    return -(-count // 1_048_576)


# --- reindex_file -------------------------------------------------------------------------------


class FileInput(Input):
    path: Annotated[Filled, Field(description="Path below the project")]


def _reindex_file(session: Session, given: FileInput, _: Call) -> Result:
    folder = _indexed(session)
    uri = _admitted(folder, given.path)
    with _space_told(folder):
        report = folder.index(only=(uri,), wait_seconds=PATIENCE)
    _refuse_unreadable(report, uri)
    count = len(read_page(folder, uri, as_of=report.generation).chunks)
    done = "It was indexed." if report.added + report.changed else "It was up to date."
    shape = {"status": "success", "path": uri, "chunksCreated": count, "message": done}
    return Result(shape, "", verbatim=True)


def _admitted(folder: Folder, path: str) -> str:
    """The URI of a file that may be indexed, by whichever path it was called."""
    uri = _uri(folder, path)
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


def _uri(folder: Folder, path: str) -> str:
    """A path as the index knows it: from the project's root, with slashes."""
    if os.path.isabs(path):
        return folder.root.uri_of(path)
    plain = path.replace(os.sep, "/")
    while plain.startswith("./"):
        plain = plain[2:].lstrip("/")
    return plain


# --- delete_index -------------------------------------------------------------------------------


def _delete(session: Session, given: ConfirmInput, call: Call) -> Result:
    folder = _indexed(session)
    question = (
        f"Delete the search index of {folder.root.path}? It cannot be brought back, only made"
        " anew. The project's files stay as they are."
    )
    if not _agreed(given, call, question):
        return _cancelled(folder)
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
    ] = _ALPHA
    compact: Annotated[bool, Field(description="Short field names, no metadata")] = False


def _search_docs(session: Session, given: SearchInput, call: Call) -> Result:
    folder = _indexed(session)
    answer, levels = _answer_with(partial(_answer, session, given, call, "docs"), folder, _levels)
    if not answer.hits and not any(detect_format(uri) in FORMATS for uri, _ in titles(folder)):
        raise DocsNotIndexed(
            "No documentation is indexed here.",
            hint="Add some, and call create_index.",
            developer=f"no documents in {folder.index_dir}",
        )
    return _shown(folder, given, answer, lambda hit: _section_of(hit, levels), _text)


def _search_code(session: Session, given: SearchInput, call: Call) -> Result:
    folder = _indexed(session)
    answer, symbols = _answer_with(partial(_answer, session, given, call, "code"), folder, _symbols)
    return _shown(folder, given, answer, lambda hit: symbols[hit.chunk_id], lambda hit: hit.text)


def _answer_with(
    ask: Callable[[], Answer], folder: Folder, look_up: Callable[[Folder, Answer], T]
) -> tuple[Answer, T]:
    """An answer, and what is looked up in the generation that gave it."""
    answer = ask()
    try:
        return answer, look_up(folder, answer)
    except InvalidArgument:
        # A rebuild has replaced that generation meanwhile: the new one answers.
        answer = ask()
        return answer, look_up(folder, answer)


def _answer(session: Session, given: SearchInput, call: Call, lane: Lane) -> Answer:
    mode = _MODES[given.mode]
    if mode == "hybrid" and given.alpha in (0, 1):
        # The ends of the scale are the single modes, whatever else hybrid search weighs.
        mode = "vector" if given.alpha else "keyword"
    return session.library.search(
        given.query,
        mode=mode,
        top_k=given.top_k,
        filters=Filters(lanes=(lane,)),
        tuned=replace(
            _folder(session).settings.search,
            vector_weight=given.alpha,
            keyword_weight=1 - given.alpha,
            code_vector_weight=given.alpha,
            expand_known=True,
            max_excerpt_chars=_WHOLE_CHUNK,
        ),
        on_progress=call.on_progress(),
    )


def _shown(
    folder: Folder,
    given: SearchInput,
    answer: Answer,
    about: Callable[[Hit], Json],
    text_of: Callable[[Hit], str],
) -> Result:
    """The answer in the shape that was asked for, no larger than a reader can bear."""
    warning = " ".join(filter(None, (_warning(folder), worth_saying(answer))))
    longest = max((len(hit.text) for hit in answer.hits), default=0)

    def render(rows: int, most: int) -> Json:
        cut = "Texts were cut to fit." if most < longest or rows < len(answer.hits) else ""
        hits = [replace(hit, text=hit.text[:most]) for hit in answer.hits[:rows]]
        told = " ".join(filter(None, (warning, cut)))
        took = round(answer.took_ms)
        if given.compact:
            return _compact(hits, text_of, took, told)
        return _full(hits, about, text_of, took, told)

    return Result(fitting(len(answer.hits), longest, render), "", verbatim=True)


def _symbols(folder: Folder, answer: Answer) -> dict[str, Json]:
    """What each hit is part of, or else defines, by chunk."""
    from lookfar.text.parse.formats import parser_for

    parsed: dict[tuple[str, bool], Document] = {}
    found: dict[str, Json] = {}
    wanted = frozenset(terms_of(answer.query))
    for hit in answer.hits:
        # Where the cited text stands on the disk, its lines count there.
        on_disk = hit.state in ("same", "moved")
        if (hit.uri, on_disk) not in parsed:
            text = folder.readable(hit.uri) if on_disk else None
            if text is None:
                text = read_page(folder, hit.uri, as_of=answer.generation).text
            parse = parser_for(hit.uri)
            assert parse is not None
            parsed[hit.uri, on_disk] = parse(hit.uri, text)
        symbol = _symbol(parsed[hit.uri, on_disk], hit, wanted)
        kind = symbol.kind if symbol is not None else "other"
        found[hit.chunk_id] = {
            "type": kind if kind in _CHUNK_TYPES else "other",
            "name": symbol.name if symbol is not None else "",
            "signature": symbol.signature if symbol is not None else "",
        }
    return found


def _symbol(document: Document, hit: Hit, wanted: frozenset[str]) -> Symbol | None:
    """Of what begins in a hit that which is named in the question, or the first; else what the
    hit stands in."""
    inside: list[Symbol] = []
    around: Symbol | None = None
    for symbol in document.symbols:
        span = document.sections[symbol.section].span
        if hit.span.start <= span.start < hit.span.end:
            inside.append(symbol)
        elif span.start < hit.span.start < span.end:
            around = symbol
    return max(inside, key=lambda each: len(wanted & set(terms_of(each.name))), default=around)


def _levels(folder: Folder, answer: Answer) -> dict[str, int]:
    """The level of the heading that each hit is named after, by chunk."""
    levels: dict[str, int] = {}
    for uri in dict.fromkeys(hit.uri for hit in answer.hits):
        try:
            page = read_page(folder, uri, as_of=answer.generation)
        except NotFound:  # It is no longer in the index; depth is the best guess left.
            levels |= {h.chunk_id: min(len(h.path), 6) for h in answer.hits if h.uri == uri}
        else:
            levels |= {chunk.id: chunk.level for chunk in page.chunks}
    return levels


def _warning(folder: Folder) -> str:
    if folder.building_since:
        return "The index is being built; more may be found when it is done."
    if folder.failure is not None:
        return "The last update of the index failed; newer changes may be missing."
    return ""


def _full(
    hits: list[Hit],
    about: Callable[[Hit], Json],
    text_of: Callable[[Hit], str],
    took: int,
    warning: str,
) -> Json:
    rows = []
    for hit in hits:
        metadata = about(hit)
        rows.append(
            {
                "path": _path(hit),
                "text": text_of(hit),
                "score": min(hit.score, 1.0),
                "startLine": hit.span.start_line,
                "endLine": hit.span.end_line,
                **({"metadata": metadata} if metadata else {}),
            }
        )
    shape: Json = {"results": rows, "totalResults": len(hits), "searchTimeMs": took}
    return {**shape, "warning": warning} if warning else shape


def _path(hit: Hit) -> str:
    return f"[code-comment]{hit.uri}" if hit.comment else hit.uri


def _section_of(hit: Hit, levels: Mapping[str, int]) -> Json:
    """The headings above a passage; plain text and comments have none."""
    found = detect_format(hit.uri)
    if hit.comment or (found is not None and found.language == "text"):
        return {}
    metadata: Json = {
        "headerPath": list(hit.path[:-1]),
        "headerLevel": levels.get(hit.chunk_id, 0) if hit.path else 0,
        "sectionTitle": hit.path[-1] if hit.path else "",
    }
    if hit.parts > 1:
        metadata |= {"part": hit.part, "totalParts": hit.parts}
    return metadata


def _text(hit: Hit) -> str:
    """The passage under its breadcrumb."""
    outer = hit.path if hit.comment else hit.path[:-1]
    above = f"[{' > '.join(outer)}]" if outer else ""
    again = "(continued)" if hit.part > 1 else ""
    crumb = " ".join(filter(None, (above, again)))
    return f"{crumb}\n\n{hit.text}" if crumb else hit.text


def _compact(hits: list[Hit], text_of: Callable[[Hit], str], took: int, warning: str) -> Json:
    rows = [
        {
            "l": f"{_path(hit)}:{hit.span.start_line}-{hit.span.end_line}",
            "t": text_of(hit),
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

    folder = _folder(session)
    uri = _admitted(folder, given.path)
    text = folder.source(uri)
    if text is None:
        raise FileNotIndexed(
            f"There is no file {given.path}.",
            hint="Check the path, or list files with search_by_path.",
            developer=f"{uri}: gone while it was read",
            details={"path": given.path},
        )
    started = time.perf_counter()
    found = summarise(uri, text)
    took = (time.perf_counter() - started) * 1000
    shape = summary_shape(found, took, complexity=given.complexity, docstrings=given.docstrings)
    return Result(shape, "", verbatim=True)


# --- search_by_path -----------------------------------------------------------------------------


class PathInput(Input):
    pattern: Annotated[Filled, Field(description="Glob such as docs/**/*.md or *auth*")]
    limit: Annotated[int, Field(ge=1, le=100, description="Most paths")] = 20


def _search_by_path(session: Session, given: PathInput, _: Call) -> Result:
    folder = _indexed(session)
    matches = glob_matcher(given.pattern)
    found = sorted(uri for uri, _title in titles(folder) if matches(uri))

    def render(rows: int, _most: int) -> Json:
        return {"matches": found[:rows], "totalMatches": len(found)}

    return Result(fitting(min(given.limit, len(found)), 0, render), "", verbatim=True)


# --- get_index_status, get_config ---------------------------------------------------------------


class NoInput(Input):
    pass


def _status(session: Session, _given: NoInput, _: Call) -> Result:
    folder = _folder(session)
    state = folder.status(check=False)
    word = "ready"
    if folder.building_since:
        word = "indexing"
    elif folder.failure is not None:
        word = "failed"
    elif not state.indexed:
        word = "not_found"
    shape = {
        "status": word,
        "projectPath": folder.root.path,
        "totalFiles": state.counts.documents,
        "totalChunks": state.counts.chunks,
        "lastUpdated": utc(state.created_at) if state.created_at else None,
        "storageSize": _size(state.disk_bytes),
        "watcherActive": state.watcher is not None and state.watcher.running,
    }
    return Result(shape, "", verbatim=True)


def _size(count: float) -> str:
    units = ("B", "KB", "MB", "GB")
    power = 0
    while count >= 1024 and power < len(units) - 1:
        count, power = count / 1024, power + 1
    return f"{round(count, 1):g}{units[power]}" if count < 1000 else f"{round(count)}{units[power]}"


def _config(session: Session, _given: NoInput, _: Call) -> Result:
    folder = _folder(session)
    chosen = folder.settings
    of_project = Path(folder.root.path, config.PROJECT_FILE)
    path = of_project if of_project.is_file() else config.config_file()
    include, exclude = chosen.sources.include or ("**/*",), chosen.sources.exclude
    extensions = (extension for each in FORMATS for extension in each.extensions)
    shape: Json = {
        "respectGitignore": chosen.sources.respect_ignore_files,
        "maxFileSize": _file_size(chosen.sources.max_file_bytes),
        "maxFiles": chosen.sources.max_files,
        "docPatterns": [f"**/*{extension}" for extension in extensions],
        "indexDocs": True,
        "extractComments": chosen.search.comments,
        "chunkingStrategy": "code-aware",
        "hybridSearch": {"enabled": chosen.search.mode == "hybrid", "defaultAlpha": _ALPHA},
        "queryExpansion": {
            "enabled": chosen.search.expansion,
            "maxExpansionTerms": chosen.search.max_expansions,
        },
        "autoReindex": {
            "enabled": chosen.index.max_auto_files > 0,
            "checkEveryNSearches": chosen.index.check_every_searches,
            "maxAutoReindexFiles": chosen.index.max_auto_files,
        },
        "enhancedToolDescriptions": chosen.serve.enhanced_descriptions,
        "indexingStrategy": chosen.watch.strategy,
    }

    def render(rows: int, _most: int) -> Json:
        named = {"include": list(include[:rows]), "exclude": list(exclude[:rows])}
        return {"configPath": str(path), "config": {**named, **shape}}

    return Result(fitting(max(len(include), len(exclude)), 0, render), "", verbatim=True)


def _file_size(count: int) -> str:
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

_SAID: Final[Mapping[str, Callable[[LookfarError], str]]] = {
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
    """An error in Search MCP's shape: what people are told, and what developers need."""
    code = _CODES.get(error.code, error.code)
    said = _SAID[code](error) if code in _SAID else f"{error.message} {error.hint}"
    return {
        "code": code,
        "userMessage": said,
        "developerMessage": f"{code}: {error.developer}",
    }


# --- the table ----------------------------------------------------------------------------------


def _tool(name: str, about: str, given: type[Input], handler: Any, **more: Any) -> Tool:
    return Tool(name, about, given, handler, refusal=refusal, **more)


TOOLS: tuple[Tool, ...] = (
    _tool(
        "create_index",
        "Index this project so that it can be searched. Asks first.",
        ConfirmInput, _create, read_only=False,
    ),
    _tool(
        "search_docs",
        "Search the project's documentation and the comments of its code by meaning and words."
        " Gives passages with their file, lines and headings.",
        SearchInput, _search_docs,
        enhanced="Tip: for another question on a document you have read, search again instead of"
        " reading the whole file anew; that costs far fewer tokens.",
    ),
    _tool(
        "search_code",
        "Search the project's code by meaning and words. Gives functions, classes and the like"
        " with their file, lines and signature.",
        SearchInput, _search_code,
        enhanced="Tip: to find a function or how something is done, search instead of reading"
        " whole files.",
    ),
    _tool(
        "get_file_summary",
        "What a source file defines, imports and exports, and how complex it is, without its text.",
        SummaryInput, _file_summary,
    ),
    _tool(
        "search_by_path",
        "Find indexed files by a glob on their path.",
        PathInput, _search_by_path,
    ),
    _tool(
        "get_index_status",
        "Whether the project is indexed, how much of it, since when, and whether it is followed.",
        NoInput, _status, light=True,
    ),
    _tool(
        "get_config",
        "The settings that indexing and searching use here, and the file to change them in.",
        NoInput, _config,
    ),
    _tool(
        "reindex_project",
        "Read the whole project again and rebuild its index. Asks first; the old index answers"
        " until the new one is done.",
        ConfirmInput, _reindex, read_only=False,
    ),
    _tool(
        "reindex_file",
        "Bring one file of the index up to date.",
        FileInput, _reindex_file, read_only=False,
    ),
    _tool(
        "delete_index",
        "Delete the index of this project, never its files. Asks first.",
        ConfirmInput, _delete, read_only=False, destructive=True, idempotent=False,
    ),
)  # fmt: skip
