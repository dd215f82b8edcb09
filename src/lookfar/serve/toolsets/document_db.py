"""The ``document-db`` toolset: insert texts, find similar ones, and delete them for good.

Results have exactly the fields that clients of Document DB know. The chunks found are the nearest
by cosine distance, which is their ``score``; with ``documents.order = "hybrid"`` words find chunks,
too. An error is a JSON-RPC error whose ``data.code`` is ``NOT_FOUND`` or ``INVALID_REQUEST`` where
one of them fits. Over HTTP it has the same code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, Field

from lookfar.collections.inserting import checked_name
from lookfar.errors import InvalidArgument, LookfarError, NotFound
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session, Tool
from lookfar.serve.toolsets.common import (
    NotBlank,
    add_note,
    describe_gaps,
    describe_hidden_characters,
)

if TYPE_CHECKING:
    from lookfar.collections.databases import Documents
    from lookfar.library.similar import Similar

_DEFAULT_TOP_K: Final = 10
_ERROR_NUMBERS: Final = {"INVALID_REQUEST": -32600, "NOT_FOUND": -32002, "": -32000}
"""The numbers of JSON-RPC errors: JSON-RPC's own for an invalid request, MCP's for something that
is not found, and the first number for server errors for all others."""


def _check_top_k(number: int) -> int:
    if number < 1:
        raise ValueError("it must be at least 1")
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
    database = _get_database(session, given.db_name)
    database.create()
    shape = {"success": True, "db_path": str(database.link_file())}
    return Result(shape, f"The database {given.db_name} is ready.", verbatim=True)


class InsertInput(Input):
    text: Annotated[NotBlank, Field(description="At most 100,000 characters")]
    metadata: Annotated[dict[str, Any], Field(description="Kept beside it")] = {}
    db_name: Name = ""


def _insert(session: Session, given: InsertInput, _: Call) -> Result:
    database = _get_database(session, given.db_name)
    document = database.insert(given.text, given.metadata)
    if not given.db_name:
        database.link_file()  # For other databases, creating them does it.
    shape = {"doc_id": document.doc_id, "chunk_count": document.chunk_count}
    return Result(shape, f"Inserted {document.doc_id}.", verbatim=True)


class FindInput(Input):
    text: Annotated[NotBlank, Field(description="What to compare with")]
    top_k: Annotated[int, AfterValidator(_check_top_k)] = _DEFAULT_TOP_K
    db_name: Name = ""
    filter: Annotated[
        dict[str, Any], Field(description="Only documents whose metadata has these values")
    ] = {}


def _find(session: Session, given: FindInput, _: Call) -> Result:
    library = session.library
    chunks, gaps = library.find_similar(
        given.text,
        database=checked_name(given.db_name) if given.db_name else "",
        # Without an explicit number the settings decide.
        top_k=given.top_k if "top_k" in given.model_fields_set else None,
        having=given.filter,
        order="hybrid" if library.settings.documents.order == "hybrid" else "vector",
    )
    shape: Json = {"results": [_render_chunk(chunk) for chunk in chunks]}
    notes = describe_gaps(gaps)
    notes += describe_hidden_characters([(chunk.doc_id, chunk.text) for chunk in chunks])
    summary = f"{len(chunks)} chunks"
    return Result(add_note(shape, notes), summary, verbatim=True, listed="results")


def _render_chunk(chunk: Similar) -> Json:
    shape: Json = {"chunk_id": chunk.chunk_id, "doc_id": chunk.doc_id, "text": chunk.text}
    return shape if chunk.score is None else {**shape, "score": chunk.score}


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
        error_numbers=_ERROR_NUMBERS,
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
        error_numbers=_ERROR_NUMBERS,
    ),
    Tool(
        "find_similar_documents",
        "The chunks nearest to a text; score is the cosine distance, the nearest first.",
        FindInput,
        _find,
        advice="`{name}` finds the texts stored in a database by what they mean; ask it before you"
        " say that something is not known.",
        refusal=refusal,
        error_numbers=_ERROR_NUMBERS,
        by_reader=True,
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
        error_numbers=_ERROR_NUMBERS,
    ),
)
