"""The library that a configuration is measured on.

Takes: folders, and what a configuration sets. Gives: an open library with an index made as the
configuration says. Refuses: to change an index that others use: where a configuration needs
other vectors, chunks or files than the index has, it gets an index of its own elsewhere.
"""

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

_UNCHECKED = 100_000
"""Searches from one look at the disk to the next: all questions meet the same state."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What is measured: settings over those of files and variables, and a generation."""

    label: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    as_of: int | None = None
    """An earlier generation of the index; None for what it serves."""


@contextmanager
def opened(
    paths: Sequence[str | Path],
    configuration: Configuration,
    *,
    elsewhere: Path,
    index_dir: str | Path | None = None,
) -> Iterator[Library]:
    """The library to measure a configuration on; an index of its own lies in ``elsewhere``."""
    chosen = {**configuration.settings, "index.check_every_searches": _UNCHECKED}
    library = Library.open(*paths, index_dir=index_dir, settings=chosen)
    if not _fits(library, paths, index_dir):
        library.close()
        if configuration.as_of is not None:
            raise InvalidArgument(
                f"Generation {configuration.as_of} was not made with the settings of"
                f" {configuration.label!r}.",
                hint="Compare generations with the settings that the index is made with.",
            )
        own = elsewhere / _name(configuration.settings)
        library = Library.open(*paths, index_dir=own, settings=chosen)
    with library:
        yield library


def _fits(library: Library, paths: Sequence[str | Path], index_dir: str | Path | None) -> bool:
    """Whether asking this library leaves the index of its folders as it is."""
    with Library.open(*paths, index_dir=index_dir) as usual:
        for name in library.collections:
            ours, theirs = library.folder(name).settings, usual.folder(name).settings
            if (ours.sources, ours.git, ours.memory) != (theirs.sources, theirs.git, theirs.memory):
                return False
    statuses = [library.status(collection=name, check=False) for name in library.collections]
    return all(each.current or not each.indexed for each in statuses)


def _name(settings: Mapping[str, Any]) -> str:
    """A folder's name for what decides how an index is made."""
    deciding = {key: each for key, each in settings.items() if not key.startswith("search.")}
    said = json.dumps(deciding, sort_keys=True, default=str)
    return blake2b(said.encode(), digest_size=8).hexdigest()
