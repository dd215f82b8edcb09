"""Convert the settings of another system to ours, with the table of that system."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lookfar.config.foreign.rows import Row, System

_SECRET: Final = re.compile(r"key|token|secret|password", re.IGNORECASE)
"""Names of settings whose values are not shown."""


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
