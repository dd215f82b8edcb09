"""Each system's own configuration, in force where it is, as a client of a running server sees it.

Files in the served folder are hostile in part: what reaches outside has no effect and is reported.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedding_service import Service
from requirements.sessions.client import Client, launch, serving
from waiting import DEADLINE

KEY = "sk-from-the-user"


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def noted(client: Client, *words: str) -> bool:
    """Whether one line on stderr contains all these words."""
    return any(all(word in line for word in words) for line in list(client.notes.lines))


# --- MSRL ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def msrl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Path]]:
    """A vault whose configuration is valid in part; named by a variable, not by an argument."""
    base = tmp_path_factory.mktemp("msrl")
    vault, elsewhere = base / "vault", base / "elsewhere"
    write(vault / "notes" / "tides.md", "# Tides\n\nThe harbour fills twice a day.\n")
    write(vault / "drafts" / "ferry.md", "# Ferry\n\nThe harbour ferry leaves at noon.\n")
    write(
        vault / ".msrl" / "config.json",
        {
            "vaultRoot": str(vault),
            "embedding": {"modelPath": str(elsewhere / "model.onnx")},
            "lifecycle": {"ignoredPatterns": ["drafts/**", "../elsewhere/**"]},
            "watcher": {"debounceMs": 1234},
            "retrieval": {"defaultTopK": "many"},
            "faiss": {"maxCachedShards": 8},
        },
    )
    with serving(
        "stdio", "--toolset", "msrl", home=base / "home",
        MSRL_VAULT_ROOT=str(vault), MSRL_TURBO="1",
    ) as client:  # fmt: skip
        yield client, vault


def test_a_vault_of_msrl_is_served_as_its_file_says(msrl: tuple[Client, Path]) -> None:
    client, _ = msrl
    client.call("msrl.reindex", wait=True)
    assert client.call("msrl.status")["watcher"]["debounceMs"] == 1234
    results = client.call("msrl.query", query="harbour", top_k=10)["results"]
    assert {result["doc_uri"] for result in results} == {"notes/tides.md"}


def test_what_has_no_effect_in_a_vault_is_reported(msrl: tuple[Client, Path]) -> None:
    client, _ = msrl
    client.tools()
    assert noted(client, "embedding.modelPath", "may not set embed.model")
    assert noted(client, "lifecycle.ignoredPatterns", "../elsewhere/**")
    assert noted(client, "retrieval.defaultTopK", "many")
    assert noted(client, "faiss.maxCachedShards")
    assert noted(client, "MSRL_TURBO")
    assert not noted(client, "vaultRoot")


def test_editing_the_file_of_msrl_takes_effect(msrl: tuple[Client, Path]) -> None:
    client, vault = msrl
    write(vault / ".msrl" / "config.json", {"lifecycle": {"ignoredPatterns": ["notes/**"]}})
    results = client.call("msrl.query", query="harbour", top_k=10)["results"]
    assert {result["doc_uri"] for result in results} == {"drafts/ferry.md"}


def test_msrl_can_be_disabled(tmp_path: Path) -> None:
    write(tmp_path / "vault" / "a.md", "# A\n")
    with serving(
        "stdio", tmp_path / "vault", "--toolset", "msrl", home=tmp_path / "home",
        MSRL_ENABLED="false",
    ) as client:  # fmt: skip
        assert client.tools() == {}


# --- Search MCP ---------------------------------------------------------------------------------


def search_mcp_file(home: Path, project: Path) -> Path:
    """Where Search MCP has the configuration of a project."""
    digest = hashlib.sha256(os.fsencode(project)).hexdigest()[:32]
    return home / ".mcp" / "search" / "indexes" / digest / "config.json"


@pytest.fixture(scope="module")
def search_mcp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Path]]:
    base = tmp_path_factory.mktemp("search-mcp").resolve()
    project, home = base / "project", base / "home"
    write(project / "main.py", "def harbour():\n    return 1\n")
    write(project / "generated" / "more.py", "def harbour_generated():\n    return 2\n")
    write(home / ".mcp" / "search" / "config.json", {"maxFileSize": "500KB", "maxFiles": 400})
    file = write(
        search_mcp_file(home, project),
        {
            "_comment": "Search MCP Configuration",
            "exclude": ["generated/**"],
            "maxFiles": -5,
            "indexingStrategy": "sometimes",
            "queryExpansion": {"maxExpansionTerms": 3},
            "enhancedToolDescriptions": True,
            "hybridSearch": {"ftsEngine": "native"},
            "_availableOptions": {"include": "Glob patterns."},
        },
    )
    with serving("stdio", project, "--toolset", "search-mcp", home=home) as client:
        yield client, file


def test_the_file_of_search_mcp_is_in_force(search_mcp: tuple[Client, Path]) -> None:
    client, file = search_mcp
    shown = client.call("get_config")
    assert shown["configPath"] == str(file)
    assert shown["config"]["exclude"] == ["generated/**"]
    assert shown["config"]["maxFileSize"] == "500KB"
    assert shown["config"]["queryExpansion"]["maxExpansionTerms"] == 3
    client.call("create_index", confirm=True)
    assert client.call("search_by_path", pattern="**/*.py")["matches"] == ["main.py"]


def test_invalid_values_of_search_mcp_are_defaults_with_a_warning(
    search_mcp: tuple[Client, Path],
) -> None:
    client, _ = search_mcp
    shown = client.call("get_config")["config"]
    assert (shown["maxFiles"], shown["indexingStrategy"]) == (400, "realtime")
    assert noted(client, "maxFiles", "-5")
    assert noted(client, "indexingStrategy", "sometimes")
    assert noted(client, "hybridSearch.ftsEngine")


def test_a_broken_file_of_search_mcp_gives_defaults_and_a_warning(tmp_path: Path) -> None:
    project, home = tmp_path.resolve() / "project", tmp_path / "home"
    write(project / "main.py", "def harbour():\n    return 1\n")
    write(search_mcp_file(home.resolve(), project), '{"exclude": ["main.py"')
    with serving("stdio", project, "--toolset", "search-mcp", home=home) as client:
        client.call("create_index", confirm=True)
        assert client.call("search_by_path", pattern="**/*.py")["matches"] == ["main.py"]
        assert noted(client, "not valid JSON", "no effect")


# --- ragdocs ------------------------------------------------------------------------------------

RAGDOCS_OWN = """
[search]
max_chunks_per_doc = 1
[memory]
recency_boost_days = 3
"""
RAGDOCS_PROJECT = """
[indexing]
index_path = "{elsewhere}"
exclude = ["archive/**"]
[llm]
embedding_model = "evil/model"
[memory]
storage_strategy = "project"
[parsers]
"**/*.md" = "MarkdownParser"
"""


@pytest.fixture(scope="module")
def ragdocs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Path]]:
    base = tmp_path_factory.mktemp("ragdocs").resolve()
    project, home, elsewhere = base / "project", base / "home", base / "elsewhere"
    write(project / "tides.md", "# Tides\n\nThe harbour fills twice a day.\n")
    write(project / "archive" / "old.md", "# Old\n\nThe harbour of long ago.\n")
    write(project / ".memories" / "pilot.md", "---\ntype: fact\n---\nThe harbour pilot is Ada.\n")
    write(home / ".config" / "mcp-markdown-ragdocs" / "config.toml", RAGDOCS_OWN)
    file = project / ".mcp-markdown-ragdocs" / "config.toml"
    write(file, RAGDOCS_PROJECT.format(elsewhere=elsewhere.as_posix()))
    with serving(
        "stdio", project, "--toolset", "ragdocs", "--write", home=home
    ) as client:  # fmt: skip
        yield client, project


def test_the_files_of_ragdocs_are_in_force(ragdocs: tuple[Client, Path]) -> None:
    client, project = ragdocs
    hits = client.call("query_documents", query="harbour", top_n=10)
    assert {hit["file_path"] for hit in hits["results"]} == {"tides.md"}
    assert not (project.parent / "elsewhere").exists()


def test_memories_of_ragdocs_are_in_the_project(ragdocs: tuple[Client, Path]) -> None:
    client, project = ragdocs
    client.call("create_memory", filename="ferry", content="The ferry leaves at noon.")
    assert (project / ".memories" / "ferry.md").is_file()
    memories = client.call("search_memories", query="harbour pilot")
    assert "Ada" in json.dumps(memories)


def test_a_project_of_ragdocs_names_no_model_and_no_place_outside(
    ragdocs: tuple[Client, Path],
) -> None:
    client, _ = ragdocs
    client.tools()
    assert noted(client, "llm.embedding_model", "may not set embed.model")
    assert noted(client, "indexing.index_path", "may not set index.dir")


# --- Anvil --------------------------------------------------------------------------------------


def test_the_options_of_anvil_name_documents_and_index(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "guide.md", f"# Guide\n\n{'The harbour fills. ' * 40}\n")
    write(tmp_path / "docs" / "anvil.config.json", {"maxChunkSize": 400, "db": "/elsewhere/a.db"})
    options = ("--toolset", "anvil", "--docs", "docs", "--db", "data/index.db")
    with serving("stdio", *options, home=tmp_path / "home", cwd=tmp_path) as client:
        pages = client.call("list_pages")
        assert "guide.md" in json.dumps(pages)
        section = client.call("search_docs", query="harbour")
        assert "[part " in json.dumps(section)
        assert noted(client, "anvil.config.json", "db")
    assert list((tmp_path / "data").iterdir())


# --- Document DB --------------------------------------------------------------------------------


@pytest.fixture
def openai() -> Iterator[Service]:
    """Stands for OpenAI. The address and the variable of the key are the user's settings."""
    service = Service()
    yield service
    service.close()


def start_document_db(openai: Service, home: Path, *folders: Path, **variables: str) -> Any:
    write(
        home / ".config" / "lookfar" / "config.toml",
        f'[embed]\nbase_url = "{openai.url}"\nkey_env = "OPENAI_API_KEY"\n',
    )
    settings = {"LOOKFAR_EMBED_PROVIDER": "", **variables}
    options = (*folders, "--toolset", "document-db")
    return serving("stdio", *options, home=home, cwd=home / "started-here", **settings)


@pytest.mark.parametrize("place", ["environment", "file"])
def test_a_key_of_the_user_chooses_openai(openai: Service, tmp_path: Path, place: str) -> None:
    start = tmp_path / "started-here"
    start.mkdir()
    variables = {"OPENAI_API_KEY": KEY} if place == "environment" else {}
    if place == "file":
        base = "OPENAI_BASE_URL=http://127.0.0.1:9/v1\nUNRELATED_TOKEN=x"
        write(start / ".env", f"OPENAI_API_KEY={KEY}\ndbPath=./data/vector.db\n{base}\n")
    with start_document_db(openai, tmp_path, **variables) as client:
        client.call("insert_document", text="The harbour fills twice a day.")
        assert noted(client, "texts are sent to", openai.url)
        assert noted(client, "OPENAI_BASE_URL") is (place == "file")
        assert not noted(client, "UNRELATED_TOKEN")
        assert not noted(client, KEY)
    assert openai.asked[0]["model"] == "text-embedding-3-small"
    assert openai.asked[0]["dimensions"] == 1536
    assert {headers["authorization"] for headers in openai.headers} == {f"Bearer {KEY}"}
    assert (start / "data").is_dir() is (place == "file")


def test_a_folder_that_is_opened_chooses_no_service(openai: Service, tmp_path: Path) -> None:
    """Protects the texts of a database from a folder with a ``.env`` file."""
    opened = tmp_path / "cloned"
    write(opened / "a.md", "# A\n")
    write(opened / ".env", f"OPENAI_API_KEY={KEY}\nOPENAI_BASE_URL={openai.url}\n")
    (tmp_path / "started-here").mkdir()
    with start_document_db(openai, tmp_path, opened) as client:
        client.call("insert_document", text="The harbour fills twice a day.")
        assert client.call("find_similar_documents", text="harbour")
    assert openai.asked == []


def test_a_server_started_inside_an_opened_folder_does_not_read_its_env_file(
    openai: Service, tmp_path: Path
) -> None:
    start = tmp_path / "started-here"
    write(start / ".env", f"OPENAI_API_KEY={KEY}\n")
    write(start / "a.md", "# A\n")
    with start_document_db(openai, tmp_path, start) as client:
        client.call("insert_document", text="The harbour fills twice a day.")
        assert noted(client, ".env", "not read")
    assert openai.asked == []


# --- through the daemon -------------------------------------------------------------------------


def test_variables_of_the_client_reach_the_daemon(tmp_path: Path) -> None:
    """The daemon reads the configuration with the variables of each client, not its own."""
    from requirements.sessions.client import StdioClient

    write(tmp_path / "vault" / "a.md", "# A\n")
    home = tmp_path / "home"
    arguments = ("mcp", tmp_path / "vault", "--toolset", "msrl")
    try:
        for debounce in ("1111", "2222"):
            process = launch(arguments, home, MSRL_WATCHER_DEBOUNCE_MS=debounce)
            try:
                client = StdioClient(process)
                client.initialize()
                assert client.call("msrl.status")["watcher"]["debounceMs"] == int(debounce)
            finally:
                process.kill()
                process.communicate()
    finally:
        launch(("daemon", "stop"), home).communicate(timeout=DEADLINE)
