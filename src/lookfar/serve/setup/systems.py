"""The settings of the five systems that Lookfar can replace, and our counterparts.

:mod:`lookfar.serve.setup.migration` converts files with these tables, and the documentation
shows the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

_CHARS_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class Row:
    """One setting of another system."""

    theirs: str
    """Its dotted key, or the name of an environment variable."""
    ours: str = ""
    """Empty if there is no counterpart."""
    note: str = ""
    """How our setting differs, or why there is none."""
    as_ours: Callable[[Any], Any] = lambda value: value
    """Converts a value. Returns None if no setting is needed, and a dict for several settings."""


@dataclass(frozen=True, slots=True)
class System:
    """Another system and its settings. Its name is also the name of a preset."""

    name: str
    title: str
    where: str
    """Where its configuration is."""
    rows: tuple[Row, ...]
    ignored: str = "\0"
    """The prefix of keys that are not settings."""
    finish: Callable[[dict[str, Any]], dict[str, Any]] = lambda settings: settings
    """Converts settings that depend on each other."""


# --- converting values --------------------------------------------------------------------------


def _chars_to_tokens(chars: Any) -> Any:
    return round(chars / _CHARS_PER_TOKEN) if _is_number(chars) else chars


def _chars_to_limits(chars: Any) -> Any:
    return {
        "chunk.max_tokens": _chars_to_tokens(chars),
        "chunk.hard_max_tokens": _chars_to_tokens(chars),
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_DEFAULT_GLOBS: Final = frozenset(
    (
        *("**/*", "**/.*", ".git/**", "**/.git/**", "node_modules/**", "**/node_modules/**"),
        *(".obsidian/**", ".msrl/**", "**/*~", "**/*.tmp", "**/.venv/**", "**/venv/**"),
        *("**/build/**", "**/dist/**", "**/__pycache__/**", "**/.pytest_cache/**"),
        *("**/.mcp-markdown-ragdocs/**", "**/*-egg-info/**"),
    )
)


def _useful_globs(patterns: Any) -> Any:
    """Drop patterns for what Lookfar reads or skips anyway."""
    if not isinstance(patterns, list):
        return patterns
    return [pattern for pattern in patterns if pattern not in _DEFAULT_GLOBS] or None


def _only_if(theirs: Any, ours: Any) -> Callable[[Any], Any]:
    """Convert the value ``theirs`` to ``ours``, and any other to nothing."""
    return lambda value: ours if value == theirs else None


def _log_level(name: Any) -> Any:
    return {"warn": "warning"}.get(name, name)


def _model_folder(path: Any) -> Any:
    """Convert the path of a weights file to the folder that contains the model."""
    if not isinstance(path, str):
        return path
    file = PurePosixPath(path)
    folder = file.parent if file.suffix == ".onnx" else file
    return {"embed.model": str(folder), "embed.provider": "onnx"}


def _hub_model(name: Any) -> Any:
    return None if name == "local" else {"embed.model": name, "embed.provider": "onnx"}


def _synonyms(table: Any) -> Any:
    if not isinstance(table, Mapping):
        return table
    return [f"{word}={meaning}" for word, meaning in table.items()]


def _scale_weights(settings: dict[str, Any]) -> dict[str, Any]:
    """Scale the two weights so that they add up to 1."""
    keys = ("search.vector_weight", "search.keyword_weight")
    weights = [settings.get(key, 1.0) for key in keys]
    if not set(keys) & set(settings) or not all(map(_is_number, weights)) or sum(weights) <= 0:
        return settings
    share = round(weights[0] / sum(weights), 4)
    return {**settings, keys[0]: share, keys[1]: round(1 - share, 4)}


# --- the systems --------------------------------------------------------------------------------

_FOLDER: Final = "The folder is an argument of each command: lookfar search QUERY PATH."
_AUTOMATIC: Final = "The index decides how vectors are stored and searched."
_CHARS: Final = "In characters; four count as one token."
_ONNX: Final = 'The folder of the model, with `embed.provider = "onnx"`.'

MSRL: Final = System(
    "msrl",
    "MSRL",
    "`VAULT/.msrl/config.json`, and variables",
    (
        Row("vaultRoot", note=_FOLDER),
        Row("embedding.modelPath", "embed.model", _ONNX, _model_folder),
        Row("embedding.tokenizerPath", note="The tokenizer is read from the model's folder."),
        Row("embedding.maxSequenceLength", "embed.max_tokens"),
        Row("embedding.numThreads", "embed.threads"),
        Row("embedding.batchSize", "embed.batch"),
        Row("chunking.targetMinTokens", note="Chunks are filled up to chunk.max_tokens."),
        Row("chunking.targetMaxTokens", "chunk.max_tokens"),
        Row("chunking.hardMaxTokens", "chunk.hard_max_tokens"),
        Row("chunking.minPreferredTokens", "chunk.min_tokens"),
        Row("chunking.overlapTokens", "chunk.overlap_tokens"),
        Row("sharding.shardCount", note=_AUTOMATIC),
        Row("sharding.maxShardsPerQuery", note=_AUTOMATIC),
        Row("retrieval.vectorWeight", "search.vector_weight"),
        Row("retrieval.bm25Weight", "search.keyword_weight"),
        Row("retrieval.defaultTopK", "search.top_k"),
        Row("retrieval.defaultMaxExcerptChars", "search.max_excerpt_chars"),
        Row("retrieval.spanMergeGapThreshold", "search.merge_gap"),
        Row("faiss.maxCachedShards", note=_AUTOMATIC),
        Row("faiss.ivfpq.minVectorsForIvfpq", note=_AUTOMATIC),
        Row("faiss.ivfpq.m", note=_AUTOMATIC),
        Row("faiss.ivfpq.nbits", note=_AUTOMATIC),
        Row("faiss.ivfpq.nprobe", note=_AUTOMATIC),
        Row("faiss.hnsw.m", note=_AUTOMATIC),
        Row("faiss.hnsw.efConstruction", note=_AUTOMATIC),
        Row("faiss.hnsw.efSearch", note=_AUTOMATIC),
        Row("lifecycle.maxRetainedSnapshots", "index.retain_generations"),
        Row(
            "lifecycle.ignoredPatterns",
            "sources.exclude",
            "Except patterns for what is skipped anyway.",
            _useful_globs,
        ),
        Row("watcher.enabled", "watch.enabled"),
        Row("watcher.debounceMs", "watch.debounce_ms"),
        Row("logLevel", "serve.log_level", "`warn` is `warning`.", _log_level),
        Row("MSRL_ENABLED", note="Remove the server from the client's settings instead."),
        Row("MSRL_VAULT_ROOT", note=_FOLDER),
        Row("MSRL_LOG_LEVEL", "serve.log_level", "", _log_level),
        Row("MSRL_MODEL_PATH", "embed.model", _ONNX, _model_folder),
        Row("MSRL_EMBEDDING_THREADS", "embed.threads"),
        Row("MSRL_EMBEDDING_NUM_THREADS", "embed.threads"),
        Row("MSRL_WATCHER_ENABLED", "watch.enabled"),
        Row("MSRL_WATCHER_DEBOUNCE_MS", "watch.debounce_ms"),
    ),
)

SEARCH_MCP: Final = System(
    "search-mcp",
    "Search MCP",
    "`~/.mcp/search/indexes/HASH/config.json`",
    (
        Row("include", "sources.include", "`**/*` is the default.", _useful_globs),
        Row("exclude", "sources.exclude", "", _useful_globs),
        Row("respectGitignore", "sources.respect_ignore_files"),
        Row("maxFileSize", "sources.max_file_bytes"),
        Row("maxFiles", "sources.max_files"),
        Row("docPatterns", note="A file's format says whether it is documentation or code."),
        Row("indexDocs", note="To skip documentation, add its files to sources.exclude."),
        Row("extractComments", "search.comments"),
        Row("chunkingStrategy", note="Code is always split by its syntax."),
        Row(
            "hybridSearch.enabled", "search.mode", "`false` is `vector`.", _only_if(False, "vector")
        ),
        Row("hybridSearch.ftsEngine", note="There is only one keyword engine."),
        Row("hybridSearch.defaultAlpha", "search.alpha"),
        Row("queryExpansion.enabled", "search.expansion"),
        Row("queryExpansion.maxExpansionTerms", "search.max_expansions"),
        Row(
            "queryExpansion.customExpansions",
            "search.synonyms",
            "Each as `WORD=MEANING`.",
            _synonyms,
        ),
        Row("autoReindex.enabled", "index.max_auto_files", "`false` is 0.", _only_if(False, 0)),
        Row("autoReindex.checkEveryNSearches", "index.check_every_searches"),
        Row("autoReindex.maxAutoReindexFiles", "index.max_auto_files"),
        Row(
            "autoReindex.stalenessThresholdMs",
            note="Changes are noticed at once.",
        ),
        Row("autoReindex.logActivity", note="lookfar logs shows it."),
        Row("enhancedToolDescriptions", "serve.enhanced_descriptions"),
        Row("indexingStrategy", "watch.strategy"),
    ),
    ignored="_",
)

DOCUMENT_DB: Final = System(
    "document-db",
    "Document DB",
    "`.env`, and the constants of its source",
    (
        Row("OPENAI_API_KEY", note="Keep the variable; it is read if embed.provider is remote."),
        Row("dbPath", note="Databases have names and are stored in documents.dir."),
        Row("dbDirectory", "documents.dir"),
        Row("chunkSize", "documents.chunk_chars"),
        Row("chunkOverlap", "documents.overlap_chars"),
        Row("defaultTopK", "search.top_k"),
        Row("deleteMode", note="Deleted documents are always erased from every file."),
    ),
)

ANVIL: Final = System(
    "anvil",
    "Anvil",
    "`anvil.config.json`, and options of its command",
    (
        Row("docs", note=_FOLDER),
        Row("db", note="Indexes are stored in index.dir, one folder each."),
        Row("maxChunkSize", "chunk.max_tokens", _CHARS, _chars_to_limits),
        Row("minChunkSize", "chunk.min_tokens", _CHARS, _chars_to_tokens),
    ),
)

RAGDOCS: Final = System(
    "ragdocs",
    "ragdocs",
    "`.mcp-markdown-ragdocs/config.toml`, here or in `~/.config`",
    (
        Row("server.host", "serve.host"),
        Row("server.port", "serve.port"),
        Row("projects", note="Each project is a folder; a command takes several."),
        Row("indexing.documents_path", note=_FOLDER),
        Row("indexing.index_path", "index.dir"),
        Row(
            "indexing.recursive",
            note="Subfolders are always included; sources.include selects files.",
        ),
        Row("indexing.include", "sources.include", "`**/*` is the default.", _useful_globs),
        Row(
            "indexing.exclude",
            "sources.exclude",
            "Except patterns for what is skipped anyway.",
            _useful_globs,
        ),
        Row(
            "indexing.exclude_hidden_dirs",
            note="lookfar why PATH shows whether a file is skipped, and why.",
        ),
        Row("indexing.reconciliation_interval_seconds", "watch.reconcile_seconds"),
        Row("indexing.embedding_workers", "index.workers"),
        Row("parsers", note="The format of a file decides how it is parsed."),
        Row("chunking.strategy", note="Documents are always split at their headings."),
        Row("chunking.min_chunk_chars", "chunk.min_tokens", _CHARS, _chars_to_tokens),
        Row("chunking.max_chunk_chars", "chunk.max_tokens", _CHARS, _chars_to_limits),
        Row("chunking.overlap_chars", "chunk.overlap_tokens", _CHARS, _chars_to_tokens),
        Row(
            "chunking.include_parent_headers",
            note="A chunk always includes the headings above it.",
        ),
        Row("chunking.parent_retrieval_enabled", "search.parents"),
        Row("chunking.parent_chunk_min_chars", note="A hit is extended to its whole section."),
        Row("chunking.parent_chunk_max_chars", "search.parent_max_chars"),
        Row("git_indexing.enabled", "git.history"),
        Row("git_indexing.max_delta_lines", "git.diff_lines"),
        Row(
            "git_indexing.exclude_patterns",
            note="Repositories are found in the indexed folders.",
        ),
        Row(
            "git_indexing.watch_enabled",
            note="Branches are watched if the folder is (watch.enabled).",
        ),
        Row(
            "git_indexing.poll_interval_seconds",
            note="Changes of a branch are noticed without polling.",
        ),
        Row("search.semantic_weight", "search.vector_weight", "As a share of the sum of both."),
        Row("search.keyword_weight", "search.keyword_weight", "As a share of the sum of both."),
        Row("search.recency_bias", "search.recency", "0 is `false`.", _only_if(0, False)),
        Row("search.rrf_k_constant", "search.rrf_k"),
        Row("search.min_confidence", "search.min_confidence"),
        Row("search.max_chunks_per_doc", "search.per_document"),
        Row("search.dedup_enabled", "search.dedup_semantic"),
        Row("search.dedup_similarity_threshold", "search.semantic_threshold"),
        Row("search.dedup_threshold", "search.semantic_threshold"),
        Row("search.ngram_dedup_enabled", "search.dedup_ngram"),
        Row("search.ngram_dedup_threshold", "search.ngram_threshold"),
        Row("search.rerank_enabled", "search.rerank"),
        Row("search.reranking_enabled", "search.rerank"),
        Row("search.rerank_model", "search.rerank_model"),
        Row("search.rerank_top_n", "search.rerank_top"),
        Row("search.mmr_enabled", "search.mmr"),
        Row("search.mmr_lambda", "search.mmr_lambda"),
        Row("search.adaptive_weights_enabled", "search.adaptive"),
        Row(
            "search.code_search_enabled",
            note="Code in documents is always searched.",
        ),
        Row("search.code_search_weight", "search.code_weight"),
        Row("search.query_expansion_enabled", "search.concepts"),
        Row(
            "search.query_expansion_max_terms",
            note="Terms come from the index and are not embedded.",
        ),
        Row(
            "search.query_expansion_min_frequency",
            note="Terms come from the index and are not embedded.",
        ),
        Row("search.community_detection_enabled", "search.communities"),
        Row("search.community_boost_factor", "search.community_factor"),
        Row("search.dynamic_weights_enabled", "search.dynamic_weights"),
        Row("search.variance_threshold", "search.variance_threshold"),
        Row("search.min_weight_factor", "search.min_weight_factor"),
        Row("search.hyde_enabled", "search.hypothesis"),
        Row(
            "llm.embedding_model",
            "embed.model",
            "`local` is the model that comes with Lookfar.",
            _hub_model,
        ),
        Row("memory.enabled", note="Memories are always available."),
        Row("memory.storage_strategy", "memory.scope"),
        Row("memory.recency_boost_days", "memory.recent_days"),
        Row("memory.recency_boost_factor", "memory.recent_factor"),
        Row(
            "worker.enabled",
            note="Sessions share one daemon; to avoid it, use lookfar mcp --no-daemon.",
        ),
    ),
    finish=_scale_weights,
)

SYSTEMS: Final = {system.name: system for system in (ANVIL, MSRL, RAGDOCS, DOCUMENT_DB, SEARCH_MCP)}
