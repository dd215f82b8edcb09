"""Convert the configuration of another system to our settings.

The input is JSON (with comments), TOML or a file of environment variables. Settings that only
the user's own file may contain are returned separately, and so are those without a counterpart,
each with a reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lookfar.config import PRESETS, check_value, describe, parse_toml
from lookfar.errors import InvalidArgument, InvalidConfig
from lookfar.serve.setup import jsonc
from lookfar.serve.setup.malformed import Malformed
from lookfar.serve.setup.systems import SYSTEMS, Row, System
from lookfar.serve.setup.toml_text import put

_SECRET: Final = re.compile(r"key|token|secret|password", re.IGNORECASE)
"""Names of settings whose values are not shown."""


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A setting without a counterpart."""

    theirs: str
    value: Any
    note: str


@dataclass(frozen=True, slots=True)
class Migration:
    """A converted configuration."""

    system: str
    project: Mapping[str, Any]
    """Settings for the folder's file."""
    own: Mapping[str, Any]
    """Settings that only the user's own file may contain."""
    unmatched: tuple[Unmatched, ...]
    toml: str
    """The content of the folder's file."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "system": self.system,
            "project": dict(self.project),
            "user": dict(self.own),
            "left": [{"key": u.theirs, "value": u.value, "why": u.note} for u in self.unmatched],
            "toml": self.toml,
        }


def migrate_text(text: str, path: Path, system: str = "") -> Migration:
    """Convert the configuration in ``text``.

    The name of ``path`` decides the format. Without ``system``, it is detected from the keys.
    """
    config = _unwrap_pyproject(_parse(text, path))
    source = SYSTEMS[system] if system else _detect_system(config, path)
    rows = {row.theirs: row for row in source.rows}
    settings: dict[str, Any] = {}
    origins: dict[str, str] = {}
    unmatched: list[Unmatched] = []
    for theirs, value in _flatten(config, rows):
        if theirs.startswith(source.ignored):
            continue
        row = rows.get(theirs)
        if row is None or not row.ours:
            note = row.note if row else f"{source.title} documents no such setting."
            shown_value = "..." if _SECRET.search(theirs) else value
            unmatched.append(Unmatched(theirs, shown_value, note))
            continue
        ours = row.as_ours(value)
        converted = ours if isinstance(ours, dict) else {row.ours: ours}
        settings |= {key: item for key, item in converted.items() if item is not None}
        origins |= dict.fromkeys(converted, theirs)
    return _build_migration(source, source.finish(settings), origins, unmatched)


def _build_migration(
    source: System,
    settings: Mapping[str, Any],
    origins: Mapping[str, str],
    unmatched: list[Unmatched],
) -> Migration:
    """Divide the settings between the folder's file and the user's own."""
    docs = {doc.key: doc for doc in describe()}
    defaults = {key: doc.default for key, doc in docs.items()} | dict(PRESETS[source.name])
    project: dict[str, Any] = {"preset": source.name}
    own: dict[str, Any] = {}
    toml = f'# From the configuration of {source.title}.\npreset = "{source.name}"\n'
    for key, value in settings.items():
        try:
            if check_value(key, value) == defaults[key]:
                continue
        except InvalidConfig as error:
            note = f"The value is not valid for {key}. {error.hint}"
            unmatched.append(Unmatched(origins[key], value, note))
            continue
        if not docs[key].project_file:
            own[key] = value
            continue
        project[key] = value
        section, _, leaf = key.rpartition(".")
        toml = put(toml, (section,), {leaf: value})
    return Migration(source.name, project, own, tuple(unmatched), toml)


def _parse(text: str, path: Path) -> dict[str, Any]:
    name = path.name.lower()
    if name.endswith(".toml"):
        return dict(parse_toml(text, path))
    if text.lstrip().startswith(("{", "//", "/*")):
        try:
            node = jsonc.parse(text)
        except Malformed as error:
            raise InvalidConfig(
                f"{path} is not valid JSON: {error}.", hint="Fix it, and try again.",
                details={"file": str(path)},
            ) from error  # fmt: skip
        if node is None or not isinstance(node.value, dict):
            raise InvalidArgument(
                f"{path} does not contain a JSON object.", hint="Name a configuration file."
            )
        return dict(node.value)
    return dict(_parse_variables(text))


def _parse_variables(text: str) -> Iterator[tuple[str, Any]]:
    """Parse ``NAME=VALUE`` lines, as in shell scripts and .env files."""
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if not equals or name.startswith("#"):
            continue
        bare = value.strip().strip("'\"")
        try:
            yield name.strip(), json.loads(bare.lower() if bare in ("True", "False") else bare)
        except ValueError:
            yield name.strip(), bare


def _unwrap_pyproject(config: dict[str, Any]) -> dict[str, Any]:
    """Return the table ``tool.ragdocs`` of a pyproject.toml, and anything else unchanged."""
    tools = config.get("tool")
    table = tools.get("ragdocs") if isinstance(tools, dict) else None
    return table if isinstance(table, dict) else config


def _flatten(
    config: Mapping[str, Any], rows: Mapping[str, Row], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield each setting with its dotted key; a table that is one setting stays whole."""
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and name not in rows:
            yield from _flatten(value, rows, f"{name}.")
        else:
            yield name, value


def _detect_system(config: Mapping[str, Any], path: Path) -> System:
    """Return the system that knows most of the keys."""
    known: dict[str, int] = {}
    for name, system in SYSTEMS.items():
        rows = {row.theirs: row for row in system.rows}
        known[name] = sum(theirs in rows for theirs, _ in _flatten(config, rows))
    best = max(known.values())
    candidates = [name for name, count in known.items() if count == best]
    if not best or len(candidates) > 1:
        raise InvalidArgument(
            f"Cannot tell which system {path} belongs to.",
            hint=f"Name it with --from: {', '.join(SYSTEMS)}.",
            details={"candidates": candidates if best else []},
        )
    return SYSTEMS[candidates[0]]
