"""The tool ``remember``: save a memory as a Markdown file that people can read and edit."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lookfar.edit.memory_file import MemoryType
from lookfar.retrieve.locate.address import format_address
from lookfar.serve.show import json_shapes
from lookfar.serve.show.printable import safe_name
from lookfar.serve.tools.inputs import FILLED
from lookfar.serve.tools.output_schemas import REMEMBERED
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session, Tool


class RememberInput(Input):
    text: Annotated[str, FILLED]
    title: str = ""
    type: MemoryType = "fact"
    tags: list[str] = []
    supersedes: str = ""
    about: Annotated[list[str], Field(description="URIs")] = []


def _remember(session: Session, given: RememberInput, call: Call) -> Result:
    collection, made = session.library.remember(
        given.text,
        title=given.title,
        type=given.type,
        tags=given.tags,
        about=given.about,
        author=call.client,
        supersedes=(given.supersedes,) if given.supersedes else (),
    )
    data: Json = {
        "collection": collection,
        "uri": made.name,
        "address": format_address(collection, made.name),
        "title": made.title,
        "type": made.type,
        "tags": list(made.tags),
        "created_at": made.created_at,
        "author": made.author,
        "supersedes": list(made.supersedes),
        "valid_since": made.valid_since,
        "near": json_shapes.plain(made.near),
        "warnings": list(made.warnings),
    }
    lines = [f"Remembered as {made.name}; read it with {data['address']}."]
    lines += [f"Warning: {warning}" for warning in made.warnings]
    lines += [f"It may contradict {near.name}: {near.sentence}" for near in made.near]
    return Result(data, "\n".join(map(safe_name, lines)))


REMEMBER = Tool(
    "remember",
    "Keep a decision, plan or finding for later; search finds it, kind memory.",
    RememberInput,
    _remember,
    read_only=False,
    idempotent=False,
    writes=True,
    title="Remember",
    output_schema=REMEMBERED,
)
