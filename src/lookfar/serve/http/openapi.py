"""The description of what is served over HTTP, for programs that write clients.

Takes: the table of tools as it is offered. Gives: an OpenAPI 3.1 document, whose schemas are
those that arguments are checked by. Refuses: to describe anything by hand that the table
knows already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lookfar import __version__
from lookfar.serve.http.rest import changes
from lookfar.serve.http.statuses import STATUSES
from lookfar.serve.http.web import live
from lookfar.serve.http.web.api import ROWS
from lookfar.serve.http.web.routes import BELOW
from lookfar.serve.tools.tool import Json, Tool

_ERROR: Final = {
    "type": "object",
    "required": ["error"],
    "additionalProperties": False,
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "hint", "details"],
            "additionalProperties": False,
            "properties": {
                "code": {"type": "string", "pattern": "^[A-Z_]+$"},
                "message": {"type": "string"},
                "hint": {"type": "string", "description": "What to do next."},
                "details": {"type": "object"},
            },
        }
    },
}
_MEANINGS: Final = {
    400: "An argument is wrong.",
    401: "A token is needed, or it is wrong.",
    403: "It may not be done from there, or with this token.",
    404: "There is no such thing.",
    405: "The method is another one.",
    408: "The request arrived too slowly.",
    409: "It cannot be done as things are.",
    413: "The request is too large.",
    415: "The request is no JSON.",
    421: "The request names another host.",
    429: "Too many requests.",
    500: "Something went wrong inside.",
    503: "It cannot be done now.",
    504: "It took too long.",
}
_ANYWHERE: Final = frozenset({401, 403, 405, 408, 413, 421, 429, 500, 503, 504})
"""Statuses of the guard, which every route can have."""
_RESULTS: Final = {
    "type": "object",
    "required": ["results"],
    "properties": {
        "results": {
            "type": "array",
            "items": {
                "type": "object",
                "required": [
                    *("chunk_id", "doc_id", "score", "header_path", "file_path", "content"),
                ],
                "properties": {
                    "chunk_id": {"type": "string"},
                    "doc_id": {"type": "string"},
                    "score": {"type": "number", "minimum": 0, "maximum": 1},
                    "header_path": {"type": "string"},
                    "file_path": {"type": "string"},
                    "content": {"type": "string"},
                },
            },
        },
        "note": {"type": "string"},
    },
}


def document(tools: Mapping[str, Tool], query: Tool, *, metrics: bool, tokens: bool) -> Json:
    """What ``/openapi.json`` answers."""
    tables = {
        "type": "object",
        "required": ["tools"],
        "properties": {"tools": {"type": "array", "items": {"type": "object"}}},
    }
    health = {
        "type": "object",
        "required": ["status", "name", "version"],
        "properties": {"status": {"const": "ok"}, "name": {"type": "string"}},
    }
    state = {
        "type": "object",
        "required": ["status", "document_count", "queue_size", "failed_files", "collections"],
        "properties": {
            "status": {"const": "ok"},
            "document_count": {"type": "integer", "minimum": 0},
            "queue_size": {"type": "integer", "minimum": 0},
            "failed_files": {"type": "array", "items": {"type": "object"}},
            "collections": {"type": "array", "items": {"type": "object"}},
        },
    }
    paths: Json = {
        "/health": {"get": _operation("health", "A sign of life.", health)},
        "/status": {"get": _operation("status", "What is indexed, and what failed.", state)},
        "/tools": {"get": _operation("tools", "The table of tools.", tables)},
        "/openapi.json": {"get": _operation("openapi", "This document.", {"type": "object"})},
        "/query_documents": {
            "post": _operation("query_documents", query.description, _RESULTS, query)
        },
        "/query_documents_stream": {
            "post": _operation(
                "query_documents_stream",
                "The same answer as server-sent events: progress, hit, result, error.",
                {},
                query,
                kind="text/event-stream",
            )
        },
    }
    if metrics:
        paths["/metrics"] = {
            "get": _operation("metrics", "Figures for Prometheus.", {"type": "string"},
                              kind="text/plain")
        }  # fmt: skip
    for row in ROWS:
        about = _operation(f"api:{row.name}", row.description, {"type": "object"}, row)
        paths[BELOW + row.name] = {"post": {**about, "tags": ["the page"]}}
    paths[live.PATH] = {
        "get": _operation(
            "events",
            "The state of each collection as a server-sent event; with ?follow=1 another one"
            " whenever it changes.",
            {},
            kind="text/event-stream",
        )
    }
    for name, tool in tools.items():
        about = _operation(f"tool:{name}", tool.description, {"type": ["object", "array"]}, tool)
        about["tags"] = ["tools that change something" if changes(tool) else "tools that read"]
        paths[f"/tools/{name}"] = {"post": about}
    shape: Json = {
        "openapi": "3.1.0",
        "info": {
            "title": "Lookfar",
            "version": __version__,
            "description": "Local retrieval with exact citations. MCP is served at /mcp.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
    if tokens:
        shape["security"] = [{"token": []}]
    return shape


def _operation(
    name: str, about: str, gives: Json, takes: Tool | None = None, *, kind: str = "application/json"
) -> Json:
    known = set(STATUSES.values()) if takes is not None else _ANYWHERE
    answers: Json = {"200": {"description": "The answer.", "content": {kind: {"schema": gives}}}}
    for status in sorted(known):
        answers[str(status)] = {
            "description": _MEANINGS[status],
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        }
    shape: Json = {"operationId": name, "summary": about, "responses": answers}
    if takes is not None:
        schema: dict[str, Any] = takes.input_schema
        shape["requestBody"] = {
            "required": bool(schema.get("required")),
            "content": {"application/json": {"schema": schema}},
        }
    return shape
