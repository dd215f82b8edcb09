"""The toolset ``ragdocs``: ranked chunks of local Markdown, also compressed or by hypothesis.

Takes: checked arguments and a session. Gives: the shapes that clients of ragdocs know, scores
between 0 and 1 where the best of an answer has 1; where something was cut or may be missing, a
``note`` says so. Refuses: blank questions, and a hypothesis where no model can read it.

A ``doc_id`` is the file's stem, or as much of its path as tells it from all others. With several
folders a path begins with the name of its collection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from lookfar.collections.read_documents import titles
from lookfar.errors import LookfarError, ModelUnavailable
from lookfar.library import Library
from lookfar.model import Answer, Filters, Hit, Mode
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session, Tool
from lookfar.serve.toolsets.common import WHOLE, Filled, admitted, fit, flagged, noted, shown
from lookfar.serve.toolsets.ragdocs_memory import TOOLS as MEMORY_TOOLS

if TYPE_CHECKING:
    from lookfar.ports import Embedder

_FEWEST_CANDIDATES: Final = 20
_CANDIDATES_PER_HIT: Final = 3
_NAMES: Final = "ragdocs.names"
_LATEST: Final = 2**63 - 1
"""Nanoseconds that an index can tell apart."""

TopN = Annotated[int, Field(ge=1, le=100)]


def refusal(error: LookfarError) -> Json:
    """An error with everything that is known of it."""
    return error.as_dict()


# --- query_documents ----------------------------------------------------------------------------


class QueryDocumentsInput(Input):
    query: Annotated[Filled, Field(description="Question or words")]
    top_n: TopN = 5


def _query_documents(session: Session, given: QueryDocumentsInput, call: Call) -> Result:
    return query_documents(session, given, call)


def query_documents(
    session: Session, given: QueryDocumentsInput, call: Call, mode: Mode | None = None
) -> Result:
    """The tool's result, or what only one way of searching would give."""
    answer = _asked(session, given.query, given.top_n, call, mode)
    return _given(session, answer, {}, _normalised(answer.hits))


def _asked(
    session: Session,
    text: str,
    top_n: int,
    call: Call,
    mode: Mode | None = None,
    *,
    hypothesis: str = "",
    **tuned: Any,
) -> Answer:
    """The answer, chunk by chunk and each chunk whole."""
    library = session.library
    return library.search(
        text,
        mode=mode,
        top_k=top_n,
        hypothesis=hypothesis,
        tuned=replace(library.settings.search, merge_gap=-1, max_excerpt_chars=WHOLE, **tuned),
        on_progress=call.on_progress(),
    )


def _normalised(hits: Sequence[Hit]) -> list[Hit]:
    """The same hits with scores as shares of the best."""
    best = max((hit.score for hit in hits), default=0.0) or 1.0
    return [replace(hit, score=round(max(0.0, hit.score / best), 6)) for hit in hits]


def _given(
    session: Session, answer: Answer, shape: Json, hits: Sequence[Hit], notes: Sequence[str] = ()
) -> Result:
    """A result of these hits; ``shape`` has what more it says."""
    library = session.library
    names = _doc_ids(session, answer)
    shape["results"] = [
        {
            "chunk_id": hit.chunk_id,
            "doc_id": names.get(path := shown(library, hit.collection, hit.uri), path),
            "score": hit.score,
            "header_path": " > ".join(hit.path),
            "file_path": path,
            "content": hit.text,
        }
        for hit in hits
    ]
    said = fit(shape, "results", "content", narrow="Ask for fewer with top_n.")
    texts = [(each["file_path"], each["content"]) for each in shape["results"]]
    said += [*notes, *admitted(answer.incomplete), *flagged(texts)]
    return Result(noted(shape, said), f"{len(shape['results'])} results", verbatim=True)


def _doc_ids(session: Session, answer: Answer) -> Mapping[str, str]:
    """What each path is called: the shortest of its names that no other path has."""
    library = session.library
    # Whoever reaches other collections knows the same paths by other names.
    every: dict[tuple[str, ...], tuple[Mapping[str, int], dict[str, str]]]
    every = session.memory.setdefault(_NAMES, {})
    reached = tuple(library.collections)
    known = every.get(reached)
    if known is not None and known[0] == answer.generations:
        return known[1]
    paths = [
        shown(library, name, uri)
        for name in library.collections
        for uri, _ in titles(library.folder(name))
    ]
    # Files of this answer that went meanwhile have names, too.
    paths = list(
        dict.fromkeys([*paths, *(shown(library, hit.collection, hit.uri) for hit in answer.hits)])
    )
    stems = Counter(PurePosixPath(path).stem for path in paths)
    bare = Counter(map(_bare, paths))
    chosen = {}
    for path in paths:
        stem = PurePosixPath(path).stem
        longer = _bare(path) if bare[_bare(path)] == 1 else path
        chosen[path] = stem if stems[stem] == 1 else longer
    every[reached] = (dict(answer.generations), chosen)
    return chosen


def _bare(path: str) -> str:
    """A path without the ending of its file."""
    return str(PurePosixPath(path).with_suffix(""))


# --- query_documents_compressed -----------------------------------------------------------------


class QueryCompressedInput(Input):
    query: Annotated[Filled, Field(description="Question or words")]
    top_n: TopN = 5
    min_score: Annotated[float, Field(ge=0.0, le=1.0)] = 0.3
    similarity_threshold: Annotated[float, Field(ge=0.5, le=1.0)] = 0.85


def _query_compressed(session: Session, given: QueryCompressedInput, call: Call) -> Result:
    wanted = max(_FEWEST_CANDIDATES, _CANDIDATES_PER_HIT * given.top_n)
    # Equal texts are folded below, where they are counted.
    answer = _asked(session, given.query, wanted, call, dedup_exact=False)
    strong = [hit for hit in _normalised(answer.hits) if hit.score >= given.min_score]
    model = _model(session.library)
    folded = _folded(strong, given.similarity_threshold, model)[: given.top_n]
    stats: Json = {
        "original_count": len(answer.hits),
        "after_threshold": len(strong),
        "after_dedup": len(folded),
        "clusters_merged": 0,
    }
    notes = [] if model else ["Without an embedding model only equal texts were folded."]
    result = _given(
        session, answer, {"compression_stats": stats}, [hit for hit, _ in folded], notes
    )
    # Of what is given, not of what the budget left out.
    stats["after_dedup"] = len(result.data["results"])
    stats["clusters_merged"] = sum(1 for _, others in folded[: stats["after_dedup"]] if others)
    return result


def _model(library: Library) -> Embedder | None:
    models = (library.folder(name).embedder for name in library.collections)
    return next((each for each in models if each is not None), None)


def _folded(hits: Sequence[Hit], threshold: float, model: Embedder | None) -> list[tuple[Hit, int]]:
    """Hits that are unlike every better one, each with how many it stands for beside itself."""
    vectors = model.embed([hit.text for hit in hits]) if model and hits else None
    kept: list[int] = []
    others: Counter[int] = Counter()
    for at, hit in enumerate(hits):
        like = [hits[better].text.strip() == hit.text.strip() for better in kept]
        if vectors is not None and kept:
            near = vectors[kept] @ vectors[at]
            like = [
                same or bool(cosine >= threshold) for same, cosine in zip(like, near, strict=True)
            ]
        if True in like:
            others[kept[like.index(True)]] += 1
        else:
            kept.append(at)
    return [(hits[at], others[at]) for at in kept]


# --- search_with_hypothesis ---------------------------------------------------------------------


class HypothesisInput(Input):
    hypothesis: Annotated[Filled, Field(description="What the answer would say")]
    top_n: TopN = 5


def _search_with_hypothesis(session: Session, given: HypothesisInput, call: Call) -> Result:
    library = session.library
    for name in library.collections:
        if library.folder(name).embedder is None:
            raise ModelUnavailable(
                "A hypothesis is searched by meaning, and there is no embedding model.",
                hint="Set embed.provider to static, or use query_documents.",
                developer=library.folder(name).without_model,
            )
    # Meaning and nothing else: no words, no names, no standing of the whole document.
    answer = _asked(
        session, given.hypothesis, given.top_n, call, "vector", hypothesis=given.hypothesis,
        name_boost=0.0, page_share=0.0,
    )  # fmt: skip
    return _given(session, answer, {}, _normalised(answer.hits))


# --- search_git_history -------------------------------------------------------------------------


def _nothing() -> Any:
    return None


class GitHistoryInput(Input):
    query: Annotated[Filled, Field(description="Question or words")]
    top_n: TopN = 5
    min_score: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    file_pattern: Annotated[str, Field(description="Glob of a path that they change")] = ""
    author: Annotated[str, Field(description="Part of a name or address")] = ""
    # A whole number or nothing: null is as wrong as a text.
    after: int = Field(default_factory=_nothing, description="Unix time")
    before: int = Field(default_factory=_nothing, description="Unix time")


def _search_git_history(session: Session, given: GitHistoryInput, call: Call) -> Result:
    library = session.library
    answer = library.search(
        given.query,
        top_k=given.top_n,
        filters=Filters(
            lanes=("commits",),
            authors=(given.author,) if given.author else (),
            touches=given.file_pattern,
            after=_nanoseconds(given.after),
            before=_nanoseconds(given.before),
        ),
        tuned=replace(library.settings.search, per_document=1),
        on_progress=call.on_progress(),
    )
    histories = library.histories()
    shape: Json = {"results": []}
    for hit in _normalised(answer.hits):
        if hit.score < given.min_score:
            continue
        commits = histories[hit.collection]
        known = commits.details(hit.uri)
        title, _, message = known["parts"].get("Message", "").partition("\n")
        shape["results"].append(
            {
                "hash": hit.uri,
                "title": title,
                "author": known["author"],
                "committer": known["committer"],
                "timestamp": known["committed"],
                "message": message.strip("\n"),
                "files_changed": known["files"],
                "delta_truncated": known["parts"].get("Diff", ""),
                "score": hit.score,
                "repo_path": commits.repository.top,
            }
        )
    said = fit(shape, "results", "delta_truncated", narrow="Ask for fewer with top_n.")
    texts = [
        (each["hash"], f"{each['title']}\n{each['message']}\n{each['delta_truncated']}")
        for each in shape["results"]
    ]
    said += [*admitted(answer.incomplete), *flagged(texts)]
    return Result(noted(shape, said), f"{len(shape['results'])} commits", verbatim=True)


def _nanoseconds(second: int | None) -> int | None:
    return None if second is None else max(-_LATEST, min(second * 10**9, _LATEST))


# --- the table ----------------------------------------------------------------------------------

TOOLS: tuple[Tool, ...] = (
    Tool(
        "query_documents",
        "Search local Markdown by meaning and by words. Gives ranked chunks with file and"
        " headings.",
        QueryDocumentsInput,
        _query_documents,
        refusal=refusal,
    ),
    Tool(
        "query_documents_compressed",
        "The same search for less reading: hits below min_score go, and of hits nearly alike only"
        " the best stays.",
        QueryCompressedInput,
        _query_compressed,
        refusal=refusal,
    ),
    Tool(
        "search_with_hypothesis",
        "For vague questions: write what the answer would say, and find the chunks whose meaning"
        " is nearest to that text.",
        HypothesisInput,
        _search_with_hypothesis,
        refusal=refusal,
    ),
    Tool(
        "search_git_history",
        "Find commits by what they say and change: by meaning and words, also by author, time and"
        " path.",
        GitHistoryInput,
        _search_git_history,
        refusal=refusal,
    ),
    *MEMORY_TOOLS,
)
