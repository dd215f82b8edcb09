"""What every session pays for: the size and the shape of what a server shows of itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

from lookfar.serve.daemon.pool import Pool
from lookfar.serve.mcp.server import listing_cost, make_server, write_instructions
from lookfar.serve.tools.tool import Tool
from lookfar.serve.toolsets import NAMES, load_tools
from serve.mcp.served import Home, connected, in_memory


def every_tool() -> list[Any]:
    return [
        pytest.param(tool, id=f"{name}-{tool.name}")
        for name in NAMES
        if name != "all"
        for tool in load_tools((name,))
    ]


def test_the_list_of_the_default_tools_is_short() -> None:
    assert listing_cost(load_tools(("default",))) < 1_200


def test_the_list_on_the_wire_is_short(portal: BlockingPortal, home: Home, docs: Any) -> None:
    """As a client gets it, not as we count it."""
    with in_memory(portal, home, docs) as agent:
        listed = agent.run(agent.client.list_tools)
        for tool in listed.tools:
            tool.meta = None  # It is for the client.
        shape = listed.model_dump(mode="json", by_alias=True, exclude_none=True)
        assert len(json.dumps(shape["tools"], separators=(",", ":"))) / 4 < 1_200
        assert len(agent.client.instructions or "") < 600


def test_there_are_at_most_six_default_tools() -> None:
    assert len(load_tools(("default",))) <= 6


def named_tools(name: str) -> dict[str, Tool]:
    return {tool.name: tool for tool in load_tools((name,))}


@pytest.mark.parametrize("name", NAMES)
def test_instructions_make_the_case_for_the_tools_that_are_there(name: str) -> None:
    tools = named_tools(name)
    text = write_instructions(tools)
    assert set(re.findall(r"`([^`]+)`", text)) <= set(tools)
    assert "{" not in text
    if name not in ("all", "document-db"):
        assert "than grep" in text[:400] or "before grep" in text[:400]
        assert len(text) < 700


def test_instructions_never_name_a_tool_that_is_not_there() -> None:
    tools = named_tools("default")
    del tools["read"]
    assert "read" not in re.findall(r"\w+", write_instructions(tools))
    renamed = {"default_search": tools["search"]}
    assert "`default_search`" in write_instructions(renamed)
    assert "`search`" not in write_instructions(renamed)


@pytest.mark.parametrize("tool", every_tool())
def test_a_tool_is_described_in_few_words(tool: Tool) -> None:
    assert 10 < len(tool.description) < 300
    assert tool.description == tool.description.strip()
    assert not tool.destructive or not tool.read_only


@pytest.mark.parametrize("tool", every_tool())
def test_a_schema_is_flat(tool: Tool) -> None:
    """Some clients refuse references and unions, or show them to a model as noise."""
    schema = tool.input_schema
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    for part in _parts(schema):
        assert not {"$ref", "$defs", "anyOf", "oneOf", "allOf", "title"} & set(part), part
        assert isinstance(part.get("type", ""), str), part
        assert part.get("type") != "null", part
    json.dumps(schema)


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema inside a schema."""
    yield schema
    for each in schema.get("properties", {}).values():
        yield from _parts(each)
    if isinstance(schema.get("items"), dict):
        yield from _parts(schema["items"])


@pytest.mark.parametrize("name", NAMES)
def test_names_are_unique_and_legal(name: str) -> None:
    names = [tool.name for tool in load_tools((name,))]
    assert names
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", each) for each in names)
    underscored = [each.replace(".", "_") for each in names]
    assert len(set(underscored)) == len(names)


def test_all_holds_every_tool_of_every_toolset() -> None:
    alone = sum(len(load_tools((name,))) for name in NAMES if name != "all")
    assert len(load_tools(("all",))) == alone


def test_names_that_clash_say_whose_they_are() -> None:
    together = {tool.name for tool in load_tools(("anvil", "search-mcp"))}
    assert {"anvil_search_docs", "search_mcp_search_docs"} <= together
    assert "search_docs" not in together
    assert "get_page" in together


def test_dots_become_underscores_where_they_are_refused(
    portal: BlockingPortal, home: Home, docs: Any
) -> None:
    pool = Pool()
    with pool.session([str(docs)], settings=home.settings, environ={}) as session:
        server = make_server(session, load_tools(("msrl",)), dots=False)
        with connected(portal, server, docs) as agent:
            names = [each.name for each in agent.run(agent.client.list_tools).tools]
            assert "msrl_query" in names
            assert not any("." in name for name in names)
            assert agent.call("msrl_status").content
            error = agent.error(lambda: agent.client.call_tool("msrl.query", {"query": "x"}))
            assert "msrl_query" in error.message
    pool.close()
