"""The ``ragdocs`` toolset: search local Markdown, commits and memories.

Results have the shapes that clients of ragdocs know, with scores between 0 and 1. A ``note`` says
what was cut or may be missing. Documents are ranked by the settings of the preset ``ragdocs``;
commits and hypotheses by similarity, without what the preset adds to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from lookfar.errors import ModelUnavailable
from lookfar.library import Library
from lookfar.library.compat import search_for_clients
from lookfar.model import Answer, Filters, Hit, Mode
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session, Tool
from lookfar.serve.toolsets.common import (
    UNLIMITED,
    Filled,
    add_note,
    count_budget,
    describe_gaps,
    describe_hidden_characters,
    display_path,
    fit_list,
)
from lookfar.serve.toolsets.ragdocs_memory import TOOLS as MEMORY_TOOLS
from lookfar.serve.toolsets.ragdocs_memory import no_default, refusal
from lookfar.serve.toolsets.ragdocs_names import load_doc_ids

if TYPE_CHECKING:
    from lookfar.ports import Embedder

_MIN_CANDIDATES: Final = 20
_CANDIDATES_PER_HIT: Final = 3
_MAX_NANOSECONDS: Final = 2**63 - 1
"""The largest time that an index can store."""
_DOCUMENTS: Final = Filters(lanes=("docs",))
_BY_SIMILARITY: Final[Json] = {
    "fusion": "weighted",
    "boosts": False,
    "join_neighbours": False,
    "communities": False,
    "recency": False,
}
"""Search settings that rank by similarity alone, without boosts."""

TopN = Annotated[int, Field(ge=1, le=100)]


# --- query_documents ----------------------------------------------------------------------------


class QueryDocumentsInput(Input):
    query: Annotated[Filled, Field(description="Question or words")]
    top_n: TopN = 5


def query_documents(
    session: Session, given: QueryDocumentsInput, mode: Mode | None = None
) -> Result:
    """Answer the tool ``query_documents``, optionally in one search mode only."""
    answer = _search(session, given.query, given.top_n, mode)
    return _render(session, answer, given.top_n, {}, answer.hits)


def _search(
    session: Session,
    text: str,
    top_n: int,
    mode: Mode | None = None,
    *,
    hypothesis: str = "",
    **tuned: Any,
) -> Answer:
    """Search for single chunks of documents, each with its whole text."""
    library = session.library
    settings = library.settings.search
    return library.search(
        text,
        mode=mode,
        top_k=top_n,
        filters=_DOCUMENTS,
        hypothesis=hypothesis,
        tuned=replace(
            settings,
            merge_gap=-1,
            max_excerpt_chars=UNLIMITED,
            # Duplicates are dropped, so ask for more hits than the client wants.
            candidates=max(settings.candidates, _CANDIDATES_PER_HIT * top_n),
            **tuned,
        ),
        answering=search_for_clients,
    )


def _render(
    session: Session,
    answer: Answer,
    top_n: int,
    shape: Json,
    hits: Sequence[Hit],
    notes: Sequence[str] = (),
) -> Result:
    """Build a result of these hits; ``shape`` contains its other fields."""
    library = session.library
    names = load_doc_ids(session, answer)
    shape["results"] = [
        {
            "chunk_id": hit.chunk_id,
            "doc_id": names.get(path := display_path(library, hit.collection, hit.uri), path),
            "score": hit.score,
            "header_path": " > ".join(hit.path),
            "file_path": path,
            "content": hit.text,
        }
        for hit in hits
    ]
    all_notes = fit_list(
        shape, "results", "content", narrow="Ask for fewer with top_n.", most=count_budget(top_n)
    )
    texts = [(row["file_path"], row["content"]) for row in shape["results"]]
    all_notes += [*notes, *describe_gaps(answer.incomplete), *describe_hidden_characters(texts)]
    return Result(add_note(shape, all_notes), f"{len(shape['results'])} results", verbatim=True)


# --- query_documents_compressed -----------------------------------------------------------------


class QueryCompressedInput(Input):
    query: Annotated[Filled, Field(description="Question or words")]
    top_n: TopN = 5
    min_score: Annotated[float, Field(ge=0.0, le=1.0)] = 0.3
    similarity_threshold: Annotated[float, Field(ge=0.5, le=1.0)] = 0.85


def _query_compressed(session: Session, given: QueryCompressedInput, _: Call) -> Result:
    candidates = max(_MIN_CANDIDATES, _CANDIDATES_PER_HIT * given.top_n)
    # Equal texts are merged below, where they are counted.
    answer = _search(session, given.query, candidates, dedup_exact=False)
    strong = [hit for hit in answer.hits if hit.score >= given.min_score]
    model = _find_model(session.library)
    merged = _merge_similar(strong, given.similarity_threshold, model)[: given.top_n]
    stats: Json = {
        "original_count": len(answer.hits),
        "after_threshold": len(strong),
        "after_dedup": len(merged),
        "clusters_merged": 0,
    }
    notes = [] if model else ["Without an embedding model only equal texts were merged."]
    result = _render(
        session,
        answer,
        given.top_n,
        {"compression_stats": stats},
        [hit for hit, _ in merged],
        notes,
    )
    # Count only the results that fit the token budget.
    stats["after_dedup"] = len(result.data["results"])
    stats["clusters_merged"] = sum(1 for _, others in merged[: stats["after_dedup"]] if others)
    return result


def _find_model(library: Library) -> Embedder | None:
    models = (library.folder(name).embedder for name in library.collections)
    return next((model for model in models if model is not None), None)


def _merge_similar(
    hits: Sequence[Hit], threshold: float, model: Embedder | None
) -> list[tuple[Hit, int]]:
    """Merge hits into similar better ones; return the rest, each with its number of merged hits."""
    vectors = model.embed([hit.text for hit in hits]) if model and hits else None
    distinct: list[int] = []
    merged: Counter[int] = Counter()
    for at, hit in enumerate(hits):
        similar = [hits[better].text.strip() == hit.text.strip() for better in distinct]
        if vectors is not None and distinct:
            cosines = vectors[distinct] @ vectors[at]
            similar = [
                same or bool(cosine >= threshold)
                for same, cosine in zip(similar, cosines, strict=True)
            ]
        if True in similar:
            merged[distinct[similar.index(True)]] += 1
        else:
            distinct.append(at)
    return [(hits[at], merged[at]) for at in distinct]


# --- search_with_hypothesis ---------------------------------------------------------------------


class HypothesisInput(Input):
    hypothesis: Annotated[Filled, Field(description="What the answer would say")]
    top_n: TopN = 5


def _search_with_hypothesis(session: Session, given: HypothesisInput, _: Call) -> Result:
    library = session.library
    for name in library.collections:
        if library.folder(name).embedder is None:
            raise ModelUnavailable(
                "Searching by hypothesis needs an embedding model, and none is available.",
                hint="Set embed.provider to static, or use query_documents.",
                developer=library.folder(name).without_model,
            )
    # Rank by meaning alone: no words, no names, no score of the whole document.
    answer = _search(
        session, given.hypothesis, given.top_n, "vector", hypothesis=given.hypothesis,
        **_BY_SIMILARITY,
    )  # fmt: skip
    return _render(session, answer, given.top_n, {}, answer.hits)


# --- search_git_history -------------------------------------------------------------------------


class GitHistoryInput(Input):
    query: Annotated[Filled, Field(description="Question or words")]
    top_n: TopN = 5
    min_score: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    file_pattern: Annotated[str, Field(description="Glob of a path that they change")] = ""
    author: Annotated[str, Field(description="Part of a name or address")] = ""
    after: int = Field(default_factory=no_default, description="Unix time")
    before: int = Field(default_factory=no_default, description="Unix time")


def _search_git_history(session: Session, given: GitHistoryInput, _: Call) -> Result:
    library = session.library
    settings = library.settings.search
    answer = library.search(
        given.query,
        top_k=given.top_n,
        filters=Filters(
            lanes=("commits",),
            authors=(given.author,) if given.author else (),
            touches=given.file_pattern,
            after=_to_nanoseconds(given.after),
            before=_to_nanoseconds(given.before),
        ),
        tuned=replace(
            settings,
            **_BY_SIMILARITY,
            per_document=1,
            candidates=max(settings.candidates, _CANDIDATES_PER_HIT * given.top_n),
        ),
        answering=search_for_clients,
    )
    histories = library.histories()
    shape: Json = {"results": []}
    for hit in answer.hits:
        if hit.score < given.min_score:
            continue
        commits = histories[hit.collection]
        commit = commits.details(hit.uri)
        title, _, message = commit["parts"].get("Message", "").partition("\n")
        shape["results"].append(
            {
                "hash": hit.uri,
                "title": title,
                "author": commit["author"],
                "committer": commit["committer"],
                "timestamp": commit["committed"],
                "message": message.strip("\n"),
                "files_changed": commit["files"],
                "delta_truncated": commit["parts"].get("Diff", ""),
                "score": hit.score,
                "repo_path": commits.repository.top,
            }
        )
    notes = fit_list(
        shape, "results", "delta_truncated", narrow="Ask for fewer with top_n.",
        most=count_budget(given.top_n),
    )  # fmt: skip
    texts = [
        (row["hash"], f"{row['title']}\n{row['message']}\n{row['delta_truncated']}")
        for row in shape["results"]
    ]
    notes += [*describe_gaps(answer.incomplete), *describe_hidden_characters(texts)]
    return Result(add_note(shape, notes), f"{len(shape['results'])} commits", verbatim=True)


def _to_nanoseconds(second: int | None) -> int | None:
    return None if second is None else max(-_MAX_NANOSECONDS, min(second * 10**9, _MAX_NANOSECONDS))


# --- the table ----------------------------------------------------------------------------------

TOOLS: tuple[Tool, ...] = (
    Tool(
        "query_documents",
        "Search local Markdown by meaning and by words. Gives ranked chunks with file and"
        " headings.",
        QueryDocumentsInput,
        lambda session, given, _: query_documents(session, given),
        advice="Search this project's Markdown by meaning and words with `{name}`. Better than grep"
        " when you do not know the words that a document uses; grep is as good for an exact"
        " string.",
        refusal=refusal,
        by_reader=True,
    ),
    Tool(
        "query_documents_compressed",
        "The same search for less reading: hits below min_score go, and of hits nearly alike only"
        " the best stays.",
        QueryCompressedInput,
        _query_compressed,
        refusal=refusal,
        by_reader=True,
    ),
    Tool(
        "search_with_hypothesis",
        "For vague questions: write what the answer would say, and find the chunks whose meaning"
        " is nearest to that text.",
        HypothesisInput,
        _search_with_hypothesis,
        refusal=refusal,
        by_reader=True,
    ),
    Tool(
        "search_git_history",
        "Find commits by what they say and change: by meaning and words, also by author, time and"
        " path.",
        GitHistoryInput,
        _search_git_history,
        advice="`{name}` finds the commits that say or change something.",
        refusal=refusal,
    ),
    *MEMORY_TOOLS,
)
