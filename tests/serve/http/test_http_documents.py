"""Inserted documents over HTTP: the manifest, JSON-RPC by a real client, REST, and the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from serve.http.asking import Served, serving
from waiting import DEADLINE, wait_for

TEXT = "The lighthouse keeper counts the boats every evening. " * 30
NAMES = {"create_database", "insert_document", "find_similar_documents", "delete_document"}


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(
        tmp_path_factory.mktemp("databases"), "--toolset", "document-db", "--write"
    ) as served:
        yield served


def test_the_manifest_has_the_tools(databases: Served) -> None:
    listed = databases.ask("GET", "/tools").json["tools"]
    assert {each["name"] for each in listed} == NAMES
    insert = next(each for each in listed if each["name"] == "insert_document")
    assert insert["input_schema"]["required"] == ["text"]
    assert insert["read_only"] is False


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
def test_the_tools_answer_json_rpc_over_http(databases: Served, era: str) -> None:
    async def converse() -> None:
        with anyio.fail_after(DEADLINE):
            async with Client(f"{databases.address}/mcp", mode=era) as client:

                async def call(tool: str, **arguments: Any) -> Any:
                    result = await client.call_tool(tool, arguments)
                    return result.is_error, json.loads(result.content[0].text)  # type: ignore[union-attr]

                name = f"rpc-{era}"
                assert (await call("create_database", db_name=name))[1]["success"] is True
                failed, made = await call("insert_document", text=TEXT, db_name=name)
                assert not failed
                assert made["chunk_count"] >= 2
                _, hits = await call("find_similar_documents", text="lighthouse", db_name=name)
                assert hits[0]["doc_id"] == made["doc_id"]
                _, gone = await call("delete_document", doc_id=made["doc_id"], db_name=name)
                assert gone == {"deleted_chunks": made["chunk_count"]}
                with pytest.raises(MCPError) as refused:
                    await call("delete_document", doc_id=made["doc_id"], db_name=name)
                assert refused.value.data["code"] == "NOT_FOUND"

    anyio.run(converse)


def test_they_answer_rest_in_the_same_shapes(databases: Served) -> None:
    assert databases.tool("create_database", db_name="rest").json["success"] is True
    made = databases.tool("insert_document", text=TEXT, db_name="rest").json
    hits = databases.tool("find_similar_documents", text="boats", db_name="rest").json
    assert set(hits[0]) >= {"chunk_id", "doc_id", "text", "score"}
    assert hits[0]["doc_id"] == made["doc_id"]
    gone = databases.tool("delete_document", doc_id=made["doc_id"], db_name="rest")
    assert gone.json == {"deleted_chunks": made["chunk_count"]}
    again = databases.tool("delete_document", doc_id=made["doc_id"], db_name="rest")
    assert (again.status, again.error["code"]) == (404, "NOT_FOUND")
    wrong = databases.tool("insert_document", text="  ", db_name="rest")
    assert (wrong.status, wrong.error["code"]) == (400, "INVALID_REQUEST")


def test_the_log_has_the_time_of_each_call(databases: Served) -> None:
    """Each call of a tool, and in it the work itself and the model's part of it."""
    databases.tool("create_database", db_name="timed")
    made = databases.tool("insert_document", text=TEXT, db_name="timed").json
    databases.tool("find_similar_documents", text="boats", db_name="timed")
    databases.tool("delete_document", doc_id=made["doc_id"], db_name="timed")
    for tool in ("insert_document", "find_similar_documents", "delete_document"):
        assert databases.logged(tool=tool)["ms"] > 0

    def told(what: str, how: str) -> bool:
        own = [each["message"] for each in databases.log if "timed" in each["message"]]
        return any(each.startswith(what) and how in each for each in own)

    for what, how in {"insert": "the model took", "find": " ms", "delete": " ms"}.items():
        wait_for(partial(told, what, how), f"a line on how long {what} took")
    assert "lighthouse" not in "\n".join(databases.lines)


@pytest.mark.parametrize("body", [b"{", b"[1]"])
def test_a_body_that_is_no_object_is_refused_with_their_code(
    databases: Served, body: bytes
) -> None:
    """Seen to fail with the code of the other tools."""
    headers = {"Content-Type": "application/json"}
    refused = databases.ask("POST", "/tools/insert_document", headers=headers, raw=body)
    assert (refused.status, refused.json["error"]["code"]) == (400, "INVALID_REQUEST")
