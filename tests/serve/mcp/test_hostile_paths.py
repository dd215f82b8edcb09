"""Hostile paths against every text argument of every tool, by a real client.

Seen to fail with a ``confine.components`` that let ``..`` through (a document was created beside
the folder), with names of databases that were not checked (folders appeared outside), and with
arguments that held half of a character (an internal error, which this test found).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

from harness import amount, report
from hostile import ALWAYS, GOOD, PROSE, SECRET, arguments, outside_of, paths, places, plant
from lookfar.serve.daemon.pool import Pool
from lookfar.serve.mcp.server import make_server
from lookfar.serve.tools.tool import Tool
from lookfar.serve.toolsets import load_tools
from serve.mcp.served import Agent, Home, connected

TOOLS = {tool.name: tool for tool in load_tools(("all",))}
EACH = amount(16, 1_000)
"""How many of the paths each argument is given; the next one begins where it left off."""


@pytest.fixture
def agent(portal: BlockingPortal, home: Home, tmp_path: Path) -> Iterator[Agent]:
    """Every tool, with leave to write, over a folder with links out of it."""
    root = plant(tmp_path / "place")
    pool = Pool()
    settings = {**home.settings, "index.dir": str(tmp_path / "index")}
    environ = {"HOME": str(tmp_path / "index")}
    with pool.session([str(root)], settings=settings, environ=environ, write=True) as session:
        server = make_server(session, load_tools(("all",)))
        with connected(portal, server, root) as agent:
            yield agent
    pool.close()


def test_no_path_leads_out(agent: Agent, tmp_path: Path) -> None:
    hostile = paths(agent.root)
    assert len(hostile) >= 200
    before = outside_of(tmp_path / "place", agent.root)
    agent.raw("create_index", {"confirm": True})
    answers(agent)
    tried, at, fewest, bad = 0, 0, len(hostile), []
    for tool in TOOLS.values():
        for place in places(tool):
            turns = range(at, at + min(EACH, len(hostile)))
            given = dict.fromkeys((*ALWAYS, *(hostile[n % len(hostile)] for n in turns)))
            fewest = min(fewest, len(given))
            for value in given:
                at += 1
                tried += 1
                problem = escape(agent, tool, arguments(tool, place, value, at))
                if problem:
                    bad.append((tool.name, place, value, problem))
    report(
        "hostile paths (MCP)", trials=tried, faults=fewest, failures=len(bad),
        note=f"{arguments_tried()} arguments, each with so many paths as faults are said",
    )  # fmt: skip
    assert bad == []
    assert outside_of(tmp_path / "place", agent.root) == before
    assert all(path.is_symlink() or path.resolve().is_relative_to(agent.root.resolve())
               for path in agent.root.rglob("*"))  # fmt: skip
    assert {path.name for path in tmp_path.iterdir()} <= {"home", "index", "place"}
    assert strangers(tmp_path / "index") == []
    answers(agent)


def answers(agent: Agent) -> None:
    """A good path is answered: nothing is proved by a server that refuses all."""
    assert "The harbour keeps boats." in agent.call("read", target="a/guide.md").model_dump_json()


def arguments_tried() -> int:
    return sum(len(list(places(tool))) for tool in TOOLS.values())


def strangers(index: Path) -> list[Path]:
    """What was written beside the folders that indexes, memories and databases have."""
    data = index / ".local" / "share" / "lookfar"
    known = ("docs-", ".local", "documents", "memory", "share", "lookfar")
    folders = (index, data.parent.parent, data.parent, data, data / "memory")
    listed = [path for folder in folders if folder.is_dir() for path in folder.iterdir()]
    return [path for path in listed if not path.name.startswith(known)]


def escape(agent: Agent, tool: Tool, given: dict[str, Any]) -> str:
    """What is wrong with the answer to one call, or nothing."""
    result = agent.raw(tool.name, given)
    text = result.model_dump_json()
    if SECRET in text or "root:x:0" in text:
        return f"the secret: {text[:300]}"
    if result.is_error and '\\"INTERNAL\\"' in text:
        return f"an internal error: {text[:300]}"
    return ""


def test_every_argument_that_may_name_something_is_tried() -> None:
    """A new argument is tried unless it is listed as words; what is listed must exist."""
    known = {name for tool in TOOLS.values() for name in _names(tool.input_schema)}
    assert known >= PROSE
    assert sum(1 for tool in TOOLS.values() for _ in places(tool)) >= 45
    without = {tool.name for tool in TOOLS.values() if not list(places(tool))}
    for name in without:
        assert set(_names(TOOLS[name].input_schema)) <= PROSE | _plain_names(name), name
    assert set(GOOD) <= known


def _names(schema: dict[str, Any]) -> Iterator[str]:
    for name, part in schema.get("properties", {}).items():
        yield name
        yield from _names(part.get("items", part))


def _plain_names(tool: str) -> set[str]:
    """Arguments that are numbers, switches or choices."""
    properties = TOOLS[tool].input_schema["properties"]
    return {
        name
        for name, part in properties.items()
        if part.get("type") in ("boolean", "integer", "number") or "enum" in str(part)
    }
