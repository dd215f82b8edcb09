"""Open the library that a configuration is measured on, without changing the user's own index."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from lookfar.errors import InvalidArgument
from lookfar.library import Library

_NEVER_CHECK = 100_000
"""Searches between two comparisons with the disk, so that all questions see the same state."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What is measured: settings that override files and variables, and a generation."""

    label: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    as_of: int | None = None
    """An earlier generation of the index; None for the active one."""


@contextmanager
def open_configuration(
    paths: Sequence[str | Path],
    configuration: Configuration,
    *,
    elsewhere: Path,
    index_dir: str | Path | None = None,
) -> Iterator[Library]:
    """Open the library to measure; if it needs an index of its own, that is in ``elsewhere``."""
    settings = {**configuration.settings, "index.check_every_searches": _NEVER_CHECK}
    library = Library.open(*paths, index_dir=index_dir, settings=settings)
    if not _fits(library, paths, index_dir):
        library.close()
        if configuration.as_of is not None:
            raise InvalidArgument(
                f"Generation {configuration.as_of} was not made with the settings of"
                f" {configuration.label!r}.",
                hint="Compare generations with the settings that the index was built with.",
            )
        own = elsewhere / _folder_name(configuration.settings)
        library = Library.open(*paths, index_dir=own, settings=settings)
    with library:
        yield library


def _fits(library: Library, paths: Sequence[str | Path], index_dir: str | Path | None) -> bool:
    """Return whether this library can be searched without changing the index of its folders."""
    with Library.open(*paths, index_dir=index_dir) as default:
        for name in library.collections:
            ours, theirs = library.folder(name).settings, default.folder(name).settings
            if (ours.sources, ours.git, ours.memory) != (theirs.sources, theirs.git, theirs.memory):
                return False
    statuses = [library.status(collection=name, check=False) for name in library.collections]
    return all(status.current or not status.indexed for status in statuses)


def _folder_name(settings: Mapping[str, Any]) -> str:
    """Name a folder after the settings that decide how an index is built."""
    relevant = {key: value for key, value in settings.items() if not key.startswith("search.")}
    text = json.dumps(relevant, sort_keys=True, default=str)
    return blake2b(text.encode(), digest_size=8).hexdigest()
