"""The shape of a table of another system's settings, and how its values are converted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

_CHARS_PER_TOKEN: Final = 4
_DEFAULT_GLOBS: Final = frozenset(
    (
        *("**/*", ".git/**", "**/.git/**", "node_modules/**", "**/node_modules/**"),
        *(".obsidian/**", ".msrl/**", "**/*~", "**/*.tmp", "**/.venv/**", "**/venv/**"),
        *("**/build/**", "**/dist/**", "**/__pycache__/**", "**/.pytest_cache/**"),
        *("**/.mcp-markdown-ragdocs/**", "**/*-egg-info/**"),
    )
)
PARSERS: Final = ("MarkdownParser", "PlainTextParser")
"""The parsers of ragdocs; each file format of ours has one parser."""
_SECRET: Final = re.compile(r"key|token|secret|password", re.IGNORECASE)
"""Names of settings whose values are not shown."""


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
    silent: tuple[object, ...] = ()
    """Values that name what happens anyway, so it is not reported that they have no effect."""


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
    variables: str = ""
    """The prefix of its environment variables; each setting can also be set by one."""
    finish: Callable[[dict[str, Any]], dict[str, Any]] = lambda settings: settings
    """Converts settings that depend on each other, and removes those whose key begins with ~."""

    @property
    def rows_by_name(self) -> dict[str, Row]:
        """The rows by key and by name of a variable."""
        named = {row.theirs: row for row in self.rows}
        if not self.variables:
            return named
        derived = {self._variable(row.theirs): row for row in self.rows}
        return derived | named

    def _variable(self, key: str) -> str:
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|\.", "_", key)
        return self.variables + words.upper()


# --- converting values --------------------------------------------------------------------------


def chars_to_tokens(chars: Any) -> Any:
    return round(chars / _CHARS_PER_TOKEN) if is_number(chars) else chars


def chars_to_limits(chars: Any) -> Any:
    return {
        "chunk.max_tokens": chars_to_tokens(chars),
        "chunk.hard_max_tokens": chars_to_tokens(chars),
    }


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def useful_globs(patterns: Any) -> Any:
    """Drop patterns for what Lookfar reads or skips anyway."""
    if not isinstance(patterns, list):
        return patterns
    return [pattern for pattern in patterns if pattern not in _DEFAULT_GLOBS] or None


def ignored_patterns(patterns: Any) -> Any:
    """Drop patterns for what is always skipped; an empty list stays one."""
    if not isinstance(patterns, list):
        return patterns
    return [pattern for pattern in patterns if pattern not in _DEFAULT_GLOBS]


def only_if(theirs: Any, ours: Any) -> Callable[[Any], Any]:
    """Convert the value ``theirs`` to ``ours``, and any other to nothing."""
    return lambda value: ours if value == theirs else None


def log_level(name: Any) -> Any:
    return {"warn": "warning"}.get(name, name)


def model_folder(path: Any) -> Any:
    """Convert the path of a weights file to the folder that contains the model."""
    if not isinstance(path, str):
        return path
    file = PurePosixPath(path)
    folder = file.parent if file.suffix == ".onnx" else file
    return {"embed.model": str(folder), "embed.provider": "onnx"}


def hub_model(name: Any) -> Any:
    return None if name == "local" else {"embed.model": name, "embed.provider": "onnx"}


def synonyms(table: Any) -> Any:
    if not isinstance(table, Mapping):
        return table
    return [f"{word}={meaning}" for word, meaning in table.items()]


def memory_place(strategy: Any) -> Any:
    """Convert the storage strategy of ragdocs to the folders in which it keeps memories."""
    if strategy == "project":
        return {"memory.in_project": True, "memory.project_dir": ".memories"}
    if strategy == "user":
        folder = "~/.local/share/mcp-markdown-ragdocs/memories"
        return {"memory.scope": "user", "memory.dir": folder}
    return {"memory.scope": strategy}


def database_folder(path: Any) -> Any:
    """Return the folder of a database file, which applies unless a folder is set."""
    return {"~beside": str(PurePosixPath(path).parent) if isinstance(path, str) else path}


def choose_folder(settings: dict[str, Any]) -> dict[str, Any]:
    beside = settings.pop("~beside", None)
    return settings if beside is None else {"documents.dir": beside, **settings}


def skip_docs(settings: dict[str, Any]) -> dict[str, Any]:
    """Exclude the files that Search MCP counts as documentation if it should not index them."""
    patterns = settings.pop("~docs", None)
    if settings.pop("~index_docs", True) is not False:
        return settings
    documents = patterns if isinstance(patterns, list) else ["**/*.md", "**/*.txt"]
    exclude = settings.get("sources.exclude", [])
    return {**settings, "sources.exclude": [*exclude, *documents]}


def parser_globs(parsers: Any) -> Any:
    """Return the globs of the files that have a parser: ragdocs reads no others."""
    if not isinstance(parsers, Mapping) or not all(name in PARSERS for name in parsers.values()):
        raise ValueError("an unknown parser")
    return {"~parsed": list(parsers)}


def documents_folder(path: Any) -> Any:
    """Return a folder below the project; ragdocs reads only the files in it."""
    if not isinstance(path, str):
        raise TypeError("not a path")
    folder = PurePosixPath(path)
    if folder.is_absolute() or ".." in folder.parts or path.startswith("~"):
        raise ValueError("not a folder below the project")
    return {"~below": folder.as_posix()}


def finish_ragdocs(settings: dict[str, Any]) -> dict[str, Any]:
    """Combine the globs of ragdocs, and scale its weights."""
    parsed, below = settings.pop("~parsed", None), settings.pop("~below", ".")
    include = settings.get("sources.include") or parsed
    if below != ".":
        include = [f"{below}/{glob}" for glob in include or ("**",)]
    return scale_weights({**settings, "sources.include": include} if include else settings)


def scale_weights(settings: dict[str, Any]) -> dict[str, Any]:
    """Scale the two weights so that they add up to 1."""
    keys = ("search.vector_weight", "search.keyword_weight")
    weights = [settings.get(key, 1.0) for key in keys]
    if not set(keys) & set(settings) or not all(map(is_number, weights)) or sum(weights) <= 0:
        return settings
    share = round(weights[0] / sum(weights), 4)
    return {**settings, keys[0]: share, keys[1]: round(1 - share, 4)}


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A setting without a counterpart, or with a value that ours cannot have."""

    theirs: str
    value: Any
    note: str


@dataclass(slots=True)
class Converted:
    """The settings of one file or environment, by our keys."""

    settings: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    """Their key for each of ours."""
    unmatched: list[Unmatched] = field(default_factory=list)


def convert(system: System, config: Mapping[str, Any]) -> Converted:
    """Convert a parsed configuration; nothing in it raises an error."""
    rows = system.rows_by_name
    result = Converted()
    for theirs, value in flatten(config, rows):
        if theirs.startswith(system.ignored):
            continue
        row = rows.get(theirs)
        if row is not None and value in row.silent:
            continue
        if row is None or not row.ours:
            note = row.note if row else f"{system.title} documents no such setting."
            result.unmatched.append(_leave(theirs, value, note))
            continue
        try:
            ours = row.as_ours(value)
        except (TypeError, ValueError, OverflowError):
            result.unmatched.append(
                _leave(theirs, value, f"The value is not valid for {row.ours}.")
            )
            continue
        # A table of theirs stays one value: it does not name settings of ours.
        several = isinstance(ours, dict) and ours is not value
        settings = ours if several else {row.ours: ours}
        result.settings |= {key: item for key, item in settings.items() if item is not None}
        result.origins |= dict.fromkeys(settings, theirs)
    result.settings = system.finish(result.settings)
    return result


def flatten(
    config: Mapping[str, Any], rows: Mapping[str, Row], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield each setting with its dotted key; a table that is one setting stays whole."""
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and name not in rows:
            yield from flatten(value, rows, f"{name}.")
        else:
            yield name, value


def _leave(theirs: str, value: Any, note: str) -> Unmatched:
    return Unmatched(theirs, "..." if _SECRET.search(theirs) else value, note)
