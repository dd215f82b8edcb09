"""The memory tools of the ``ragdocs`` toolset: write, search and delete the notes of agents.

Results have the shapes that clients of ragdocs know. A ``note`` says what was cut or may be
missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, Field

from lookfar.edit.memory_file import Memory, MemoryType
from lookfar.errors import LookfarError
from lookfar.library.compat import search_for_clients
from lookfar.model import Filters, Hit
from lookfar.retrieve.locate.target import parse_target
from lookfar.serve.show.printable import safe_name
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session, Tool
from lookfar.serve.toolsets.common import (
    UNLIMITED,
    NotBlank,
    add_note,
    count_budget,
    describe_gaps,
    describe_hidden_characters,
    fit_list,
    fit_text,
)
from lookfar.serve.toolsets.ragdocs_names import find_document

if TYPE_CHECKING:
    from lookfar.edit.memories import MemoryFolder
    from lookfar.model import RelatedEntry

_DEFAULT_LIMIT: Final = 5
_MAX_LIMIT: Final = 100
_LINKED_LIMIT: Final = 10
_MAX_LINKED: Final = 1_000
_MAX_TAGS: Final = 1_000


def _check_limit(limit: int) -> int:
    if not 1 <= limit <= _MAX_LIMIT:
        raise ValueError(f"it must be from 1 to {_MAX_LIMIT}")
    return limit


Name = Annotated[NotBlank, Field(description="Like why-we-retry.md")]


def refusal(error: LookfarError) -> Json:
    """Render an error with all its fields."""
    return error.as_dict()


def _get_notebook(session: Session) -> MemoryFolder:
    return session.library.notebook()


def _report(status: str, memory: Memory) -> Result:
    shape = {"status": status, "filename": memory.name, **_render_memory(memory)}
    notes = list(memory.warnings)
    return Result(add_note(shape, notes), f"{status}: {memory.name}", verbatim=True)


def _render_memory(memory: Memory) -> Json:
    return {
        "title": memory.title,
        "memory_type": memory.type,
        "memory_status": memory.status,
        "tags": list(memory.tags),
        "created_at": memory.created_at,
        "updated_at": memory.updated_at,
        "author": memory.author,
    }


# --- writing ------------------------------------------------------------------------------------


class CreateInput(Input):
    filename: Name
    content: NotBlank
    tags: list[str] = []
    memory_type: MemoryType = Field(default_factory=lambda: "fact")


def _create(session: Session, given: CreateInput, call: Call) -> Result:
    memory = _get_notebook(session).create(
        given.content,
        name=given.filename,
        type=given.memory_type,
        tags=given.tags,
        author=call.client,
    )
    return _report("created", memory)


class NameInput(Input):
    filename: Name


class ContentInput(Input):
    filename: Name
    content: NotBlank


def _update(session: Session, given: ContentInput, call: Call) -> Result:
    memory = _get_notebook(session).update(given.filename, given.content, author=call.client)
    return _report("updated", memory)


def _append(session: Session, given: ContentInput, call: Call) -> Result:
    memory = _get_notebook(session).append(given.filename, given.content, author=call.client)
    return _report("appended", memory)


def _delete(session: Session, given: NameInput, call: Call) -> Result:
    notebook = _get_notebook(session)
    memory = notebook.read(given.filename)
    version = notebook.delete(given.filename, author=call.client)
    shape = {"status": "deleted", "filename": memory.name, "trash_version": version}
    return Result(shape, f"deleted: {memory.name}", verbatim=True)


def _restore(session: Session, given: NameInput, call: Call) -> Result:
    return _report("restored", _get_notebook(session).restore(given.filename, author=call.client))


class MergeInput(Input):
    source_files: list[str]
    target_file: Name
    summary_content: NotBlank


def _merge(session: Session, given: MergeInput, call: Call) -> Result:
    memory = _get_notebook(session).merge(
        given.source_files, given.target_file, given.summary_content, author=call.client
    )
    return _report("merged", memory)


# --- reading ------------------------------------------------------------------------------------


def _read(session: Session, given: NameInput, _: Call) -> Result:
    memory = _get_notebook(session).read(given.filename)
    shape: Json = {"filename": memory.name, **_render_memory(memory), "content": memory.text}
    notes = fit_text(shape, "content", narrow="The file has the whole text.")
    notes += [*memory.warnings, *describe_hidden_characters([(memory.name, memory.text)])]
    return Result(add_note(shape, notes), memory.name, verbatim=True)


class StatsInput(Input):
    pass


def _stats(session: Session, _given: StatsInput, _: Call) -> Result:
    counts = asdict(_get_notebook(session).stats())
    shape: Json = {"total_memories": counts.pop("total"), **counts}
    tags: Mapping[str, int] = shape["by_tag"]
    shape["by_tag"] = dict(list(tags.items())[:_MAX_TAGS])
    return Result(shape, f"{shape['total_memories']} memories", verbatim=True)


def no_default() -> Any:
    """Return nothing: the default is None, but the schema does not allow null."""
    return None


class SearchInput(Input):
    query: Annotated[NotBlank, Field(description="Question or words")]
    limit: Annotated[int, AfterValidator(_check_limit)] = Field(
        default_factory=lambda: _DEFAULT_LIMIT
    )
    filter_tags: list[str] = []
    filter_type: MemoryType = Field(default_factory=no_default)


def _search(session: Session, given: SearchInput, _: Call) -> Result:
    uris: tuple[str, ...] = ()
    if kind := given.filter_type:
        uris = tuple(memory.name for memory in _get_notebook(session).memories(type=kind))
        if not uris:
            return _report_none(f"There is no memory of the type {kind}.")
    return _search_memories(session, given.query, given.limit, uris, tuple(given.filter_tags))


def _report_none(note: str) -> Result:
    return Result(add_note({"results": []}, [safe_name(note)]), "0 memories", verbatim=True)


class LinkedInput(Input):
    query: Annotated[NotBlank, Field(description="Question or words")]
    target_document: Annotated[NotBlank, Field(description="Path or doc_id of a document")]


def _search_linked(session: Session, given: LinkedInput, _: Call) -> Result:
    target = given.target_document
    owner, path = find_document(session, target)
    uri = parse_target(path, exists=False).uri
    linking = session.library.mentions(uri, limit=_MAX_LINKED, collection=owner)[0]
    if not linking:
        return _report_none(f"No memory links to {target!r}.")
    uris = tuple(link.uri for link in linking)
    return _search_memories(session, given.query, _LINKED_LIMIT, uris, (), linking)


def _search_memories(
    session: Session,
    query: str,
    limit: int,
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
            library.settings.search, merge_gap=-1, max_excerpt_chars=UNLIMITED, per_document=1
        ),
        answering=search_for_clients,
    )
    links = {link.uri: link for link in linking}
    memories = {memory.name: memory for memory in _get_notebook(session).memories()}
    shape: Json = {
        "results": [
            _render_hit(hit, memories.get(hit.uri), links.get(hit.uri)) for hit in answer.hits
        ]
    }
    notes = fit_list(
        shape, "results", "content", narrow="Ask for fewer with limit.", most=count_budget(limit)
    )
    notes += describe_gaps(answer.incomplete)
    texts = [(row["filename"], row["content"]) for row in shape["results"]]
    notes += describe_hidden_characters(texts)
    return Result(add_note(shape, notes), f"{len(shape['results'])} memories", verbatim=True)


def _render_hit(hit: Hit, memory: Memory | None, link: RelatedEntry | None) -> Json:
    row: dict[str, Any] = {
        "filename": hit.uri,
        "score": hit.score,
        "header_path": " > ".join(hit.path),
        "memory_type": memory.type if memory else "",
        "tags": list(memory.tags) if memory else [],
        "created_at": memory.created_at if memory else "",
        "stale": bool(hit.stale),
        "changed_since": list(hit.stale),
        "content": hit.text,
    }
    if link is not None:
        row |= {"edge_type": link.relation, "anchor_context": link.context}
    return row


# --- the table ----------------------------------------------------------------------------------


def _make_writer(name: str, about: str, given: type[Input], handler: Any, **more: Any) -> Tool:
    return Tool(
        name, about, given, handler, read_only=False, writes=True, refusal=refusal, **more
    )  # fmt: skip


TOOLS: tuple[Tool, ...] = (
    _make_writer(
        "create_memory", "Write a new memory: a Markdown file with type and tags.",
        CreateInput, _create, idempotent=False,
    ),
    Tool("read_memory", "Return a whole memory.", NameInput, _read, refusal=refusal),
    _make_writer(
        "update_memory", "Replace the text of a memory; restore_memory takes it back.",
        ContentInput, _update, destructive=True,
    ),
    _make_writer(
        "append_memory", "Add a paragraph to a memory.", ContentInput, _append, idempotent=False
    ),
    _make_writer(
        "delete_memory", "Move a memory into the trash; restore_memory brings it back.",
        NameInput, _delete, destructive=True,
    ),
    _make_writer(
        "restore_memory",
        "Bring a memory back from the trash, or take back the last change of one.",
        NameInput, _restore, idempotent=False,
    ),
    Tool(
        "search_memories", "Search memories by meaning and words; filter by tags and type.",
        SearchInput, _search, refusal=refusal, advice="`{name}` finds what was kept for later.",
    ),
    Tool(
        "search_linked_memories",
        "Search the memories that link to a document, with the words around each link.",
        LinkedInput, _search_linked, refusal=refusal,
    ),
    _make_writer(
        "merge_memories", "Make one memory of several, which go to the trash.",
        MergeInput, _merge, destructive=True, idempotent=False,
    ),
    Tool("get_memory_stats", "Count memories by type, status and tag.", StatsInput, _stats,
         refusal=refusal),
)  # fmt: skip
