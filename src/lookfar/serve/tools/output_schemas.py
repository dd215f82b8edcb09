"""JSON Schemas of the structured results, for clients that generate code from them.

Keys may be added later, so no object is closed; ``docs/json.md`` explains each key.
"""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_INTEGER: Final[Schema] = {"type": "integer"}
_NUMBER: Final[Schema] = {"type": "number"}
_TRUTH: Final[Schema] = {"type": "boolean"}
_ANY_TEXT: Final[Schema] = {"type": ["string", "null"]}
_ANY_INTEGER: Final[Schema] = {"type": ["integer", "null"]}
_OBJECT: Final[Schema] = {"type": "object"}
_TEXTS: Final[Schema] = {"type": "array", "items": _TEXT}
_OBJECTS: Final[Schema] = {"type": "array", "items": _OBJECT}
_COUNTS: Final[Schema] = {"type": "object", "additionalProperties": _INTEGER}


def _object(required: str = "", /, **keys: Schema) -> Schema:
    schema: Schema = {"type": "object", "properties": keys}
    return {**schema, "required": required.split()} if required else schema


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


_PLACE: Final[dict[str, Schema]] = {
    "start": _ANY_INTEGER,
    "end": _ANY_INTEGER,
    "start_line": _ANY_INTEGER,
    "end_line": _ANY_INTEGER,
}
"""The span of a passage in its document; without values if it is gone."""
_HIT: Final = _object(
    "collection uri start_line end_line sha256 text state cite",
    **_PLACE,
    collection=_TEXT, uri=_TEXT, title=_TEXT, heading_path=_TEXTS, sha256=_TEXT, lane=_TEXT,
    score=_NUMBER, text=_TEXT, truncated=_TRUTH, state=_TEXT, chunk_id=_TEXT, stale=_TEXTS,
    drift=_TEXTS, origin=_TEXT, comment=_TRUTH, also=_TEXTS, also_more=_INTEGER, focus=_OBJECTS,
    extracted=_TRUTH, place=_TEXT, places=_TEXTS, explanation=_OBJECTS, cite=_TEXT, flags=_TEXTS,
)  # fmt: skip
_LINE: Final = _object(
    "number text state",
    **_PLACE,
    number=_INTEGER, column=_INTEGER, text=_TEXT, before=_TEXTS, after=_TEXTS, state=_TEXT,
    place=_TEXT, spans=_list(_list(_INTEGER)), heading_path=_TEXTS, sha256=_TEXT,
    truncated=_TRUTH,
)  # fmt: skip
_FILE: Final = _object(
    "collection uri count lines",
    collection=_TEXT, uri=_TEXT, title=_TEXT, lane=_TEXT, language=_TEXT, count=_INTEGER,
    lines=_list(_LINE),
)  # fmt: skip
_DOCUMENT: Final = _object(
    "collection uri",
    collection=_TEXT, uri=_TEXT, title=_TEXT, lane=_TEXT, language=_TEXT, modified_ns=_INTEGER,
    tags=_TEXTS, size=_INTEGER, lines=_INTEGER, day=_TEXT,
)  # fmt: skip
_ANSWER: Final[dict[str, Schema]] = {
    "query": _TEXT, "pattern": _TEXT, "mode": _TEXT, "case": _TEXT,
    "hits": _list(_HIT), "files": _list(_FILE), "documents": _list(_DOCUMENT),
    "generation": _INTEGER, "generations": _COUNTS, "took_ms": _NUMBER,
    "incomplete": _OBJECTS, "total": _INTEGER, "confidence": _ANY_TEXT, "units": _OBJECTS,
    "matches": _INTEGER, "matched_files": _INTEGER, "offset": _INTEGER,
}  # fmt: skip
SEARCHED: Final = _object(
    "cursor",
    **_ANSWER,
    answers=_list(_object(**_ANSWER, error=_OBJECT)),
    cursor=_TEXT, tokens=_INTEGER, document_tokens=_INTEGER,
)  # fmt: skip
"""``hits`` for a question, ``files`` for a pattern, ``documents`` for filters alone, and
``answers`` for several questions."""

_READING: Final[dict[str, Schema]] = {
    **_PLACE,
    "collection": _TEXT, "uri": _TEXT, "title": _TEXT, "text": _TEXT, "sha256": _TEXT,
    "state": _TEXT, "heading_path": _TEXTS, "cite": _TEXT, "flags": _TEXTS, "truncated": _TRUTH,
    "also": _TEXTS, "warnings": _TEXTS, "places": _TEXTS, "extracted": _TRUTH,
    "matches": _INTEGER, "left": _list(_INTEGER), "members": _OBJECTS,
}  # fmt: skip
_UNREAD: Final = _object(
    "target code message",
    target=_TEXT, code=_TEXT, message=_TEXT, hint=_TEXT, details=_OBJECT, developer_message=_TEXT,
)  # fmt: skip
READ_PLACES: Final = _object(
    **_READING,
    cursor=_TEXT,
    outline=_list(_object("line title", line=_INTEGER, level=_INTEGER, title=_TEXT)),
    embeds=_OBJECTS,
    readings=_list(_object("uri text cite", **_READING)),
    unread=_list(_UNREAD),
)
"""One place, or ``readings`` and ``unread`` for several."""

_ENTRY: Final = _object(
    "kind uri",
    kind=_TEXT, uri=_TEXT, title=_TEXT, target=_TEXT, resolved=_TRUTH, relation=_ANY_TEXT,
    count=_INTEGER, score=_NUMBER, anchor=_TEXT, heading_path=_TEXTS, line=_INTEGER, text=_TEXT,
    context=_TEXT, collection=_TEXT, certain=_TRUTH, depth=_INTEGER, address=_TEXT,
)  # fmt: skip
RELATED_ENTRIES: Final = _object(
    "entries",
    collection=_TEXT, uri=_TEXT, title=_TEXT, heading_path=_TEXTS, entries=_list(_ENTRY),
    totals=_COUNTS, generation=_INTEGER, incomplete=_OBJECTS, source=_TEXT, target=_TEXT,
    steps=_OBJECTS, complete=_TRUTH, searched_all=_TRUTH, reverse=_TRUTH, callers=_OBJECTS,
)  # fmt: skip
"""``steps`` and the keys after it for the way to another definition, which has no entries."""

STATE: Final = _object(
    "collections",
    collections=_OBJECTS,
    tags=_list(_object("tag documents", tag=_TEXT, documents=_INTEGER, own=_INTEGER)),
    properties=_TEXTS,
)

REMEMBERED: Final = _object(
    "uri address",
    collection=_TEXT, uri=_TEXT, address=_TEXT, title=_TEXT, type=_TEXT, tags=_TEXTS,
    created_at=_TEXT, author=_TEXT, supersedes=_TEXTS, valid_since=_TEXT, near=_OBJECTS,
    warnings=_TEXTS,
)  # fmt: skip

_EDITED_DOCUMENT: Final = _object(
    "uri action diff",
    **_PLACE,
    collection=_TEXT, uri=_TEXT, action=_TEXT, before=_TEXT, after=_TEXT, diff=_TEXT,
    heading_path=_TEXTS, section_sha256=_TEXT, moved_from=_TEXT, cite=_TEXT, truncated=_TRUTH,
)  # fmt: skip
EDITED: Final = _object(
    "documents",
    documents=_list(_EDITED_DOCUMENT),
    dry_run=_TRUTH, transaction=_INTEGER, indexed=_TRUTH, links=_OBJECTS, violations=_OBJECTS,
    warnings=_TEXTS, left_out=_INTEGER,
)  # fmt: skip
