"""Every tool of every toolset over every transport that is a process, good and bad input both.

What each tool says in detail is the business of ``tests/serve/toolsets``; here a real client
calls them all where a user's client would: over stdio, through the daemon and over HTTP.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal
from served import LEGACY, MODERN, Agent, Home, connected, http, stdio, write_documents

from lookfar.serve.toolsets import tools_of

NOTE = {"filename": "note", "content": "Remembered zebras."}
CALLS: list[tuple[str, dict[str, Any]]] = [
    # In an order in which each finds what it needs; what deletes comes last.
    ("create_index", {"confirm": True}),
    ("search", {"query": "signing key"}),
    ("read", {"target": "keys.md"}),
    ("related", {"target": "guide.md"}),
    ("status", {}),
    ("remember", {"text": "We keep the signing key offline."}),
    ("anvil_search_docs", {"query": "signing key"}),
    ("get_page", {"file_path": "keys.md"}),
    ("get_section", {"file_path": "guide.md", "heading_path": "Guide > Install"}),
    ("list_pages", {}),
    ("msrl.query", {"query": "signing key"}),
    ("msrl.status", {}),
    ("msrl.reindex", {"wait": True}),
    ("msrl.watch", {"enabled": True}),
    ("query_documents", {"query": "signing key"}),
    ("query_documents_compressed", {"query": "signing key"}),
    ("search_with_hypothesis", {"hypothesis": "The signing key rotates."}),
    ("search_git_history", {"query": "signing key"}),
    ("create_memory", NOTE),
    ("read_memory", {"filename": "note"}),
    ("update_memory", NOTE),
    ("append_memory", NOTE),
    ("search_memories", {"query": "zebras"}),
    ("search_linked_memories", {"query": "zebras", "target_document": "keys.md"}),
    ("delete_memory", {"filename": "note"}),
    ("restore_memory", {"filename": "note"}),
    (
        "merge_memories",
        {"source_files": ["note"], "target_file": "merged", "summary_content": "All of it."},
    ),
    ("get_memory_stats", {}),
    ("search_mcp_search_docs", {"query": "signing key"}),
    ("search_code", {"query": "rotate"}),
    ("get_file_summary", {"path": "tool.py"}),
    ("search_by_path", {"pattern": "**/*.md"}),
    ("get_index_status", {}),
    ("get_config", {}),
    ("reindex_file", {"path": "keys.md"}),
    ("reindex_project", {"confirm": True}),
    ("delete_index", {"confirm": True}),
]
WAYS = ["stdio", "daemon", "http"]


@pytest.fixture(scope="module", params=[(way, era) for way in WAYS for era in (LEGACY, MODERN)],
                ids="-".join)  # fmt: skip
def all_tools(
    request: pytest.FixtureRequest,
    portal: BlockingPortal,
    home: Home,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Agent]:
    way, era = request.param
    if way == "daemon" and os.name == "nt":
        pytest.skip("Unix sockets")
    root = write_documents(tmp_path_factory.mktemp(f"all-{way}"))
    code = 'def rotate(key):\n    """Rotate a key."""\n    return key\n'
    (root / "tool.py").write_text(code, encoding="utf-8")
    given: list[object] = [root, "--toolset", "all", "--write"]
    with ExitStack() as stack:
        if way == "http":
            server: Any = stack.enter_context(http(home, *given))[0]
        else:
            server = stdio(home, *given, *(["--no-daemon"] if way == "stdio" else []))
        yield stack.enter_context(connected(portal, server, root, era))


def test_nothing_is_left_out() -> None:
    assert sorted(name for name, _ in CALLS) == sorted(tool.name for tool in tools_of(["all"]))


def test_each_tool_answers(all_tools: Agent) -> None:
    """Seen to fail with a way that lost an answer, and with a tool that no way could call."""
    listed = {each.name for each in all_tools.run(all_tools.client.list_tools).tools}
    assert listed == {name for name, _ in CALLS}
    for name, arguments in CALLS:
        result = all_tools.raw(name, arguments)
        said = [block.text for block in result.content if block.type == "text"]
        assert not result.is_error, (name, said)
        assert any(said), name
        if result.structured_content is None:
            assert isinstance(json.loads(said[0]), dict), name


def test_each_tool_refuses_what_it_does_not_know(all_tools: Agent) -> None:
    for name, arguments in CALLS:
        result = all_tools.raw(name, {**arguments, "no_such_argument": 1})
        assert result.is_error, name
        assert "no_such_argument" in result.content[0].text, name
        for wanted in arguments:
            wrong: Any = {**arguments, wanted: [{"not": "this"}]}
            assert all_tools.raw(name, wrong).is_error, (name, wanted)


def test_the_folder_is_untouched(all_tools: Agent) -> None:
    """Tools that write do so in the index and among the memories, never among the documents."""
    root: Path = all_tools.root
    assert {path.name for path in root.iterdir()} == {
        "corpus", "guide.md", "keys.md", "long.md", "notes.txt", "tool.py",
    }  # fmt: skip
