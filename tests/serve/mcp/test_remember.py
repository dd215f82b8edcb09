"""The tool ``remember``, as servers offer it: only where the user allowed writing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

from lookfar import config
from lookfar.serve.daemon.pool import Pool
from lookfar.serve.daemon.services import Offer
from lookfar.serve.mcp.changes import Changes
from serve.mcp.served import Agent, Home, connected


@contextmanager
def served(portal: BlockingPortal, home: Home, docs: Path, **chosen: Any) -> Iterator[Agent]:
    """A server with what these settings offer, and a client of it."""
    pool = Pool()
    settings = home.settings | {"memory.dir": str(memory_of(docs))} | chosen
    offer = Offer.from_settings(config.load(docs, settings, {}))
    with pool.session([str(docs)], settings=settings, environ={}, write=offer.write) as session:
        server = offer.make_server(session, Changes())
        with connected(portal, server, docs) as agent:
            yield agent
    pool.close()


def memory_of(docs: Path) -> Path:
    return docs.parent / "memory"


def listed(agent: Agent) -> list[str]:
    return [each.name for each in agent.run(agent.client.list_tools).tools]


def test_it_is_offered_only_with_write(portal: BlockingPortal, home: Home, docs: Path) -> None:
    with served(portal, home, docs) as agent:
        assert "search" in listed(agent)
        assert "remember" not in listed(agent)
        error = agent.error(lambda: agent.client.call_tool("remember", {"text": "x"}))
        assert "no tool" in error.message
        assert "--write" in error.message
        other = agent.error(lambda: agent.client.call_tool("create_memory", {}))
        assert "--toolset ragdocs" in other.message
        typo = agent.error(lambda: agent.client.call_tool("serch", {}))
        assert "Did you mean 'search'?" in typo.message
    assert not memory_of(docs).exists()
    with served(portal, home, docs, **{"serve.toolset": ["ragdocs"]}) as agent:
        # Its tools write memories only, which it cannot do without.
        assert {"read_memory", "search_memories", "create_memory"} <= set(listed(agent))


def test_what_is_remembered_is_found_and_read(
    portal: BlockingPortal, home: Home, docs: Path
) -> None:
    with served(portal, home, docs, **{"serve.write": True}) as agent:
        assert "remember" in listed(agent)
        agent.write("zebra.md", "# Zebra\n\nA zebra in a document.\n")
        agent.call("search", query="zebra")
        made = agent.call(
            "remember", text="We paint the zebra blue.", title="Blue", type="plan",
            tags=["paint"], about=["zebra.md"],
        ).structured_content  # fmt: skip
        assert made is not None
        assert (made["uri"], made["type"], made["tags"]) == ("blue.md", "plan", ["paint"])
        assert made["author"] not in ("", "unknown")
        found = agent.call("search", query="paint the zebra").structured_content
        lanes = {hit["uri"]: hit["lane"] for hit in found["hits"]}
        assert (lanes["blue.md"], lanes["zebra.md"]) == ("memory", "docs")
        read = agent.call("read", target=made["address"])
        assert "We paint the zebra blue." in str(read.content)
        related = agent.call("related", target="zebra.md").structured_content
        mentions = [each for each in related["entries"] if each["kind"] == "memories"]
        assert [(each["uri"], each["relation"]) for each in mentions] == [("blue.md", "plans")]
        block = agent.call("read", target=mentions[0]["address"]).content[0]
        assert block.type == "text"
        assert "blue.md" in block.text
        agent.write("zebra.md", "# Zebra\n\nThe zebra left.\n")
        (hit,) = agent.call("search", query="paint", kinds=["memory"]).structured_content["hits"]
        assert hit["stale"] == ["zebra.md"]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"text": ""},
        {"text": " "},
        {"text": "x", "type": "y"},
        {"text": "x", "about": "z"},
        {"text": "x", "about": [""]},
    ],
)
def test_wrong_arguments_are_refused(
    portal: BlockingPortal, home: Home, docs: Path, arguments: dict[str, Any]
) -> None:
    with served(portal, home, docs, **{"serve.write": True}) as agent:
        assert agent.refused("remember", **arguments)["code"] == "INVALID_ARGUMENT"
    assert not list(memory_of(docs).glob("*.md"))
