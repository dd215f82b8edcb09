"""The memory tools of the toolset ragdocs, driven by a real client in both eras."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from lookfar.library import Library
from lookfar.retrieve.answer.pack import tokens
from lookfar.serve.tools.tool import Session, Tool, WritesNotAllowed
from lookfar.serve.toolsets import load_tools
from lookfar.serve.toolsets.ragdocs import TOOLS

TOOLSET = "ragdocs"
Ask = Callable[..., dict[str, Any]]
Put = Callable[..., None]

WRITERS = {
    "create_memory": {"filename": "n", "content": "x"},
    "update_memory": {"filename": "kept", "content": "x"},
    "append_memory": {"filename": "kept", "content": "x"},
    "delete_memory": {"filename": "kept"},
    "restore_memory": {"filename": "kept"},
    "merge_memories": {"source_files": ["kept"], "target_file": "n", "summary_content": "x"},
}
KINDS = ["plan", "journal", "fact", "observation", "reflection"]


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    return {"embed.provider": "hash", "index.workers": 1, "memory.dir": str(tmp_path / "memory")}


@pytest.fixture
def session(library: Library) -> Session:
    return Session(library, write=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "memory"


def names(shape: dict[str, Any]) -> list[str]:
    return [each["filename"] for each in shape["results"]]


def test_the_tools_have_distinct_names(listed: dict[str, types.Tool]) -> None:
    """A client must see which of them write, and which could lose something."""
    for name in WRITERS:
        annotations = listed[name].annotations
        assert annotations is not None
        assert annotations.read_only_hint is False
    reading = ("read_memory", "search_memories", "search_linked_memories", "get_memory_stats")
    for name in reading:
        annotations = listed[name].annotations
        assert annotations is not None
        assert annotations.read_only_hint is True
    for tool, field in (("create_memory", "memory_type"), ("search_memories", "filter_type")):
        assert listed[tool].input_schema["properties"][field]["enum"] == KINDS


def test_a_memory_is_written_with_front_matter(ask: Ask, folder: Path) -> None:
    made = ask(
        "create_memory", filename="retries", content="Three times.", tags=["net"],
        memory_type="plan",
    )  # fmt: skip
    assert (made["filename"], made["status"], made["tags"]) == ("retries.md", "created", ["net"])
    text = (folder / "retries.md").read_text(encoding="utf-8")
    assert text.startswith("---\ntype: plan\nstatus: active\n")
    assert 'author: "mcp"\n' in text or "author: mcp\n" in text
    assert text.endswith("---\n\nThree times.\n")


def test_a_deleted_memory_can_be_restored(ask: Ask, refused: Ask, folder: Path) -> None:
    ask("create_memory", filename="n.md", content="One.")
    assert ask("read_memory", filename="n")["content"] == "One."
    ask("append_memory", filename="n", content="Two.")
    assert ask("read_memory", filename="n")["content"] == "One.\n\nTwo."
    ask("update_memory", filename="n", content="Three.")
    assert ask("read_memory", filename="n")["content"] == "Three."
    gone = ask("delete_memory", filename="n")
    assert gone["status"] == "deleted"
    assert not (folder / "n.md").exists()
    assert (folder / ".trash" / f"n.{gone['trash_version']:06}.md").exists()
    assert refused("read_memory", filename="n")["code"] == "NOT_FOUND"
    assert ask("restore_memory", filename="n")["status"] == "restored"
    assert ask("read_memory", filename="n")["content"] == "Three."


def test_several_become_one(ask: Ask, refused: Ask, folder: Path) -> None:
    for name in ("a", "b"):
        ask("create_memory", filename=name, content=name, tags=[name])
    made = ask("merge_memories", source_files=["a", "b.md"], target_file="c", summary_content="ab")
    assert (made["filename"], made["tags"]) == ("c.md", ["a", "b"])
    assert sorted(each.name for each in folder.glob("*.md")) == ["c.md"]
    assert refused("merge_memories", source_files=["a"], target_file="d", summary_content="x")
    stats = ask("get_memory_stats")
    assert stats["total_memories"] == 1
    assert stats["by_type"] == {"fact": 1}
    assert stats["by_tag"] == {"a": 1, "b": 1}
    assert stats["trashed"] == 2


def test_memories_are_searched_and_filtered(ask: Ask, put: Put) -> None:
    put({"doc.md": "# Doc\n\nA zebra in a document.\n"})
    ask("create_memory", filename="a", content="A zebra plan.", memory_type="plan", tags=["x"])
    ask("create_memory", filename="b", content="A zebra fact.", tags=["x", "y"])
    found = ask("search_memories", query="zebra")
    assert sorted(names(found)) == ["a.md", "b.md"]
    assert 0.9 < found["results"][0]["score"] < 1
    assert found["results"][0]["stale"] is False
    assert len(ask("search_memories", query="zebra", limit=1)["results"]) == 1
    assert names(ask("search_memories", query="zebra", filter_type="plan")) == ["a.md"]
    assert names(ask("search_memories", query="zebra", filter_tags=["y"])) == ["b.md"]
    assert names(ask("search_memories", query="zebra", filter_type="journal")) == []
    both = ask("search_memories", query="zebra", filter_type="plan", filter_tags=["y"])
    assert names(both) == []
    documents = ask("query_documents", query="zebra")
    assert [each["file_path"] for each in documents["results"]] == ["doc.md"]


def test_memories_are_found_from_a_document(ask: Ask, put: Put, docs: Path) -> None:
    """Through the graph, with the kind of the link and the words around it."""
    put({"src/auth.py": "def login():\n    return 1\n", "other.md": "# Other\n"})
    ask("create_memory", filename="a", memory_type="plan",
        content="Tokens: we plan to sign them in [[src/auth.py]] before the release.")  # fmt: skip
    ask("create_memory", filename="b", content="Tokens of [[other]].")
    ask("create_memory", filename="c", content="Tokens, and [[docs/roadmap.md]] to come.")
    found = ask("search_linked_memories", query="tokens", target_document="src/auth.py")
    (only,) = found["results"]
    assert (only["filename"], only["edge_type"]) == ("a.md", "plans")
    assert "sign them in src/auth.py before" in only["anchor_context"]
    ghost = ask("search_linked_memories", query="tokens", target_document="docs/roadmap.md")
    assert names(ghost) == ["c.md"]
    assert names(ask("search_linked_memories", query="tokens", target_document="no.md")) == []
    put({"src/auth.py": "def login():\n    return 2\n"})
    again = ask("search_linked_memories", query="tokens", target_document="./src/auth.py")
    assert again["results"][0]["changed_since"] == ["src/auth.py"]
    assert again["results"][0]["stale"] is True


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("create_memory", {"filename": "n"}, "INVALID_ARGUMENT"),
        ("create_memory", {"filename": "n", "content": " "}, "INVALID_ARGUMENT"),
        ("create_memory", {"filename": "n", "content": "x", "memory_type": "x"},
         "INVALID_ARGUMENT"),
        ("create_memory", {"filename": "../n", "content": "x"}, "OUTSIDE_ROOT"),
        ("read_memory", {"filename": "/etc/passwd"}, "OUTSIDE_ROOT"),
        ("read_memory", {"filename": "n"}, "NOT_FOUND"),
        ("search_memories", {"query": "x", "filter_type": "x"}, "INVALID_ARGUMENT"),
        ("search_memories", {"query": "x", "filter_type": ""}, "INVALID_ARGUMENT"),
        ("search_memories", {"query": "x", "limit": 0}, "INVALID_ARGUMENT"),
        ("search_memories", {"query": "  "}, "INVALID_ARGUMENT"),
        ("search_linked_memories", {"query": "x", "target_document": "../x"}, "OUTSIDE_ROOT"),
        ("merge_memories", {"source_files": [], "target_file": "n", "summary_content": "x"},
         "INVALID_ARGUMENT"),
        ("restore_memory", {"filename": "n"}, "NOT_FOUND"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(
    refused: Ask, tool: str, arguments: dict[str, Any], code: str
) -> None:
    shape = refused(tool, **arguments)
    assert shape["code"] == code
    assert shape["hint"]


def test_a_long_memory_is_cut_and_says_so(ask: Ask, folder: Path) -> None:
    ask("create_memory", filename="n", content="word " * 40_000)
    read = ask("read_memory", filename="n")
    assert read["truncated"] is True
    assert tokens(read["content"]) < 20_000
    assert "characters are given" in read["note"]


class TestWithoutWrite:
    """A server whose toolset was chosen by a file of the folder, without ``--write``."""

    @pytest.fixture
    def tools(self) -> tuple[Tool, ...]:
        return load_tools([TOOLSET], by_user=False)

    @pytest.fixture
    def session(self, library: Library) -> Session:
        library.notebook().create("Kept zebra.", name="kept")
        return Session(library)

    def test_no_writer_is_there(
        self, call: Any, ask: Ask, listed: dict[str, types.Tool], folder: Path
    ) -> None:
        """Neither listed nor called; reading goes on."""
        before = {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}
        assert not set(WRITERS) & set(listed)
        for tool, arguments in WRITERS.items():
            with pytest.raises(ExceptionGroup) as group:
                call(tool, arguments)
            assert group.group_contains(MCPError, match="no tool")
        after = {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}
        assert after == before
        assert ask("read_memory", filename="kept")["content"] == "Kept zebra."
        assert names(ask("search_memories", query="zebra")) == ["kept.md"]

    def test_calling_a_hidden_write_tool_is_refused(self, session: Session, folder: Path) -> None:
        """Whatever way a call takes around the list."""
        for tool in TOOLS:
            if tool.name in WRITERS:
                with pytest.raises(WritesNotAllowed):
                    tool.run(session, WRITERS[tool.name], None)  # type: ignore[arg-type]
        assert [each.name for each in folder.glob("*.md")] == ["kept.md"]

    def test_the_table_knows_all_of_them(self) -> None:
        assert {tool.name for tool in TOOLS if tool.writes} == set(WRITERS)


def test_a_filter_that_nothing_passes_says_so(ask: Ask) -> None:
    """Seen to fail with a note on a path that begins with a null character."""
    ask("create_memory", filename="a", content="A zebra fact.")
    for found, note in (
        (ask("search_memories", query="zebra", filter_type="plan"), "no memory of the type plan"),
        (ask("search_linked_memories", query="zebra", target_document="x.md"), "links to 'x.md'"),
    ):
        assert found["results"] == []
        assert note in found["note"]
        assert "begins with" not in found["note"]
