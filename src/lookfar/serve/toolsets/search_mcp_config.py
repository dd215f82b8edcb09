"""Search MCP's configuration of a project: show it, and write the commented file to edit.

The file is where Search MCP keeps its own: ``~/.mcp/search/indexes/HASH/config.json``. The first
index of a project creates it with the settings in force, and it is never overwritten.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lookfar import config
from lookfar.config.folders import read_settings_file
from lookfar.config.foreign.trust_layers import parse_config
from lookfar.errors import LookfarError
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session
from lookfar.serve.toolsets.single import fit_to_budget, get_only_folder
from lookfar.store.ground import files
from lookfar.text.parse.formats import FORMATS

if TYPE_CHECKING:
    from lookfar.collections.folder import Folder
    from lookfar.config import Settings

_log = logging.getLogger(__name__)

_DEFAULT_ALPHA: Final = 0.5
_DOC_PATTERNS: Final = frozenset(("**/*.md", "**/*.txt"))
"""Excluding these is how ``indexDocs: false`` is stored in our settings."""

_ALWAYS_SKIPPED: Final = (
    "Dependencies: node_modules/, jspm_packages/, bower_components/, vendor/, .venv/, venv/",
    "Version control: .git/, .hg/, .svn/",
    "Build output: dist/, build/, out/, target/, __pycache__/, .next/, .nuxt/, .angular/",
    "Secrets: .env, .env.*, *.pem, *.key, *.p12, *.pfx, and other files of credentials",
    "Logs and lock files: *.log, *.lock, package-lock.json, yarn.lock, pnpm-lock.yaml",
    "Editors and tests: .idea/, .vscode/, .DS_Store, *.swp, *.swo, coverage/, .pytest_cache/",
    "Files whose content is not text",
)
_OPTIONS: Final = {
    "include": "Globs of the files to index; ['**/*'] means all.",
    "exclude": "Globs of files to skip, besides those that are always skipped.",
    "respectGitignore": "Whether to skip what .gitignore files exclude.",
    "maxFileSize": "Larger files are skipped: '500KB', '2MB'.",
    "maxFiles": "Indexing more files than this needs a confirmation.",
    "docPatterns": "Globs of the documentation; they matter if indexDocs is false.",
    "indexDocs": "Whether documentation is indexed.",
    "extractComments": "Whether search_docs also finds comments and docstrings of code.",
    "chunkingStrategy": "How code is split: 'code-aware' or 'ast' (by definitions), 'character'.",
    "hybridSearch.enabled": "Whether a search without a mode also matches words.",
    "hybridSearch.ftsEngine": "Has no effect: there is one engine.",
    "hybridSearch.defaultAlpha": "The share of meaning, from 0 to 1, in a search without alpha.",
    "queryExpansion.enabled": "Whether questions are expanded by synonyms.",
    "queryExpansion.maxExpansionTerms": "Synonyms that one question may get.",
    "autoReindex.enabled": "Whether a search first indexes files that changed.",
    "autoReindex.checkEveryNSearches": "How often a search looks for such files.",
    "autoReindex.maxAutoReindexFiles": "If more files changed, a search does not wait for them.",
    "enhancedToolDescriptions": "Whether descriptions of tools contain tips for agents.",
    "indexingStrategy": "When changes are indexed: 'realtime', 'lazy' (at the next search), 'git'.",
}


class NoInput(Input):
    pass


def get_config(session: Session, _given: NoInput, _: Call) -> Result:
    folder = get_only_folder(session, "search-mcp")
    shape = _describe_config(folder.settings)
    include, exclude = shape["include"], shape["exclude"]
    path, warnings = _find_config_file(folder), list(map(str, folder.settings.foreign.notes))
    patterns = _read_doc_patterns(folder)
    if patterns and shape["indexDocs"] and not _DOC_PATTERNS.issubset(patterns):
        warnings.append("docPatterns: the format of a file says whether it is documentation.")
    shape["docPatterns"] = patterns or shape["docPatterns"]

    def render(rows: int, _chars: int) -> Json:
        patterns = {"include": include[:rows], "exclude": exclude[:rows]}
        answer: Json = {"configPath": str(path), "config": {**shape, **patterns}}
        return {**answer, "warnings": warnings[:rows]} if warnings else answer

    rows = max(len(include), len(exclude), len(warnings))
    return Result(fit_to_budget(rows, 0, render), "", verbatim=True)


def _read_doc_patterns(folder: Folder) -> list[str]:
    """Return the ``docPatterns`` of the configuration file; none if it has no such list."""
    patterns: object = None
    for path in folder.settings.foreign.files:
        with suppress(LookfarError):
            text = read_settings_file(path) or "{}"
            patterns = parse_config(text, path).get("docPatterns")
    texts = patterns if isinstance(patterns, list) else []
    return [pattern for pattern in texts if isinstance(pattern, str)]


def get_default_alpha(settings: Settings) -> float:
    """Return the share of meaning in a search without ``alpha``."""
    return settings.search.alpha if settings.search.alpha >= 0 else _DEFAULT_ALPHA


def create_config_file(folder: Folder) -> None:
    """Write the commented configuration file of a project that has none."""
    places = folder.settings.foreign.watched
    if not places or any(path.exists() for path in places):
        return
    path = places[-1]
    shape = {
        "_comment": "Settings of this project for Lookfar and Search MCP. Edit and save.",
        **_describe_config(folder.settings),
        "_hardcodedExcludes": list(_ALWAYS_SKIPPED),
        "_availableOptions": _OPTIONS,
    }
    try:
        files.make_folder(path.parent)
        files.write_shared(path, json.dumps(shape, indent=2, ensure_ascii=False).encode() + b"\n")
    except LookfarError as error:
        # The file is not necessary: it would contain the settings that are in force anyway.
        _log.warning("%s was not created: %s", path, error.message)


def _find_config_file(folder: Folder) -> Path:
    """Return the file that sets the configuration, or the one to create."""
    foreign = folder.settings.foreign
    if foreign.files or foreign.watched:
        return (foreign.files or foreign.watched)[-1]
    project_file = Path(folder.root.path, config.PROJECT_FILE)
    return project_file if project_file.is_file() else config.config_file()


def _describe_config(settings: Settings) -> Json:
    """Return the settings in force under Search MCP's names."""
    extensions = (extension for known in FORMATS for extension in known.extensions)
    return {
        "include": list(settings.sources.include or ("**/*",)),
        "exclude": list(settings.sources.exclude),
        "respectGitignore": settings.sources.respect_ignore_files,
        "maxFileSize": _format_file_size(settings.sources.max_file_bytes),
        "maxFiles": settings.sources.max_files,
        "docPatterns": [f"**/*{extension}" for extension in extensions],
        "indexDocs": not _DOC_PATTERNS.issubset(settings.sources.exclude),
        "extractComments": settings.search.comments,
        "chunkingStrategy": settings.chunk.strategy,
        "hybridSearch": {
            "enabled": settings.search.mode == "hybrid",
            "ftsEngine": "auto",
            "defaultAlpha": get_default_alpha(settings),
        },
        "queryExpansion": {
            "enabled": settings.search.expansion,
            "maxExpansionTerms": settings.search.max_expansions,
        },
        "autoReindex": {
            "enabled": settings.index.max_auto_files > 0,
            "checkEveryNSearches": settings.index.check_every_searches,
            "maxAutoReindexFiles": settings.index.max_auto_files,
        },
        "enhancedToolDescriptions": settings.serve.enhanced_descriptions,
        "indexingStrategy": settings.watch.strategy,
    }


def _format_file_size(count: int) -> str:
    return f"{count // 1_048_576}MB" if count % 1_048_576 == 0 else f"{-(-count // 1024)}KB"
