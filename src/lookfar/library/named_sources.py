"""Which sources the projects of a library name in their ``lookfar.toml``, and which are there."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from hashlib import sha256
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lookfar.errors import NotFound, PermissionDenied
from lookfar.model import NamedSource, NamedState, NamedStatus, OutsideSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lookfar.collections.outside.shelf import Shelf
    from lookfar.config import Settings
    from lookfar.library.members import Members

_LIMITS: Final = ("max_pages", "max_files", "max_bytes")


def list_named(members: Members) -> list[NamedStatus]:
    """Return the sources that the folders name. Only files on this machine are read."""
    # Imported here: few projects name sources, and every status asks.
    from lookfar.config.named_sources import read_named_sources

    statuses: list[NamedStatus] = []
    for folder in members.folders.values():
        real = os.path.realpath(folder.root.path)
        named = read_named_sources(Path(real))
        stored = members.outside_shelf.list_all() if named else []
        statuses += (_find_state(source, real, stored) for source in named)
    return statuses


def list_waiting(members: Members) -> list[NamedStatus]:
    """Return the named sources that the user has not confirmed as they are now."""
    return [status for status in list_named(members) if status.state != "added"]


def get_named(members: Members, name: str) -> NamedStatus:
    """Return an entry by its name; raises ``NotFound`` if no folder names it."""
    statuses = list_named(members)
    for status in statuses:
        if status.source.name == name:
            return status
    raise NotFound(
        f"No lookfar.toml names a source {name[:100]!r}.",
        hint="lookfar sources lists those that are named.",
        details={"candidates": [status.source.name for status in statuses]},
    )


def make_key(folder: str, name: str) -> str:
    """Return the key under which the confirmation of an entry is recorded.

    Without a name, it is the key for a source that the user added for the folder without an entry.
    """
    return f"{folder}#{name}"


def is_named_by(folder: str, keys: Iterable[str]) -> bool:
    """Return whether one of these keys belongs to a folder."""
    return any(key.rpartition("#")[0] == folder for key in keys)


def compute_digest(source: NamedSource) -> str:
    """Return a hash of an entry: if it changes, the user is asked again."""
    return sha256(dumps(asdict(source), sort_keys=True).encode()).hexdigest()


def locate_origin(status: NamedStatus) -> str:
    """Return the address of an entry, or the real path of its archive inside the project."""
    origin = status.source.origin
    if "://" in origin:
        return origin
    path = os.path.realpath(os.path.join(status.folder, origin))
    if not path.startswith(status.folder.rstrip(os.sep) + os.sep):
        raise PermissionDenied(
            f"{origin} is not inside the project: it is a link to {path}.",
            hint="Add it yourself if you trust it: lookfar add PATH",
        )
    return path


def make_options(source: NamedSource) -> dict[str, str | int | bool]:
    """Return the fetch options of an entry as they are recorded."""
    limits = {name: getattr(source, name) for name in _LIMITS}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    return {**given, "only_page": True} if source.only_page else given


def lower_limits(settings: Settings, source: OutsideSource) -> Settings:
    """Return the user's settings with the limits of a source where those are lower."""
    limits: dict[str, Any] = {
        name: min(int(source.options[name]), getattr(settings.outside, name))
        for name in _LIMITS
        if name in source.options
    }
    return replace(settings, outside=replace(settings.outside, **limits)) if limits else settings


def choose_name(shelf: Shelf, status: NamedStatus, origin: str) -> str:
    """Return the name for a source: that of its entry, or a longer one if something else has it.

    What was fetched for this entry alone, from the same origin, is replaced.
    """
    from lookfar.collections.outside.opened import SOURCE_SUFFIX

    name = status.source.name
    known = shelf.find(f"{name}{SOURCE_SUFFIX}")
    if known is None:
        return name
    is_ours = known.origin == origin and set(known.named) == {make_key(status.folder, name)}
    wanted = f"{origin} {status.source.only_page}"
    return name if is_ours else f"{name}-{sha256(wanted.encode()).hexdigest()[:8]}"


def _find_state(source: NamedSource, folder: str, stored: Sequence[OutsideSource]) -> NamedStatus:
    key, digest = make_key(folder, source.name), compute_digest(source)
    state: NamedState = "missing"
    name = previous = ""
    for known in stored:
        if known.named.get(key) == digest:
            return NamedStatus(source, folder, "added", known.name)
        if key in known.named:
            state, name, previous = "changed", known.name, known.origin
    return NamedStatus(source, folder, state, name, previous)
