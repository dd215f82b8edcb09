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

from lookfar.serve.toolsets import load_tools
from serve.mcp.served import LEGACY, MODERN, Agent, Home, connected, http, stdio, write_documents

A_SECTION = {"doc_uri": "made.md", "heading_path": "Made → A"}
NOTE = {"filename": "note", "content": "Remembered zebras."}
CALLS: list[tuple[str, dict[str, Any]]] = [
    # In an order in which each finds what it needs; what deletes comes last.
    ("create_index", {"confirm": True}),
    ("search", {"query": "signing key"}),
    ("read", {"target": "keys.md"}),
    ("related", {"target": "guide.md"}),
    ("status", {}),
    ("remember", {"text": "We keep the signing key offline."}),
    ("edit", {"edits": [{"op": "append", "target": "keys.md#Keys", "text": "Keep it cold."}]}),
    ("anvil_search_docs", {"query": "signing key"}),
    ("get_page", {"file_path": "keys.md"}),
    ("get_section", {"file_path": "guide.md", "heading_path": "Guide > Install"}),
    ("list_pages", {}),
    ("create_database", {"db_name": "texts"}),
    ("insert_document", {"text": "Zebras drink at dawn.", "db_name": "texts"}),
    ("find_similar_documents", {"text": "zebras", "db_name": "texts"}),
    ("delete_document", {"doc_id": "(the one inserted)", "db_name": "texts"}),
    ("msrl.query", {"query": "signing key"}),
    ("msrl.status", {}),
    ("msrl.reindex", {"wait": True}),
    ("msrl.watch", {"enabled": True}),
    ("msrl.doc.create", {"doc_uri": "made.md", "title": "Made"}),
    ("msrl.doc.validate", {"doc_uri": "made.md"}),
    ("msrl.doc.auto_fix", {"doc_uri": "made.md"}),
    (
        "msrl.doc.insert_section",
        {"doc_uri": "made.md", "parent_heading_path": "Made", "heading": "A", "content_md": "x"},
    ),
    (
        "msrl.doc.insert_section",
        {"doc_uri": "made.md", "parent_heading_path": "Made", "heading": "B", "content_md": "x"},
    ),
    ("msrl.doc.replace_section", {**A_SECTION, "content_md": "y"}),
    ("msrl.doc.append_to_section", {**A_SECTION, "content_md": "z"}),
    (
        "msrl.doc.move_section",
        {
            "doc_uri": "made.md",
            "from_heading_path": "Made → A",
            "to_parent_heading_path": "Made → B",
        },
    ),
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
WAYS = [("stdio", LEGACY), ("daemon", MODERN), ("http", LEGACY)]


@pytest.fixture(scope="module", params=WAYS, ids="-".join)
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
    assert {name for name, _ in CALLS} == {tool.name for tool in load_tools(["all"])}


def test_each_tool_answers(all_tools: Agent) -> None:
    """Seen to fail with a way that lost an answer, and with a tool that no way could call."""
    listed = {each.name for each in all_tools.run(all_tools.client.list_tools).tools}
    assert listed == {name for name, _ in CALLS}
    inserted = ""
    for name, arguments in CALLS:
        given = {**arguments, "doc_id": inserted} if "doc_id" in arguments else arguments
        result = all_tools.raw(name, given)
        said = [block.text for block in result.content if block.type == "text"]
        assert not result.is_error, (name, said)
        assert any(said), name
        if result.structured_content is None:
            shape = json.loads(said[0])
            kind: type[Any] = list if name == "find_similar_documents" else dict
            assert isinstance(shape, kind), name
            inserted = shape["doc_id"] if name == "insert_document" else inserted


def test_each_tool_refuses_what_it_does_not_know(all_tools: Agent) -> None:
    for name, arguments in CALLS:
        result = all_tools.raw(name, {**arguments, "no_such_argument": 1})
        assert result.is_error, name
        block = result.content[0]
        assert block.type == "text"
        assert "no_such_argument" in block.text, name
        for wanted in arguments:
            wrong: Any = {**arguments, wanted: [{"not": "this"}]}
            assert all_tools.raw(name, wrong).is_error, (name, wanted)


def test_the_folder_holds_what_was_edited_and_nothing_else(all_tools: Agent) -> None:
    """Tools that write do so in the index and among the memories, but for those that edit."""
    root: Path = all_tools.root
    assert {path.name for path in root.iterdir()} == {
        "corpus", "guide.md", "keys.md", "long.md", "made.md", "notes.txt", "tool.py",
    }  # fmt: skip
    assert (root / "keys.md").read_text(encoding="utf-8").endswith("\n\nKeep it cold.\n")
    made = (root / "made.md").read_text(encoding="utf-8")
    assert made == "# Made\n\n## B\n\nx\n\n### A\n\ny\n\nz\n"
