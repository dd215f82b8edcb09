"""The settings of the five systems that Lookfar can replace, and our counterparts.

``lookfar config migrate`` and :mod:`lookfar.config.foreign.trust_layers` convert files with these
tables, and the documentation shows the same rows.
"""

from __future__ import annotations

from typing import Final

from lookfar.config.foreign.rows import (
    Row,
    System,
    chars_to_limits,
    chars_to_tokens,
    choose_folder,
    database_folder,
    documents_folder,
    finish_ragdocs,
    hub_model,
    ignored_patterns,
    log_level,
    memory_place,
    model_folder,
    only_if,
    parser_globs,
    skip_docs,
    synonyms,
    useful_globs,
)

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
        Row("embedding.modelPath", "embed.model", _ONNX, model_folder),
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
            ignored_patterns,
        ),
        Row("watcher.enabled", "watch.enabled"),
        Row("watcher.debounceMs", "watch.debounce_ms"),
        Row("logLevel", "serve.log_level", "`warn` is `warning`.", log_level),
        Row("MSRL_ENABLED", note="With the toolset `msrl`, `false` offers no tools."),
        Row(
            "MSRL_VAULT_ROOT",
            note="With the toolset `msrl`, the folder to serve if the command names none.",
        ),
        Row("MSRL_LOG_LEVEL", "serve.log_level", "", log_level),
        Row("MSRL_MODEL_PATH", "embed.model", _ONNX, model_folder),
        Row("MSRL_EMBEDDING_THREADS", "embed.threads"),
        Row("MSRL_EMBEDDING_NUM_THREADS", "embed.threads"),
        Row("MSRL_WATCHER_ENABLED", "watch.enabled"),
        Row("MSRL_WATCHER_DEBOUNCE_MS", "watch.debounce_ms"),
    ),
    variables="MSRL_",
)

SEARCH_MCP: Final = System(
    "search-mcp",
    "Search MCP",
    "`~/.mcp/search/indexes/HASH/config.json`",
    (
        Row("include", "sources.include", "`**/*` is the default.", useful_globs),
        Row("exclude", "sources.exclude", "", useful_globs),
        Row("respectGitignore", "sources.respect_ignore_files"),
        Row("maxFileSize", "sources.max_file_bytes"),
        Row("maxFiles", "sources.max_files"),
        Row(
            "docPatterns",
            "sources.exclude",
            "Only if `indexDocs` is `false`: a file's format says whether it is documentation.",
            lambda patterns: {"~docs": patterns},
        ),
        Row(
            "indexDocs",
            "sources.exclude",
            "`false` excludes the files that match `docPatterns`.",
            lambda wanted: {"~index_docs": wanted},
        ),
        Row("extractComments", "search.comments"),
        Row("chunkingStrategy", "chunk.strategy"),
        Row(
            "hybridSearch.enabled", "search.mode", "`false` is `vector`.", only_if(False, "vector")
        ),
        Row("hybridSearch.ftsEngine", note="There is only one keyword engine.", silent=("auto",)),
        Row("hybridSearch.defaultAlpha", "search.alpha"),
        Row("queryExpansion.enabled", "search.expansion"),
        Row("queryExpansion.maxExpansionTerms", "search.max_expansions"),
        Row(
            "queryExpansion.customExpansions",
            "search.synonyms",
            "Each as `WORD=MEANING`.",
            synonyms,
        ),
        Row("autoReindex.enabled", "index.max_auto_files", "`false` is 0.", only_if(False, 0)),
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
    finish=skip_docs,
)

DOCUMENT_DB: Final = System(
    "document-db",
    "Document DB",
    "`.env`, and the constants of its source",
    (
        Row(
            "OPENAI_API_KEY",
            note="Keep it: with the toolset `document-db` it chooses `text-embedding-3-small`"
            " of OpenAI, unless a model is set.",
        ),
        Row(
            "dbPath",
            "documents.dir",
            "The folder of the file, unless `dbDirectory` is set.",
            database_folder,
        ),
        Row("dbDirectory", "documents.dir"),
        Row("chunkSize", "documents.chunk_chars"),
        Row("chunkOverlap", "documents.overlap_chars"),
        Row("defaultTopK", "search.top_k"),
        Row("deleteMode", note="Deleted documents are always erased from every file."),
    ),
    finish=choose_folder,
)

ANVIL: Final = System(
    "anvil",
    "Anvil",
    "`anvil.config.json`, and options of its command",
    (
        Row("docs", note="The folder is an argument: `lookfar mcp DOCS`, or `--docs DOCS`."),
        Row("db", note="`--db FILE` stores the index in the folder of FILE."),
        Row("maxChunkSize", "chunk.max_tokens", _CHARS, chars_to_limits),
        Row("minChunkSize", "chunk.min_tokens", _CHARS, chars_to_tokens),
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
        Row(
            "indexing.documents_path",
            "sources.include",
            "A folder below the project; others are arguments: `lookfar mcp FOLDER`.",
            documents_folder,
        ),
        Row("indexing.index_path", "index.dir"),
        Row(
            "indexing.recursive",
            note="Subfolders are always included; sources.include selects files.",
        ),
        Row("indexing.include", "sources.include", "`**/*` is the default.", useful_globs),
        Row(
            "indexing.exclude",
            "sources.exclude",
            "Except patterns for what is skipped anyway.",
            useful_globs,
        ),
        Row(
            "indexing.exclude_hidden_dirs",
            note="lookfar why PATH shows whether a file is skipped, and why.",
        ),
        Row("indexing.reconciliation_interval_seconds", "watch.reconcile_seconds"),
        Row("indexing.embedding_workers", "index.workers"),
        Row(
            "parsers",
            "sources.include",
            "Its globs, unless `indexing.include` is set; the format decides how a file is parsed.",
            parser_globs,
        ),
        Row("chunking.strategy", note="Documents are always split at their headings."),
        Row("chunking.min_chunk_chars", "chunk.min_tokens", _CHARS, chars_to_tokens),
        Row("chunking.max_chunk_chars", "chunk.max_tokens", _CHARS, chars_to_limits),
        Row("chunking.overlap_chars", "chunk.overlap_tokens", _CHARS, chars_to_tokens),
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
        Row("search.recency_bias", "search.recency", "0 is `false`.", only_if(0, False)),
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
            hub_model,
        ),
        Row("memory.enabled", note="Memories are always available."),
        Row(
            "memory.storage_strategy",
            "memory.in_project",
            "`project` is `.memories` in the project, `user` the folder of ragdocs in your home.",
            memory_place,
        ),
        Row("memory.recency_boost_days", "memory.recent_days"),
        Row("memory.recency_boost_factor", "memory.recent_factor"),
        Row(
            "worker.enabled",
            note="Sessions share one daemon; to avoid it, use lookfar mcp --no-daemon.",
        ),
    ),
    finish=finish_ragdocs,
)

SYSTEMS: Final = {system.name: system for system in (ANVIL, MSRL, RAGDOCS, DOCUMENT_DB, SEARCH_MCP)}
