"""Configurations of the five systems, said in our settings, and the tables that say how.

Proved by mutation: a row taken out, a value handed on unconverted, a trusted setting written into
a folder's own file, and a key that is silently dropped each fail here.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lookfar import config
from lookfar.config.foreign.systems import SYSTEMS
from lookfar.errors import InvalidArgument, InvalidConfig
from lookfar.serve.cli.config import _SYSTEMS
from lookfar.serve.cli.main import cli
from lookfar.serve.setup.migration import Migration, migrate_text

DOCS = Path(__file__).parent.parent.parent / "docs"

MSRL: dict[str, Any] = {
    "vaultRoot": "/vault",
    "embedding": {
        "modelPath": "/models/bge-m3/model.onnx",
        "tokenizerPath": "/models/bge-m3/tokenizer.json",
        "maxSequenceLength": 4096,
        "numThreads": 6,
        "batchSize": 16,
    },
    "chunking": {
        "targetMinTokens": 500,
        "targetMaxTokens": 900,
        "hardMaxTokens": 1100,
        "minPreferredTokens": 150,
        "overlapTokens": 90,
    },
    "sharding": {"shardCount": 64, "maxShardsPerQuery": 8},
    "retrieval": {
        "vectorWeight": 0.6,
        "bm25Weight": 0.4,
        "defaultTopK": 12,
        "defaultMaxExcerptChars": 3000,
        "spanMergeGapThreshold": 100,
    },
    "faiss": {
        "maxCachedShards": 8,
        "ivfpq": {"minVectorsForIvfpq": 500, "m": 32, "nbits": 8, "nprobe": 8},
        "hnsw": {"m": 16, "efConstruction": 100, "efSearch": 32},
    },
    "lifecycle": {"maxRetainedSnapshots": 5, "ignoredPatterns": [".git/**", "drafts/**"]},
    "watcher": {"enabled": False, "debounceMs": 1000},
    "logLevel": "warn",
}
MSRL_VARIABLES = (
    *("MSRL_ENABLED", "MSRL_VAULT_ROOT", "MSRL_LOG_LEVEL", "MSRL_MODEL_PATH"),
    *("MSRL_EMBEDDING_THREADS", "MSRL_WATCHER_ENABLED", "MSRL_WATCHER_DEBOUNCE_MS"),
)
SEARCH_MCP: dict[str, Any] = {
    "_comment": "Search MCP Configuration",
    "include": ["src/**", "docs/**"],
    "exclude": ["**/*.gen.ts", "**/node_modules/**"],
    "respectGitignore": False,
    "maxFileSize": "500KB",
    "maxFiles": 20000,
    "docPatterns": ["**/*.md"],
    "indexDocs": True,
    "extractComments": False,
    "chunkingStrategy": "ast",
    "hybridSearch": {"enabled": False, "ftsEngine": "auto", "defaultAlpha": 0.7},
    "queryExpansion": {
        "enabled": False,
        "maxExpansionTerms": 4,
        "customExpansions": {"fe": "frontend"},
    },
    "autoReindex": {
        "enabled": True,
        "checkEveryNSearches": 3,
        "maxAutoReindexFiles": 9,
        "stalenessThresholdMs": 300000,
        "logActivity": True,
    },
    "enhancedToolDescriptions": True,
    "indexingStrategy": "git",
    "_hardcodedExcludes": ["// ..."],
    "_availableOptions": {"include": "Glob patterns."},
}
RAGDOCS = """
[server]
port = 9000
[indexing]
documents_path = "~/notes"
index_path = "/var/ragdocs"
include = ["**/*"]
exclude = ["**/.git/**", "**/archive/**"]
reconciliation_interval_seconds = 1800
[chunking]
min_chunk_chars = 400
max_chunk_chars = 1600
overlap_chars = 80
[search]
semantic_weight = 1.5
keyword_weight = 0.5
rrf_k_constant = 30
community_detection_enabled = false
dynamic_weights_enabled = true
variance_threshold = 0.2
hyde_enabled = false
rerank_enabled = true
[llm]
embedding_model = "BAAI/bge-small-en-v1.5"
[memory]
storage_strategy = "user"
recency_boost_days = 14
[git_indexing]
max_delta_lines = 100
[worker]
enabled = false
[[projects]]
name = "mono"
path = "/mono"
"""


def of(given: dict[str, Any] | str, name: str = "config.json", **more: str) -> Migration:
    return migrate_text(given if isinstance(given, str) else json.dumps(given), Path(name), **more)


def test_msrl() -> None:
    migration = of(MSRL)
    assert migration.system == "msrl"
    assert migration.project == {
        "preset": "msrl",
        "chunk.max_tokens": 900,
        "chunk.hard_max_tokens": 1100,
        "chunk.min_tokens": 150,
        "chunk.overlap_tokens": 90,
        "search.vector_weight": 0.6,
        "search.keyword_weight": 0.4,
        "search.top_k": 12,
        "search.max_excerpt_chars": 3000,
        "search.merge_gap": 100,
        "index.retain_generations": 5,
        "sources.exclude": ["drafts/**"],
        "watch.enabled": False,
        "watch.debounce_ms": 1000,
    }
    assert migration.own == {
        "embed.model": "/models/bge-m3",
        "embed.provider": "onnx",
        "embed.max_tokens": 4096,
        "embed.threads": 6,
        "embed.batch": 16,
        "serve.log_level": "warning",
    }
    left = {setting.theirs for setting in migration.unmatched}
    assert left == {
        *("vaultRoot", "embedding.tokenizerPath", "chunking.targetMinTokens"),
        *("sharding.shardCount", "sharding.maxShardsPerQuery", "faiss.maxCachedShards"),
        *(f"faiss.ivfpq.{key}" for key in MSRL["faiss"]["ivfpq"]),
        *(f"faiss.hnsw.{key}" for key in MSRL["faiss"]["hnsw"]),
    }
    assert all(setting.note for setting in migration.unmatched)


def test_variables_of_msrl() -> None:
    text = "# mine\nexport MSRL_LOG_LEVEL=debug\nMSRL_WATCHER_ENABLED=false\n"
    text += "MSRL_WATCHER_DEBOUNCE_MS='500'\nMSRL_EMBEDDING_THREADS=2\nMSRL_VAULT_ROOT=/v\n"
    migration = of(text, ".env")
    assert migration.project == {"preset": "msrl", "watch.enabled": False, "watch.debounce_ms": 500}
    assert migration.own == {"serve.log_level": "debug", "embed.threads": 2}
    assert [setting.theirs for setting in migration.unmatched] == ["MSRL_VAULT_ROOT"]


def test_search_mcp() -> None:
    migration = of(SEARCH_MCP)
    assert migration.system == "search-mcp"
    assert migration.project == {
        "preset": "search-mcp",
        "sources.include": ["src/**", "docs/**"],
        "sources.exclude": ["**/*.gen.ts"],
        "sources.respect_ignore_files": False,
        "sources.max_file_bytes": "500KB",
        "sources.max_files": 20000,
        "chunk.strategy": "ast",
        "search.comments": False,
        "search.mode": "vector",
        "search.alpha": 0.7,
        "search.expansion": False,
        "search.max_expansions": 4,
        "search.synonyms": ["fe=frontend"],
        "index.check_every_searches": 3,
        "index.max_auto_files": 9,
        "serve.enhanced_descriptions": True,
        "watch.strategy": "git",
    }
    assert migration.own == {}
    assert {setting.theirs for setting in migration.unmatched} == {
        *("autoReindex.stalenessThresholdMs", "autoReindex.logActivity"),
    }
    off = of({**SEARCH_MCP, "autoReindex": {"enabled": False}})
    assert off.project["index.max_auto_files"] == 0


def test_ragdocs() -> None:
    migration = of(RAGDOCS, "config.toml")
    assert migration.system == "ragdocs"
    assert migration.project == {
        "preset": "ragdocs",
        "sources.exclude": ["**/archive/**"],
        "watch.reconcile_seconds": 1800,
        "chunk.min_tokens": 100,
        "chunk.max_tokens": 400,
        "chunk.hard_max_tokens": 400,
        "chunk.overlap_tokens": 20,
        "search.rrf_k": 30,
        "search.communities": False,
        "search.variance_threshold": 0.2,
        "search.hypothesis": False,
        "search.vector_weight": 0.75,
        "search.keyword_weight": 0.25,
        "git.diff_lines": 100,
    } | {"memory.recent_days": 14}  # fmt: skip
    assert migration.own == {
        "serve.port": 9000,
        "index.dir": "/var/ragdocs",
        "search.rerank": True,
        "embed.model": "BAAI/bge-small-en-v1.5",
        "embed.provider": "onnx",
        "memory.scope": "user",
        "memory.dir": "~/.local/share/mcp-markdown-ragdocs/memories",
    }
    assert {setting.theirs for setting in migration.unmatched} == {
        *("indexing.documents_path", "worker.enabled", "projects"),
    }


def test_ragdocs_in_a_projects_file() -> None:
    text = "[project]\nname = 'x'\n[tool.ragdocs.search]\nrrf_k_constant = 10\n"
    assert of(text, "pyproject.toml").project == {"preset": "ragdocs", "search.rrf_k": 10}


def test_document_db() -> None:
    given = {
        "dbDirectory": "/data/dbs", "dbPath": "./data/vector.db", "chunkSize": 500,
        "chunkOverlap": 50, "defaultTopK": 20, "deleteMode": "hard",
    }  # fmt: skip
    migration = of(given)
    assert migration.system == "document-db"
    assert migration.project == {"preset": "document-db", "search.top_k": 20}
    assert migration.own == {
        "documents.dir": "/data/dbs",
        "documents.chunk_chars": 500,
        "documents.overlap_chars": 50,
    }
    assert [setting.theirs for setting in migration.unmatched] == ["deleteMode"]
    key = of("OPENAI_API_KEY=sk-very-secret\n", ".env", system="document-db")
    assert [setting.theirs for setting in key.unmatched] == ["OPENAI_API_KEY"]
    assert "sk-very-secret" not in json.dumps(key.as_dict())


def test_anvil() -> None:
    migration = of(
        {"docs": "./docs", "db": ".anvil/index.db", "maxChunkSize": 4000, "minChunkSize": 80}
    )
    assert migration.system == "anvil"
    assert migration.project == {
        "preset": "anvil",
        "chunk.max_tokens": 1000,
        "chunk.hard_max_tokens": 1000,
        "chunk.min_tokens": 20,
    }
    assert [setting.theirs for setting in migration.unmatched] == ["docs", "db"]


@pytest.mark.parametrize("given", [MSRL, SEARCH_MCP, RAGDOCS])
def test_the_written_file_has_the_intended_values(given: Any, tmp_path: Path) -> None:
    name = "config.toml" if isinstance(given, str) else "config.json"
    migration = of(given, name)
    (tmp_path / "lookfar.toml").write_text(migration.toml)
    explicit = {key: value for key, value in migration.own.items() if key != "embed.provider"}
    resolved = config.as_dict(config.load(tmp_path, explicit, {"HOME": str(tmp_path)}))
    for key, value in migration.project.items():
        intended = config.check_value(key, value)
        assert resolved[key] == intended, key
    assert config.find_problems(migration.toml, tmp_path / "lookfar.toml", project=True) == []


def test_preset_values_are_not_repeated() -> None:
    assert of({"chunking": {"targetMaxTokens": 1000}, "watcher": {"enabled": True}}).project == {
        "preset": "msrl"
    }


def test_an_invalid_value_is_reported_and_not_written() -> None:
    migration = of({"retrieval": {"defaultTopK": 0, "vectorWeight": "much"}})
    assert migration.project == {"preset": "msrl"}
    notes = {setting.theirs: setting.note for setting in migration.unmatched}
    assert "from 1 to 1000" in notes["retrieval.defaultTopK"]
    assert "number" in notes["retrieval.vectorWeight"]


def test_an_undocumented_key_is_reported() -> None:
    (left,) = of({**MSRL["retrieval"], "retrieval": {"turbo": True}}, system="msrl").unmatched[-1:]
    assert (left.theirs, left.value) == ("retrieval.turbo", True)


@pytest.mark.parametrize(
    "given", [{}, {"name": "x", "version": 1}, {"defaultTopK": 3, "docs": "."}]
)
def test_a_file_of_an_unknown_system_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="which system") as refused:
        of(given)
    assert "--from" in refused.value.hint


def test_a_broken_file_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="not valid JSON"):
        of('{"vaultRoot": ')
    with pytest.raises(InvalidConfig, match="not valid TOML"):
        of("[search\n", "config.toml")


# --- the command --------------------------------------------------------------------------------


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["config", "migrate", *map(str, arguments)])


def test_the_command_prints_the_file_and_reports_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text("// with a comment\n" + json.dumps(MSRL) + "\n")
    output = run(file)
    assert output.exit_code == 0
    assert config.find_problems(output.stdout, Path("lookfar.toml"), project=True) == []
    assert "max_tokens = 900" in output.stdout
    assert "Also run: lookfar config set embed.threads 6" in output.stderr
    assert "no counterpart: vaultRoot: " in output.stderr
    shape = json.loads(run(file, "--json").stdout)
    assert list(shape) == ["system", "project", "user", "left", "toml", "written"]
    assert shape["toml"] == output.stdout
    assert list(shape["left"][0]) == ["key", "value", "why"]


def test_the_command_writes_a_file_and_never_overwrites_one(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(SEARCH_MCP))
    folder = tmp_path / "project"
    folder.mkdir()
    assert run(file, "--write", "--path", folder).stdout == f"Wrote {folder / 'lookfar.toml'}\n"
    written = (folder / "lookfar.toml").read_text()
    assert 'preset = "search-mcp"' in written
    again = run(file, "--write", "--path", folder, "--from", "search-mcp")
    assert again.exit_code == 2
    assert "exists already" in again.stderr
    assert (folder / "lookfar.toml").read_text() == written
    assert run(tmp_path / "none.json").exit_code == 3


# --- the documentation ----------------------------------------------------------------------------


def documented(system: str) -> dict[str, str]:
    """Return the table of a system from the page: our setting, or why there is none."""
    page = (DOCS / "migration.md").read_text(encoding="utf-8")
    region = page.split(f"<!-- generated: migration {system} -->")[1].split("<!-- end -->")[0]
    return {
        row[0]: row[1] + row[2]
        for row in re.findall(r"^\| `(.+?)` \| (.+?) \| (.*?) \|$", region, re.M)
    }


def leaves(given: Any, before: str = "") -> list[str]:
    migration: list[str] = []
    for key, value in given.items():
        inner = isinstance(value, dict) and f"{before}{key}" != "queryExpansion.customExpansions"
        migration += leaves(value, f"{before}{key}.") if inner else [f"{before}{key}"]
    return migration


def test_every_setting_and_variable_of_msrl_is_documented() -> None:
    rows = documented("msrl")
    wanted = [*leaves(MSRL), *MSRL_VARIABLES]
    assert [key for key in wanted if key not in rows] == []
    assert rows["retrieval.bm25Weight"].startswith("`search.keyword_weight`")
    assert rows["MSRL_WATCHER_DEBOUNCE_MS"].startswith("`watch.debounce_ms`")


def test_every_setting_of_search_mcp_is_documented() -> None:
    rows = documented("search-mcp")
    wanted = [key for key in leaves(SEARCH_MCP) if not key.startswith("_")]
    assert [key for key in wanted if key not in rows] == []
    assert rows["indexingStrategy"].startswith("`watch.strategy`")


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_row_names_a_setting_or_a_reason(name: str) -> None:
    known = {doc.key for doc in config.describe()}
    for row in SYSTEMS[name].rows:
        assert row.ours in known or (not row.ours and row.note), row.theirs
    assert documented(name), "the page shows the rows"
    assert name in config.PRESETS


def test_the_command_knows_every_system() -> None:
    assert set(_SYSTEMS) == set(SYSTEMS)
