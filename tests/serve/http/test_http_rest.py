"""Tools over plain HTTP, and the other routes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lookfar import __version__
from lookfar.serve.tools.tool import offered
from lookfar.serve.toolsets import load_tools
from serve.http.asking import DOCUMENTS, Served

QUERY: dict[str, Any] = {"query": "signing key", "top_n": 2}


def test_a_command_serves_http(open_server: Served) -> None:
    """The fixture ran ``lookfar serve --http``; this is a client of another process."""
    assert open_server.ask("GET", "/health").status == 200
    assert open_server.process.poll() is None


def test_health(open_server: Served) -> None:
    answer = open_server.ask("GET", "/health")
    assert answer.json == {"status": "ok", "name": "lookfar", "version": __version__}


def test_the_manifest_lists_every_tool_with_its_schema(open_server: Served) -> None:
    listed = open_server.ask("GET", "/tools").json["tools"]
    table = offered(load_tools(["all"]), write=False)
    assert [(each["name"], each["input_schema"]) for each in listed] == [
        (tool.name, tool.input_schema) for tool in table
    ]


def test_status_counts_documents_queue_and_failures(open_server: Served) -> None:
    open_server.tool("query_documents", **QUERY)
    shape = open_server.ask("GET", "/status").json
    assert shape["status"] == "ok"
    assert shape["document_count"] == len(DOCUMENTS)
    assert shape["queue_size"] == 0
    assert shape["failed_files"] == []
    assert [each["documents"] for each in shape["collections"]] == [len(DOCUMENTS)]


def test_query_documents_answers_as_the_tool_does(open_server: Served) -> None:
    answer = open_server.ask("POST", "/query_documents", QUERY)
    assert answer.status == 200
    best = answer.json["results"][0]
    assert best["file_path"] == "keys.md"
    assert "ninety days" in best["content"]
    assert 0.9 < best["score"] < 1
    assert len(answer.json["results"]) <= QUERY["top_n"]
    assert answer.json == open_server.tool("query_documents", **QUERY).json


def test_every_read_only_tool_that_needs_nothing_answers(open_server: Served) -> None:
    """One that takes no argument has nothing to refuse, with and without a body."""
    simple = [
        each["name"]
        for each in open_server.ask("GET", "/tools").json["tools"]
        if each["read_only"]
        and not each["input_schema"].get("required")
        # These need one of two arguments, which a schema without unions cannot say.
        and each["name"] not in ("search", "read")
    ]
    assert len(simple) >= 5
    for name in simple:
        with_body, without = open_server.tool(name), open_server.ask("POST", f"/tools/{name}")
        assert with_body.status == without.status, name
        assert with_body.status in (200, 404, 409), (name, with_body.body)


def test_search_gives_the_structured_result(open_server: Served) -> None:
    shape = open_server.tool("search", query="installer").json
    assert shape["hits"][0]["uri"] == "guide.md"
    assert "Unpack the archive" in shape["hits"][0]["text"]
    assert shape["hits"][0]["cite"].startswith("lookfar://")


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/tools/nonsense", {}, 404, "NOT_FOUND"),
        ("/tools/search", {}, 400, "INVALID_ARGUMENT"),
        ("/tools/search", {"query": 7}, 400, "INVALID_ARGUMENT"),
        ("/tools/search", {"query": "a", "topk": 1}, 400, "INVALID_ARGUMENT"),
        ("/tools/search", [1], 400, "INVALID_ARGUMENT"),
        ("/tools/read", {"target": "missing.md"}, 404, "NOT_FOUND"),
        ("/tools/read", {"target": "../../etc/passwd"}, 404, "NOT_FOUND"),
        ("/query_documents", {"query": "  "}, 400, "INVALID_ARGUMENT"),
        ("/query_documents", {"query": "a", "top_n": 101}, 400, "INVALID_ARGUMENT"),
        ("/query_documents_stream", {"top_n": 1}, 400, "INVALID_ARGUMENT"),
        ("/nothing/here", {}, 404, "NOT_FOUND"),
        ("/health", {}, 405, "METHOD_NOT_ALLOWED"),
    ],
)
def test_errors_have_one_shape_and_their_status(
    open_server: Served, path: str, body: Any, status: int, code: str
) -> None:
    answer = open_server.ask("POST", path, body)
    assert (answer.status, answer.error["code"]) == (status, code)


@pytest.mark.parametrize(
    ("raw", "kind", "status"),
    [
        (b'{"query": ', "application/json", 400),
        (b'{"query": "\\ud800"}', "application/json", 400),
        (b'{"query": NaN}', "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"query": "key"}', "text/plain", 415),
        (b"query=key", "application/x-www-form-urlencoded", 415),
        (b'{"query": "key"}', "application/json; charset=utf-8", 200),
    ],
)
def test_only_valid_json_is_accepted(
    open_server: Served, raw: bytes, kind: str, status: int
) -> None:
    answer = open_server.ask("POST", "/tools/search", headers={"Content-Type": kind}, raw=raw)
    assert answer.status == status
    if status != 200:
        assert answer.error["hint"]


def test_an_error_does_not_repeat_megabytes(open_server: Served) -> None:
    unknown: dict[str, Any] = {"x" * 2_000_000: 1}
    answer = open_server.tool("search", query="a", **unknown)
    assert answer.status == 400
    assert len(answer.body) < 20_000


def test_a_tool_that_must_be_confirmed_says_how(open_server: Served) -> None:
    answer = open_server.tool("delete_index")
    assert (answer.status, answer.error["code"]) == (409, "CONFIRMATION_REQUIRED")
    assert "confirm" in answer.error["hint"]


def test_tools_that_write_are_offered_only_with_write(open_server: Served) -> None:
    """Seen to fail when tools that write were offered to everybody."""
    refused = open_server.tool("remember", text="a")
    assert refused.status == 404
    assert "--write" in refused.error["hint"]


def test_a_request_id_is_returned_or_created(open_server: Served) -> None:
    own = open_server.ask("GET", "/health", headers={"X-Request-Id": "abc-123"})
    assert own.headers["x-request-id"] == "abc-123"
    for bad in ("a b", "x" * 200, 'a"b'):
        made = open_server.ask("GET", "/health", headers={"X-Request-Id": bad})
        assert made.headers["x-request-id"] not in ("", bad)
    first, second = (open_server.ask("GET", "/health").headers["x-request-id"] for _ in "ab")
    assert first != second


def test_a_request_that_is_not_http_is_refused(open_server: Served) -> None:
    with open_server.connect() as connection:
        connection.sendall(b"NONSENSE\r\n\r\n")
        answer = connection.makefile("rb").read()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert json.loads(body)["error"]["code"] == "INVALID_ARGUMENT"


def test_a_page_needs_permission_even_without_a_body(open_server: Served) -> None:
    """Seen to fail when a body that is empty needed no type: any page of this machine may send
    that, as browsers ask for leave only for types such as JSON's."""
    page = {"Origin": "http://localhost:3000"}
    answer = open_server.ask("POST", "/tools/status", headers=page, raw=b"")
    assert answer.status == 415
    assert answer.error["hint"]
    json_too = {**page, "Content-Type": "application/json"}
    assert open_server.ask("POST", "/tools/status", headers=json_too, raw=b"").status == 200
    assert open_server.ask("POST", "/tools/status", raw=b"").status == 200
