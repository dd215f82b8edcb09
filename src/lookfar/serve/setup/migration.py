"""Convert the configuration of another system to our settings.

The input is JSON (with comments), TOML or a file of environment variables. Settings that only
the user's own file may contain are returned separately, and so are those without a counterpart,
each with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lookfar.config import PRESETS, check_value, describe
from lookfar.config.foreign.rows import Converted, System, Unmatched, convert, flatten
from lookfar.config.foreign.systems import SYSTEMS
from lookfar.config.foreign.trust_layers import parse_config, unwrap_pyproject
from lookfar.errors import InvalidArgument, InvalidConfig
from lookfar.serve.setup.toml_text import put


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
    config = unwrap_pyproject(parse_config(text, path))
    source = SYSTEMS[system] if system else _detect_system(config, path)
    return _build_migration(source, convert(source, config))


def _build_migration(source: System, converted: Converted) -> Migration:
    """Divide the settings between the folder's file and the user's own."""
    unmatched = converted.unmatched
    docs = {doc.key: doc for doc in describe()}
    defaults = {key: doc.default for key, doc in docs.items()} | dict(PRESETS[source.name])
    project: dict[str, Any] = {"preset": source.name}
    own: dict[str, Any] = {}
    toml = f'# From the configuration of {source.title}.\npreset = "{source.name}"\n'
    for key, value in converted.settings.items():
        try:
            if check_value(key, value) == defaults[key]:
                continue
        except InvalidConfig as error:
            note = f"The value is not valid for {key}. {error.hint}"
            unmatched.append(Unmatched(converted.origins.get(key, key), value, note))
            continue
        if not docs[key].project_file:
            own[key] = value
            continue
        project[key] = value
        section, _, leaf = key.rpartition(".")
        toml = put(toml, (section,), {leaf: value})
    return Migration(source.name, project, own, tuple(unmatched), toml)


def _detect_system(config: Mapping[str, Any], path: Path) -> System:
    """Return the system that knows most of the keys."""
    known: dict[str, int] = {}
    for name, system in SYSTEMS.items():
        rows = system.rows_by_name
        known[name] = sum(theirs in rows for theirs, _ in flatten(config, rows))
    best = max(known.values())
    candidates = [name for name, count in known.items() if count == best]
    if not best or len(candidates) > 1:
        raise InvalidArgument(
            f"Cannot tell which system {path} belongs to.",
            hint=f"Name it with --from: {', '.join(SYSTEMS)}.",
            details={"candidates": candidates if best else []},
        )
    return SYSTEMS[candidates[0]]
