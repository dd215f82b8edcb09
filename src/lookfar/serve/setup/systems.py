"""The settings of the five systems that Lookfar stands in for, beside ours.

Takes: nothing. Gives: one row for each setting that they document: its name, ours, how a value
changes on the way, and why there is none where there is none. Refuses: to read a file;
:mod:`lookfar.serve.setup.migration` does, and the documentation shows the same rows.
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
    """Its dotted key; of variables their name."""
    ours: str = ""
    """Empty where there is no counterpart."""
    note: str = ""
    """How it differs, or why there is none."""
    as_ours: Callable[[Any], Any] = lambda value: value
    """Gives None for what needs no setting here, and several settings as a dict."""


@dataclass(frozen=True, slots=True)
class System:
    """Whose configuration it is, and what is in it. Its name is also that of a preset."""

    name: str
    called: str
    """For people."""
    where: str
    """Where it keeps its configuration."""
    rows: tuple[Row, ...]
    ignored: str = "\0"
    """Begins keys that are no settings."""
    finish: Callable[[dict[str, Any]], dict[str, Any]] = lambda settings: settings
    """For settings that change together."""


# --- how values change --------------------------------------------------------------------------


def _tokens(chars: Any) -> Any:
    return round(chars / _CHARS_PER_TOKEN) if _is_number(chars) else chars


def _both_sizes(chars: Any) -> Any:
    return {"chunk.max_tokens": _tokens(chars), "chunk.hard_max_tokens": _tokens(chars)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_SKIPPED_ANYWAY: Final = frozenset(
    (
        *("**/*", "**/.*", ".git/**", "**/.git/**", "node_modules/**", "**/node_modules/**"),
        *(".obsidian/**", ".msrl/**", "**/*~", "**/*.tmp", "**/.venv/**", "**/venv/**"),
        *("**/build/**", "**/dist/**", "**/__pycache__/**", "**/.pytest_cache/**"),
        *("**/.mcp-markdown-ragdocs/**", "**/*-egg-info/**"),
    )
)


def _globs(patterns: Any) -> Any:
    """Those that say something: ours read every format they know, and skip what is denied."""
    if not isinstance(patterns, list):
        return patterns
    return [each for each in patterns if each not in _SKIPPED_ANYWAY] or None


def _when(value: Any, found: Any) -> Callable[[Any], Any]:
    """``found`` where theirs is ``value``, and nothing otherwise."""
    return lambda given: found if given == value else None


def _level(name: Any) -> Any:
    return {"warn": "warning"}.get(name, name)


def _model_folder(path: Any) -> Any:
    """Their file of weights; ours are named by the folder that holds all of a model."""
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
    return [f"{word}={means}" for word, means in table.items()]


def _as_shares(settings: dict[str, Any]) -> dict[str, Any]:
    """Two weights of any size as shares of one."""
    keys = ("search.vector_weight", "search.keyword_weight")
    given = [settings.get(key, 1.0) for key in keys]
    if not set(keys) & set(settings) or not all(map(_is_number, given)) or sum(given) <= 0:
        return settings
    share = round(given[0] / sum(given), 4)
    return {**settings, keys[0]: share, keys[1]: round(1 - share, 4)}


# --- the systems --------------------------------------------------------------------------------

_FOLDER: Final = "The folder is an argument of each command: lookfar search QUERY PATH."
_ITSELF: Final = "The index chooses by itself how vectors are kept and searched."
_CHARS: Final = "Characters; four make a token."
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
        Row("sharding.shardCount", note=_ITSELF),
        Row("sharding.maxShardsPerQuery", note=_ITSELF),
        Row("retrieval.vectorWeight", "search.vector_weight"),
        Row("retrieval.bm25Weight", "search.keyword_weight"),
        Row("retrieval.defaultTopK", "search.top_k"),
        Row("retrieval.defaultMaxExcerptChars", "search.max_excerpt_chars"),
        Row("retrieval.spanMergeGapThreshold", "search.merge_gap"),
        Row("faiss.maxCachedShards", note=_ITSELF),
        Row("faiss.ivfpq.minVectorsForIvfpq", note=_ITSELF),
        Row("faiss.ivfpq.m", note=_ITSELF),
        Row("faiss.ivfpq.nbits", note=_ITSELF),
        Row("faiss.ivfpq.nprobe", note=_ITSELF),
        Row("faiss.hnsw.m", note=_ITSELF),
        Row("faiss.hnsw.efConstruction", note=_ITSELF),
        Row("faiss.hnsw.efSearch", note=_ITSELF),
        Row("lifecycle.maxRetainedSnapshots", "index.retain_generations"),
        Row(
            "lifecycle.ignoredPatterns",
            "sources.exclude",
            "Without those that are skipped anyway.",
            _globs,
        ),
        Row("watcher.enabled", "watch.enabled"),
        Row("watcher.debounceMs", "watch.debounce_ms"),
        Row("logLevel", "serve.log_level", "`warn` is `warning`.", _level),
        Row("MSRL_ENABLED", note="Take the server out of the client's settings instead."),
        Row("MSRL_VAULT_ROOT", note=_FOLDER),
        Row("MSRL_LOG_LEVEL", "serve.log_level", "", _level),
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
        Row("include", "sources.include", "`**/*` is what is read anyway.", _globs),
        Row("exclude", "sources.exclude", "", _globs),
        Row("respectGitignore", "sources.respect_ignore_files"),
        Row("maxFileSize", "sources.max_file_bytes"),
        Row("maxFiles", "sources.max_files"),
        Row("docPatterns", note="A file's format says whether it is documentation or code."),
        Row("indexDocs", note="To leave documentation out, name its files in sources.exclude."),
        Row("extractComments", "search.comments"),
        Row("chunkingStrategy", note="Code is always cut by its syntax."),
        Row("hybridSearch.enabled", "search.mode", "`false` is `vector`.", _when(False, "vector")),
        Row("hybridSearch.ftsEngine", note="There is one keyword index."),
        Row("hybridSearch.defaultAlpha", "search.alpha"),
        Row("queryExpansion.enabled", "search.expansion"),
        Row("queryExpansion.maxExpansionTerms", "search.max_expansions"),
        Row(
            "queryExpansion.customExpansions",
            "search.synonyms",
            "Each as `WORD=MEANING`.",
            _synonyms,
        ),
        Row("autoReindex.enabled", "index.max_auto_files", "`false` is 0.", _when(False, 0)),
        Row("autoReindex.checkEveryNSearches", "index.check_every_searches"),
        Row("autoReindex.maxAutoReindexFiles", "index.max_auto_files"),
        Row(
            "autoReindex.stalenessThresholdMs",
            note="What changed is known at once, however old it is.",
        ),
        Row("autoReindex.logActivity", note="lookfar logs shows what was done."),
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
        Row("OPENAI_API_KEY", note="Stays a variable, and is read where embed.provider is remote."),
        Row("dbPath", note="Databases are called by name, below documents.dir."),
        Row("dbDirectory", "documents.dir"),
        Row("chunkSize", "documents.chunk_chars"),
        Row("chunkOverlap", "documents.overlap_chars"),
        Row("defaultTopK", "search.top_k"),
        Row("deleteMode", note="What is deleted is gone from every file."),
    ),
)

ANVIL: Final = System(
    "anvil",
    "Anvil",
    "`anvil.config.json`, and options of its command",
    (
        Row("docs", note=_FOLDER),
        Row("db", note="Indexes lie in index.dir, one folder each."),
        Row("maxChunkSize", "chunk.max_tokens", _CHARS, _both_sizes),
        Row("minChunkSize", "chunk.min_tokens", _CHARS, _tokens),
    ),
)

RAGDOCS: Final = System(
    "ragdocs",
    "ragdocs",
    "`.mcp-markdown-ragdocs/config.toml`, here or in `~/.config`",
    (
        Row("server.host", "serve.host"),
        Row("server.port", "serve.port"),
        Row(
            "projects", note="Each project is a folder: name several in one command, or index each."
        ),
        Row("indexing.documents_path", note=_FOLDER),
        Row("indexing.index_path", "index.dir"),
        Row(
            "indexing.recursive",
            note="Folders are always descended into; sources.include chooses files.",
        ),
        Row("indexing.include", "sources.include", "`**/*` is what is read anyway.", _globs),
        Row(
            "indexing.exclude", "sources.exclude", "Without those that are skipped anyway.", _globs
        ),
        Row(
            "indexing.exclude_hidden_dirs",
            note="lookfar why PATH tells what is skipped, and by which rule.",
        ),
        Row("indexing.reconciliation_interval_seconds", "watch.reconcile_seconds"),
        Row("indexing.embedding_workers", "index.workers"),
        Row("parsers", note="The format of a file decides how it is read."),
        Row("chunking.strategy", note="Documents are always cut at their headings."),
        Row("chunking.min_chunk_chars", "chunk.min_tokens", _CHARS, _tokens),
        Row("chunking.max_chunk_chars", "chunk.max_tokens", _CHARS, _both_sizes),
        Row("chunking.overlap_chars", "chunk.overlap_tokens", _CHARS, _tokens),
        Row(
            "chunking.include_parent_headers",
            note="The headings above a chunk always belong to it.",
        ),
        Row("chunking.parent_retrieval_enabled", "search.parents"),
        Row(
            "chunking.parent_chunk_min_chars", note="A hit is widened to the section it stands in."
        ),
        Row("chunking.parent_chunk_max_chars", "search.parent_max_chars"),
        Row("git_indexing.enabled", "git.history"),
        Row("git_indexing.max_delta_lines", "git.diff_lines"),
        Row(
            "git_indexing.exclude_patterns",
            note="Repositories are looked for where files are read.",
        ),
        Row(
            "git_indexing.watch_enabled",
            note="Branches are followed where the folder is (watch.enabled).",
        ),
        Row(
            "git_indexing.poll_interval_seconds",
            note="A branch that moves is noticed without polling.",
        ),
        Row("search.semantic_weight", "search.vector_weight", "As a share of both."),
        Row("search.keyword_weight", "search.keyword_weight", "As a share of both."),
        Row("search.recency_bias", "search.recency", "0 is `false`.", _when(0, False)),
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
            note="Code in documents is always searched, also by its language.",
        ),
        Row("search.code_search_weight", "search.code_weight"),
        Row("search.query_expansion_enabled", "search.concepts"),
        Row(
            "search.query_expansion_max_terms",
            note="The terms of the corpus are known without embedding them.",
        ),
        Row(
            "search.query_expansion_min_frequency",
            note="The terms of the corpus are known without embedding them.",
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
        Row("memory.enabled", note="Memories are there as soon as something is remembered."),
        Row("memory.storage_strategy", "memory.scope"),
        Row("memory.recency_boost_days", "memory.recent_days"),
        Row("memory.recency_boost_factor", "memory.recent_factor"),
        Row(
            "worker.enabled",
            note="Sessions share one daemon; lookfar mcp --no-daemon does without.",
        ),
    ),
    finish=_as_shares,
)

SYSTEMS: Final = {each.name: each for each in (ANVIL, MSRL, RAGDOCS, DOCUMENT_DB, SEARCH_MCP)}
