"""Sessions with Search MCP's tools on an indexed project, as its document shows them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from requirements.sessions.client import Client, serving
from requirements.sessions.search_mcp_project import (
    BLOCK,
    FILES,
    LOGIN,
    PROGRAMS,
    SHELF,
    SYNONYMS,
    write_project,
)
from waiting import DEADLINE

MOST_CHARS = 8_000


class Session:
    """A client of an indexed project."""

    def __init__(self, client: Client, root: Path, home: Path) -> None:
        self.client = client
        self.root = root
        self.home = home
        self.call = client.call
        self.refused = client.refused
        self.created = client.call("create_index", confirm=True)
        # The watcher compares the whole folder once when it starts; a search may say so.
        deadline = time.monotonic() + DEADLINE
        while "warning" in client.call("search_code", query="vole"):
            assert time.monotonic() < deadline

    def paths(self, tool: str, query: str, **more: Any) -> list[str]:
        """Return the paths of the results of a search, best first."""
        return [result["path"] for result in self.call(tool, query=query, **more)["results"]]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    home = tmp_path_factory.mktemp("home")
    root = home / "project"
    write_project(root)
    with serving("stdio", root, "--toolset", "search-mcp", home=home) as client:
        yield Session(client, root, home)


# --- the list of tools ----------------------------------------------------------------------------


def test_the_ten_tools_take_what_the_document_says(session: Session) -> None:
    tools = session.client.tools()
    inputs = {
        name: tool["inputSchema"].get("properties", {}).keys() - {"confirm", "cursor"}
        for name, tool in tools.items()
    }
    search = {"query", "top_k", "mode", "alpha", "compact"}
    assert inputs == {
        "create_index": set(),
        "search_code": search,
        "search_docs": search,
        "search_by_path": {"pattern", "limit"},
        "get_index_status": set(),
        "reindex_project": set(),
        "reindex_file": {"path"},
        "delete_index": set(),
        "get_file_summary": {"path", "includeComplexity", "includeDocstrings"},
        "get_config": set(),
    }
    for name in ("search_code", "search_docs"):
        schema = tools[name]["inputSchema"]
        properties = schema["properties"]
        defaults = {key: part.get("default") for key, part in properties.items()}
        assert defaults == {
            "query": None, "top_k": 10, "mode": "hybrid", "alpha": 0.5, "compact": False,
        }  # fmt: skip
        assert schema["required"] == ["query"]
        assert set(properties["mode"]["enum"]) == {"hybrid", "vector", "fts"}
    assert tools["search_by_path"]["inputSchema"]["properties"]["limit"]["default"] == 20
    assert "TIP" not in tools["search_docs"]["description"].upper()


# --- create_index, get_index_status ---------------------------------------------------------------


def test_create_index_reports_the_project(session: Session) -> None:
    created = session.created
    assert set(created) == {"status", "projectPath", "filesIndexed", "chunksCreated", "duration"}
    assert created["status"] == "success"
    assert created["projectPath"] == str(session.root.resolve())
    assert created["chunksCreated"] > created["filesIndexed"] > 40
    assert re.fullmatch(r"\d+s", created["duration"])


def test_the_status_counts_files_and_chunks(session: Session) -> None:
    status = session.call("get_index_status")
    assert set(status) == {
        *("status", "projectPath", "totalFiles", "totalChunks"),
        *("lastUpdated", "storageSize", "watcherActive"),
    }
    assert status["status"] == "ready"
    assert status["totalFiles"] == session.created["filesIndexed"]
    assert status["totalChunks"] == session.created["chunksCreated"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", status["lastUpdated"])
    assert re.fullmatch(r"[\d.]+(B|KB|MB)", status["storageSize"])
    assert status["watcherActive"] is True


# --- search_code ----------------------------------------------------------------------------------


def test_code_is_found_with_its_definition(session: Session) -> None:
    answer = session.call("search_code", query="login with email and password")
    assert set(answer) == {"results", "totalResults", "searchTimeMs"}
    assert answer["totalResults"] == len(answer["results"])
    best = answer["results"][0]
    assert {key: best[key] for key in ("path", "text", "startLine", "endLine")} == {
        "path": "src/login.ts", "text": LOGIN, "startLine": 1, "endLine": 6,
    }  # fmt: skip
    assert best["metadata"] == {
        "type": "function",
        "name": "login",
        "signature": "async function login(email: string, password: string): Promise<User>",
    }
    scores = [result["score"] for result in answer["results"]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


@pytest.mark.parametrize(
    ("query", "kind", "name", "lines"),
    [
        ("place walrus", "function", "place_walrus", (6, 8)),
        ("count lemurs", "function", "count_lemurs", (11, 12)),
        ("Keeper feeds okapi", "class", "Keeper", (15, 20)),
        ("wake badger", "function", "wake_badger", (23, 25)),
        ("SHELVES", "other", "SHELVES", (3, 3)),
    ],
)
def test_name_and_lines_describe_one_definition(
    session: Session, query: str, kind: str, name: str, lines: tuple[int, int]
) -> None:
    results = session.call("search_code", query=query, mode="fts")["results"]
    best = next(result for result in results if result["path"] == "src/shelf.py")
    assert (best["metadata"]["type"], best["metadata"]["name"]) == (kind, name)
    # The comment above a function may belong to it or to the text before it.
    assert best["endLine"] == lines[1]
    assert best["startLine"] in (lines[0], lines[0] + (name == "wake_badger"))
    expected = SHELF.splitlines()[best["startLine"] - 1 : best["endLine"]]
    assert best["text"].rstrip("\n").splitlines() == expected


@pytest.mark.parametrize("name", ["place_walrus", "count_lemurs", "wakeBadger", "vole_77"])
def test_an_exact_name_comes_first(session: Session, name: str) -> None:
    best = session.call("search_code", query=name)["results"][0]
    assert best["metadata"]["name"].replace("_", "") == name.replace("_", "").lower()


def test_a_definition_that_is_too_large_comes_in_parts(session: Session) -> None:
    results = session.call("search_code", query="tapir total", mode="fts", top_k=50)["results"]
    parts = [result for result in results if result["path"] == "src/tapirs.py"]
    assert len(parts) > 3
    for part in parts:
        assert part["metadata"]["name"] == "run_tapirs"
        assert len(part["text"]) <= 4_000
        assert part["text"].rstrip("\n").count("\n") == part["endLine"] - part["startLine"]


@pytest.mark.parametrize("tool", ["search_code", "search_docs"])
def test_no_result_is_longer_than_8000_characters(session: Session, tool: str) -> None:
    for query in ("iguanas paragraph", "quokka line block", "tapir", "vole first second"):
        for result in session.call(tool, query=query, top_k=8)["results"]:
            assert len(result["text"]) <= MOST_CHARS
            assert result["startLine"] <= result["endLine"]


@pytest.mark.parametrize("tool", ["search_code", "search_docs"])
def test_the_number_of_results(session: Session, tool: str) -> None:
    query = "vole" if tool == "search_code" else "zebra"
    assert len(session.paths(tool, query)) == 10
    assert len(session.paths(tool, query, top_k=3)) == 3
    assert len(session.paths(tool, query, top_k=3.0)) == 3
    assert len(session.paths(tool, query, top_k=1)) == 1
    assert len(session.paths(tool, query, top_k=50)) > 35
    for wrong in (0, 51, 2.5, "3"):
        refusal = session.refused(tool, query=query, top_k=wrong)
        assert refusal["code"] == "INVALID_ARGUMENT"
        assert "top_k" in refusal["developerMessage"] + refusal["userMessage"]


@pytest.mark.parametrize("tool", ["search_code", "search_docs"])
def test_modes_and_alpha(session: Session, tool: str) -> None:
    query = "walrus shelf" if tool == "search_code" else "gecko heading"
    by_mode = {mode: session.paths(tool, query, mode=mode) for mode in ("hybrid", "vector", "fts")}
    assert session.paths(tool, query) == by_mode["hybrid"]
    assert session.paths(tool, query, alpha=0.5) == by_mode["hybrid"]
    assert session.paths(tool, query, alpha=0) == by_mode["fts"]
    assert session.paths(tool, query, alpha=1) == by_mode["vector"]
    assert session.paths(tool, "unheardofword", mode="fts") == []
    assert session.paths(tool, "unheardofword", mode="vector")
    for wrong in ({"mode": "both"}, {"alpha": -0.1}, {"alpha": 1.1}, {"query": " "}):
        refusal = session.refused(tool, **{"query": query, **wrong})
        assert refusal["code"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize("tool", ["search_code", "search_docs"])
def test_compact_results_have_short_names(session: Session, tool: str) -> None:
    full = session.call(tool, query="walrus gecko", top_k=2)
    compact = session.call(tool, query="walrus gecko", top_k=2, compact=True)
    assert set(compact) == {"r", "n", "ms"}
    assert compact["n"] == len(compact["r"]) == full["totalResults"]
    for row, result in zip(compact["r"], full["results"], strict=True):
        assert row == {
            "l": f"{result['path']}:{result['startLine']}-{result['endLine']}",
            "t": result["text"],
            "s": round(result["score"], 2),
        }
    assert len(json.dumps(compact)) < 0.95 * len(json.dumps(full))


# --- search_docs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "above", "level", "title", "lines"),
    [
        ("how things work", [], 1, "Guide", (4, 7)),
        ("accounts and passwords", ["Guide"], 2, "Authentication", (8, 11)),
        ("signed tokens expire", ["Guide", "Authentication"], 3, "JWT Tokens", (12, 15)),
        ("gecko sleeps", ["Guide", "Authentication", "JWT Tokens"], 4, "Deep", (16, 19)),
        ("heron stands", ["Guide"], 2, "Setext Story", (20, 23)),
    ],
)
def test_a_passage_is_one_section(
    session: Session, query: str, above: list[str], level: int, title: str, lines: tuple[int, int]
) -> None:
    results = session.call("search_docs", query=query)["results"]
    best = next(result for result in results if result["path"] == "docs/guide.md")
    assert best["metadata"] == {
        "headerPath": above, "headerLevel": level, "sectionTitle": title,
    }  # fmt: skip
    text = best["text"]
    if above:
        crumb, _, text = text.partition("\n\n")
        assert crumb == f"[{' > '.join(above)}]"
    assert title in text.splitlines()[0]
    assert (best["startLine"], best["endLine"]) == lines
    assert "Ignored" not in best["text"]


def test_a_code_block_stays_whole(session: Session) -> None:
    (block,) = session.call("search_docs", query="coypu", mode="fts")["results"]
    assert block["text"] == BLOCK
    assert block["metadata"]["sectionTitle"] == "Blocks"


def test_a_long_section_comes_in_parts(session: Session) -> None:
    results = session.call("search_docs", query="iguanas", mode="fts", top_k=50)["results"]
    parts = [result for result in results if result["path"] == "docs/long.md"]
    assert len(parts) > 2
    by_number = {part["metadata"]["part"]: part for part in parts}
    total = parts[0]["metadata"]["totalParts"]
    assert sorted(by_number) == list(range(1, total + 1))
    for number, part in by_number.items():
        assert part["metadata"]["sectionTitle"] == "Iguanas"
        assert part["text"].startswith("[Long] (continued)" if number > 1 else "[Long]\n\n")
    for number in range(2, total + 1):
        assert by_number[number]["startLine"] <= by_number[number - 1]["endLine"]  # Overlap.


def test_comments_and_text_files_are_documentation(session: Session) -> None:
    assert session.paths("search_docs", "narwhals")[0] == "notes.txt"
    results = session.call("search_docs", query="pelicans in winter")["results"]
    assert results[0]["path"] == "[code-comment]src/shelf.py"
    assert (
        session.paths("search_docs", "Put a walrus on a shelf")[0] == "[code-comment]src/shelf.py"
    )
    assert not any(path.startswith("src/") for path in session.paths("search_docs", "walrus"))
    assert not any(path.endswith(".md") for path in session.paths("search_code", "gecko guide"))


@pytest.mark.parametrize("word", SYNONYMS)
def test_a_query_is_expanded_by_every_synonym(session: Session, word: str) -> None:
    paths = session.paths("search_docs", word, mode="fts", top_k=50)
    for other in SYNONYMS[word].split():
        assert f"words/{word}/{other}.txt" in paths, other


# --- which files are indexed ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("LICENSE", "marmot permission"),
        ("Procfile", "capybara"),
        ("schema.prisma", "Axolotl"),
        ("policy.rego", "echidna"),
        ("latin.unknown", "wombats"),
    ],
)
def test_text_of_any_name_is_indexed(session: Session, path: str, query: str) -> None:
    assert session.call("search_by_path", pattern=path)["matches"] == [path]
    assert session.paths("search_code", query)[0] == path


def test_latex_is_read_as_a_document(session: Session) -> None:
    assert session.call("search_by_path", pattern="paper.tex")["matches"] == ["paper.tex"]
    assert session.paths("search_docs", "dormouse")[0] == "paper.tex"


def test_what_must_not_be_read_is_not_indexed(session: Session) -> None:
    matches = session.call("search_by_path", pattern="**/*", limit=1000)["matches"]
    hidden = {
        ".env",
        ".ENV.local",
        ".e\u200bnv",
        "server.pem",
        "debug.log",
        "package-lock.json",
        "big.txt",
        "link.md",
    }
    folders = ("node_modules/", "dist/", "ignored/", "deep/")
    binary = {"image.png", "renamed.rego", "noise.unknown"}
    assert not (hidden | binary) & set(matches)
    assert not any(path.startswith(folders) for path in matches)
    assert set(matches) >= {name for name in FILES if name.startswith(("src/", "docs/", "words/"))}
    for tool in ("search_code", "search_docs"):
        assert session.paths(tool, "ocelot", mode="fts") == []


# --- search_by_path -------------------------------------------------------------------------------


def test_paths_by_glob(session: Session) -> None:
    assert session.call("search_by_path", pattern="src/**/*.py") == {
        "matches": ["src/shelf.py", "src/tapirs.py", "src/voles.py"],
        "totalMatches": 3,
    }
    assert session.call("search_by_path", pattern="**/lo*.{ts,md}")["matches"] == [
        "docs/long.md", "src/login.ts",
    ]  # fmt: skip
    words = session.call("search_by_path", pattern="words/**/*.txt")
    assert (len(words["matches"]), words["totalMatches"]) == (20, 41)
    for limit in (101, 101.0, 5000, 1_000_000):
        every = session.call("search_by_path", pattern="words/**/*.txt", limit=limit)
        assert len(every["matches"]) == 41
    assert len(session.call("search_by_path", pattern="**/*.txt", limit=1)["matches"]) == 1
    assert session.call("search_by_path", pattern="nothing*") == {"matches": [], "totalMatches": 0}
    assert session.refused("search_by_path", pattern="*", limit=0)["code"] == "INVALID_ARGUMENT"
    refusal = session.refused("search_by_path", pattern="src/[a-")
    assert refusal["code"] == "INVALID_PATTERN"
    assert "src/[a-" in refusal["userMessage"]


# --- get_file_summary -----------------------------------------------------------------------------


def test_a_summary_has_the_fields_of_the_document(session: Session) -> None:
    summary = session.call("get_file_summary", path="src/login.ts")
    assert summary["path"] == "src/login.ts"
    assert summary["language"] == "typescript"
    assert summary["lines"] == {"total": 6, "code": 6, "blank": 0, "comments": 0}
    (function,) = summary["functions"]
    assert function == {
        "name": "login",
        "type": "function",
        "startLine": 1,
        "endLine": 6,
        "signature": "async function login(email: string, password: string): Promise<User>",
        "docstring": "",
        "isAsync": True,
        "isExported": True,
        "paramCount": 2,
        "complexity": 3,
        "nestingDepth": 1,
    }
    assert summary["classes"] == summary["imports"] == []
    assert summary["exports"] == [{"name": "login", "type": "function"}]
    assert set(summary["complexity"]) == {
        *("cyclomatic", "maxNesting", "avgFunctionComplexity", "decisionPoints", "score"),
    }
    assert 0 <= summary["complexity"]["score"] <= 100
    assert summary["size"] == len(LOGIN)
    assert summary["extractionTimeMs"] >= 0
    assert summary["fullSupport"] is True


def test_a_summary_can_leave_out_measures_and_docstrings(session: Session) -> None:
    absolute = str(session.root / "src" / "shelf.py")
    full = session.call("get_file_summary", path=absolute)
    assert full["path"] == "src/shelf.py"
    assert full["imports"] == [{"source": "os", "specifiers": []}]
    assert full["functions"][0]["docstring"] == "Put a walrus on a shelf."
    assert [entry["name"] for entry in full["classes"]] == ["Keeper"]
    bare = session.call(
        "get_file_summary", path="src/shelf.py", includeComplexity=False, includeDocstrings=False
    )
    assert "complexity" not in bare
    assert not {"complexity", "nestingDepth", "docstring"} & set(bare["functions"][0])


@pytest.mark.parametrize("language", PROGRAMS)
def test_ten_languages_are_summarised_in_full(session: Session, language: str) -> None:
    name, _ = PROGRAMS[language]
    summary = session.call("get_file_summary", path=f"programs/{name}")
    assert (summary["language"], summary["fullSupport"]) == (language, True)
    assert [function["name"] for function in summary["functions"]] == ["ibis"]


def test_a_summary_is_short(session: Session) -> None:
    summary = session.call("get_file_summary", path="src/voles.py")
    assert summary["truncated"] is True
    assert len(json.dumps(summary)) < 40_000
    assert len(summary["functions"]) > 50


# --- get_config -----------------------------------------------------------------------------------


def test_the_configuration_is_shown_and_written(session: Session) -> None:
    shown = session.call("get_config")
    digest = hashlib.sha256(os.fsencode(session.root)).hexdigest()[:32]
    path = session.home / ".mcp" / "search" / "indexes" / digest / "config.json"
    assert shown["configPath"] == str(path)
    assert "warnings" not in shown
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["_comment"]
    assert len(written["_hardcodedExcludes"]) >= 6
    assert {"include", "chunkingStrategy", "indexingStrategy"} <= set(written["_availableOptions"])
    config = {key: value for key, value in written.items() if not key.startswith("_")}
    assert config == shown["config"]
    patterns = config.pop("docPatterns")
    assert {"**/*.md", "**/*.txt"} <= set(patterns)
    assert config == {
        "include": ["**/*"],
        "exclude": [],
        "respectGitignore": True,
        "maxFileSize": "1MB",
        "maxFiles": 50_000,
        "indexDocs": True,
        "extractComments": True,
        "chunkingStrategy": "code-aware",
        "hybridSearch": {"enabled": True, "ftsEngine": "auto", "defaultAlpha": 0.5},
        "queryExpansion": {"enabled": True, "maxExpansionTerms": 10},
        "autoReindex": {"enabled": True, "checkEveryNSearches": 10, "maxAutoReindexFiles": 5},
        "enhancedToolDescriptions": False,
        "indexingStrategy": "realtime",
    }


# --- reindex_file and errors ----------------------------------------------------------------------


def test_one_file_is_indexed_again(session: Session) -> None:
    again = session.call("reindex_file", path="src/shelf.py")
    assert set(again) == {"status", "path", "chunksCreated", "message"}
    assert (again["status"], again["path"]) == ("success", "src/shelf.py")
    assert again["chunksCreated"] == 6


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("src/nothing.py", "FILE_NOT_FOUND"),
        (".env", "FILE_NOT_FOUND"),
        ("image.png", "FILE_NOT_FOUND"),
        ("noise.unknown", "FILE_NOT_FOUND"),
        ("link.md", "SYMLINK_NOT_ALLOWED"),
        ("../outside.md", "INVALID_ARGUMENT"),
    ],
)
@pytest.mark.parametrize("tool", ["reindex_file", "get_file_summary"])
def test_a_file_that_cannot_be_read_is_refused(
    session: Session, tool: str, path: str, code: str
) -> None:
    refusal = session.refused(tool, path=path)
    assert set(refusal) == {"code", "userMessage", "developerMessage"}
    assert refusal["code"] == code
    assert refusal["developerMessage"].startswith(f"{code}: ")
    assert path in refusal["userMessage"] + refusal["developerMessage"]
