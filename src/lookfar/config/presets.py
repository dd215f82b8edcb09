"""Presets: the default sizes and weights of the systems that Lookfar can replace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PRESETS: Final[Mapping[str, Mapping[str, str | int | float | bool | tuple[str, ...]]]] = {
    # These systems state sizes in characters, or count four characters as one token.
    "anvil": {
        "chunk.count": "characters",
        "chunk.max_tokens": 1500,
        "chunk.hard_max_tokens": 1500,
        "chunk.min_tokens": 50,
        "chunk.overlap_tokens": 0,
        "chunk.merge_small": True,
    },
    "msrl": {
        "chunk.count": "characters",
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
        "sources.any_text": True,
        "chunk.count": "characters",
        "chunk.max_tokens": 2000,
        "chunk.hard_max_tokens": 2000,
        "chunk.overlap_tokens": 500,
        "chunk.code_max_tokens": 1000,
        "chunk.code_overlap_tokens": 200,
        # A result is one section or definition, of at most 8,000 characters.
        "chunk.merge_small": False,
        "chunk.split_blocks": True,
        "search.merge_gap": -1,
        "search.per_document": 0,
        "search.vector_weight": 0.5,
        "search.keyword_weight": 0.5,
        "search.fusion": "rrf",
        "search.code_names": "ladder",
        "search.expand_known": True,
        "search.related_words": True,
        "search.code_docstring": 1.05,
        "search.top_k": 10,
        "index.check_every_searches": 10,
        "index.max_auto_files": 5,
        "watch.debounce_ms": 500,
    },
    "document-db": {
        # 700 characters with an overlap of 100.
        "chunk.count": "characters",
        "chunk.max_tokens": 175,
        "chunk.hard_max_tokens": 175,
        "chunk.overlap_tokens": 25,
        "search.top_k": 10,
    },
    "ragdocs": {
        "chunk.count": "characters",
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
