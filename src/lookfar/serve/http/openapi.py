"""The OpenAPI 3.1 document of the HTTP server, generated from the tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lookfar import __version__
from lookfar.serve.http.scope_checks import changes_something
from lookfar.serve.http.statuses import STATUSES
from lookfar.serve.http.web import live, pictures
from lookfar.serve.http.web.api import ROWS
from lookfar.serve.http.web.routes import API_PREFIX
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
_STATUS_TEXTS: Final = {
    400: "An argument is invalid.",
    401: "The token is missing or wrong.",
    403: "Not allowed from this origin or with this token.",
    404: "Not found.",
    405: "The route does not support this method.",
    408: "The request arrived too slowly.",
    409: "It conflicts with the current state.",
    413: "The request is too large.",
    415: "The request is not JSON.",
    421: "The request names another host.",
    429: "Too many requests.",
    500: "Internal error.",
    503: "Temporarily unavailable.",
    504: "It took too long.",
}
_GUARD_STATUSES: Final = frozenset({401, 403, 405, 408, 413, 421, 429, 500, 503, 504})
"""Statuses of the guard, which apply to every route."""
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
_TOOLS: Final = {
    "type": "object",
    "required": ["tools"],
    "properties": {"tools": {"type": "array", "items": {"type": "object"}}},
}
_HEALTH: Final = {
    "type": "object",
    "required": ["status", "name", "version"],
    "properties": {"status": {"const": "ok"}, "name": {"type": "string"}},
}
_PROBE: Final = {
    "type": "object",
    "required": ["status"],
    "properties": {"status": {"type": "string"}},
}
_STATUS: Final = {
    "type": "object",
    "required": ["status", "document_count", "queue_size", "failed_files", "collections"],
    "properties": {
        "status": {"const": "ok"},
        "document_count": {"type": "integer", "minimum": 0},
        "queue_size": {"type": "integer", "minimum": 0},
        "failed_files": {"type": "array", "items": {"type": "object"}},
        "collections": {"type": "array", "items": {"type": "object"}},
        "workers": {"type": "object"},
    },
}


def make_document(tools: Mapping[str, Tool], query: Tool, *, metrics: bool, tokens: bool) -> Json:
    paths = _server_paths(query)
    if metrics:
        paths["/metrics"] = {
            "get": _operation("metrics", "Metrics in the Prometheus format.", {"type": "string"},
                              kind="text/plain")
        }  # fmt: skip
    paths |= _page_paths() | _tool_paths(tools)
    document: Json = {
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
        document["security"] = [{"token": []}]
    return document


def _server_paths(query: Tool) -> Json:
    return {
        "/health": {"get": _operation("health", "Whether the server is running.", _HEALTH)},
        "/livez": {"get": _describe_probe("livez", "Whether the process handles requests.")},
        "/readyz": {
            "get": _describe_probe("readyz", "Whether the server should get requests now.")
        },
        "/status": {"get": _operation("status", "What is indexed, and what failed.", _STATUS)},
        "/tools": {"get": _operation("tools", "The list of tools.", _TOOLS)},
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


def _describe_probe(name: str, summary: str) -> Json:
    """Return an operation that needs no token."""
    return {**_operation(name, summary, _PROBE), "security": []}


def _page_paths() -> Json:
    paths: Json = {}
    for row in ROWS:
        operation = _operation(f"api:{row.name}", row.description, {"type": "object"}, row)
        paths[API_PREFIX + row.name] = {"post": {**operation, "tags": ["the page"]}}
    picture = pictures.TOOL
    operation = _operation("api:picture", picture.description, {}, picture, kind="image/*")
    paths[pictures.PATH] = {"post": {**operation, "tags": ["the page"]}}
    paths[live.PATH] = {
        "get": _operation(
            "events",
            "The state of each collection as a server-sent event; with ?follow=1, another one"
            " whenever it changes.",
            {},
            kind="text/event-stream",
        )
    }
    return paths


def _tool_paths(tools: Mapping[str, Tool]) -> Json:
    paths: Json = {}
    for name, tool in tools.items():
        result = {"type": ["object", "array"]}
        operation = _operation(f"tool:{name}", tool.description, result, tool)
        operation["tags"] = [
            "tools that make changes" if changes_something(tool) else "tools that read"
        ]
        paths[f"/tools/{name}"] = {"post": operation}
    return paths


def _operation(
    name: str,
    summary: str,
    result: Json,
    tool: Tool | None = None,
    *,
    kind: str = "application/json",
) -> Json:
    statuses = set(STATUSES.values()) if tool is not None else _GUARD_STATUSES
    responses: Json = {"200": {"description": "The result.", "content": {kind: {"schema": result}}}}
    for status in sorted(statuses):
        responses[str(status)] = {
            "description": _STATUS_TEXTS[status],
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        }
    operation: Json = {"operationId": name, "summary": summary, "responses": responses}
    if tool is not None:
        schema: dict[str, Any] = tool.input_schema
        operation["requestBody"] = {
            "required": bool(schema.get("required")),
            "content": {"application/json": {"schema": schema}},
        }
    return operation
