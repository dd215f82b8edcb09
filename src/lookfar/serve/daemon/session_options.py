"""The options of ``lookfar mcp``, for :mod:`lookfar.serve.entry` (without click) and for click."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple


class SessionOption(NamedTuple):
    flag: str
    name: str
    """The key of its value in a request."""
    help: str
    setting: str = ""
    """The setting that it overrides, if any."""
    takes_value: bool = False
    repeatable: bool = False
    metavar: str = ""
    choices: tuple[str, ...] = ()


INDEX_DIR: Final = SessionOption(
    "--index-dir", "index_dir", "The folder in which all indexes are stored.",
    takes_value=True, metavar="DIR",
)  # fmt: skip
DOCS: Final = SessionOption(
    "--docs", "docs", "A folder to serve, like PATH; an option of Anvil.",
    takes_value=True, repeatable=True, metavar="DIR",
)  # fmt: skip
DB: Final = SessionOption(
    "--db", "db", "A file in whose folder all indexes are stored; an option of Anvil.",
    takes_value=True, metavar="FILE",
)  # fmt: skip
NO_DAEMON: Final = SessionOption(
    "--no-daemon", "no_daemon", "Serve from this process instead of the shared daemon."
)
OFFER_OPTIONS: Final = (
    SessionOption(
        "--toolset", "toolset",
        "Tools to offer: default, anvil, document-db, msrl, ragdocs, search-mcp, all.",
        "serve.toolset", takes_value=True, repeatable=True, metavar="NAME",
    ),
    SessionOption("--write", "write", "Also offer tools that write.", "serve.write"),
    SessionOption(
        "--results", "results",
        "Return text for models, structured data for programs, or what suits the client (auto).",
        "serve.results", takes_value=True, choices=("auto", "text", "structured"),
    ),
    SessionOption(
        "--underscores", "underscores", "Write dots in tool names as underscores.",
        "serve.underscores",
    ),
    SessionOption(
        "--enhanced", "enhanced", "Use longer tool descriptions.", "serve.enhanced_descriptions"
    ),
)  # fmt: skip
_MCP_OPTIONS: Final = {
    option.flag: option for option in (NO_DAEMON, *OFFER_OPTIONS, INDEX_DIR, DOCS, DB)
}


def parse_plain_session(
    arguments: Sequence[str],
) -> tuple[tuple[str, ...], dict[str, Any]] | None:
    """Return the paths and options of a ``lookfar mcp`` command line.

    Return None for anything that is not in the table: click parses it and reports what is wrong.
    """
    if arguments[:1] != ["mcp"]:
        return None
    paths: list[str] = []
    options: dict[str, Any] = {}
    words = iter(arguments[1:])
    for word in words:
        option = _MCP_OPTIONS.get(word)
        if option is None:
            if not word or word.startswith("-"):
                return None
            paths.append(word)
        elif not option.takes_value:
            options[option.name] = True
        else:
            value = next(words, "")
            if not value or value.startswith("-"):
                return None
            if option.choices and value not in option.choices:
                return None
            if option.repeatable:
                options.setdefault(option.name, []).append(value)
            else:
                options[option.name] = value
    return tuple(paths), options


def build_session_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert command line options to the options of a client session."""
    settings = parse_settings(given.get("settings") or ())
    for option in OFFER_OPTIONS:
        if value := given.get(option.name):
            settings[option.setting] = list(value) if option.repeatable else value
    index_dir = given.get("index_dir") or os.path.dirname(given.get("db") or "")
    if given.get("db") and not index_dir:
        index_dir = "."  # A file name without a folder is in the current one.
    return {"index_dir": index_dir, "settings": settings}


def add_docs(paths: Sequence[str], given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the folders to serve: the arguments, then those of ``--docs``."""
    return (*paths, *(given.get("docs") or ()))


def parse_settings(assignments: Iterable[str]) -> dict[str, Any]:
    """Parse ``KEY=VALUE`` strings into typed values; one of the wrong type stays text."""
    assignments = tuple(assignments)
    if not assignments:  # Describing the settings is too slow for a relay.
        return {}
    from lookfar.config import describe
    from lookfar.errors import InvalidArgument

    types = {doc.key: doc.type for doc in describe()}
    settings: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise InvalidArgument(
                f"--set {assignment!r} is not of the form KEY=VALUE.",
                hint="For example: --set chunk.max_tokens=800",
            )
        settings[key.strip()] = _convert(text.strip(), types.get(key.strip(), "text"))
    return settings


def _convert(text: str, kind: str) -> Any:
    if kind == "boolean":
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    if kind == "list":
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind in ("integer", "number"):
        try:
            return int(text) if kind == "integer" else float(text)
        except ValueError:
            return text
    return text
