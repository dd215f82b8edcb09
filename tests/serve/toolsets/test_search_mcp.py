"""The toolset search-mcp, driven by a real client."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client

from lookfar.errors import LookfarError
from lookfar.index import build, worker
from lookfar.library import Library
from lookfar.retrieve.answer.pack import tokens
from lookfar.serve.daemon.endpoint import ClientRequest
from lookfar.serve.daemon.project import project_root
from lookfar.serve.daemon.services import resolve_roots
from lookfar.serve.mcp.server import make_server
from lookfar.serve.tools.tool import Session
from lookfar.serve.toolsets.search_mcp import TOOLS
from lookfar.store.ground.files import WriterLock
from waiting import wait_for

TOOLSET = "search-mcp"
SETTINGS = {"chunk.merge_small": False}
Ask = Callable[..., dict[str, Any]]
Put = Callable[..., None]
Unmet = Callable[..., list[str]]

LONG = "\n\n".join(f"Paragraph {n} tells of lemurs. " + f"word{n} " * 60 for n in range(12))
GUIDE = f"""# Guide

How things work here.

## Authentication

### JWT Tokens

Tokens are signed with a secret key and expire after an hour.

## Long Story

{LONG}
"""
FILES = {
    "docs/auth.md": GUIDE,
    "docs/other.md": "Plain words about walruses, under no heading.\n",
    "notes.txt": "A text file about narwhals.\n",
    "src/auth/login.png": "export const login = 1;\n",
}


@pytest.fixture
def project(ask: Ask) -> dict[str, Any]:
    """The project, indexed."""
    return ask("create_index", confirm=True)


def answers(action: str, **content: Any) -> dict[str, Any]:
    """Options of a client whose user answers so; ``asked`` collects the questions."""
    asked: list[str] = []

    async def answer(_context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        assert params.requested_schema["properties"]["confirm"]["type"] == "boolean"
        return types.ElicitResult(action=action, content=content or None)  # type: ignore[arg-type]

    return {"elicitation_callback": answer, "asked": asked}


@pytest.fixture
def answered(call: Any) -> Callable[..., tuple[dict[str, Any], list[str], bool]]:
    """Call a tool with a user who answers: its object, the questions, and whether it failed."""

    def answered(tool: str, action: str, **content: Any) -> tuple[dict[str, Any], list[str], bool]:
        options = answers(action, **content)
        asked = options.pop("asked")
        result = call(tool, {}, **options)
        return json.loads(result.content[0].text), asked, bool(result.is_error)

    return answered


def error(shape: dict[str, Any], code: str) -> tuple[str, str]:
    """What people and developers are told, after a look at the shape."""
    assert set(shape) == {"code", "userMessage", "developerMessage"}
    assert shape["code"] == code
    assert shape["developerMessage"].startswith(f"{code}: ")
    assert len(shape["developerMessage"]) > len(code) + 2
    technical = r"EACCES|ENOSPC|Error|Exception|Traceback|SQLite|epoch|catalogue|Errno"
    assert not re.search(technical, shape["userMessage"])
    return shape["userMessage"], shape["developerMessage"]


# --- all tools ----------------------------------------------------------------------------------


def test_the_client_is_told_of_ten_tools(listed: dict[str, types.Tool]) -> None:
    """Names, and what each may do to an index."""
    assert list(listed) == [
        "create_index", "search_docs", "search_code", "get_file_summary", "search_by_path",
        "get_index_status", "get_config", "reindex_project", "reindex_file", "delete_index",
    ]  # fmt: skip
    hints = {name: tool.annotations for name, tool in listed.items()}
    reading = {name for name, hint in hints.items() if hint and hint.read_only_hint}
    assert reading == {
        "search_docs", "search_code", "get_file_summary", "search_by_path", "get_index_status",
        "get_config",
    }  # fmt: skip
    assert {name for name, hint in hints.items() if hint and hint.destructive_hint} == {
        "delete_index"
    }
    assert all(len(tool.description or "") < 300 for tool in listed.values())


def test_longer_descriptions_are_an_option(session: Session) -> None:
    """The tip about searching again costs tokens, so it is there only when wished for."""

    async def described(enhanced: bool) -> str:
        async with Client(
            make_server(session, TOOLS, enhanced=enhanced), mode="2026-07-28"
        ) as client:
            tools = {each.name: each for each in (await client.list_tools()).tools}
            return tools["search_docs"].description or ""

    short, long = (anyio.run(described, enhanced) for enhanced in (False, True))
    assert long.startswith(short)
    assert "Tip" in long
    assert "Tip" not in short
    assert len(long) < 300


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("create_index", {"confirm": "yes"}, "confirm"),
        ("create_index", {"confirm": 1}, "confirm"),
        ("create_index", {"confirmed": True}, "confirmed"),
        ("search_docs", {}, "query"),
        ("search_docs", {"query": ""}, "query"),
        ("search_docs", {"query": "  "}, "query"),
        ("search_docs", {"query": ["x"]}, "query"),
        ("search_docs", {"query": "x", "top_k": 0}, "top_k"),
        ("search_docs", {"query": "x", "top_k": 51}, "top_k"),
        ("search_docs", {"query": "x", "top_k": 1.5}, "top_k"),
        ("search_docs", {"query": "x", "mode": "keyword"}, "mode"),
        ("search_docs", {"query": "x", "alpha": -0.01}, "alpha"),
        ("search_docs", {"query": "x", "alpha": 1.01}, "alpha"),
        ("search_docs", {"query": "x", "alpha": "0.5"}, "alpha"),
        ("search_docs", {"query": "x", "alpha": True}, "alpha"),
        ("search_docs", {"query": "x", "compact": "no"}, "compact"),
        ("search_docs", {"query": "x", "topk": 3}, "topk"),
        ("search_code", {"query": ""}, "query"),
        ("search_code", {"query": "  "}, "query"),
        ("search_code", {"query": "x", "top_k": 0}, "top_k"),
        ("search_code", {"query": "x", "top_k": 51}, "top_k"),
        ("search_code", {"query": "x", "top_k": 1.5}, "top_k"),
        ("search_code", {"query": "x", "mode": "keyword"}, "mode"),
        ("search_code", {"query": "x", "alpha": -0.01}, "alpha"),
        ("search_code", {"query": "x", "alpha": 1.01}, "alpha"),
        ("search_code", {"query": "x", "alpha": "0.5"}, "alpha"),
        ("search_code", {"query": "x", "alpha": True}, "alpha"),
        ("search_code", {"query": "x", "compact": "no"}, "compact"),
        ("search_code", {"query": "x", "topk": 3}, "topk"),
        ("search_code", {}, "query"),
        ("get_file_summary", {}, "path"),
        ("get_file_summary", {"path": ""}, "path"),
        ("get_file_summary", {"path": "x", "includeComplexity": "no"}, "includeComplexity"),
        ("get_file_summary", {"path": "x", "includeDocstrings": 1}, "includeDocstrings"),
        ("get_file_summary", {"path": "x", "complexity": False}, "complexity"),
        ("search_by_path", {}, "pattern"),
        ("search_by_path", {"pattern": ""}, "pattern"),
        ("search_by_path", {"pattern": "\t"}, "pattern"),
        ("search_by_path", {"pattern": "*", "limit": 0}, "limit"),
        ("search_by_path", {"pattern": "*", "limit": 1.5}, "limit"),
        ("search_by_path", {"pattern": "*", "limit": "20"}, "limit"),
        ("get_index_status", {"verbose": True}, "verbose"),
        ("get_config", {"all": True}, "all"),
        ("reindex_project", {"confirm": None}, "confirm"),
        ("reindex_file", {}, "path"),
        ("reindex_file", {"path": ""}, "path"),
        ("reindex_file", {"path": 7}, "path"),
        ("delete_index", {"confirm": "true"}, "confirm"),
    ],
)
def test_wrong_arguments_are_named(
    refused: Ask, tool: str, arguments: dict[str, Any], field: str
) -> None:
    """Every limit holds and nothing is ignored."""
    said, _ = error(refused(tool, **arguments), "INVALID_ARGUMENT")
    assert f"'{field}'" in said


@pytest.mark.usefixtures("project")
def test_the_limits_themselves_are_accepted(ask: Ask) -> None:
    """Off by one would refuse what is allowed."""
    for more in ({"top_k": 1}, {"top_k": 50}, {"alpha": 0}, {"alpha": 1}, {"alpha": 0.0}):
        assert ask("search_docs", query="tokens", **more)["results"]
    for mode in ("hybrid", "vector", "fts"):
        assert ask("search_docs", query="tokens", mode=mode)["results"]
    for limit in (1, 100):
        assert ask("search_by_path", pattern="**/*.md", limit=limit)["totalMatches"] == 2


def test_several_folders_are_refused_plainly(
    tmp_path: Path, settings: dict[str, Any], call_in: Any
) -> None:
    """One project, one index: which of several to delete must not be guessed."""
    roots = (tmp_path / "a", tmp_path / "b")
    for root in roots:
        root.mkdir()
    given = {"search_docs": {"query": "x"}, "search_code": {"query": "x"},
             "search_by_path": {"pattern": "x"}, "reindex_file": {"path": "x"},
             "get_file_summary": {"path": "x"}, "get_index_status": {}, "get_config": {},
             }  # fmt: skip
    with Library.open(*roots, index_dir=tmp_path / "index", settings=settings) as library:
        for tool in TOOLS:
            arguments = given.get(tool.name, {"confirm": True})
            shape, failed = call_in(library, tool.name, **arguments)
            assert failed, tool.name
            assert "a, b" in error(shape, "INVALID_ARGUMENT")[0], tool.name


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search_docs", {"query": "x"}),
        ("search_code", {"query": "x"}),
        ("search_by_path", {"pattern": "*"}),
        ("reindex_project", {"confirm": True}),
        ("reindex_file", {"path": "docs/auth.md"}),
        ("delete_index", {"confirm": True}),
    ],
)
def test_without_an_index_indexing_is_offered(
    refused: Ask, library: Library, tool: str, arguments: dict[str, Any]
) -> None:
    """And nothing is built before somebody agreed."""
    said, told = error(refused(tool, **arguments), "INDEX_NOT_FOUND")
    assert "index it now" in said
    assert str(library.index_dir) in told
    assert not library.indexed


# --- create_index and asking --------------------------------------------------------------------


def test_an_index_is_made(ask: Ask, docs: Path, library: Library, unmet: Unmet) -> None:
    """All documents of the project, and the numbers are those of the index."""
    made = ask("create_index", confirm=True)
    assert unmet("search_mcp", "create_index", made) == []
    assert made["status"] == "success"
    assert made["projectPath"] == str(docs)
    assert made["filesIndexed"] == 3
    assert made["chunksCreated"] == library.status().counts.chunks > 3
    assert re.fullmatch(r"\d+s", made["duration"])
    again = ask("create_index", confirm=True)
    assert again["filesIndexed"] == 3


QUESTIONS = {
    "create_index": "Index the project",
    "reindex_project": "whole index",
    "delete_index": "cannot be restored",
}


@pytest.mark.parametrize("tool", QUESTIONS)
def test_a_user_who_agrees_is_asked_once(ask: Ask, answered: Any, docs: Path, tool: str) -> None:
    """The question says what will be done, and to which folder."""
    if tool != "create_index":
        ask("create_index", confirm=True)
    shape, asked, failed = answered(tool, "accept", confirm=True)
    assert not failed
    assert shape["status"] == "success"
    (question,) = asked
    assert QUESTIONS[tool] in question
    assert str(docs) in question


@pytest.mark.parametrize(
    ("action", "content"),
    [("decline", {}), ("cancel", {}), ("accept", {"confirm": False}), ("accept", {})],
)
@pytest.mark.parametrize("tool", QUESTIONS)
def test_nothing_is_done_if_the_user_declines(
    ask: Ask, answered: Any, library: Library, tool: str, action: str, content: dict[str, Any]
) -> None:
    """Declined, cancelled or accepted without the tick: nothing is done, and that is no error."""
    if tool != "create_index":
        ask("create_index", confirm=True)
    before = library.status().generation
    shape, asked, failed = answered(tool, action, **content)
    assert not failed
    assert shape["status"] == "cancelled"
    assert len(asked) == 1
    assert library.status().generation == before
    assert library.indexed is (tool != "create_index")


@pytest.mark.parametrize("tool", QUESTIONS)
def test_a_client_that_cannot_ask_learns_of_confirm(
    ask: Ask, refused: Ask, library: Library, tool: str
) -> None:
    """Neither done without agreement, nor impossible."""
    if tool != "create_index":
        ask("create_index", confirm=True)
    before = library.status().generation
    said, _ = error(refused(tool), "CONFIRMATION_REQUIRED")
    assert "confirm: true" in said
    assert library.status().generation == before


class TestManyFiles:
    @pytest.fixture
    def settings(self) -> dict[str, Any]:
        return {"embed.provider": "hash", "index.workers": 1, "sources.max_files": 2}

    def test_the_number_of_files_is_in_the_question(self, answered: Any, library: Library) -> None:
        """One question about both; who agrees gets all files."""
        shape, asked, _ = answered("create_index", "decline")
        assert shape["status"] == "cancelled"
        assert not library.indexed
        assert "3 files" in asked[0]
        assert "minutes" in asked[0]
        shape, asked, failed = answered("create_index", "accept", confirm=True)
        assert not failed
        assert len(asked) == 1
        assert shape["filesIndexed"] == 3

    def test_a_client_that_cannot_ask_is_warned(
        self, ask: Ask, refused: Ask, library: Library
    ) -> None:
        """The warning has a code of its own, and confirm: true answers it too."""
        said, told = error(refused("create_index"), "FILE_LIMIT_WARNING")
        assert "3 files" in said
        assert "confirm: true" in said
        assert "3" in told
        assert "limit 2" in told
        assert not library.indexed
        assert ask("create_index", confirm=True)["filesIndexed"] == 3
        error(refused("reindex_project"), "FILE_LIMIT_WARNING")

    def test_what_was_let_in_is_kept_up_to_date(self, ask: Ask, put: Put, library: Library) -> None:
        """Later passes do not refuse what somebody agreed to."""
        ask("create_index", confirm=True)
        put({"more.md": "More.\n"})
        assert library.index().added == 1


def test_the_default_limit_is_fifty_thousand(ask: Ask) -> None:
    """As the spec has it."""
    assert ask("get_config")["config"]["maxFiles"] == 50_000


def test_the_root_is_found_upward(
    docs: Path, tmp_path: Path, settings: dict[str, Any], call_in: Any
) -> None:
    """Started deep inside a project, the whole project is indexed."""
    (docs / ".git").mkdir()
    deep = docs / "src" / "auth"
    (root,) = resolve_roots(ClientRequest("mcp", str(deep)))
    assert root == str(docs) == str(project_root(str(deep)))
    with Library.open(root, index_dir=tmp_path / "index", settings=settings) as library:
        made, _ = call_in(library, "create_index", confirm=True)
    assert made["projectPath"] == str(docs)
    assert made["filesIndexed"] == 3


@pytest.mark.parametrize("tool", ["create_index", "search_docs", "get_index_status", "get_config"])
def test_a_missing_project_is_not_guessed(own_home: Path, call_in: Any, tool: str) -> None:
    """In a home nothing says what is meant; every tool says so and none takes the home."""
    with pytest.raises(LookfarError) as raised:
        resolve_roots(ClientRequest("mcp", str(own_home)))
    given = {"query": "x"} if tool == "search_docs" else {}
    shape, failed = call_in(raised.value, tool, **given)
    assert failed
    said, told = error(shape, "PROJECT_NOT_DETECTED")
    assert "Choose the folder" in said
    assert str(own_home) in told


# --- search_docs --------------------------------------------------------------------------------


@pytest.mark.usefixtures("project")
def test_passages_come_with_their_place(ask: Ask, unmet: Unmet, docs: Path) -> None:
    """Every promised field, in both shapes, and lines that lead to the text."""
    full = ask("search_docs", query="secret key tokens signed")
    parts = ask("search_docs", query="Paragraph 9 word9 lemurs")
    compact = ask("search_docs", query="secret key tokens signed", compact=True)
    assert unmet("search_mcp", "search_docs", full, parts, compact) == []
    first = full["results"][0]
    assert first["path"] == "docs/auth.md"
    assert first["text"].startswith("[Guide > Authentication]\n\n### JWT Tokens\n\nTokens are")
    assert first["metadata"] == {
        "headerPath": ["Guide", "Authentication"], "headerLevel": 3, "sectionTitle": "JWT Tokens",
    }  # fmt: skip
    lines = (docs / "docs/auth.md").read_text(encoding="utf-8").splitlines()
    shown = "\n".join(lines[first["startLine"] - 1 : first["endLine"]])
    assert first["text"].partition("\n\n")[2].strip() == shown.strip()
    assert full["totalResults"] == len(full["results"])
    scores = [each["score"] for each in full["results"]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert "warning" not in full


@pytest.mark.usefixtures("project")
def test_compact_says_the_same_with_less(ask: Ask) -> None:
    """Short names, two decimals, no metadata."""
    full = ask("search_docs", query="walruses")
    compact = ask("search_docs", query="walruses", compact=True)
    assert set(compact) == {"r", "n", "ms"}
    assert compact["n"] == full["totalResults"]
    for short, long in zip(compact["r"], full["results"], strict=True):
        assert set(short) == {"l", "t", "s"}
        assert short["l"] == f"{long['path']}:{long['startLine']}-{long['endLine']}"
        assert short["t"] == long["text"]
        assert short["s"] == round(long["score"], 2)


@pytest.mark.usefixtures("project")
def test_markdown_and_text_files_are_searched(ask: Ask) -> None:
    """Each in its own way: no headings in a text file, none above plain words."""
    bare = ask("search_docs", query="walruses", top_k=1)["results"][0]
    assert bare["path"] == "docs/other.md"
    assert bare["metadata"] == {"headerPath": [], "headerLevel": 0, "sectionTitle": ""}
    assert bare["text"].startswith("Plain words")
    text = ask("search_docs", query="narwhals", top_k=1)["results"][0]
    assert text["path"] == "notes.txt"
    assert "metadata" not in text


@pytest.mark.usefixtures("project")
def test_later_parts_of_a_section_are_marked(ask: Ask) -> None:
    """Who sees the middle of a section learns that it is the middle."""
    found = ask("search_docs", query="Paragraph 11 word11", top_k=1, mode="fts")["results"][0]
    about = found["metadata"]
    assert about["sectionTitle"] == "Long Story"
    assert about["headerLevel"] == 2
    assert 1 < about["part"] <= about["totalParts"]
    assert found["text"].startswith("[Guide] (continued)\n\n")


@pytest.mark.usefixtures("project")
def test_each_mode_searches_as_it_says(ask: Ask) -> None:
    """Words only finds nothing without a common word; the ends of alpha are the single modes."""

    def scored(**how: Any) -> list[tuple[str, float]]:
        shape = ask("search_docs", query="the secret walruses", **how)
        return [(each["path"] + str(each["startLine"]), each["score"]) for each in shape["results"]]

    assert scored(alpha=0) == scored(mode="fts")
    assert scored(alpha=1) == scored(mode="vector")
    assert scored(mode="fts") != scored(mode="vector")
    assert scored(mode="fts", alpha=0.9) == scored(mode="fts")
    assert scored() == scored(mode="hybrid", alpha=0.5)
    assert scored(alpha=0.1) != scored(alpha=0.9)
    assert ask("search_docs", query="nosuchword", mode="fts")["results"] == []


def test_an_index_without_documentation(refused: Ask, ask: Ask, docs: Path) -> None:
    """Another error than no index at all, with the tool that helps."""
    for name in ("docs/auth.md", "docs/other.md", "notes.txt"):
        (docs / name).unlink()
    ask("create_index", confirm=True)
    said, _ = error(refused("search_docs", query="tokens"), "DOCS_INDEX_NOT_FOUND")
    assert "create_index" in said


def test_a_large_answer_is_cut_and_says_so(ask: Ask, put: Put, call: Any) -> None:
    """No result may fill a model's window."""
    long = " ".join(f"zebra wörd{number}" for number in range(150))
    put({f"big/d{number:02}.md": f"# D{number}\n\n{long}\n" for number in range(50)})
    ask("create_index", confirm=True)
    for compact, key in ((False, "warning"), (True, "w")):
        wanted = {"query": "zebra", "top_k": 50, "compact": compact}
        shown = call("search_docs", wanted).content[0].text
        assert 15_000 < tokens(shown) <= 20_000
        shape = ask("search_docs", **wanted)
        assert "cut" in shape[key]
        assert len(shape["r" if compact else "results"]) == 50


# --- search_by_path -----------------------------------------------------------------------------


@pytest.mark.usefixtures("project")
def test_files_are_found_by_glob(ask: Ask, unmet: Unmet) -> None:
    """Sorted, limited, and the total counts what the limit left out."""
    found = ask("search_by_path", pattern="docs/*.md")
    assert unmet("search_mcp", "search_by_path", found) == []
    assert found == {"matches": ["docs/auth.md", "docs/other.md"], "totalMatches": 2}
    one = ask("search_by_path", pattern="**/*.md", limit=1)
    assert one == {"matches": ["docs/auth.md"], "totalMatches": 2}
    assert ask("search_by_path", pattern="*.{txt,md}")["totalMatches"] == 3
    assert ask("search_by_path", pattern="no/such/*") == {"matches": [], "totalMatches": 0}


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("pattern", ["docs/[a", "{a,b"])
def test_a_broken_glob_is_shown(refused: Ask, pattern: str) -> None:
    """Whoever wrote it sees what was read."""
    said, _ = error(refused("search_by_path", pattern=pattern), "INVALID_PATTERN")
    assert pattern in said


# --- get_index_status, get_config ---------------------------------------------------------------


def test_the_status_always_answers(ask: Ask, docs: Path, library: Library, unmet: Unmet) -> None:
    """Before, after, and with a watcher."""
    assert ask("get_index_status") == {
        "status": "not_found", "projectPath": str(docs), "totalFiles": 0, "totalChunks": 0,
        "lastUpdated": None, "storageSize": "0B", "watcherActive": False,
    }  # fmt: skip
    ask("create_index", confirm=True)
    state = ask("get_index_status")
    assert unmet("search_mcp", "get_index_status", state) == []
    assert state["status"] == "ready"
    assert state["totalFiles"] == 3
    assert state["totalChunks"] == library.status().counts.chunks
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", state["lastUpdated"])
    assert re.fullmatch(r"\d+(\.\d)?(B|KB|MB|GB)", state["storageSize"])
    library.watch()
    assert ask("get_index_status")["watcherActive"] is True


class TestConfig:
    @pytest.fixture
    def settings(self) -> dict[str, Any]:
        return {
            "preset": "search-mcp", "embed.provider": "hash", "sources.exclude": ["drafts/**"],
            "sources.max_file_bytes": 512_000, "watch.strategy": "lazy",
        }  # fmt: skip

    def test_it_reports_the_effective_settings(self, ask: Ask, docs: Path, unmet: Unmet) -> None:
        """Ours under their names, and where to change it."""
        shape = ask("get_config")
        assert unmet("search_mcp", "get_config", shape) == []
        chosen = shape["config"]
        assert chosen["include"] == ["**/*"]
        assert chosen["exclude"] == ["drafts/**"]
        assert chosen["respectGitignore"] is True
        assert chosen["maxFileSize"] == "500KB"
        assert {"**/*.md", "**/*.txt"} <= set(chosen["docPatterns"])
        assert chosen["hybridSearch"] == {
            "enabled": True, "ftsEngine": "auto", "defaultAlpha": 0.5,
        }  # fmt: skip
        assert chosen["autoReindex"] == {
            "enabled": True, "checkEveryNSearches": 10, "maxAutoReindexFiles": 5,
        }  # fmt: skip
        assert chosen["queryExpansion"] == {"enabled": True, "maxExpansionTerms": 10}
        assert chosen["indexingStrategy"] == "lazy"
        assert chosen["enhancedToolDescriptions"] is False
        assert Path(shape["configPath"]).is_absolute()
        (docs / "lookfar.toml").touch()
        assert ask("get_config")["configPath"] == str(docs / "lookfar.toml")


# --- reindex_project ----------------------------------------------------------------------------


@pytest.mark.usefixtures("project")
def test_everything_is_read_again(ask: Ask, put: Put, library: Library, unmet: Unmet) -> None:
    """A new state with what changed meanwhile."""
    before = library.status().generation
    put({"docs/new.md": "New.\n"})
    done = ask("reindex_project", confirm=True)
    assert unmet("search_mcp", "reindex_project", done) == []
    assert done["status"] == "success"
    assert done["filesIndexed"] == 4
    assert re.fullmatch(r"\d+s", done["duration"])
    assert library.status().generation > before


@pytest.mark.usefixtures("all_progress")
@pytest.mark.parametrize("tool", ["create_index", "reindex_project"])
def test_progress_is_reported(
    ask: Ask, session: Session, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rising share of the work, up to all of it."""
    if tool == "reindex_project":
        ask("create_index", confirm=True)
    monkeypatch.setattr(build, "_BATCH_FILES", 1)
    told: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async def go() -> Any:
        async with Client(make_server(session, TOOLS), mode="2026-07-28") as client:
            return await client.call_tool(tool, {"confirm": True}, progress_callback=note)

    assert not anyio.run(go).is_error
    shares = [done / (total or 1) for done, total, _ in told]
    assert len(shares) >= 3
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert "3 of 3 files" in (told[-1][2] or "")


@pytest.mark.usefixtures("all_progress")
class TestCancelling:
    @pytest.fixture
    def settings(self) -> dict[str, Any]:
        return {"embed.provider": "hash", "index.workers": 2}

    @pytest.fixture
    def workers(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        """The processes that builds start, slow enough to be cancelled."""
        monkeypatch.setattr(build, "_WORTH_PROCESSES", 1)
        monkeypatch.setattr(build, "_BATCH_FILES", 1)
        started: list[Any] = []
        real, ask = worker._Child._start, worker._Child.ask

        def start(child: Any) -> Any:
            started.append(real(child))
            return started[-1]

        def slowly(child: Any, batch: Any) -> Any:
            time.sleep(0.1)
            return ask(child, batch)

        monkeypatch.setattr(worker._Child, "_start", start)
        monkeypatch.setattr(worker._Child, "ask", slowly)
        return started

    def test_the_old_index_goes_on_serving(
        self, ask: Ask, put: Put, session: Session, library: Library, workers: list[Any]
    ) -> None:
        """A call that is given up mid-build stops it, ends its processes and changes nothing."""
        ask("create_index", confirm=True)
        before = library.status()
        workers.clear()
        put({f"many/{number}.md": f"Text {number}.\n" for number in range(60)})
        under_way = threading.Event()

        async def go() -> None:
            server = make_server(session, TOOLS)
            async with (
                Client(server, mode="2026-07-28") as client,
                anyio.create_task_group() as group,
            ):

                async def note(progress: float, *_: Any, **__: Any) -> None:
                    if progress > 0:
                        under_way.set()
                        group.cancel_scope.cancel()

                async def rebuild() -> None:
                    await client.call_tool(
                        "reindex_project", {"confirm": True}, progress_callback=note
                    )

                group.start_soon(rebuild)

        with anyio.from_thread.start_blocking_portal() as portal:
            portal.call(go)
        assert under_way.is_set()
        assert workers
        wait_for(
            lambda: (
                all(each.poll() is not None for each in workers)
                and not library.folder().building_since
            )
        )
        after = library.status()
        assert after.generation == before.generation
        assert after.counts == before.counts
        assert ask("search_docs", query="walruses", top_k=1)["results"]
        assert ask("reindex_project", confirm=True)["filesIndexed"] == 63


# --- reindex_file -------------------------------------------------------------------------------


@pytest.mark.usefixtures("project")
def test_one_file_is_brought_up_to_date(
    ask: Ask, put: Put, library: Library, unmet: Unmet, docs: Path
) -> None:
    """That one and no other."""
    put({"docs/other.md": "# New\n\nAbout quokkas.\n", "notes.txt": "Rewritten.\n"})
    done = ask("reindex_file", path="docs/other.md")
    assert unmet("search_mcp", "reindex_file", done) == []
    assert done["status"] == "success"
    assert done["path"] == "docs/other.md"
    assert done["chunksCreated"] == 1
    assert library.status().stale == ("notes.txt",)
    assert ask("reindex_file", path=f"{docs}/docs/other.md")["path"] == "docs/other.md"
    assert ask("reindex_file", path="./docs/auth.md")["chunksCreated"] > 3
    put({"docs/fresh.md": "Fresh.\n"})
    assert ask("reindex_file", path="docs/fresh.md")["chunksCreated"] == 1


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("path", ["docs/none.md", "src/auth/login.png", "docs", "ignored.md"])
def test_a_file_that_is_not_indexed_is_named(refused: Ask, put: Put, path: str) -> None:
    """Not there, of no format that is read, a folder, or ignored."""
    put({".gitignore": "ignored.md\n", "ignored.md": "Ignored.\n"})
    said, told = error(refused("reindex_file", path=path), "FILE_NOT_FOUND")
    assert path in said
    assert path in told


@pytest.mark.usefixtures("project")
def test_a_link_is_refused(refused: Ask, docs: Path) -> None:
    """Even one that stays inside the project."""
    (docs / "link.md").symlink_to(docs / "docs" / "other.md")
    said, told = error(refused("reindex_file", path="link.md"), "SYMLINK_NOT_ALLOWED")
    assert "link.md" in said
    assert "safety" in said
    assert "link.md" in told


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("path", ["../outside.md", "docs/../../outside.md", "/etc/hostname"])
def test_a_path_that_leaves_the_project_is_refused(refused: Ask, path: str) -> None:
    """Whether it is there or not."""
    error(refused("reindex_file", path=path), "INVALID_ARGUMENT")


@pytest.mark.usefixtures("project")
def test_a_file_that_may_not_be_read(
    refused: Ask, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told with what to check, and for developers the system's word and the path."""
    real = os.open

    def denied(path: Any, *more: Any, **how: Any) -> int:
        if str(path).endswith("other.md"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, *more, **how)

    monkeypatch.setattr(os, "open", denied)
    said, told = error(refused("reindex_file", path="docs/other.md"), "PERMISSION_DENIED")
    assert "permissions" in said
    assert "EACCES" in told
    assert "other.md" in told


# --- delete_index -------------------------------------------------------------------------------


@pytest.mark.usefixtures("project")
def test_the_index_goes_and_nothing_else(
    ask: Ask, refused: Ask, docs: Path, library: Library, tmp_path: Path, unmet: Unmet
) -> None:
    """The folder of this index is gone, the watcher stopped, sources and other indexes stay."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.md").write_text("Other.\n", encoding="utf-8")
    chosen = {"embed.provider": "hash"}
    with Library.open(other, index_dir=tmp_path / "index", settings=chosen) as second:
        second.index()
    library.watch()
    sources = {path: path.read_bytes() for path in docs.rglob("*") if path.is_file()}
    done = ask("delete_index", confirm=True)
    assert unmet("search_mcp", "delete_index", done) == []
    assert done["status"] == "success"
    assert done["projectPath"] == str(docs)
    assert not library.index_dir.exists()
    assert library.watching() is None
    assert {path: path.read_bytes() for path in docs.rglob("*") if path.is_file()} == sources
    assert second.index_dir.exists()
    error(refused("search_docs", query="tokens"), "INDEX_NOT_FOUND")
    assert ask("get_index_status")["status"] == "not_found"
    assert ask("create_index", confirm=True)["filesIndexed"] == 3


@pytest.mark.usefixtures("project")
def test_what_others_put_beside_an_index_stays(ask: Ask, library: Library) -> None:
    """Only what a store writes is removed."""
    (library.index_dir / "mine.md").write_text("Keep me.\n", encoding="utf-8")
    ask("delete_index", confirm=True)
    assert [path.name for path in library.index_dir.iterdir()] == ["mine.md"]


@pytest.mark.usefixtures("project")
def test_nothing_is_deleted_under_a_writer(refused: Ask, library: Library) -> None:
    """A build of another process keeps its index."""
    lock = WriterLock(library.index_dir / "writer.lock")
    lock.acquire()
    with lock:
        error(refused("delete_index", confirm=True), "INDEX_BUSY")
    assert library.indexed


# --- refusals -----------------------------------------------------------------------------------


def test_a_full_disk(refused: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """How much is needed and how much is there."""

    def full(*paths: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(paths[-1]))

    monkeypatch.setattr(os, "replace", full)
    said, told = error(refused("create_index", confirm=True), "DISK_FULL")
    assert "space" in said
    assert re.search(r"ENOSPC, \d+ MB needed, \d+ MB available", told)


def test_a_model_that_is_not_there(docs: Path, tmp_path: Path, call_in: Any) -> None:
    """Said plainly; and the tools that need no model answer."""
    missing = tmp_path / "no-model"
    missing.mkdir()
    broken = {"embed.provider": "static", "embed.model": str(missing)}
    with Library.open(docs, index_dir=tmp_path / "index", settings=broken) as library:
        shape, _ = call_in(library, "create_index", confirm=True)
        _, failed = call_in(library, "get_config")
    assert "connection" in error(shape, "MODEL_DOWNLOAD_FAILED")[0]
    assert not failed


@pytest.mark.usefixtures("project")
def test_damage_is_repaired_or_reported(
    docs: Path, tmp_path: Path, settings: dict[str, Any], library: Library, call_in: Any
) -> None:
    """A damaged index is rebuilt on the way; where that cannot be, it is an error."""

    def broken_search() -> tuple[dict[str, Any], bool]:
        with Library.open(docs, index_dir=tmp_path / "index", settings=settings) as opened:
            shape, failed = call_in(opened, "search_by_path", pattern="*.txt")
            return shape, failed

    folder = library.index_dir
    (folder / "CURRENT").write_text("nonsense", encoding="utf-8")
    shape, failed = broken_search()
    assert not failed
    assert shape["matches"] == ["notes.txt"]
    (folder / "CURRENT").write_text("nonsense", encoding="utf-8")
    (folder / "writer.lock").unlink()
    (folder / "writer.lock").mkdir()  # No lock, no writing, no mending.
    shape, failed = broken_search()
    assert failed
    assert "rebuilt" in error(shape, "INDEX_CORRUPT")[0]


def test_the_unforeseen_becomes_internal(refused: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception inside is an error result with a friendly word, and no trace."""

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("lookfar.collections.folder.Folder.status", broken)
    _, told = error(refused("get_index_status"), "INTERNAL")
    assert told == "INTERNAL: RuntimeError: boom"


# --- as the document says -------------------------------------------------------------------------


@pytest.mark.usefixtures("project")
def test_paths_are_normalised(ask: Ask, put: Put) -> None:
    """Composed characters and invisible ones make no other path."""
    put({"docs/caf\u00e9.md": "Coffee.\n", "docs/cafe\u0301-nfd.md": "More.\n"})
    for path in ("docs/cafe\u0301.md", "docs/ca\u200bf\u00e9.md", "docs/caf\u00e9-nfd.md"):
        assert ask("reindex_file", path=path)["status"] == "success"


def test_settings_take_effect_at_the_next_call(tmp_path: Path, put: Put, call_in: Any) -> None:
    """Also while the project is watched: the watcher restarts, after the pass that it may be in.

    Seen to fail until the next search.
    """
    put(FILES)
    with Library.open(
        tmp_path / "docs", index_dir=tmp_path / "index", settings={"embed.provider": "hash"}
    ) as library:
        call_in(library, "create_index", confirm=True)
        library.watch()
        (tmp_path / "docs" / "lookfar.toml").write_text("[watch]\nstrategy = 'git'\n")
        shape, _ = call_in(library, "get_config")
        assert shape["config"]["indexingStrategy"] == "git"

        def follows_git() -> bool:
            call_in(library, "get_config")
            watching = library.status().watcher
            return watching is not None and watching.strategy == "git"

        wait_for(follows_git)


def test_the_file_s_own_doc_patterns_are_shown(
    tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch, call_in: Any
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    name = hashlib.sha256(str(docs).encode()).hexdigest()[:32]
    file = tmp_path / ".mcp" / "search" / "indexes" / name / "config.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"docPatterns": ["guide/**"]}')
    with Library.open(
        docs, index_dir=tmp_path / "index", settings={"serve.toolset": ["search-mcp"]}
    ) as library:
        shape, _ = call_in(library, "get_config")
    assert shape["configPath"] == str(file)
    assert shape["config"]["docPatterns"] == ["guide/**"]
    assert "docPatterns" in shape["warnings"][0]
