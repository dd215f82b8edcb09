"""What the configuration of another system says, said in our settings.

Takes: the text of a configuration: JSON (with comments), TOML or a file of variables. Gives:
the settings that mean the same, apart those that only a person's own file may have, and what
has no counterpart, with the reason. Refuses (``InvalidArgument``): a file that is none of
theirs.
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
"""Names of what is never shown."""


@dataclass(frozen=True, slots=True)
class Left:
    """What has no counterpart."""

    theirs: str
    value: Any
    note: str


@dataclass(frozen=True, slots=True)
class Migrated:
    """What a configuration says, in our words."""

    system: str
    project: Mapping[str, Any]
    """For a folder's own file."""
    own: Mapping[str, Any]
    """For a person's own file, as a folder's may not have it."""
    left: tuple[Left, ...]
    toml: str
    """The folder's own file."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "system": self.system,
            "project": dict(self.project),
            "user": dict(self.own),
            "left": [{"key": e.theirs, "value": e.value, "why": e.note} for e in self.left],
            "toml": self.toml,
        }


def migrated(text: str, path: Path, system: str = "") -> Migrated:
    """What the configuration in ``text`` says. ``path`` tells its format; without a ``system``
    its keys tell whose it is."""
    said = _unwrapped(_read(text, path))
    whose = SYSTEMS[system] if system else _recognised(said, path)
    rows = {row.theirs: row for row in whose.rows}
    settings: dict[str, Any] = {}
    named: dict[str, str] = {}
    left: list[Left] = []
    for theirs, value in _told(said, rows):
        if theirs.startswith(whose.ignored):
            continue
        row = rows.get(theirs)
        if row is None or not row.ours:
            note = row.note if row else f"{whose.called} documents no such setting."
            left.append(Left(theirs, "..." if _SECRET.search(theirs) else value, note))
            continue
        meant = row.as_ours(value)
        several = meant if isinstance(meant, dict) else {row.ours: meant}
        settings |= {key: each for key, each in several.items() if each is not None}
        named |= dict.fromkeys(several, theirs)
    return _parted(whose, whose.finish(settings), named, left)


def _parted(
    whose: System, settings: Mapping[str, Any], named: Mapping[str, str], left: list[Left]
) -> Migrated:
    """What a folder's own file may have, and what only a person's may."""
    docs = {doc.key: doc for doc in describe()}
    usual = {key: doc.default for key, doc in docs.items()} | dict(PRESETS[whose.name])
    project: dict[str, Any] = {"preset": whose.name}
    own: dict[str, Any] = {}
    toml = f'# From the configuration of {whose.called}.\npreset = "{whose.name}"\n'
    for key, value in settings.items():
        try:
            if check_value(key, value) == usual[key]:
                continue
        except InvalidConfig as error:
            left.append(Left(named[key], value, f"{key} cannot be that. {error.hint}"))
            continue
        if not docs[key].project_file:
            own[key] = value
            continue
        project[key] = value
        section, _, leaf = key.rpartition(".")
        toml = put(toml, (section,), {leaf: value})
    return Migrated(whose.name, project, own, tuple(left), toml)


def _read(text: str, path: Path) -> dict[str, Any]:
    name = path.name.lower()
    if name.endswith(".toml"):
        return dict(parse_toml(text, path))
    if text.lstrip().startswith(("{", "//", "/*")):
        try:
            node = jsonc.parse(text)
        except Malformed as error:
            raise InvalidConfig(
                f"{path} is no JSON: {error}.", hint="Correct it, and try again.",
                details={"file": str(path)},
            ) from error  # fmt: skip
        if node is None or not isinstance(node.value, dict):
            raise InvalidArgument(f"{path} holds no object.", hint="Name a configuration file.")
        return dict(node.value)
    return dict(_variables(text))


def _variables(text: str) -> Iterator[tuple[str, Any]]:
    """``NAME=VALUE`` lines, as shells and .env files have them."""
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if not equals or name.startswith("#"):
            continue
        bare = value.strip().strip("'\"")
        try:
            yield name.strip(), json.loads(bare.lower() if bare in ("True", "False") else bare)
        except ValueError:
            yield name.strip(), bare


def _unwrapped(said: dict[str, Any]) -> dict[str, Any]:
    """The part of a pyproject.toml that is theirs."""
    tools = said.get("tool")
    found = tools.get("ragdocs") if isinstance(tools, dict) else None
    return found if isinstance(found, dict) else said


def _told(
    said: Mapping[str, Any], rows: Mapping[str, Row], before: str = ""
) -> Iterator[tuple[str, Any]]:
    """Each setting by its dotted key; a table that is one setting stays whole."""
    for key, value in said.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping) and name not in rows:
            yield from _told(value, rows, f"{name}.")
        else:
            yield name, value


def _recognised(said: Mapping[str, Any], path: Path) -> System:
    """The system that most of the keys are known to."""
    known: dict[str, int] = {}
    for name, each in SYSTEMS.items():
        rows = {row.theirs: row for row in each.rows}
        known[name] = sum(theirs in rows for theirs, _ in _told(said, rows))
    best = max(known.values())
    found = [name for name, count in known.items() if count == best]
    if not best or len(found) > 1:
        raise InvalidArgument(
            f"It cannot be told whose configuration {path} is.",
            hint=f"Say it with --from: {', '.join(SYSTEMS)}.",
            details={"candidates": found if best else []},
        )
    return SYSTEMS[found[0]]
