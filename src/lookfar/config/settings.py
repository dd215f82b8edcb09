"""The settings by section. Each field has its default, its range and its description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from lookfar.config.presets import PRESETS

Layer = Literal["default", "preset", "user", "project", "environment", "explicit", "derived"]
T = TypeVar("T")


class Rule(NamedTuple):
    """What one setting accepts."""

    description: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    size: bool = False
    """A number of bytes, which may be written ``"500KB"``."""
    location: bool = False
    """A path on this machine, made absolute when it is resolved."""
    patterns: bool = False
    """Globs, which in a project file must stay inside the project."""
    trusted: bool = False
    """Only the user may set it, never the file in the indexed folder."""
    server: bool = False
    """The address of a database server, without a password because settings can be listed."""


def setting(default: T, description: str, **rule: Any) -> T:
    """Declare a field with its rule."""
    return field(default=default, metadata={"rule": Rule(description, **rule)})


@dataclass(frozen=True, slots=True)
class SourcesSettings:
    """Which files are read."""

    include: tuple[str, ...] = setting(
        (), "Globs of the files to read; empty means every supported format.", patterns=True
    )
    exclude: tuple[str, ...] = setting((), "Globs of files and folders to skip.", patterns=True)
    any_text: bool = setting(
        True, "Also read text files of unknown formats, such as Procfile or schema.prisma."
    )
    respect_ignore_files: bool = setting(True, "Skip what .gitignore files exclude.")
    generated: bool = setting(
        False, "Also read dependencies and build output, such as vendor, build and out."
    )
    output_by_name: bool = setting(
        False, "Skip folders named target, vendor, build and the like without any other evidence."
    )
    max_file_bytes: int = setting(
        33_554_432, "Skip larger files.", low=1, high=1_073_741_824, size=True
    )
    max_document_bytes: int = setting(
        52_428_800,
        "Skip larger files of formats whose text is extracted, such as PDF.",
        low=1,
        high=1_073_741_824,
        size=True,
    )
    extract_seconds: float = setting(
        60.0,
        "Give up a file after so many seconds of processor time for extracting its text.",
        low=1.0,
        high=3_600.0,
        trusted=True,
    )
    extract_memory_bytes: int = setting(
        1_073_741_824,
        "Give up a file that needs more memory for extracting its text.",
        low=268_435_456,
        high=68_719_476_736,
        size=True,
        trusted=True,
    )
    max_files: int = setting(50_000, "Read at most this many files.", low=1, high=10_000_000)
    max_depth: int = setting(20, "Descend at most this many folders.", low=1, high=200)
    allow_hard_links: bool = setting(
        False, "Read hard-linked files, whose other names may be outside the folder.", trusted=True
    )
    allow_secrets: tuple[str, ...] = setting(
        (),
        "Globs of files that look like secrets but are not: read them in full.",
        patterns=True,
        trusted=True,
    )


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """How documents are split into the chunks that are searched."""

    count: str = setting(
        "tokens",
        "Measure sizes with the model's tokenizer, or count four characters as one token.",
        choices=("tokens", "characters"),
    )
    max_tokens: int = setting(450, "Target size of a chunk.", low=16, high=32_000)
    hard_max_tokens: int = setting(
        600, "Maximum size of a chunk; only an unbreakable block may exceed it.",
        low=16, high=64_000,
    )  # fmt: skip
    part_tokens: int = setting(
        200, "Target size of the parts of a section that is longer than two chunks.",
        low=16, high=32_000,
    )  # fmt: skip
    min_tokens: int = setting(
        100, "Smaller chunks are merged with a neighbour.", low=0, high=16_000
    )
    overlap_tokens: int = setting(
        0, "Tokens that a chunk repeats from the previous one.", low=0, high=16_000
    )
    merge_small: bool = setting(True, "Merge chunks below the minimum size with a neighbour.")
    merge_upwards: bool = setting(
        False, "Merge small sections only into the chunk of their parent heading."
    )
    split_blocks: bool = setting(
        False, "Split code blocks and tables that are larger than a chunk."
    )
    strategy: str = setting(
        "code-aware",
        "Split code along definitions (code-aware, ast) or by length (character, markdown).",
        choices=("code-aware", "ast", "character", "markdown"),
    )
    with_headings: bool = setting(
        True, "Begin a section's first chunk with its heading; if false, headings are in no chunk."
    )
    code_max_tokens: int = setting(
        0, "Target size of a chunk of code; 0 means the same as other documents.",
        low=0, high=32_000,
    )  # fmt: skip
    code_overlap_tokens: int = setting(
        -1, "Tokens that a chunk of code repeats; -1 means the same as other documents.",
        low=-1, high=16_000,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class EmbedSettings:
    """What turns text into vectors."""

    provider: str = setting(
        "static",
        "Kind of embedding model; none searches by keyword only.",
        choices=("static", "onnx", "remote", "hash", "none"),
        trusted=True,
    )
    model: str = setting(
        "",
        "Path of a model, its name on the hub (onnx), or its name at the service (remote).",
        location=True,
        trusted=True,
    )
    code_provider: str = setting(
        "",
        "Kind of a second model, used only for code; empty means the same kind.",
        choices=("", "static", "onnx", "remote", "hash"),
        trusted=True,
    )
    code_model: str = setting(
        "", "The second model, named like the first; empty means one model for all.",
        location=True, trusted=True,
    )  # fmt: skip
    query_prefix: str = setting(
        "auto", "Text before each question; auto means the model's own.", trusted=True
    )
    passage_prefix: str = setting(
        "auto", "Text before each passage; auto means the model's own.", trusted=True
    )
    max_tokens: int = setting(
        0, "Truncate texts to this many tokens; 0 means the model's own limit.",
        low=0, high=131_072, trusted=True,
    )  # fmt: skip
    batch: int = setting(
        0, "Texts per batch of a local model; 0 means 32, and 64 on a GPU.",
        low=0, high=1024, trusted=True,
    )  # fmt: skip
    threads: int = setting(
        0, "Threads of a local model; 0 means all cores.", low=0, high=256, trusted=True
    )
    device: str = setting(
        "auto", "Where a local model runs.", choices=("auto", "cpu", "cuda"), trusted=True
    )
    precision: str = setting(
        "auto",
        "Weights of a local model; auto takes int8 where the model has them.",
        choices=("auto", "fp32", "int8"),
        trusted=True,
    )
    models_dir: str = setting(
        "",
        "Folder of downloaded models; empty means the user's data folder.",
        location=True,
        trusted=True,
    )
    hub: str = setting("https://huggingface.co", "Where models are downloaded from.", trusted=True)
    offline: bool = setting(False, "Never download a model.", trusted=True)
    base_url: str = setting(
        "https://api.openai.com/v1", "Address of a remote service, without /embeddings.",
        trusted=True,
    )  # fmt: skip
    key_env: str = setting(
        "",
        "Variable with the service's API key; empty: OPENAI_API_KEY, for OpenAI only.",
        trusted=True,
    )
    dimensions: int = setting(
        0, "Vector length to request from a remote service; 0 means the model's own.",
        low=0, high=16_384, trusted=True,
    )  # fmt: skip
    request_batch: int = setting(
        100, "Maximum texts in one request to a remote service.", low=1, high=100, trusted=True
    )
    timeout_seconds: float = setting(
        60.0, "How long a remote service may take to answer.", low=0.1, high=3600, trusted=True
    )
    retries: int = setting(
        4, "How often a failed request is retried.", low=0, high=20, trusted=True
    )
    key: str = field(default="", repr=False)
    """The key of the service if it was given with the configuration of another system. It is not
    a setting, because settings can be listed."""


@dataclass(frozen=True, slots=True)
class QualitySettings:
    """A second model, a transformer, that improves search by meaning in the background."""

    enabled: str = setting(
        "auto",
        "Use the second model; auto: only beside the bundled one.",
        choices=("auto", "on", "off"),
        trusted=True,
    )
    model: str = setting(
        "", "Folder of the second model; empty means the bundled one.",
        location=True, trusted=True,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How questions are answered."""

    mode: str = setting(
        "hybrid", "Search by meaning, by words, or both.", choices=("hybrid", "vector", "keyword")
    )
    top_k: int = setting(10, "Number of hits in an answer.", low=1, high=1000)
    vector_weight: float = setting(
        0.3, "Weight of the vector score in hybrid search.", low=0, high=1
    )
    keyword_weight: float = setting(
        0.7, "Weight of the keyword score in hybrid search.", low=0, high=1
    )
    alpha: float = setting(
        -1.0, "Weight of the vector score for all documents; -1 means use the weights above.",
        low=-1, high=1,
    )  # fmt: skip
    fusion: str = setting(
        "weighted",
        "How the retrievers are combined: by score (weighted) or by rank (rrf).",
        choices=("weighted", "rrf"),
    )
    rrf_k: int = setting(60, "The constant k of reciprocal rank fusion.", low=1, high=10_000)
    dynamic_weights: bool = setting(
        False, "Lower the weight of a retriever whose scores hardly differ."
    )
    variance_threshold: float = setting(
        0.1, "Variance of scores below which dynamic_weights applies.", low=0, high=1
    )
    min_weight_factor: float = setting(
        0.1, "Smallest factor that dynamic_weights applies to a weight.", low=0, high=1
    )
    per_document: int = setting(
        0, "Maximum hits from one document; 0 means no limit.", low=0, high=1000
    )
    crowding: float = setting(
        0.9, "Factor for each further passage of a document already shown; 1 means none.",
        low=0, high=1,
    )  # fmt: skip
    merge_gap: int = setting(
        200,
        "Merge hits of a document at most this many characters apart; -1 means never.",
        low=-1,
        high=100_000,
    )
    max_excerpt_chars: int = setting(
        4000, "Cut excerpts to this many characters.", low=50, high=1_000_000
    )
    candidates: int = setting(
        100, "Chunks that each retriever contributes to the ranking.", low=1, high=100_000
    )
    boosts: bool = setting(
        True,
        "Rank documents by more than similarity: exact titles and wording, overviews, whole pages.",
    )
    doubt: bool = setting(True, "Report when no hit seems to match the question.")
    code_names: str = setting(
        "lift",
        "Score names in code by a boost, or by the ladder of factors of Search MCP.",
        choices=("lift", "ladder"),
    )
    comments: bool = setting(
        True, "Search comments and docstrings of code when only documentation is requested."
    )
    commits_weight: float = setting(
        0.5, "Factor for commits, unless the question asks for history.", low=0, high=1
    )
    # Which passages are shown, in the order in which it is decided.
    min_confidence: float = setting(
        0.0, "Drop hits that score less than this share of the best.", low=0, high=1
    )
    dedup_exact: bool = setting(True, "Show passages with the same text once.")
    dedup_ngram: bool = setting(False, "Fold a passage into a better one with the same words.")
    ngram_threshold: float = setting(
        0.8, "Share of its word trigrams that the better one must contain.", low=0.1, high=1
    )
    dedup_semantic: bool = setting(False, "Fold a passage into a better one with the same meaning.")
    semantic_threshold: float = setting(
        0.85, "Cosine similarity above which two passages mean the same.", low=0.1, high=1
    )
    mmr: bool = setting(False, "Prefer hits that differ from those before them (MMR).")
    mmr_lambda: float = setting(
        0.7, "Weight of relevance in MMR; the rest is difference.", low=0.05, high=1
    )
    rerank: bool = setting(
        False, "Rerank the best hits by a model that reads question and text together.",
        trusted=True,
    )  # fmt: skip
    rerank_model: str = setting(
        "cross-encoder/ms-marco-MiniLM-L-6-v2",
        "The reranker: a cross-encoder with an ONNX file, as a folder or a name on the hub.",
        location=True,
        trusted=True,
    )
    rerank_top: int = setting(20, "Number of passages to rerank.", low=1, high=200)
    parents: bool = setting(False, "Widen hits to the section around them.")
    parent_max_chars: int = setting(
        2000, "Do not widen to sections longer than this many characters.", low=50, high=1_000_000
    )
    # What boosts a document apart from its words: links from the best documents, and its age.
    join_neighbours: bool = setting(
        False, "Add documents that the best ones link to, even if none of their words match."
    )
    communities: bool = setting(
        False, "Boost documents that are closely linked with the best ones."
    )
    community_factor: float = setting(1.1, "Factor of this boost.", low=1, high=10)
    recency: bool = setting(False, "Boost recently changed documents.")
    # How a question is read and expanded, and the weight of each field.
    typos: bool = setting(True, "Replace an unknown word by the nearest known one.")
    adaptive: bool = setting(True, "Adapt the weight of the vector score to the question.")
    hypothesis: bool = setting(
        True, "Search by the meaning of a hypothetical answer when one is given."
    )
    expansion: bool = setting(True, "Expand questions by synonyms of unknown words.")
    expand_known: bool = setting(False, "Also expand by synonyms of words that are in the index.")
    max_expansions: int = setting(10, "Maximum synonyms per question.", low=0, high=100)
    related_words: bool = setting(
        False, "Also expand by related words of software, such as redis for db."
    )
    synonyms: tuple[str, ...] = setting((), "Your own synonyms, like fe=frontend.")
    concepts: bool = setting(False, "Expand questions by the nearest terms of the corpus.")
    concept_terms: int = setting(3, "Number of these terms.", low=1, high=50)
    title_weight: float = setting(0.5, "Weight of a word in the title.", low=0, high=100)
    headings_weight: float = setting(0.25, "Weight of a word in the headings.", low=0, high=100)
    tags_weight: float = setting(0.5, "Weight of a word in the tags.", low=0, high=100)
    aliases_weight: float = setting(0.5, "Weight of a word in the aliases.", low=0, high=100)
    keywords_weight: float = setting(
        0.5, "Weight of a word in the keywords of the front matter.", low=0, high=100
    )
    description_weight: float = setting(
        0.5, "Weight of a word in the description of the front matter.", low=0, high=100
    )
    code_weight: float = setting(1.0, "Weight of a word in code.", low=0, high=100)


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Where the index is stored and how it is maintained."""

    dir: str = setting(
        "",
        "Folder of the indexes; empty means the user's data folder.",
        location=True,
        trusted=True,
    )
    retain_generations: int = setting(
        3, "Earlier generations of an index to keep.", low=1, high=1000
    )
    retain_days: int = setting(
        8, "Also keep the last generation of each of so many days; 0 means none.",
        low=0, high=3650,
    )  # fmt: skip
    workers: int = setting(0, "Processes that build an index; 0 means all cores.", low=0, high=256)
    check_every_searches: int = setting(
        1, "Without a watcher, compare with the disk every this many searches.",
        low=1, high=100_000,
    )  # fmt: skip
    max_auto_files: int = setting(
        32, "Changed files that a search indexes first; if more changed, it says so.",
        low=0, high=100_000,
    )  # fmt: skip
    coarse_above: int = setting(
        150_000, "Vectors above which a coarse pass precedes the exact one; 0 means never.",
        low=0, high=1_000_000_000,
    )  # fmt: skip
    drop_after_days: int = setting(
        7, "Days after which a folder's unused index for another preset is deleted; 0: never.",
        low=0, high=36_500,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where indexes are stored: in folders of this machine, or on a server."""

    url: str = setting(
        "",
        "Address of a PostgreSQL server, postgresql://ROLE@HOST/DATABASE; empty means folders.",
        trusted=True,
        server=True,
    )
    read_url: str = setting(
        "", "Address of a replica to read from; empty means the same server.",
        trusted=True, server=True,
    )  # fmt: skip
    connections: int = setting(
        16, "Queries that a process sends to the server at once.", low=1, high=1000, trusted=True
    )
    read_only: bool = setting(
        False, "Answer from the store alone: index nothing, and need no folder.", trusted=True
    )


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """How a folder is watched while a server runs."""

    enabled: bool = setting(True, "Servers watch the folder while they run.")
    strategy: str = setting(
        "realtime",
        "Index at once, at the next search, or at the next commit.",
        choices=("realtime", "lazy", "git"),
    )
    debounce_ms: int = setting(
        300, "Pause in writing that ends a batch of changes.", low=250, high=30_000
    )
    reconcile_seconds: int = setting(
        600, "Compare the whole folder this often; 0 means never.", low=0, high=86_400
    )


@dataclass(frozen=True, slots=True)
class GitSettings:
    """What is read of the history of repositories."""

    history: bool = setting(True, "Make commits searchable where a folder has a repository.")
    max_commits: int = setting(
        100_000, "Read at most this many commits, the newest.", low=1, high=10_000_000
    )
    branches: tuple[str, ...] = setting(
        (), "Globs of the branches and tags to read; empty means all.", patterns=True
    )
    diff_lines: int = setting(200, "Lines of each diff to keep; 0 keeps none.", low=0, high=10_000)
    cool_down_seconds: float = setting(
        5.0, "Pause after a branch moves before its commits are read.", low=0, high=3600
    )
    trusted: tuple[str, ...] = setting(
        (), "Repositories to read despite another owner or links outside: DIR, DIR/* or *.",
        trusted=True,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """Where memories are stored, and how they are ranked."""

    scope: str = setting(
        "project", "Keep memories for each project, or for the user.", choices=("project", "user"),
        trusted=True,
    )  # fmt: skip
    in_project: bool = setting(
        False, "Keep the memories of a project inside it, in memory.project_dir.", trusted=True
    )
    project_dir: str = setting(
        ".lookfar/memory", "Folder of memories inside a project.", trusted=True
    )
    dir: str = setting(
        "",
        "Folder of memories, {project} for one each; empty means the user's data folder.",
        location=True,
        trusted=True,
    )
    recent_days: int = setting(7, "Days for which a new memory is boosted.", low=0, high=36_500)
    recent_factor: float = setting(1.2, "Factor of this boost.", low=1, high=10)


@dataclass(frozen=True, slots=True)
class DocumentsSettings:
    """Where inserted documents are stored, and how they are split."""

    dir: str = setting(
        "",
        "Folder of the databases; empty means the user's data folder.",
        location=True,
        trusted=True,
    )
    chunk_chars: int = setting(
        700, "Characters of a chunk, including its overlap.", low=50, high=100_000, trusted=True
    )
    overlap_chars: int = setting(
        100, "Characters that a chunk repeats from the previous one.",
        low=0, high=50_000, trusted=True,
    )  # fmt: skip
    max_chars: int = setting(100_000, "Reject longer texts.", low=1, high=100_000_000, trusted=True)
    order: str = setting(
        "auto",
        "Find similar texts by vector alone, or also by words; auto: by vector for document-db.",
        choices=("auto", "vector", "hybrid"),
    )


@dataclass(frozen=True, slots=True)
class OutsideSettings:
    """Sources outside the folder: sites, repositories, archives and packages."""

    dir: str = setting(
        "",
        "Folder of what was fetched; empty means the user's data folder.",
        location=True,
        trusted=True,
    )
    max_files: int = setting(
        50_000, "Most files of one source.", low=1, high=10_000_000, trusted=True
    )
    max_bytes: int = setting(
        1_000_000_000, "Most bytes of one source.", low=1_000, high=1_000_000_000_000, trusted=True
    )
    max_pages: int = setting(
        2_000, "Most pages of one web site.", low=1, high=1_000_000, trusted=True
    )
    pause_ms: int = setting(
        100, "Milliseconds between two requests to a web site.", low=0, high=60_000, trusted=True
    )
    packages: str = setting(
        "auto",
        "Index the packages that projects use: on, off, or auto for projects that turned this on.",
        choices=("auto", "on", "off"),
        trusted=True,
    )
    drop_after_days: int = setting(
        30, "Days after which a package that no project uses is removed; 0: never.",
        low=0, high=36_500, trusted=True,
    )  # fmt: skip
    allow_private: bool = setting(
        False, "Also fetch from addresses of this machine and of private networks.", trusted=True
    )
    trusted_keys: tuple[str, ...] = setting(
        (), "Keys whose packs you trust, each after a name: team ssh-ed25519 AAAA...", trusted=True
    )
    require_signed: bool = setting(
        False, "Add only packs that one of outside.trusted_keys signed.", trusted=True
    )


@dataclass(frozen=True, slots=True)
class EditSettings:
    """How documents are edited."""

    single_h1: bool = setting(False, "Report more than one heading of level 1 as a violation.")
    templates: str = setting("", "Folder of templates for new documents, relative to the root.")


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """What servers offer, and how they run."""

    toolset: tuple[str, ...] = setting(
        ("default",), "Tools to offer: default, anvil, document-db, msrl, ragdocs, search-mcp, all."
    )
    results: str = setting(
        "auto",
        "Results as text, as structured data, or as each client needs them (auto).",
        choices=("auto", "text", "structured"),
    )
    offsets: str = setting(
        "characters",
        "Count the offsets of msrl.query in Unicode characters, or in UTF-16 units as JavaScript.",
        choices=("characters", "utf16"),
    )
    underscores: bool = setting(False, "Use underscores instead of dots in tool names.")
    enhanced_descriptions: bool = setting(False, "Use longer tool descriptions.")
    write: bool = setting(False, "Offer tools that write.", trusted=True)
    daemon: bool = setting(True, "Let commands use a running daemon.", trusted=True)
    grep_hint: bool = setting(
        True, "Let the hook of setup mention Lookfar to an agent whose grep found nothing."
    )
    idle_minutes: int = setting(
        15, "The daemon exits after being idle for so long.", low=1, high=10_080, trusted=True
    )
    host: str = setting("127.0.0.1", "Address of the HTTP server.", trusted=True)
    workers: int = setting(
        1, "Processes that answer questions for lookfar serve; 1 means the server itself.",
        low=1, high=64, trusted=True,
    )  # fmt: skip
    port: int = setting(8377, "Port of the HTTP server.", low=0, high=65_535, trusted=True)
    hosts: tuple[str, ...] = setting(
        (), "Additional host names that the HTTP server accepts.", trusted=True
    )
    origins: tuple[str, ...] = setting(
        (), "Origins allowed to call the HTTP server, like https://example.org.", trusted=True
    )
    tokens_file: str = setting(
        "", "File of the tokens; empty means the user's data folder.", location=True, trusted=True
    )
    oauth_issuer: str = setting(
        "", "Issuer whose tokens the HTTP server accepts, exactly as in their claim iss.",
        trusted=True,
    )  # fmt: skip
    oauth_resource: str = setting(
        "", "Address of /mcp as clients see it; empty means that of a server on this machine.",
        trusted=True,
    )  # fmt: skip
    oauth_audience: str = setting(
        "", "Audience that tokens must name; empty means serve.oauth_resource.", trusted=True
    )
    oauth_jwks_url: str = setting(
        "", "Address of the issuer's keys; empty means the one that its metadata names.",
        trusted=True,
    )  # fmt: skip
    oauth_algorithms: tuple[str, ...] = setting(
        ("RS256", "PS256", "ES256", "ES384", "EdDSA"), "Accepted signatures of tokens.",
        trusted=True,
    )  # fmt: skip
    oauth_scope_prefix: str = setting(
        "lookfar:", "Prefix of the scopes in tokens, before read and write.", trusted=True
    )
    oauth_scopes: tuple[str, ...] = setting(
        (), "Scopes that clients should request first; empty means the one for reading everything.",
        trusted=True,
    )  # fmt: skip
    max_body_bytes: int = setting(
        33_554_432, "Reject larger requests.", low=1024, high=1_073_741_824, size=True, trusted=True
    )
    body_seconds: float = setting(
        20.0, "Reject requests that take longer to arrive.", low=0.1, high=3600, trusted=True
    )
    request_seconds: float = setting(
        120.0, "Cancel requests that take longer to answer.", low=0.1, high=86_400, trusted=True
    )
    requests_per_second: float = setting(
        200.0, "Average rate allowed per client; 0 means no limit.", low=0, high=1e6, trusted=True
    )
    max_concurrent: int = setting(
        128, "Maximum requests answered at once.", low=1, high=10_000, trusted=True
    )
    grace_seconds: float = setting(
        10.0, "Seconds that running requests get to finish when the HTTP server stops.",
        low=0, high=3600, trusted=True,
    )  # fmt: skip
    drain_seconds: float = setting(
        0.0, "Seconds to keep accepting requests after SIGTERM, while /readyz answers 503.",
        low=0, high=600, trusted=True,
    )  # fmt: skip
    log_level: str = setting(
        "info", "Log level of the HTTP server.", choices=("debug", "info", "warning", "error"),
        trusted=True,
    )  # fmt: skip
    log_file: str = setting(
        "", "Log file of the HTTP server; empty means stderr.", location=True, trusted=True
    )
    access_log: bool = setting(False, "Log a line for every request and tool call.", trusted=True)
    log_arguments: bool = setting(False, "Also log the arguments of tool calls.", trusted=True)
    metrics: bool = setting(False, "Serve Prometheus metrics at /metrics.", trusted=True)
    traces: bool = setting(False, "Send OpenTelemetry traces.", trusted=True)


@dataclass(frozen=True, slots=True)
class ForeignNote:
    """A setting or a file of another system that has no effect, and why."""

    place: str
    """The file, or the name of a variable."""
    key: str
    """Their setting; empty if the whole file has no effect."""
    reason: str

    def __str__(self) -> str:
        parts = dict.fromkeys((self.place, self.key)) if self.key else ()
        return ": ".join((*parts, self.reason))


@dataclass(frozen=True, slots=True)
class ForeignConfig:
    """What was read of the configuration of the system whose toolset is served."""

    system: str = ""
    files: tuple[Path, ...] = ()
    """The files that exist."""
    watched: tuple[Path, ...] = ()
    """The files that are read if they exist."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Where a setting of ours comes from, by its key."""
    notes: tuple[ForeignNote, ...] = ()
    enabled: bool = True
    """False if that configuration says to offer no tools."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting, resolved. ``origin`` maps a dotted key to the layer that set it."""

    preset: str = setting(
        "",
        "Start from the defaults of another system. Naming one toolset chooses its preset.",
        choices=("", *PRESETS),
    )
    sources: SourcesSettings = SourcesSettings()
    chunk: ChunkSettings = ChunkSettings()
    embed: EmbedSettings = EmbedSettings()
    quality: QualitySettings = QualitySettings()
    search: SearchSettings = SearchSettings()
    index: IndexSettings = IndexSettings()
    store: StoreSettings = StoreSettings()
    watch: WatchSettings = WatchSettings()
    git: GitSettings = GitSettings()
    memory: MemorySettings = MemorySettings()
    edit: EditSettings = EditSettings()
    documents: DocumentsSettings = DocumentsSettings()
    outside: OutsideSettings = OutsideSettings()
    serve: ServeSettings = ServeSettings()
    origin: Mapping[str, Layer] = field(default_factory=dict, compare=False)
    foreign: ForeignConfig = field(default_factory=ForeignConfig, compare=False)
