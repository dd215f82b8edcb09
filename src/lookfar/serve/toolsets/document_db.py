"""The ``document-db`` toolset: insert texts, find similar ones, and delete them for good.

Results have the shapes that clients of Document DB know. A ``score`` is a cosine distance,
nearest first, and is absent where none was measured. Errors have the code ``NOT_FOUND`` or
``INVALID_REQUEST`` where one of them fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, Field

from lookfar.collections.inserting import checked_name
from lookfar.errors import InvalidArgument, LookfarError, NotFound
from lookfar.serve.show.json_shapes import similar as render_chunk
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session, Tool
from lookfar.serve.toolsets.common import (
    NotBlank,
    add_note,
    describe_gaps,
    describe_hidden_characters,
    fit_list,
)

if TYPE_CHECKING:
    from lookfar.collections.databases import Documents

_DEFAULT_TOP_K: Final = 10
_MAX_TOP_K: Final = 1_000


def _check_top_k(number: int) -> int:
    if not 1 <= number <= _MAX_TOP_K:
        raise ValueError(f"it must be from 1 to {_MAX_TOP_K:,}")
    return number


def refusal(error: LookfarError) -> Json:
    """Render an error, with a code of Document DB where one fits."""
    code = error.code
    if isinstance(error, NotFound):
        code = "NOT_FOUND"
    elif isinstance(error, InvalidArgument):
        code = "INVALID_REQUEST"
    shape: Json = {"code": code, "message": error.message, "hint": error.hint}
    return shape | ({"details": dict(error.details)} if error.details else {})


Name = Annotated[str, Field(description="Letters, digits, _ and -; default: vectors")]


def _get_database(session: Session, name: str) -> Documents:
    if name:
        checked_name(name)
    return session.library.database(name)


# --- the tools ----------------------------------------------------------------------------------


class CreateInput(Input):
    db_name: Annotated[NotBlank, Field(description="Letters, digits, _ and -")]


def _create(session: Session, given: CreateInput, _: Call) -> Result:
    path = _get_database(session, given.db_name).create()
    shape = {"success": True, "db_path": str(path)}
    return Result(shape, f"The database {given.db_name} is ready.", verbatim=True)


class InsertInput(Input):
    text: Annotated[NotBlank, Field(description="At most 100,000 characters")]
    metadata: Annotated[dict[str, Any], Field(description="Kept beside it")] = {}
    db_name: Name = ""


def _insert(session: Session, given: InsertInput, _: Call) -> Result:
    document = _get_database(session, given.db_name).insert(given.text, given.metadata)
    shape = {"doc_id": document.doc_id, "chunk_count": document.chunk_count}
    return Result(shape, f"Inserted {document.doc_id}.", verbatim=True)


class FindInput(Input):
    text: Annotated[NotBlank, Field(description="What to compare with")]
    top_k: Annotated[int, AfterValidator(_check_top_k)] = _DEFAULT_TOP_K
    db_name: Name = ""
    filter: Annotated[
        dict[str, Any], Field(description="Only documents whose metadata has these values")
    ] = {}


def _find(session: Session, given: FindInput, call: Call) -> Result:
    chunks, gaps = session.library.find_similar(
        given.text,
        database=checked_name(given.db_name) if given.db_name else "",
        # Without an explicit number the settings decide.
        top_k=given.top_k if "top_k" in given.model_fields_set else None,
        having=given.filter,
        on_progress=call.on_progress(),
    )
    shape: Json = {"results": [render_chunk(chunk) for chunk in chunks]}
    notes = fit_list(shape, "results", "text", narrow="Ask for fewer with top_k.")
    notes += describe_gaps(gaps)
    notes += describe_hidden_characters([(row["doc_id"], row["text"]) for row in shape["results"]])
    summary = f"{len(shape['results'])} chunks"
    return Result(add_note(shape, notes), summary, verbatim=True, listed="results")


class DeleteInput(Input):
    doc_id: Annotated[NotBlank, Field(description="As insert_document gave it")]
    db_name: Name = ""


def _delete(session: Session, given: DeleteInput, _: Call) -> Result:
    chunks = _get_database(session, given.db_name).delete(given.doc_id)
    return Result({"deleted_chunks": chunks}, f"Deleted {given.doc_id}.", verbatim=True)


TOOLS: tuple[Tool, ...] = (
    Tool(
        "create_database",
        "Create a database for documents; an existing one stays as it is.",
        CreateInput,
        _create,
        read_only=False,
        writes=True,
        refusal=refusal,
    ),
    Tool(
        "insert_document",
        "Store a text, cut into chunks that are found by meaning and by words.",
        InsertInput,
        _insert,
        read_only=False,
        idempotent=False,
        writes=True,
        refusal=refusal,
    ),
    Tool(
        "find_similar_documents",
        "The chunks nearest to a text; score is the cosine distance, the nearest first.",
        FindInput,
        _find,
        refusal=refusal,
    ),
    Tool(
        "delete_document",
        "Remove a document for good, with all of its chunks; nothing brings it back.",
        DeleteInput,
        _delete,
        read_only=False,
        destructive=True,
        writes=True,
        refusal=refusal,
    ),
)
