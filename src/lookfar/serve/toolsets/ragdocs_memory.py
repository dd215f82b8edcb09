"""The memory tools of the toolset ``ragdocs``: notes of agents, written, found and put away.

Takes: checked arguments and a session. Gives: the shapes that clients of ragdocs know; a
``note`` says what was cut or may be missing. Refuses: to write where the user did not allow
it, and names that are paths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, Field

from lookfar.edit.memory_file import Memory, MemoryType
from lookfar.errors import LookfarError
from lookfar.model import Filters, Hit
from lookfar.retrieve.locate.target import parse_target
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session, Tool
from lookfar.serve.toolsets.common import (
    WHOLE,
    admitted,
    fit,
    fit_text,
    flagged,
    located,
    noted,
)

if TYPE_CHECKING:
    from lookfar.edit.memories import MemoryFolder
    from lookfar.model import RelatedEntry

_USUAL: Final = 5
_MOST: Final = 100
_LINKED: Final = 10
_MOST_LINKED: Final = 1_000
_NOTHING: Final = ("\0",)
"""A URI that no document has."""


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it is blank")
    return text


def _within(limit: int) -> int:
    if not 1 <= limit <= _MOST:
        raise ValueError(f"it is not from 1 to {_MOST}")
    return limit


Filled = Annotated[str, AfterValidator(_not_blank)]
Name = Annotated[Filled, Field(description="Like why-we-retry.md")]


def refusal(error: LookfarError) -> Json:
    """An error with everything that is known of it."""
    return error.as_dict()


def _notebook(session: Session) -> MemoryFolder:
    return session.library.notebook()


def _named(did: str, made: Memory) -> Result:
    shape = {"status": did, "filename": made.name, **_about(made)}
    return Result(noted(shape, list(made.warnings)), f"{did}: {made.name}", verbatim=True)


def _about(made: Memory) -> Json:
    return {
        "title": made.title,
        "memory_type": made.type,
        "memory_status": made.status,
        "tags": list(made.tags),
        "created_at": made.created_at,
        "updated_at": made.updated_at,
        "author": made.author,
    }


# --- writing ------------------------------------------------------------------------------------


class CreateInput(Input):
    filename: Name
    content: Filled
    tags: list[str] = []
    memory_type: MemoryType = Field(default_factory=lambda: "fact")


def _create(session: Session, given: CreateInput, call: Call) -> Result:
    made = _notebook(session).create(
        given.content,
        name=given.filename,
        type=given.memory_type,
        tags=given.tags,
        author=call.client,
    )
    return _named("created", made)


class NameInput(Input):
    filename: Name


class ContentInput(Input):
    filename: Name
    content: Filled


def _update(session: Session, given: ContentInput, call: Call) -> Result:
    made = _notebook(session).update(given.filename, given.content, author=call.client)
    return _named("updated", made)


def _append(session: Session, given: ContentInput, call: Call) -> Result:
    made = _notebook(session).append(given.filename, given.content, author=call.client)
    return _named("appended", made)


def _delete(session: Session, given: NameInput, call: Call) -> Result:
    notebook = _notebook(session)
    went = notebook.read(given.filename)
    version = notebook.delete(given.filename, author=call.client)
    shape = {"status": "deleted", "filename": went.name, "trash_version": version}
    return Result(shape, f"deleted: {went.name}", verbatim=True)


def _restore(session: Session, given: NameInput, call: Call) -> Result:
    return _named("restored", _notebook(session).restore(given.filename, author=call.client))


class MergeInput(Input):
    source_files: list[str]
    target_file: Name
    summary_content: Filled


def _merge(session: Session, given: MergeInput, call: Call) -> Result:
    made = _notebook(session).merge(
        given.source_files, given.target_file, given.summary_content, author=call.client
    )
    return _named("merged", made)


# --- reading ------------------------------------------------------------------------------------


def _read(session: Session, given: NameInput, _: Call) -> Result:
    found = _notebook(session).read(given.filename)
    shape: Json = {"filename": found.name, **_about(found), "content": found.text}
    said = fit_text(shape, "content", narrow="The file has all of it.")
    said += [*found.warnings, *flagged([(found.name, found.text)])]
    return Result(noted(shape, said), found.name, verbatim=True)


class StatsInput(Input):
    pass


def _stats(session: Session, _given: StatsInput, _: Call) -> Result:
    found = asdict(_notebook(session).stats())
    shape: Json = {"total_memories": found.pop("total"), **found}
    tags: Mapping[str, int] = shape["by_tag"]
    shape["by_tag"] = dict(list(tags.items())[:_MOST_LINKED])
    return Result(shape, f"{shape['total_memories']} memories", verbatim=True)


def _none() -> Any:
    return None


class SearchInput(Input):
    query: Annotated[Filled, Field(description="Question or words")]
    limit: Annotated[int, AfterValidator(_within)] = Field(default_factory=lambda: _USUAL)
    filter_tags: list[str] = []
    # One of them or nothing: an empty text is as wrong as any other.
    filter_type: MemoryType = Field(default_factory=_none)


def _search(session: Session, given: SearchInput, call: Call) -> Result:
    uris: tuple[str, ...] = ()
    if given.filter_type:
        fitting = _notebook(session).memories(type=given.filter_type)
        uris = tuple(each.name for each in fitting) or _NOTHING
    return _found(session, given.query, given.limit, call, uris, tuple(given.filter_tags))


class LinkedInput(Input):
    query: Annotated[Filled, Field(description="Question or words")]
    target_document: Annotated[Filled, Field(description="Path of a document")]


def _search_linked(session: Session, given: LinkedInput, call: Call) -> Result:
    library = session.library
    owner, path = located(library, given.target_document)
    uri = parse_target(path, exists=False).uri
    linking, _ = library.mentions(uri, limit=_MOST_LINKED, collection=owner)
    uris = tuple(each.uri for each in linking) or _NOTHING
    return _found(session, given.query, _LINKED, call, uris, (), linking)


def _found(
    session: Session,
    query: str,
    limit: int,
    call: Call,
    uris: tuple[str, ...],
    tags: tuple[str, ...],
    linking: Sequence[RelatedEntry] = (),
) -> Result:
    library = session.library
    answer = library.search(
        query,
        top_k=limit,
        filters=Filters(lanes=("memory",), uris=uris, tags=tags),
        tuned=replace(
            library.settings.search, merge_gap=-1, max_excerpt_chars=WHOLE, per_document=1
        ),
        on_progress=call.on_progress(),
    )
    best = max((hit.score for hit in answer.hits), default=0.0) or 1.0
    links = {each.uri: each for each in linking}
    kept = {each.name: each for each in _notebook(session).memories()}
    shape: Json = {
        "results": [_row(hit, best, kept.get(hit.uri), links.get(hit.uri)) for hit in answer.hits]
    }
    said = fit(shape, "results", "content", narrow="Ask for fewer with limit.")
    said += admitted(answer.incomplete)
    said += flagged([(each["filename"], each["content"]) for each in shape["results"]])
    return Result(noted(shape, said), f"{len(shape['results'])} memories", verbatim=True)


def _row(hit: Hit, best: float, known: Memory | None, link: RelatedEntry | None) -> Json:
    row: dict[str, Any] = {
        "filename": hit.uri,
        "score": round(max(0.0, hit.score / best), 6),
        "header_path": " > ".join(hit.path),
        "memory_type": known.type if known else "",
        "tags": list(known.tags) if known else [],
        "created_at": known.created_at if known else "",
        "stale": bool(hit.stale),
        "changed_since": list(hit.stale),
        "content": hit.text,
    }
    if link is not None:
        row |= {"edge_type": link.relation, "anchor_context": link.context}
    return row


# --- the table ----------------------------------------------------------------------------------


def _writing(name: str, about: str, given: type[Input], handler: Any, **more: Any) -> Tool:
    return Tool(
        name, about, given, handler, read_only=False, writes=True, refusal=refusal, **more
    )  # fmt: skip


TOOLS: tuple[Tool, ...] = (
    _writing(
        "create_memory", "Write a new memory: a Markdown file with type and tags.",
        CreateInput, _create, idempotent=False,
    ),
    Tool("read_memory", "Give a memory, whole.", NameInput, _read, refusal=refusal),
    _writing(
        "update_memory", "Replace the text of a memory; restore_memory takes it back.",
        ContentInput, _update, destructive=True,
    ),
    _writing(
        "append_memory", "Add a paragraph to a memory.", ContentInput, _append, idempotent=False
    ),
    _writing(
        "delete_memory", "Move a memory into the trash; restore_memory brings it back.",
        NameInput, _delete, destructive=True,
    ),
    _writing(
        "restore_memory",
        "Bring a memory back from the trash, or take back the last change of one.",
        NameInput, _restore, idempotent=False,
    ),
    Tool(
        "search_memories", "Search memories by meaning and words; filter by tags and type.",
        SearchInput, _search, refusal=refusal,
    ),
    Tool(
        "search_linked_memories",
        "Search the memories that link to a document, with the words around each link.",
        LinkedInput, _search_linked, refusal=refusal,
    ),
    _writing(
        "merge_memories", "Make one memory of several, which go to the trash.",
        MergeInput, _merge, destructive=True, idempotent=False,
    ),
    Tool("get_memory_stats", "Count memories by type, status and tag.", StatsInput, _stats,
         refusal=refusal),
)  # fmt: skip
