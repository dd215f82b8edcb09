"""The part of the settings that decides how a file turns into rows.

Imports nothing heavy: every search asks for these before it knows whether anything changed.
"""

from __future__ import annotations

import os
from functools import lru_cache
from hashlib import sha256
from pathlib import PurePath
from typing import Any

from lookfar.common.properties import VERSION as PROPERTIES
from lookfar.config import Settings
from lookfar.config.settings import SourcesSettings
from lookfar.embed.providers import WITHOUT_MODEL
from lookfar.ports import Embedder
from lookfar.sources.folder.policy import DEFAULT_EXCLUDE, Policy
from lookfar.sources.secrets.screen import VERSION as SECRETS
from lookfar.sources.secrets.screen import Secrets
from lookfar.store.catalogue.migrations import FORMAT
from lookfar.store.keywords.analyser import TERMS
from lookfar.store.keywords.fields import FIELDS, PAGE_FIELDS
from lookfar.text.chunk.definitions import VERSION as CODE_CHUNKING
from lookfar.text.chunk.parts import Sizes
from lookfar.text.extract.extracted import Allowance
from lookfar.text.extract.formats import EXTRACTORS
from lookfar.text.normalise import VERSION as ENCODINGS
from lookfar.text.parse.calls.facts import VERSION as CALLS
from lookfar.text.parse.links import VERSION as LINKS

EXTRACTED = frozenset(ending[1:] for row in EXTRACTORS for ending in row.extensions)
"""Endings of files whose text is extracted."""
CHUNKING = 2
"""Raise this whenever the same text and sizes would give other chunks."""


def policy_from(settings: Settings, root: str = "") -> Policy:
    """Return the rules for files below ``root``; without a root, only the rules by name."""
    memories = (f"/{settings.memory.project_dir}",) if settings.memory.in_project else ()
    return _make_policy(settings.sources, memories, settings.index.dir, root)


@lru_cache(maxsize=16)
def _make_policy(
    sources: SourcesSettings, memories: tuple[str, ...], index_dir: str, root: str
) -> Policy:
    """Return the same policy for the same rules: every query asks for it."""
    root_path, index_path = PurePath(root), PurePath(os.path.realpath(index_dir))
    both_known = bool(root and index_dir)
    inside = both_known and index_path != root_path and index_path.is_relative_to(root_path)
    return Policy(
        include=sources.include,
        exclude=(*DEFAULT_EXCLUDE, *sources.exclude, *memories),
        generated=sources.generated,
        output_by_name=sources.output_by_name,
        respect_ignore_files=sources.respect_ignore_files,
        max_file_bytes=sources.max_file_bytes,
        extracted=EXTRACTED,
        max_document_bytes=sources.max_document_bytes,
        max_depth=sources.max_depth,
        any_text=sources.any_text,
        secrets=Secrets(sources.allow_secrets),
        own=index_path.relative_to(root_path).as_posix() if inside else "",
    )


def secrets_from(settings: Settings) -> Secrets:
    """Return the rules for secrets, with the paths that the user exempts from them."""
    return Secrets(settings.sources.allow_secrets)


def allowance_from(settings: Settings) -> Allowance:
    """Return what extracting the text of one file may cost."""
    sources = settings.sources
    return Allowance(sources.extract_seconds, sources.extract_memory_bytes)


def sizes_from(settings: Settings) -> Sizes:
    chunking = settings.chunk
    return Sizes(
        max_tokens=chunking.max_tokens,
        hard_max_tokens=chunking.hard_max_tokens,
        part_tokens=chunking.part_tokens,
        min_tokens=chunking.min_tokens,
        overlap_tokens=chunking.overlap_tokens,
        merge_small=chunking.merge_small,
        with_headings=chunking.with_headings,
        code_max_tokens=chunking.code_max_tokens,
        code_overlap_tokens=chunking.code_overlap_tokens,
        split_blocks=chunking.split_blocks,
        by_definitions=chunking.strategy in ("code-aware", "ast"),
        merge_upwards=chunking.merge_upwards,
        by_length=chunking.count == "characters",
    )


def epoch_fingerprint(settings: Settings, embedder: Embedder | None) -> str:
    """Return a hash that is equal for passes whose chunks and vectors can share an epoch."""
    model = embedder.fingerprint if embedder else WITHOUT_MODEL
    fields = " ".join((*FIELDS, *PAGE_FIELDS))
    sizes = sizes_from(settings)
    # Written out, because every index has a hash of this text.
    cutting = (
        f"calls {CALLS}; chunking {CHUNKING}; code {CODE_CHUNKING}; Sizes("
        f"max_tokens={sizes.max_tokens}, hard_max_tokens={sizes.hard_max_tokens},"
        f" min_tokens={sizes.min_tokens}, overlap_tokens={sizes.overlap_tokens},"
        f" merge_small={sizes.merge_small}, code_max_tokens={sizes.code_max_tokens},"
        f" code_overlap_tokens={sizes.code_overlap_tokens}, part_tokens={sizes.part_tokens})"
    )
    cutting += " upwards" * sizes.merge_upwards
    cutting += " split blocks" * sizes.split_blocks + " by length" * (not sizes.by_definitions)
    cutting += " in characters" * sizes.by_length
    cutting += " without headings" * (not sizes.with_headings)
    recipe = f"format {FORMAT}; {cutting}; model {model}"
    recipe += f"; terms {TERMS} in {fields}; links {LINKS}; encodings {ENCODINGS}"
    recipe += f"; properties {PROPERTIES}"
    # Other rules mask other characters, so texts stored under the old rules must go.
    recipe += f"; secrets {SECRETS} but {settings.sources.allow_secrets}"
    return sha256(recipe.encode()).hexdigest()[:32]


def describe_format(embedder: Embedder | None) -> dict[str, Any]:
    """Return the part of a manifest that names the index format and the model."""
    return {
        "format": FORMAT,
        "model": embedder.name if embedder else WITHOUT_MODEL,
        "model_fingerprint": embedder.fingerprint if embedder else WITHOUT_MODEL,
    }
