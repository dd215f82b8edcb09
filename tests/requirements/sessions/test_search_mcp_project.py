"""Sessions with Search MCP's tools from the first call to the deletion, its files and commands."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from requirements.sessions.client import (
    Client,
    ToolError,
    environment,
    serving,
)
from waiting import DEADLINE, wait_for

CODE = """\
def first_heron():
    return 1


def second_egret():
    return 2
"""
TOOLSET = ("--toolset", "search-mcp")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small project, in the folder that is also the home."""
    root = tmp_path / "project"
    (root / "docs").mkdir(parents=True)
    (root / "package.json").write_text("{}\n", encoding="utf-8")
    (root / "docs" / "guide.md").write_text("# Guide\n\nAbout walruses.\n", encoding="utf-8")
    (root / "birds.py").write_text(CODE, encoding="utf-8")
    return root


def config_file(root: Path) -> Path:
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
    return root.parent / ".mcp" / "search" / "indexes" / digest / "config.json"


def write_config(root: Path, text: str) -> Path:
    path = config_file(root)
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return path


def commit_all(root: Path) -> None:
    """Commit every file of the project."""
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for command in (("init", "-q"), ("add", "-A"), (*author, "commit", "-qm", "Change")):
        subprocess.run(("git", "-C", str(root), *command), check=True)


def paths(client: Client, query: str, tool: str = "search_docs") -> list[str]:
    results = client.call(tool, query=query, mode="fts")["results"]
    return [result["path"] for result in results]


# --- from the first call to the last --------------------------------------------------------------


def test_the_life_of_an_index(root: Path) -> None:
    with serving("stdio", root, *TOOLSET, home=root.parent) as client:
        for tool, arguments in (
            ("search_code", {"query": "heron"}),
            ("search_docs", {"query": "walrus"}),
            ("search_by_path", {"pattern": "*"}),
            ("reindex_file", {"path": "birds.py"}),
            ("reindex_project", {"confirm": True}),
            ("delete_index", {"confirm": True}),
        ):
            refusal = client.refused(tool, **arguments)
            assert refusal["code"] == "INDEX_NOT_FOUND", tool
            assert refusal["userMessage"].endswith("?")
        assert client.call("get_index_status")["totalFiles"] == 0
        assert "confirm" in client.refused("create_index")["userMessage"]
        assert client.call("create_index", confirm=True)["filesIndexed"] == 3

        (root / "docs" / "new.md").write_text("# New\n\nOn narwhals.\n", encoding="utf-8")
        (root / "Procfile").write_text("web: run manatee\n", encoding="utf-8")
        assert wait_for(lambda: paths(client, "narwhals")) == ["docs/new.md"]
        assert wait_for(lambda: paths(client, "manatee", "search_code")) == ["Procfile"]
        (root / "docs" / "new.md").unlink()
        wait_for(lambda: not paths(client, "narwhals"))

        for tool in ("reindex_project", "delete_index"):
            assert "confirm" in client.refused(tool)["userMessage"]
        again = client.call("reindex_project", confirm=True)
        assert set(again) == {"status", "filesIndexed", "chunksCreated", "duration", "message"}
        assert (again["status"], again["filesIndexed"]) == ("success", 4)

        gone = client.call("delete_index", confirm=True)
        assert set(gone) == {"status", "projectPath", "message"}
        assert (gone["status"], gone["projectPath"]) == ("success", str(root))
        assert client.refused("search_docs", query="walrus")["code"] == "INDEX_NOT_FOUND"
        assert client.call("get_index_status")["watcherActive"] is False
        assert (root / "birds.py").read_text(encoding="utf-8") == CODE


def test_the_project_is_found_upward(root: Path) -> None:
    with serving("stdio", *TOOLSET, home=root.parent, cwd=root / "docs") as client:
        assert client.call("get_index_status")["projectPath"] == str(root)


def test_a_project_without_documentation(root: Path) -> None:
    (root / "docs" / "guide.md").unlink()
    with serving("stdio", root, *TOOLSET, home=root.parent) as client:
        client.call("create_index", confirm=True)
        assert client.refused("search_docs", query="walrus")["code"] == "DOCS_INDEX_NOT_FOUND"


# --- the configuration file -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["{ this is not JSON", "[1, 2]", '{"maxFiles": -1, "indexingStrategy": "never"}']
)
def test_a_bad_configuration_gives_defaults_and_a_warning(root: Path, text: str) -> None:
    path = write_config(root, text)
    with serving("stdio", root, *TOOLSET, home=root.parent) as client:
        assert client.call("create_index", confirm=True)["status"] == "success"
        assert paths(client, "walruses") == ["docs/guide.md"]
        shown = client.call("get_config")
        assert shown["config"]["maxFiles"] == 50_000
        assert shown["config"]["indexingStrategy"] == "realtime"
        assert str(path) in " ".join(shown["warnings"])
    assert path.read_text(encoding="utf-8") == text


def test_the_configuration_is_obeyed(root: Path) -> None:
    config = {
        "_comment": "mine",
        "exclude": ["docs/**"],
        "chunkingStrategy": "character",
        "hybridSearch": {"enabled": True, "defaultAlpha": 1},
        "queryExpansion": {"enabled": False},
        "maxFileSize": "500KB",
        "indexingStrategy": "lazy",
        "enhancedToolDescriptions": True,
    }
    path = write_config(root, json.dumps(config))
    with serving("stdio", root, *TOOLSET, home=root.parent) as client:
        assert "tip" in client.tools()["search_code"]["description"].lower()
        client.call("create_index", confirm=True)
        matches = client.call("search_by_path", pattern="**/*")["matches"]
        assert matches == ["birds.py", "package.json"]
        # By length alone, both functions are in one chunk, and it is named after neither.
        (birds,) = client.call("search_code", query="egret", mode="fts")["results"]
        assert birds["text"] == CODE
        assert (birds["startLine"], birds["endLine"]) == (1, 6)
        assert birds["metadata"]["type"] == "other"
        by_default, by_meaning, by_words = (
            [
                row["path"]
                for row in client.call("search_code", query="egret returns", **more)["results"]
            ]
            for more in ({}, {"alpha": 1}, {"alpha": 0})
        )
        assert by_default == by_meaning != by_words == ["birds.py"]
        shown = client.call("get_config")
        assert shown["configPath"] == str(path)
        assert shown["config"]["chunkingStrategy"] == "character"
        assert shown["config"]["hybridSearch"]["defaultAlpha"] == 1
        assert shown["config"]["queryExpansion"]["enabled"] is False
        assert shown["config"]["maxFileSize"] == "500KB"
        assert shown["config"]["indexingStrategy"] == "lazy"
        assert "warnings" not in shown


@pytest.mark.parametrize("strategy", ["code-aware", "ast"])
def test_other_strategies_split_by_definitions(root: Path, strategy: str) -> None:
    write_config(root, json.dumps({"chunkingStrategy": strategy}))
    with serving("stdio", root, *TOOLSET, home=root.parent) as client:
        client.call("create_index", confirm=True)
        (egret,) = client.call("search_code", query="egret", mode="fts")["results"]
        assert egret["metadata"]["name"] == "second_egret"
        assert (egret["startLine"], egret["endLine"]) == (5, 6)
        assert client.call("get_config")["config"]["chunkingStrategy"] == strategy


@pytest.mark.parametrize("strategy", ["lazy", "git"])
def test_when_changes_are_indexed(root: Path, strategy: str) -> None:
    commit_all(root)
    write_config(root, json.dumps({"indexingStrategy": strategy}))
    with serving("stdio", root, *TOOLSET, home=root.parent) as client:
        client.call("create_index", confirm=True)
        wait_for(lambda: client.call("get_index_status")["watcherActive"])
        # The comparison that starts the watcher is over once a search was answered.
        assert paths(client, "narwhals") == []
        (root / "docs" / "new.md").write_text("# New\n\nOn narwhals.\n", encoding="utf-8")
        if strategy == "git":
            assert paths(client, "narwhals") == []
            commit_all(root)
        assert wait_for(lambda: paths(client, "narwhals")) == ["docs/new.md"]


def test_changes_while_nobody_watched_are_found(root: Path) -> None:
    with serving("stdio", root, *TOOLSET, home=root.parent) as client:
        client.call("create_index", confirm=True)
    (root / "docs" / "new.md").write_text("# New\n\nOn narwhals.\n", encoding="utf-8")
    (root / "docs" / "guide.md").unlink()
    with serving("stdio", root, *TOOLSET, home=root.parent) as client:
        assert wait_for(lambda: paths(client, "narwhals")) == ["docs/new.md"]
        wait_for(lambda: not paths(client, "walruses"))


def test_too_many_files_need_a_confirmation(root: Path) -> None:
    write_config(root, json.dumps({"maxFiles": 2}))
    with serving("stdio", root, *TOOLSET, home=root.parent) as client:
        refusal = client.refused("create_index")
        assert refusal["code"] == "FILE_LIMIT_WARNING"
        assert "3" in refusal["userMessage"]
        assert client.call("create_index", confirm=True)["filesIndexed"] == 3


# --- commands -------------------------------------------------------------------------------------


def run(root: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "lookfar", *arguments]
    done = subprocess.run(
        command, cwd=root, env=environment(root.parent), capture_output=True, timeout=DEADLINE
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_the_commands_of_the_document(root: Path) -> None:
    run(root, "index")
    hits = json.loads(run(root, "search", "walruses", "--docs", "--json"))["hits"]
    assert {hit["uri"] for hit in hits} == {"docs/guide.md"}
    answer = json.loads(run(root, "search", "heron", "--top-k", "1", "--mode", "fts", "--json"))
    assert [hit["uri"] for hit in answer["hits"]] == ["birds.py"]
    run(root, "search", "heron egret", "--top-k", "5", "--mode", "hybrid")
    status = json.loads(run(root, "status", "--json"))
    assert status["totalFiles"] == 3
    assert status["totalChunks"] == status["chunks"]
    run(root, "reindex")
    assert "daemon.log" in run(root, "logs", "--where")
    run(root, "delete", "--yes")
    assert json.loads(run(root, "status", "--json"))["totalFiles"] == 0


def test_an_unknown_argument_is_refused(root: Path) -> None:
    with serving("stdio", root, *TOOLSET, home=root.parent) as client:
        with pytest.raises(ToolError) as error:
            client.call("get_config", verbose=True)
        assert set(error.value.shape) == {"code", "userMessage", "developerMessage"}
