"""Settings: the only reader of the environment and of TOML files.

Takes: a folder's ``lookfar.toml``, the user's own file, ``LOOKFAR_*``
variables and explicit arguments. Gives: one frozen :class:`Settings` in which
every value is checked and complete, and which knows who set what. Refuses
(``InvalidConfig``): unknown keys, wrong types, values out of range, settings
that contradict each other, and a folder's own file that reaches for more than
its folder: that file comes with whatever was cloned, so it is not trusted.

Layers, weakest first: default, preset, user file, project file, environment,
explicit. Values that nobody set bend to those that somebody set (a larger
``chunk.max_tokens`` raises ``chunk.hard_max_tokens``), so that one change
rarely needs a second; their origin then reads ``derived``.

The fields of the section classes are the one table of settings: key, default,
range and description stand there, and :func:`describe` reads them back.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, NoReturn, TypeVar, cast

from lookfar.errors import InvalidConfig, from_os_error

Layer = Literal["default", "preset", "user", "project", "environment", "explicit", "derived"]
Value = str | int | float | bool | tuple[str, ...]
T = TypeVar("T")

PROJECT_FILE: Final = "lookfar.toml"
USER_FILE_VARIABLE: Final = "LOOKFAR_CONFIG"
TOKENS_VARIABLE: Final = "LOOKFAR_TOKENS"
"""No setting, since settings are shown to whoever asks for them."""
_PREFIX: Final = "LOOKFAR_"

DEEP_KEY: Final = re.compile(
    r"(?:^|[\[{,])[ \t]*(?:(?:[\w-]+|\"[^\"\n]*\"|'[^'\n]*')[ \t]*\.[ \t]*){20,}", re.MULTILINE
)
"""A key of TOML of more than 20 parts, as in ``a.b.c = 1``: tomllib takes the square of their
number to read it, and a file of 40 KB would hold us for ten seconds."""
HUB_NAME: Final = re.compile(r"[A-Za-z0-9][\w-]*/[A-Za-z0-9][\w.-]*(@[\w.-]+)?")
"""A model of the hub: OWNER/NAME, perhaps with @REVISION."""
_SERVER: Final = re.compile(r"postgres(ql)?://")
_PASSWORD: Final = re.compile(r"//[^/@]*:[^/@]*@|[?&](ssl)?password=")
_EACH_PROJECT: Final = "{project}"
"""Stands in ``memory.dir`` for a name that each project has of its own."""
_MAX_FILE_BYTES: Final = 256 * 1024
_SET_BY_SOMEBODY: Final = frozenset({"user", "project", "environment", "explicit"})
_ELSEWHERE: Final = (
    "Set it in your own configuration file, as the environment variable {variable}, "
    "or as an explicit argument."
)


class _Rule(NamedTuple):
    """What one setting accepts."""

    description: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    size: bool = False
    """A number of bytes, which may be written ``"500KB"``."""
    location: bool = False
    """Names a place on this machine: made absolute when resolved."""
    patterns: bool = False
    """Holds globs, which in a project file must stay inside the project."""
    trusted: bool = False
    """Only a person may set it, never the file that lies in the indexed folder."""
    server: bool = False
    """The address of a database server, in which no password may stand: settings are shown."""


def _setting(default: T, description: str, **rule: Any) -> T:
    return field(default=default, metadata={"rule": _Rule(description, **rule)})


@dataclass(frozen=True, slots=True)
class SourcesSettings:
    """Which files are read."""

    include: tuple[str, ...] = _setting(
        (),
        "Globs of the files to read; empty means every format that is understood.",
        patterns=True,
    )
    exclude: tuple[str, ...] = _setting((), "Globs of files and folders to skip.", patterns=True)
    respect_ignore_files: bool = _setting(True, "Skip what .gitignore files exclude.")
    max_file_bytes: int = _setting(
        1_048_576, "Skip larger files.", low=1, high=1_073_741_824, size=True
    )
    max_files: int = _setting(50_000, "Read at most this many files.", low=1, high=10_000_000)
    max_depth: int = _setting(20, "Descend at most this many folders.", low=1, high=200)
    allow_hard_links: bool = _setting(
        False, "Read files that have further names, perhaps outside the folder.", trusted=True
    )
    allow_secrets: tuple[str, ...] = _setting(
        (),
        "Globs of files that hold no secrets although they look so: read in full.",
        patterns=True,
        trusted=True,
    )


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """How documents are cut into the pieces that are searched."""

    max_tokens: int = _setting(450, "Size that a chunk is filled up to.", low=16, high=32_000)
    hard_max_tokens: int = _setting(
        600, "Size that only an unbreakable block may exceed.", low=16, high=64_000
    )
    min_tokens: int = _setting(100, "Smaller chunks are joined to a neighbour.", low=0, high=16_000)
    overlap_tokens: int = _setting(
        0, "Tokens that a chunk repeats from the one before it.", low=0, high=16_000
    )
    merge_small: bool = _setting(True, "Join chunks below the smallest size to a neighbour.")
    code_max_tokens: int = _setting(
        0, "Size of a chunk of code; 0 means as of other documents.", low=0, high=32_000
    )
    code_overlap_tokens: int = _setting(
        -1, "Tokens that a part of code repeats; -1 means as in other documents.",
        low=-1, high=16_000,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class EmbedSettings:
    """What turns text into vectors."""

    provider: str = _setting(
        "static",
        "Kind of embedding model; none searches by keyword only.",
        choices=("static", "onnx", "remote", "hash", "none"),
        trusted=True,
    )
    model: str = _setting(
        "",
        "Path of a model, its name on the hub (onnx), or as the service calls it (remote).",
        location=True,
        trusted=True,
    )
    code_provider: str = _setting(
        "",
        "Kind of a second model, for code alone; empty means as for documents.",
        choices=("", "static", "onnx", "remote", "hash"),
        trusted=True,
    )
    code_model: str = _setting(
        "", "The second model, named like the first; empty means one for all.",
        location=True, trusted=True,
    )  # fmt: skip
    query_prefix: str = _setting(
        "auto", "Text before each question; auto means the model's own.", trusted=True
    )
    passage_prefix: str = _setting(
        "auto", "Text before each passage; auto means the model's own.", trusted=True
    )
    max_tokens: int = _setting(
        0, "Cut what is embedded to so many tokens; 0 means the model's own limit.",
        low=0, high=131_072, trusted=True,
    )  # fmt: skip
    batch: int = _setting(
        0, "Texts that a local model takes at once; 0 means 32, and 64 on a GPU.",
        low=0, high=1024, trusted=True,
    )  # fmt: skip
    threads: int = _setting(
        0, "Threads of a local model; 0 means all cores.", low=0, high=256, trusted=True
    )
    device: str = _setting(
        "auto", "Where a local model runs.", choices=("auto", "cpu", "cuda"), trusted=True
    )
    precision: str = _setting(
        "auto",
        "Weights of a local model; auto takes int8 where the model has them.",
        choices=("auto", "fp32", "int8"),
        trusted=True,
    )
    models_dir: str = _setting(
        "",
        "Folder of fetched models; empty means the user's data folder.",
        location=True,
        trusted=True,
    )
    hub: str = _setting("https://huggingface.co", "Where models are fetched from.", trusted=True)
    offline: bool = _setting(False, "Never fetch a model.", trusted=True)
    base_url: str = _setting(
        "https://api.openai.com/v1", "Address of a remote service, without /embeddings.",
        trusted=True,
    )  # fmt: skip
    key_env: str = _setting(
        "",
        "Variable with the key of the service; empty: OPENAI_API_KEY, for OpenAI alone.",
        trusted=True,
    )
    dimensions: int = _setting(
        0, "Length of vectors to ask a remote service for; 0 means the model's own.",
        low=0, high=16_384, trusted=True,
    )  # fmt: skip
    request_batch: int = _setting(
        100, "Most texts in one request to a remote service.", low=1, high=100, trusted=True
    )
    timeout_seconds: float = _setting(
        60.0, "How long a remote service may take to answer.", low=0.1, high=3600, trusted=True
    )
    retries: int = _setting(
        4, "How often a failed request is tried again.", low=0, high=20, trusted=True
    )


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How questions are answered."""

    mode: str = _setting(
        "hybrid", "Search by meaning, by words, or both.", choices=("hybrid", "vector", "keyword")
    )
    top_k: int = _setting(10, "Number of hits in an answer.", low=1, high=1000)
    vector_weight: float = _setting(0.3, "Share of meaning in a hybrid score.", low=0, high=1)
    keyword_weight: float = _setting(0.7, "Share of words in a hybrid score.", low=0, high=1)
    code_vector_weight: float = _setting(
        0.8, "Share of meaning in the hybrid score of code.", low=0, high=1
    )
    alpha: float = _setting(
        -1.0, "Share of meaning in every hybrid score; -1 means as the weights say.",
        low=-1, high=1,
    )  # fmt: skip
    fusion: str = _setting(
        "weighted",
        "Mix scores (weighted) or ranks (rrf) of the ways of searching.",
        choices=("weighted", "rrf"),
    )
    rrf_k: int = _setting(60, "The constant k of rank fusion.", low=1, high=10_000)
    dynamic_weights: bool = _setting(
        False, "A way of searching whose scores hardly differ counts less."
    )
    variance_threshold: float = _setting(
        0.1, "Variance of scores below which it does.", low=0, high=1
    )
    min_weight_factor: float = _setting(0.1, "The least that it counts then.", low=0, high=1)
    page_share: float = _setting(
        0.6, "Share of the whole document, not only the chunk, in a score.", low=0, high=1
    )
    name_boost: float = _setting(
        0.05, "Lift for words found in title, headings or path.", low=0, high=1
    )
    per_document: int = _setting(
        3, "Most hits from one document; 0 means any number.", low=0, high=1000
    )
    merge_gap: int = _setting(
        200, "Join hits of a document at most this many characters apart.", low=0, high=100_000
    )
    max_excerpt_chars: int = _setting(
        4000, "Cut an excerpt to this many characters.", low=50, high=1_000_000
    )
    candidates: int = _setting(
        100, "Chunks that each way of searching puts forward.", low=1, high=100_000
    )
    doubt: bool = _setting(True, "Say so where nothing found seems to be about the question.")
    code_names: str = _setting(
        "lift",
        "Judge names of code by a lift, or by Search MCP's ladder of factors.",
        choices=("lift", "ladder"),
    )
    code_kind: float = _setting(
        1.3, "Factor for functions or classes where a question asks for such.", low=1, high=10
    )
    code_topic: float = _setting(
        1.05, "Factor for code that is about errors, databases ... as the question is.",
        low=1, high=10,
    )  # fmt: skip
    code_docstring: float = _setting(1.02, "Factor for documented code.", low=1, high=10)
    code_sizes: bool = _setting(True, "Very large pieces of code count less.")
    comments: bool = _setting(
        True, "Comments and docstrings of code answer where only documentation is asked."
    )
    commits_weight: float = _setting(
        0.5, "What a commit counts beside a document, unless history is asked for.", low=0, high=1
    )
    # Which passages are shown, in the order in which it is decided.
    min_confidence: float = _setting(
        0.0, "Drop hits that score less than this share of the best.", low=0, high=1
    )
    dedup_exact: bool = _setting(True, "Show passages with the same text once.")
    dedup_ngram: bool = _setting(False, "Fold a passage whose words a better one has.")
    ngram_threshold: float = _setting(
        0.8, "Share of its rows of three words that a better one must have.", low=0.1, high=1
    )
    dedup_semantic: bool = _setting(False, "Fold a passage that means what a better one means.")
    semantic_threshold: float = _setting(
        0.85, "Cosine from which two passages mean the same.", low=0.1, high=1
    )
    mmr: bool = _setting(False, "Prefer hits that are unlike those before them.")
    mmr_lambda: float = _setting(
        0.7, "What relevance counts there; the rest is difference.", low=0.05, high=1
    )
    rerank: bool = _setting(
        False, "Order the best again by a model that reads question and text together.",
        trusted=True,
    )  # fmt: skip
    rerank_model: str = _setting(
        "cross-encoder/ms-marco-MiniLM-L-6-v2",
        "That model: a cross-encoder with an ONNX file, as a folder or by its name on the hub.",
        location=True,
        trusted=True,
    )
    rerank_top: int = _setting(20, "Passages that it reads.", low=1, high=200)
    parents: bool = _setting(False, "Widen hits to the section around them.")
    parent_max_chars: int = _setting(
        2000, "Unless that is longer than this many characters.", low=50, high=1_000_000
    )
    # What lifts a document beside its words: what the best ones lead to, and how new it is.
    neighbours: int = _setting(
        3, "Best documents that lift what they lead to; 0 means none does.", low=0, high=100
    )
    link_lift: float = _setting(
        0.1, "Share of its score that a document lends to those it links to.", low=0, high=1
    )
    below_lift: float = _setting(
        0.25, "Share that a page lends to those in the folder of its name.", low=0, high=1
    )
    edge_implements: float = _setting(
        1.0, "What a link under a heading Implementation counts beside others.", low=0, high=10
    )
    edge_tests: float = _setting(0.5, "What a link in a test file counts.", low=0, high=10)
    edge_related: float = _setting(
        0.5, "What a link under a heading See also counts.", low=0, high=10
    )
    edge_transclusion: float = _setting(
        1.0, "What a page shown within another counts.", low=0, high=10
    )
    join_neighbours: bool = _setting(
        False, "What the best ones link to joins the answer, also where no word of it matches."
    )
    neighbour_score: float = _setting(0.5, "Share of the score that it joins with.", low=0, high=1)
    communities: bool = _setting(
        False, "Documents that belong together with the best by their links count more."
    )
    community_factor: float = _setting(1.1, "How much more.", low=1, high=10)
    community_seeds: int = _setting(
        1, "Best documents whose communities these are.", low=1, high=100
    )
    recency: bool = _setting(False, "Documents that were changed lately count more.")
    recency_days: int = _setting(7, "Days for which they count most.", low=0, high=36_500)
    recency_factor: float = _setting(1.2, "How much more.", low=1, high=10)
    recency_late_days: int = _setting(
        30, "Days after which they count like all others.", low=0, high=36_500
    )
    recency_late_factor: float = _setting(1.1, "How much more until then.", low=1, high=10)
    # How a question is read and widened, and what a word counts in each field.
    typos: bool = _setting(True, "Search for the nearest known word where a word is unknown.")
    adaptive: bool = _setting(True, "The share of meaning follows the kind of the question.")
    hypothesis: bool = _setting(True, "Search by the meaning of a made-up answer when given one.")
    phrase_boost: float = _setting(
        0.1, "Lift for words that stand beside each other as in the question.", low=0, high=1
    )
    verbatim: bool = _setting(
        True, "Put first what holds most of the question word for word, where few documents do."
    )
    expansion: bool = _setting(True, "Widen questions by synonyms of unknown words.")
    expand_known: bool = _setting(False, "Also by synonyms of words that are written here.")
    max_expansions: int = _setting(10, "Synonyms of a question at most.", low=0, high=100)
    synonyms: tuple[str, ...] = _setting((), "Your own synonyms, like fe=frontend.")
    expansion_weight: float = _setting(
        0.001, "Lift for a synonym in place of a word that is known.", low=0, high=1
    )
    concepts: bool = _setting(False, "Widen questions by the nearest terms of the corpus.")
    concept_terms: int = _setting(3, "How many terms.", low=1, high=50)
    concept_threshold: float = _setting(
        0.4, "Cosine from which a term is near to a question.", low=0, high=1
    )
    title_weight: float = _setting(0.5, "What a word in the title counts.", low=0, high=100)
    path_weight: float = _setting(0.3, "The same in the path.", low=0, high=100)
    headings_weight: float = _setting(0.25, "The same in the headings.", low=0, high=100)
    tags_weight: float = _setting(0.5, "The same in the tags.", low=0, high=100)
    aliases_weight: float = _setting(0.5, "The same in the aliases.", low=0, high=100)
    keywords_weight: float = _setting(
        0.5, "The same in the keywords of the front matter.", low=0, high=100
    )
    description_weight: float = _setting(
        0.5, "The same in the description of the front matter.", low=0, high=100
    )
    body_weight: float = _setting(1.0, "The same in the text.", low=0, high=100)
    code_weight: float = _setting(1.0, "The same in code.", low=0, high=100)


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Where the index lies and how it is kept."""

    dir: str = _setting(
        "",
        "Folder of the indexes; empty means the user's data folder.",
        location=True,
        trusted=True,
    )
    retain_generations: int = _setting(3, "Earlier states of an index to keep.", low=1, high=1000)
    workers: int = _setting(0, "Processes that build an index; 0 means all cores.", low=0, high=256)
    check_every_searches: int = _setting(
        1, "Unwatched, compare with the disk at every such search.", low=1, high=100_000
    )
    max_auto_files: int = _setting(
        32, "Changed files that a search indexes first; more are admitted.", low=0, high=100_000
    )
    coarse_above: int = _setting(
        500_000, "Vectors above which a coarse pass comes before the exact one; 0 means never.",
        low=0, high=1_000_000_000,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where indexes are kept: in folders of this machine, or on a server."""

    url: str = _setting(
        "",
        "Address of a PostgreSQL server, postgresql://ROLE@HOST/DATABASE; empty means folders.",
        trusted=True,
        server=True,
    )
    read_url: str = _setting(
        "", "The same of a replica to read from; empty means as written to.",
        trusted=True, server=True,
    )  # fmt: skip
    connections: int = _setting(
        16, "Questions that a process asks a server at once.", low=1, high=1000, trusted=True
    )
    read_only: bool = _setting(
        False, "Answer from the store alone: index nothing, and need no folder.", trusted=True
    )


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """How a folder is followed while a program runs."""

    enabled: bool = _setting(True, "Servers follow the folder while they run.")
    strategy: str = _setting(
        "realtime",
        "Index at once, at the next search, or at the next commit.",
        choices=("realtime", "lazy", "git"),
    )
    debounce_ms: int = _setting(
        300, "Pause in writing that ends a batch of changes.", low=250, high=30_000
    )
    reconcile_seconds: int = _setting(
        600, "Compare the whole folder this often; 0 means never.", low=0, high=86_400
    )


@dataclass(frozen=True, slots=True)
class GitSettings:
    """What is read of the history of repositories."""

    history: bool = _setting(True, "Make commits searchable where a folder has a repository.")
    max_commits: int = _setting(
        100_000, "Read at most this many commits, the newest.", low=1, high=10_000_000
    )
    branches: tuple[str, ...] = _setting(
        (), "Globs of the branches and tags to read; empty means all.", patterns=True
    )
    diff_lines: int = _setting(200, "Lines of each diff to keep; 0 keeps none.", low=0, high=10_000)
    cool_down_seconds: float = _setting(
        5.0, "Pause after branches moved before their commits are read.", low=0, high=3600
    )
    trusted: tuple[str, ...] = _setting(
        (), "Repositories to read although others own them or they lead outside: DIR, DIR/* or *.",
        trusted=True,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """Where memories lie, and what they count."""

    scope: str = _setting(
        "project", "Memories of each project, or of the user.", choices=("project", "user"),
        trusted=True,
    )  # fmt: skip
    in_project: bool = _setting(
        False, "Keep those of a project inside it, in .lookfar/memory.", trusted=True
    )
    dir: str = _setting(
        "",
        "Folder of the memories, {project} for one each; empty means the user's data folder.",
        location=True,
        trusted=True,
    )
    recent_days: int = _setting(7, "Memories made so lately count more.", low=0, high=36_500)
    recent_factor: float = _setting(1.2, "How much more.", low=1, high=10)


@dataclass(frozen=True, slots=True)
class DocumentsSettings:
    """Where inserted documents lie, and how they are cut."""

    dir: str = _setting(
        "",
        "Folder of the databases; empty means the user's data folder.",
        location=True,
        trusted=True,
    )
    chunk_chars: int = _setting(
        700, "Characters of a chunk, what it repeats included.", low=50, high=100_000, trusted=True
    )
    overlap_chars: int = _setting(
        100, "Characters that a chunk repeats from the one before it.",
        low=0, high=50_000, trusted=True,
    )  # fmt: skip
    max_chars: int = _setting(
        100_000, "Refuse longer texts.", low=1, high=100_000_000, trusted=True
    )


@dataclass(frozen=True, slots=True)
class EditSettings:
    """How documents are edited."""

    single_h1: bool = _setting(False, "Take more than one heading of level 1 for a violation.")
    templates: str = _setting("", "Folder of templates for new documents, below the root.")


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """What servers offer, and how they run."""

    toolset: tuple[str, ...] = _setting(
        ("default",), "Tools to offer: default, anvil, document-db, msrl, ragdocs, search-mcp, all."
    )
    results: str = _setting(
        "auto",
        "Texts for models, data for programs, or each its own (auto).",
        choices=("auto", "text", "structured"),
    )
    underscores: bool = _setting(False, "Write the dots in names of tools as underscores.")
    enhanced_descriptions: bool = _setting(False, "Longer descriptions of tools.")
    write: bool = _setting(False, "Offer tools that write.", trusted=True)
    daemon: bool = _setting(True, "Commands ask a daemon that runs.", trusted=True)
    idle_minutes: int = _setting(
        15, "The daemon leaves when nobody needed it for so long.", low=1, high=10_080, trusted=True
    )
    host: str = _setting("127.0.0.1", "Address that HTTP is served at.", trusted=True)
    port: int = _setting(8377, "Port that HTTP is served at.", low=0, high=65_535, trusted=True)
    hosts: tuple[str, ...] = _setting(
        (), "Further names that the HTTP server answers to.", trusted=True
    )
    origins: tuple[str, ...] = _setting(
        (), "Sites whose pages may ask the HTTP server, like https://example.org.", trusted=True
    )
    tokens_file: str = _setting(
        "", "File of the tokens; empty means the user's data folder.", location=True, trusted=True
    )
    max_body_bytes: int = _setting(
        33_554_432, "Refuse larger requests.", low=1024, high=1_073_741_824, size=True, trusted=True
    )
    body_seconds: float = _setting(
        20.0, "Refuse requests that take longer to arrive.", low=0.1, high=3600, trusted=True
    )
    request_seconds: float = _setting(
        120.0, "Give up requests that take longer to answer.", low=0.1, high=86_400, trusted=True
    )
    requests_per_second: float = _setting(
        200.0, "Of each client, on average; 0 means any number.", low=0, high=1e6, trusted=True
    )
    max_concurrent: int = _setting(
        128, "Requests that are answered at once.", low=1, high=10_000, trusted=True
    )
    log_level: str = _setting(
        "info", "What the HTTP server logs.", choices=("debug", "info", "warning", "error"),
        trusted=True,
    )  # fmt: skip
    log_file: str = _setting(
        "", "File that the HTTP server logs to; empty means stderr.", location=True, trusted=True
    )
    log_arguments: bool = _setting(False, "Log what tools are asked, too.", trusted=True)
    metrics: bool = _setting(False, "Show figures for Prometheus at /metrics.", trusted=True)
    traces: bool = _setting(False, "Send traces by OpenTelemetry.", trusted=True)


PRESETS: Final[Mapping[str, Mapping[str, Value]]] = {
    "anvil": {
        "chunk.max_tokens": 1500,
        "chunk.hard_max_tokens": 1500,
        "chunk.min_tokens": 50,
        "chunk.overlap_tokens": 0,
        "chunk.merge_small": True,
    },
    "msrl": {
        "chunk.max_tokens": 1000,
        "chunk.hard_max_tokens": 1200,
        "chunk.min_tokens": 200,
        "chunk.overlap_tokens": 100,
        "search.vector_weight": 0.75,
        "search.keyword_weight": 0.25,
        "search.top_k": 8,
        "search.max_excerpt_chars": 4000,
        "search.merge_gap": 200,
        "index.retain_generations": 3,
        "watch.debounce_ms": 2000,
    },
    "search-mcp": {
        "sources.max_file_bytes": 1_048_576,
        "sources.max_files": 50_000,
        "sources.max_depth": 20,
        "chunk.max_tokens": 2000,
        "chunk.hard_max_tokens": 2000,
        "chunk.overlap_tokens": 500,
        "chunk.code_max_tokens": 1000,
        "chunk.code_overlap_tokens": 200,
        "search.vector_weight": 0.5,
        "search.keyword_weight": 0.5,
        "search.fusion": "rrf",
        "search.code_names": "ladder",
        "search.expand_known": True,
        "search.code_docstring": 1.05,
        "search.top_k": 10,
        "index.check_every_searches": 10,
        "index.max_auto_files": 5,
        "watch.debounce_ms": 500,
    },
    "document-db": {
        # 700 characters with an overlap of 100, at four characters to a token.
        "chunk.max_tokens": 175,
        "chunk.hard_max_tokens": 175,
        "chunk.overlap_tokens": 25,
        "search.top_k": 10,
    },
    "ragdocs": {
        "search.title_weight": 3.0,
        "search.headings_weight": 2.5,
        "search.keywords_weight": 2.5,
        "search.description_weight": 2.0,
        "search.tags_weight": 2.0,
        "search.aliases_weight": 1.5,
        "search.concepts": True,
        "search.join_neighbours": True,
        "search.communities": True,
        "search.community_seeds": 3,
        "search.recency": True,
    },
}
"""The sizes that each of the systems we stand in for uses by default."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting, resolved. ``origin`` maps a dotted key to the layer that set it."""

    preset: str = _setting("", "Defaults of another system to start from.", choices=("", *PRESETS))
    sources: SourcesSettings = SourcesSettings()
    chunk: ChunkSettings = ChunkSettings()
    embed: EmbedSettings = EmbedSettings()
    search: SearchSettings = SearchSettings()
    index: IndexSettings = IndexSettings()
    store: StoreSettings = StoreSettings()
    watch: WatchSettings = WatchSettings()
    git: GitSettings = GitSettings()
    memory: MemorySettings = MemorySettings()
    edit: EditSettings = EditSettings()
    documents: DocumentsSettings = DocumentsSettings()
    serve: ServeSettings = ServeSettings()
    origin: Mapping[str, Layer] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class SettingDoc:
    """One row of the reference: all that a person needs to know about a setting."""

    key: str
    variable: str
    """The environment variable that sets it."""
    type: str
    default: Value
    description: str
    range: tuple[float, float] | None
    choices: tuple[str, ...]
    presets: Mapping[str, Value]
    """The value under each preset that changes it."""
    project_file: bool
    """Whether a folder's own ``lookfar.toml`` may set it."""


class _Given(NamedTuple):
    """A raw value and where it was written."""

    key: str
    value: object
    layer: Layer
    place: str
    """For people: a file's path, a variable's name, or ``arguments``."""


_SECTIONS: Final[Mapping[str, type]] = {
    "sources": SourcesSettings,
    "chunk": ChunkSettings,
    "embed": EmbedSettings,
    "search": SearchSettings,
    "index": IndexSettings,
    "store": StoreSettings,
    "watch": WatchSettings,
    "serve": ServeSettings,
    "git": GitSettings,
    "memory": MemorySettings,
    "edit": EditSettings,
    "documents": DocumentsSettings,
}


def _table() -> Iterator[tuple[str, _Rule, Value]]:
    for section, cls in {"": Settings, **_SECTIONS}.items():
        for item in fields(cls):
            if "rule" in item.metadata:
                key = f"{section}.{item.name}" if section else item.name
                yield key, item.metadata["rule"], cast(Value, item.default)


_RULES: Final = {key: rule for key, rule, _ in _table()}
_DEFAULTS: Final = {key: default for key, _, default in _table()}
_VARIABLES: Final = {_PREFIX + key.replace(".", "_").upper(): key for key in _RULES}


def load(
    root: Path | None,
    explicit: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Resolve the settings for the folder ``root`` (``None``: for no folder).

    ``explicit`` holds dotted keys, nested mappings or both; ``None`` as a value
    means "not given". ``environ`` replaces the process environment.
    """
    env = os.environ if environ is None else environ
    # A variable of this process may be older than its last change of folder.
    here = Path() if environ is None else Path(env.get("PWD", ""))
    given = [
        *_from_user_file(env),
        *(_from_project_file(root) if root is not None else ()),
        *_from_environment(env),
        *_flatten(explicit or {}, "explicit", "arguments"),
    ]
    return _resolved([(item, _checked(item)) for item in given], env, here)


def _resolved(checked: list[tuple[_Given, Value]], env: Mapping[str, str], here: Path) -> Settings:
    """One value for each setting, by what was given, weakest first."""
    values = dict(_DEFAULTS)
    origin: dict[str, Layer] = dict.fromkeys(values, "default")
    preset = next((value for item, value in reversed(checked) if item.key == "preset"), "")
    for key, value in PRESETS.get(str(preset), {}).items():
        values[key], origin[key] = value, "preset"
    for item, value in checked:
        if _RULES[item.key].location and not _is_a_name(item.key, str(value), checked):
            value = _absolute(str(value), item, env, here)
        values[item.key], origin[item.key] = value, item.layer

    _bend(values, origin)
    _reject_contradictions(values, origin)
    values["index.dir"] = values["index.dir"] or str(data_dir(env))
    values["embed.models_dir"] = values["embed.models_dir"] or str(data_dir(env) / "models")
    values["documents.dir"] = values["documents.dir"] or str(data_dir(env) / "documents")
    values["memory.dir"] = values["memory.dir"] or str(data_dir(env) / "memory" / _EACH_PROJECT)
    return _build(values, origin)


def files_for(root: Path, environ: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """The files that the settings of a folder are read from, whether or not they exist."""
    return config_file(environ), root / PROJECT_FILE


def describe() -> list[SettingDoc]:
    """Every setting in the order of the table, for documentation and ``lookfar config``."""
    return [
        SettingDoc(
            key=key,
            variable=_PREFIX + key.replace(".", "_").upper(),
            type=_type_name(key),
            default=default,
            description=rule.description,
            range=None if rule.low is None or rule.high is None else (rule.low, rule.high),
            choices=rule.choices,
            presets={
                name: preset[key]
                for name, preset in PRESETS.items()
                if preset.get(key, default) != default
            },
            project_file=not rule.trusted,
        )
        for key, rule, default in _table()
    ]


def problems(
    text: str, path: Path, *, project: bool = False, environ: Mapping[str, str] | None = None
) -> list[InvalidConfig]:
    """All that is wrong with the text of a settings file, in its order; with ``project`` it is
    that of a folder. What contradicts something else is told where nothing else is wrong."""
    layer: Layer = "project" if project else "user"
    env = os.environ if environ is None else environ
    try:
        raw = parse_toml(text, path)
    except InvalidConfig as error:
        return [error]
    found: list[InvalidConfig] = []
    checked: list[tuple[_Given, Value]] = []
    for name, value in raw.items():
        inner = {f"{name}.{key}": each for key, each in value.items()} if (
            name in _SECTIONS and isinstance(value, Mapping)
        ) else {name: value}  # fmt: skip
        for key, each in inner.items():
            try:
                checked += [
                    (item, _checked(item)) for item in _flatten({key: each}, layer, str(path))
                ]
            except InvalidConfig as error:
                found.append(error)
    if not found:
        try:
            _resolved(checked, env, Path())
        except InvalidConfig as error:
            found.append(error)
    return found


def checked_value(key: str, value: object) -> Value:
    """A value in the type of its setting; ``InvalidConfig`` where it cannot be one."""
    return _checked(_Given(known_key(key), value, "explicit", "arguments"))


def known_key(name: str) -> str:
    """A key that is a setting; anything else is refused, with the one that may be meant."""
    if name not in _RULES:
        _unknown(name, list(_RULES), "explicit", "the command line")
    return name


def origin_of(
    key: str, settings: Settings, root: Path | None, environ: Mapping[str, str] | None = None
) -> str:
    """Where the value of a setting comes from, for people; empty for a default."""
    return {
        "user": str(config_file(environ)),
        "project": str(root / PROJECT_FILE) if root else PROJECT_FILE,
        "environment": _PREFIX + key.replace(".", "_").upper(),
        "explicit": "--set",
        "preset": f'preset = "{settings.preset}"',
        "derived": "follows other settings",
    }.get(settings.origin[key], "")


def file_text(path: Path, *, project: bool = False) -> str | None:
    """The text of a settings file; None where there is none."""
    return _read(path, follow_links=not project)


def colours_wanted(terminal: bool, environ: Mapping[str, str] | None = None) -> bool:
    """Whether to colour what goes to a stream: ``NO_COLOR`` and ``FORCE_COLOR`` win over what
    the stream is."""
    env = os.environ if environ is None else environ
    if env.get("NO_COLOR"):
        return False
    return bool(env.get("FORCE_COLOR")) or (terminal and env.get("TERM") != "dumb")


def values(settings: Settings) -> dict[str, Value]:
    """The settings as dotted keys, in the order of the table."""
    result: dict[str, Value] = {}
    for key in _RULES:
        section, _, name = key.rpartition(".")
        result[key] = getattr(getattr(settings, section) if section else settings, name)
    return result


def data_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The folder for indexes when ``index.dir`` is not set."""
    return _platform_dir(environ, "XDG_DATA_HOME", ".local/share", "LOCALAPPDATA", "Local")


def secret(name: str, environ: Mapping[str, str] | None = None) -> str:
    """What the variable called ``name`` holds; empty where there is none. For keys, which stand
    in no file of ours and are asked for when they are used."""
    env = os.environ if environ is None else environ
    return env.get(name, "").strip()


def silence_telemetry() -> None:
    """Before onnxruntime is imported: it would write an event database under the user's cache."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"


def memory_folder(settings: Settings, root: str | Path) -> Path:
    """The folder that holds what is remembered of ``root``: the one that somebody chose, or one
    of its own."""
    import hashlib

    chosen = settings.memory
    if _EACH_PROJECT not in chosen.dir:
        return Path(chosen.dir)
    if chosen.scope == "user":
        return Path(chosen.dir.replace(_EACH_PROJECT, "user"))
    if chosen.in_project:
        return Path(root) / ".lookfar" / "memory"
    real = os.path.realpath(root)
    key = hashlib.sha256(real.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    name = re.sub(r"[^a-z0-9]+", "-", Path(real).name.lower()).strip("-") or "folder"
    return Path(chosen.dir.replace(_EACH_PROJECT, f"{name}-{key}"))


def tokens_file(chosen: ServeSettings, environ: Mapping[str, str] | None = None) -> Path:
    """The file that holds the tokens of servers, whether or not it exists."""
    return Path(chosen.tokens_file) if chosen.tokens_file else data_dir(environ) / "tokens.json"


def given_tokens(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The tokens that the environment gives to a server, as they are written there."""
    env = os.environ if environ is None else environ
    return tuple(part.strip() for part in env.get(TOKENS_VARIABLE, "").split(",") if part.strip())


def child_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment that a child process of ours starts with."""
    return {**os.environ, **extra}


def sudo_user(environ: Mapping[str, str] | None = None) -> int | None:
    """The number of the user who runs us by sudo, as git reads it; None where nobody does."""
    given = (os.environ if environ is None else environ).get("SUDO_UID", "")
    return int(given) if given.isascii() and given.isdigit() else None


def config_file(environ: Mapping[str, str] | None = None) -> Path:
    """The user's own configuration file, whether or not it exists."""
    env = os.environ if environ is None else environ
    if named := env.get(USER_FILE_VARIABLE):
        return _expanded(named, env)
    folder = _platform_dir(env, "XDG_CONFIG_HOME", ".config", "APPDATA", "Roaming")
    return folder / "config.toml"


# --- where raw values come from ---------------------------------------------------------------


def _from_user_file(env: Mapping[str, str]) -> Iterator[_Given]:
    path = config_file(env)
    text = _read(path, follow_links=True)
    if text is not None:
        yield from _flatten(parse_toml(text, path), "user", str(path))
    elif env.get(USER_FILE_VARIABLE):
        raise InvalidConfig(
            f"The configuration file {path} does not exist.",
            hint=f"Create it, or correct or unset {USER_FILE_VARIABLE}.",
            details={"file": str(path), "key": USER_FILE_VARIABLE},
        )


def _from_project_file(root: Path) -> Iterator[_Given]:
    path = root / PROJECT_FILE
    text = _read(path, follow_links=False)
    if text is not None:
        yield from _flatten(parse_toml(text, path), "project", str(path))


def _from_environment(env: Mapping[str, str]) -> Iterator[_Given]:
    for variable in sorted(env):
        if not variable.startswith(_PREFIX) or variable in (USER_FILE_VARIABLE, TOKENS_VARIABLE):
            continue
        if variable not in _VARIABLES:
            others = [USER_FILE_VARIABLE, TOKENS_VARIABLE]
            _unknown(variable, [*_VARIABLES, *others], "environment", "the environment")
        yield _Given(_VARIABLES[variable], env[variable], "environment", variable)


def _flatten(raw: Mapping[str, object], layer: Layer, place: str) -> Iterator[_Given]:
    for name, value in raw.items():
        if name in _SECTIONS and isinstance(value, Mapping):
            nested: Mapping[str, object] = value
            yield from _flatten({f"{name}.{key}": nested[key] for key in nested}, layer, place)
        elif name in _RULES:
            if value is not None or layer != "explicit":
                yield _Given(name, value, layer, place)
        elif name in _SECTIONS:
            raise InvalidConfig(
                f"{name} in {place} is a section, not a value.",
                hint=f"Write [{name}] on a line of its own and its settings below it.",
                details=_details(name, layer, place),
            )
        else:
            _unknown(name, [*_RULES, *_SECTIONS], layer, place)


def _read(path: Path, *, follow_links: bool) -> str | None:
    """The text of a small regular file, or ``None`` when there is none.

    A cloned folder can hold a link to elsewhere, a pipe that never ends or a
    file without bounds under the name of its configuration; none is read.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    if not follow_links:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    try:
        if not follow_links and path.is_symlink():
            _unreadable(path, "is a symbolic link")
        if path.exists() and not path.is_file():
            _unreadable(path, "is not a regular file")
        descriptor = os.open(path, flags)
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise from_os_error(error, f"reading {path}") from error
    if len(content) > _MAX_FILE_BYTES:
        _unreadable(path, f"is larger than {_MAX_FILE_BYTES} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        _unreadable(path, f"is not UTF-8 text (line {line})", line=line)


def _unreadable(path: Path, why: str, **more: object) -> NoReturn:
    raise InvalidConfig(
        f"The configuration file {path} {why}.",
        hint="Replace it with a small TOML text file, or remove it.",
        details={"file": str(path), **more},
    )


def parse_toml(text: str, path: Path) -> dict[str, object]:
    """What a TOML text says."""
    import tomllib

    if deep := DEEP_KEY.search(text):
        line = text.count("\n", 0, deep.end()) + 1
        _unreadable(path, f"nests its keys too deeply (line {line})", line=line)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        found = re.search(r"at line (\d+)", str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        raise InvalidConfig(
            f"{path} is not valid TOML (line {line}): {error}",
            hint=f"Correct line {line}; text values need quotes, sections look like [search].",
            details={"file": str(path), "line": line},
        ) from error


# --- checking one value -----------------------------------------------------------------------


def _checked(given: _Given) -> Value:
    """The value in its own type, or an error that says what is accepted."""
    rule = _RULES[given.key]
    if given.layer == "project":
        _reject_reaching_out(given, rule)
    value = _typed(given, rule)
    if value is None or not _in_range(value, rule):
        shown = _shown(given.value)
        raise InvalidConfig(
            f"{_named(given)} cannot be {shown}.",
            hint=f"Give {_accepted(given.key)}.",
            details={**_details(given.key, given.layer, given.place), "value": shown},
        )
    if rule.server:
        _reject_password(given, str(value))
    return value


def _reject_password(given: _Given, value: str) -> None:
    """Never shows the value: there may be a password in it."""
    wrong = ""
    if value and not _SERVER.match(value):
        wrong = "is no address of a PostgreSQL server"
    elif _PASSWORD.search(value):
        wrong = "holds a password, and settings are shown to whoever asks"
    if wrong:
        raise InvalidConfig(
            f"{_named(given)} {wrong}.",
            hint="Give postgresql://ROLE@HOST:PORT/DATABASE, and the password in PGPASSWORD or in"
            " a file that PGPASSFILE names.",
            details=_details(given.key, given.layer, given.place),
        )


def _typed(given: _Given, rule: _Rule) -> Value | None:
    """Read a raw value as the type of its default; ``None`` when it is not one."""
    raw, default = given.value, _DEFAULTS[given.key]
    text = raw if isinstance(raw, str) else None
    from_text = given.layer == "environment"
    if isinstance(default, bool):
        if from_text and text is not None:
            return {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower())
        return raw if isinstance(raw, bool) else None
    if isinstance(default, (int, float)):
        if rule.size and text is not None:
            return _bytes(text)
        if from_text and text is not None:
            try:
                return type(default)(text)
            except ValueError:
                return None
        if isinstance(raw, bool):
            return None
        if isinstance(default, float) and isinstance(raw, (int, float)):
            return float(raw) if abs(raw) < 1e300 else None
        return raw if isinstance(raw, int) else None
    if isinstance(default, tuple):
        if from_text and text is not None:
            raw = [part.strip() for part in text.split(",") if part.strip()]
        if not isinstance(raw, (list, tuple)):
            return None
        items = tuple(raw)
        return items if all(isinstance(i, str) and i and "\0" not in i for i in items) else None
    if rule.location and isinstance(raw, os.PathLike):
        text = str(os.fspath(raw))
    return text if text is not None and "\0" not in text else None


def _bytes(text: str) -> int | None:
    found = re.fullmatch(r"\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([KMG]?)i?B?\s*", text, re.I | re.A)
    if not found:
        return None
    return int(float(found[1]) * 1024 ** " KMG".index(found[2].upper() or " "))


def _in_range(value: Value, rule: _Rule) -> bool:
    if rule.choices:
        return value in rule.choices
    if rule.low is not None and rule.high is not None and isinstance(value, (int, float)):
        return rule.low <= value <= rule.high  # false for NaN, too
    return True


def _reject_reaching_out(given: _Given, rule: _Rule) -> None:
    """A folder's own file may shape its index; it may not reach for anything else."""
    variable = _PREFIX + given.key.replace(".", "_").upper()
    if rule.trusted:
        raise InvalidConfig(
            f"{given.key} may not be set by a project's own file ({given.place}).",
            hint="Remove it there. " + _ELSEWHERE.format(variable=variable),
            details=_details(given.key, given.layer, given.place),
        )
    if given.key == "serve.toolset" and "document-db" in _listed(given.value):
        raise InvalidConfig(
            f"serve.toolset may not name document-db in a project's own file ({given.place}):"
            " its tools write to your databases.",
            hint="Remove it there. " + _ELSEWHERE.format(variable=variable),
            details=_details(given.key, given.layer, given.place),
        )
    if not rule.patterns or not isinstance(given.value, list):
        return
    for pattern in given.value:
        if isinstance(pattern, str) and _leaves_root(pattern):
            raise InvalidConfig(
                f"{_named(given)} names something outside the project: {_shown(pattern)}.",
                hint="Write patterns relative to the project, like docs/**, without a leading "
                "slash and without '..'. " + _ELSEWHERE.format(variable=variable),
                details={**_details(given.key, given.layer, given.place), "value": _shown(pattern)},
            )


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _leaves_root(pattern: str) -> bool:
    bare = pattern.strip().lstrip("!")
    absolute = bare.startswith(("/", "\\", "~")) or re.match(r"[A-Za-z]:", bare)
    # Braces and commas may be alternatives in a glob, so each ends a path component.
    return bool(absolute) or ".." in re.split(r"[/\\{},|()]", bare)


# --- how values go together -------------------------------------------------------------------


def _bend(values: dict[str, Value], origin: dict[str, Layer]) -> None:
    """Let what nobody set follow what somebody set."""

    def chosen(key: str) -> bool:
        return origin[key] in _SET_BY_SOMEBODY

    def derive(key: str, value: float) -> None:
        if not chosen(key) and values[key] != value:
            values[key], origin[key] = value, "derived"

    def number(key: str) -> int:
        return cast(int, values[key])

    if chosen("chunk.min_tokens"):
        derive("chunk.max_tokens", max(number("chunk.max_tokens"), number("chunk.min_tokens")))
    if chosen("chunk.hard_max_tokens"):
        derive("chunk.max_tokens", min(number("chunk.max_tokens"), number("chunk.hard_max_tokens")))
    largest = number("chunk.max_tokens")
    if largest > number("chunk.hard_max_tokens"):
        derive("chunk.hard_max_tokens", -(-largest * 4 // 3))
    derive("chunk.min_tokens", min(number("chunk.min_tokens"), largest))
    if number("chunk.overlap_tokens") >= largest:
        derive("chunk.overlap_tokens", largest // 4)
    piece = number("documents.chunk_chars")
    if number("documents.overlap_chars") >= piece:
        derive("documents.overlap_chars", piece // 4)
    derive("search.candidates", max(number("search.candidates"), number("search.top_k")))

    pair = ("search.vector_weight", "search.keyword_weight")
    for one, other in (pair, pair[::-1]):
        if chosen(one) and not chosen(other):
            derive(other, round(1 - cast(float, values[one]), 6))


def _reject_contradictions(values: Mapping[str, Value], origin: Mapping[str, Layer]) -> None:
    def require(holds: bool, rule: str, *keys: str) -> None:
        if not holds:
            shown = ", ".join(f"{key} = {values[key]} ({origin[key]})" for key in keys)
            raise InvalidConfig(
                f"These settings contradict each other: {shown}.",
                hint=f"Choose values so that {rule}.",
                details={
                    "key": keys[0],
                    "keys": list(keys),
                    "layers": {key: origin[key] for key in keys},
                },
            )

    def ordered(smaller: str, larger: str) -> None:
        low, high = cast(float, values[smaller]), cast(float, values[larger])
        require(low <= high, f"{smaller} is at most {larger}", smaller, larger)

    ordered("chunk.min_tokens", "chunk.max_tokens")
    ordered("chunk.max_tokens", "chunk.hard_max_tokens")
    ordered("search.top_k", "search.candidates")
    overlap, largest = "chunk.overlap_tokens", "chunk.max_tokens"
    require(
        cast(int, values[overlap]) < cast(int, values[largest]),
        f"{overlap} is below {largest}",
        overlap,
        largest,
    )
    for kind in ("embed.provider", "embed.code_provider"):
        model = kind.replace("provider", "model")
        named = values[kind] not in ("onnx", "remote") or bool(values[model])
        require(named, f"{model} names a model for {kind}", kind, model)
    second = bool(values["embed.code_provider"] or values["embed.code_model"])
    require(
        values["embed.provider"] != "none" or not second,
        "a second model comes with a first",
        "embed.provider",
        "embed.code_provider",
        "embed.code_model",
    )
    for address in ("embed.base_url", "embed.hub"):
        if not _is_plain_address(str(values[address])):
            # It is not shown: what is wrong with it may be that it holds a key.
            raise InvalidConfig(
                f"{address} ({origin[address]}) is not an address that can be used.",
                hint="Give http://HOST or https://HOST, perhaps with a path, and without a user,"
                " a key or a query; keys come from the environment alone.",
                details={"key": address, "layer": origin[address]},
            )
    repeated, piece = "documents.overlap_chars", "documents.chunk_chars"
    require(
        cast(int, values[repeated]) < cast(int, values[piece]),
        f"{repeated} is below {piece}",
        repeated,
        piece,
    )
    vector, keyword = "search.vector_weight", "search.keyword_weight"
    require(
        bool(values[vector] or values[keyword]), "one of the weights is above 0", vector, keyword
    )


def _is_plain_address(text: str) -> bool:
    return re.fullmatch(r"https?://[^\s/@?#]+(/[^\s@?#]*)?", text) is not None


def _build(values: Mapping[str, Value], origin: dict[str, Layer]) -> Settings:
    parts: dict[str, Any] = {}
    for name, cls in _SECTIONS.items():
        parts[name] = cls(**{item.name: values[f"{name}.{item.name}"] for item in fields(cls)})
    return replace(Settings(), preset=str(values["preset"]), origin=origin, **parts)


# --- words for people -------------------------------------------------------------------------


def _type_name(key: str) -> str:
    default = _DEFAULTS[key]
    if _RULES[key].size:
        return "size"
    if _RULES[key].location:
        return "path"
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (tuple, "list")):
        if isinstance(default, kind):
            return name
    return "text"


def _accepted(key: str) -> str:
    rule = _RULES[key]
    if rule.choices:
        return "one of: " + ", ".join(choice or '""' for choice in rule.choices)
    between = "" if rule.low is None or rule.high is None else f" from {rule.low} to {rule.high}"
    return {
        "size": f"a number of bytes{between}, or a size such as 500KB or 1MB",
        "path": "a path as text",
        "boolean": "true or false",
        "integer": f"a whole number{between}",
        "number": f"a number{between}",
        "list": "a list of non-empty texts (in a variable: separated by commas)",
    }.get(_type_name(key), "text")


def _named(given: _Given) -> str:
    return f"{given.key} (set in {given.place})"


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # a whole number of more digits than Python is willing to print
        return "a very large number"
    return text if len(text) <= 60 else text[:57] + "..."


def _details(key: str, layer: Layer, place: str) -> dict[str, object]:
    where = {"file": place} if layer in ("user", "project") else {"source": place}
    return {"key": key, "layer": layer, **where}


def _unknown(name: str, known: list[str], layer: Layer, place: str) -> NoReturn:
    import difflib

    leaf = name.rpartition(".")[2]
    # First the same name under another section, then names spelt alike.
    close = [key for key in known if key.rpartition(".")[2] == leaf]
    close = close or difflib.get_close_matches(name, known, n=1)
    suggestion = close[0] if close else ""
    raise InvalidConfig(
        f"{name[:100]} in {place} is not a setting.",
        hint=f"Did you mean {suggestion}?" if suggestion else "Remove it, or correct its name.",
        details={**_details(name, layer, place), "suggestion": suggestion},
    )


# --- places on this machine -------------------------------------------------------------------


def _home(env: Mapping[str, str]) -> Path:
    home = env.get("USERPROFILE" if sys.platform == "win32" else "HOME")
    return Path(home) if home else Path(os.path.expanduser("~"))


def _platform_dir(
    environ: Mapping[str, str] | None, xdg: str, under_home: str, windows: str, roaming: str
) -> Path:
    env = os.environ if environ is None else environ
    # A name for sys.platform, as type checkers take the other branches for dead code.
    platform: str = sys.platform
    if platform == "win32":
        base = env.get(windows) or str(_home(env) / "AppData" / roaming)
        return Path(base) / "lookfar"
    if platform == "darwin":
        return _home(env) / "Library" / "Application Support" / "lookfar"
    named = env.get(xdg, "")
    # The XDG specification says to ignore relative paths.
    base_dir = Path(named) if os.path.isabs(named) else _home(env) / under_home
    return base_dir / "lookfar"


def _is_a_name(key: str, text: str, checked: list[tuple[_Given, Value]]) -> bool:
    """Whether a model is called by its name, which is no path: that of a remote service always,
    and of the hub where it has the form OWNER/NAME and does not begin as paths do."""
    if key == "search.rerank_model":
        return HUB_NAME.fullmatch(text) is not None
    provider = {"embed.model": "embed.provider", "embed.code_model": "embed.code_provider"}.get(key)
    if provider is None:
        return False
    given = {item.key: str(value) for item, value in checked}
    kind = given.get(provider) or given.get("embed.provider", "")
    if kind == "remote":
        return True
    return kind == "onnx" and HUB_NAME.fullmatch(text) is not None


def _expanded(text: str, env: Mapping[str, str]) -> Path:
    if text == "~" or text.startswith(("~/", "~\\")):
        return _home(env) / text[2:]
    return Path(text)


def _absolute(text: str, given: _Given, env: Mapping[str, str], here: Path) -> str:
    """A path in the user's file is relative to that file, any other to the working folder."""
    if not text:
        return ""
    base = Path(given.place).parent if given.layer == "user" else here
    return os.path.abspath(base / _expanded(text, env))
