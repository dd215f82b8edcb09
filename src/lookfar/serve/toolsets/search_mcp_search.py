"""Search MCP's searches: ``search_docs`` and ``search_code``.

A result is one section, definition or comment. Its lines are those of its text, also where the
text was cut to fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from lookfar.collections.read_documents import titles
from lookfar.library.compat import search_for_clients
from lookfar.model import Answer, Filters, Hit, Lane, Mode
from lookfar.serve.tools.tool import LONGEST_TIME, Call, Input, Json, Result, Session
from lookfar.serve.toolsets.common import WHOLE, Filled, search_and_look_up
from lookfar.serve.toolsets.search_mcp_config import get_default_alpha
from lookfar.serve.toolsets.search_mcp_errors import DocsNotIndexed
from lookfar.serve.toolsets.search_mcp_index import get_folder, get_indexed_folder
from lookfar.serve.toolsets.search_mcp_passages import (
    MOST_CHARS,
    Described,
    add_breadcrumb,
    cut_text,
    describe_definitions,
    describe_sections,
)
from lookfar.serve.toolsets.single import build_warning, fit_to_budget
from lookfar.text.parse.formats import FORMATS, detect_format

if TYPE_CHECKING:
    from lookfar.collections.folder import Folder
    from lookfar.config import Settings

_NO_EXCERPT_LIMIT: Final = 1_000_000
_MODES: Final[dict[str, Mode]] = {"hybrid": "hybrid", "vector": "vector", "fts": "keyword"}


class SearchInput(Input):
    query: Annotated[Filled, Field(description="Question or words")]
    top_k: Annotated[int, Field(ge=1, le=50, description="Most results"), WHOLE] = 10
    mode: Annotated[
        Literal["hybrid", "vector", "fts"], Field(description="Both, meaning only, words only")
    ] = "hybrid"
    alpha: Annotated[
        float,
        Field(ge=0, le=1, allow_inf_nan=False, description="Share of meaning in hybrid mode"),
    ] = 0.5
    compact: Annotated[bool, Field(description="Short field names, no metadata")] = False


def search_docs(session: Session, given: SearchInput, _: Call) -> Result:
    folder = get_indexed_folder(session)
    answer, described = search_and_look_up(
        lambda: _search(session, given, "docs"), partial(describe_sections, folder)
    )
    if not answer.hits and not any(detect_format(uri) in FORMATS for uri, _ in titles(folder)):
        raise DocsNotIndexed(
            "No documentation is indexed here.",
            hint="Add some, and call create_index.",
            developer=f"no documents in {folder.index_dir}",
        )
    return _render_answer(folder, given, answer, described, add_breadcrumb)


def search_code(session: Session, given: SearchInput, _: Call) -> Result:
    folder = get_indexed_folder(session)
    answer, described = search_and_look_up(
        lambda: _search(session, given, "code"), partial(describe_definitions, folder)
    )
    return _render_answer(folder, given, answer, described, lambda hit: hit.text)


def _search(session: Session, given: SearchInput, kind: Lane) -> Answer:
    settings = get_folder(session).settings
    mode, alpha = _choose_mode(given, settings)
    tuned = replace(
        settings.search, alpha=alpha, expand_known=True, max_excerpt_chars=_NO_EXCERPT_LIMIT
    )
    return session.library.search(
        given.query,
        mode=mode,
        top_k=given.top_k,
        filters=Filters(lanes=(kind,)),
        tuned=tuned,
        answering=partial(search_for_clients, comments=kind == "docs" and tuned.comments),
    )


def _choose_mode(given: SearchInput, settings: Settings) -> tuple[Mode, float]:
    """Return the mode and the share of meaning: as asked for, otherwise as configured."""
    asked = given.model_fields_set
    mode = _MODES[given.mode]
    if "mode" not in asked and settings.search.mode == "vector":
        mode = "vector"
    alpha = given.alpha if "alpha" in asked else get_default_alpha(settings)
    if mode == "hybrid" and alpha in (0, 1):
        # Hybrid search weighs more than alpha, so 0 and 1 use the single modes.
        mode = "vector" if alpha else "keyword"
    return mode, alpha


def _render_answer(
    folder: Folder,
    given: SearchInput,
    answer: Answer,
    described: list[Described],
    get_text: Callable[[Hit], str],
) -> Result:
    """Render an answer, full or compact, within the token budget."""
    failed = "The last update of the index failed; newer changes may be missing."
    warning = " ".join(filter(None, (failed if folder.failure else "", build_warning(answer))))
    longest = min(max((len(get_text(hit)) for hit, _ in described), default=0), MOST_CHARS)

    def render(rows: int, chars: int) -> Json:
        fitting = [(cut_text(hit, get_text, chars), about) for hit, about in described[:rows]]
        cut = "Texts were cut to fit." if chars < longest or rows < len(described) else ""
        warnings = " ".join(filter(None, (warning, cut)))
        if given.compact:
            return _render_compact(fitting, get_text, warnings)
        return _render_full(fitting, get_text, warnings)

    shape = fit_to_budget(len(described), longest, render)
    shape["ms" if given.compact else "searchTimeMs"] = round(answer.took_ms)
    return Result(shape, "", verbatim=True)


def _render_full(described: list[Described], get_text: Callable[[Hit], str], warning: str) -> Json:
    rows = [
        {
            "path": _render_path(hit),
            "text": get_text(hit),
            "score": hit.score,
            "startLine": hit.span.start_line,
            "endLine": hit.span.end_line,
            **({"metadata": metadata} if metadata else {}),
        }
        for hit, metadata in described
    ]
    shape: Json = {"results": rows, "totalResults": len(rows), "searchTimeMs": LONGEST_TIME}
    return {**shape, "warning": warning} if warning else shape


def _render_path(hit: Hit) -> str:
    return f"[code-comment]{hit.uri}" if hit.comment else hit.uri


def _render_compact(
    described: list[Described], get_text: Callable[[Hit], str], warning: str
) -> Json:
    rows = [
        {
            "l": f"{_render_path(hit)}:{hit.span.start_line}-{hit.span.end_line}",
            "t": get_text(hit),
            "s": round(hit.score, 2),
        }
        for hit, _ in described
    ]
    shape: Json = {"r": rows, "n": len(rows), "ms": LONGEST_TIME}
    return {**shape, "w": warning} if warning else shape
