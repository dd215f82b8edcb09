"""The toolset ``document-db``: programs insert texts, find what is near, and delete for good.

Takes: checked arguments and a session. Gives: the shapes that clients of Document DB know; a
``score`` is a cosine distance, the nearest first, and is left out where none was measured.
Refuses: with ``NOT_FOUND`` what is not there and with ``INVALID_REQUEST`` what is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, Field

from lookfar.collections.inserting import checked_name
from lookfar.errors import InvalidArgument, LookfarError, NotFound
from lookfar.serve.show.json_shapes import similar as shape_of
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session, Tool
from lookfar.serve.toolsets.common import admitted, fit, flagged, noted

if TYPE_CHECKING:
    from lookfar.collections.databases import Documents

_USUAL: Final = 10
_MOST: Final = 1_000


def _within(number: int) -> int:
    if not 1 <= number <= _MOST:
        raise ValueError(f"it is not from 1 to {_MOST:,}")
    return number


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it is blank")
    return text


Filled = Annotated[str, AfterValidator(_not_blank)]


def refusal(error: LookfarError) -> Json:
    """An error in the two words that clients of Document DB know, where one of them fits."""
    code = error.code
    if isinstance(error, NotFound):
        code = "NOT_FOUND"
    elif isinstance(error, InvalidArgument):
        code = "INVALID_REQUEST"
    shape: Json = {"code": code, "message": error.message, "hint": error.hint}
    return shape | ({"details": dict(error.details)} if error.details else {})


Name = Annotated[str, Field(description="Letters, digits, _ and -; default: vectors")]


def _database(session: Session, name: str) -> Documents:
    if name:
        checked_name(name)
    return session.library.database(name)


# --- the tools ----------------------------------------------------------------------------------


class CreateInput(Input):
    db_name: Annotated[Filled, Field(description="Letters, digits, _ and -")]


def _create(session: Session, given: CreateInput, _: Call) -> Result:
    place = _database(session, given.db_name).create()
    shape = {"success": True, "db_path": str(place)}
    return Result(shape, f"{given.db_name} is there.", verbatim=True)


class InsertInput(Input):
    text: Annotated[Filled, Field(description="At most 100,000 characters")]
    metadata: Annotated[dict[str, Any], Field(description="Kept beside it")] = {}
    db_name: Name = ""


def _insert(session: Session, given: InsertInput, _: Call) -> Result:
    made = _database(session, given.db_name).insert(given.text, given.metadata)
    shape = {"doc_id": made.doc_id, "chunk_count": made.chunk_count}
    return Result(shape, f"Inserted {made.doc_id}.", verbatim=True)


class FindInput(Input):
    text: Annotated[Filled, Field(description="What to compare with")]
    top_k: Annotated[int, AfterValidator(_within)] = _USUAL
    db_name: Name = ""
    filter: Annotated[
        dict[str, Any], Field(description="Only documents whose metadata has these values")
    ] = {}


def _find(session: Session, given: FindInput, call: Call) -> Result:
    found, notes = session.library.find_similar(
        given.text,
        database=checked_name(given.db_name) if given.db_name else "",
        # Who names no number gets as many as the settings say.
        top_k=given.top_k if "top_k" in given.model_fields_set else None,
        having=given.filter,
        on_progress=call.on_progress(),
    )
    shape: Json = {"results": [shape_of(chunk) for chunk in found]}
    said = fit(shape, "results", "text", narrow="Ask for fewer with top_k.")
    said += admitted(notes)
    said += flagged([(each["doc_id"], each["text"]) for each in shape["results"]])
    told = f"{len(shape['results'])} chunks"
    return Result(noted(shape, said), told, verbatim=True, listed="results")


class DeleteInput(Input):
    doc_id: Annotated[Filled, Field(description="As insert_document gave it")]
    db_name: Name = ""


def _delete(session: Session, given: DeleteInput, _: Call) -> Result:
    chunks = _database(session, given.db_name).delete(given.doc_id)
    return Result({"deleted_chunks": chunks}, f"Deleted {given.doc_id}.", verbatim=True)


TOOLS: tuple[Tool, ...] = (
    Tool(
        "create_database",
        "Make a database for documents; one that is there stays as it is.",
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
