"""Report the status of a library's indexes, verify and delete them."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lookfar.errors import LookfarError, RootNotFound
from lookfar.library.members import USER_MEMORIES, Members
from lookfar.library.named_sources import list_waiting

if TYPE_CHECKING:
    from lookfar.collections.collection import Collection
    from lookfar.collections.commits import Commits
    from lookfar.collections.file_collection import Files
    from lookfar.model import Incomplete, Status, Verified


def list_statuses(members: Members) -> tuple[Status, ...]:
    histories = members.histories(look=False)
    refused = {name for name, commits in histories.items() if commits.refusal() is not None}
    companions: dict[str, Collection] = {**histories, **members.memories()}
    reported = {n: c for n, c in companions.items() if c.indexed or n in refused}
    waiting: dict[str, list[str]] = {}
    for named in list_waiting(members):
        waiting.setdefault(named.folder, []).append(named.source.name)
    folders = (
        replace(
            folder.status(collection=name),
            packages=members.count_packages(name),
            named_sources=tuple(waiting.get(os.path.realpath(folder.root.path), ())),
        )
        for name, folder in members.folders.items()
    )
    others = (collection.status(collection=name) for name, collection in reported.items())
    return (*folders, *others)


def freshen_indexed(members: Members) -> dict[str, tuple[Incomplete, ...]] | None:
    """Bring every index up to date as far as a search does; return the notes by their place.

    Return None if a folder has no index yet. There are no notes on a collection that cannot be
    brought up to date.
    """
    if not all(folder.indexed for folder in members.folders.values()):
        return None
    members.settle()
    companions: dict[str, Collection] = {
        **members.histories(look=False),
        **members.memories(),
        **members.added_sources(),
    }
    notes: dict[str, tuple[Incomplete, ...]] = {}
    for collection in (*members.folders.values(), *companions.values()):
        with suppress(LookfarError):
            if collection.indexed:
                notes[collection.place] = tuple(collection.freshen())
    return notes


def verify_all(
    members: Members,
    *,
    repair: bool,
    on_step: Callable[[str, str], None] | None,
) -> tuple[Verified, ...]:
    # Databases belong to no folder: they are verified wherever this is called.
    collections: dict[str, Collection] = {
        **members.folders,
        **members.histories(look=False),
        **members.memories(),
        **members.databases(),
    }
    indexed = {name: c for name, c in collections.items() if c.indexed}
    return tuple(
        collection.verify(
            repair=repair,
            collection=name,
            on_step=partial(on_step, name) if on_step is not None else None,
        )
        for name, collection in (indexed or members.folders).items()
    )


def list_deletable(members: Members) -> list[Files | Commits]:
    # The user's memories belong to other folders, too.
    memories = [m for name, m in members.memories().items() if name != USER_MEMORIES]
    try:
        histories = members.histories()
    except RootNotFound:  # An index can be deleted after its folder.
        histories = members.histories(look=False)
    return [*members.folders.values(), *histories.values(), *memories]


def delete_indexes(members: Members, wait_seconds: float) -> tuple[str, ...]:
    places: list[str] = []
    for collection in list_deletable(members):
        if collection.begun:
            places.append(collection.place)
            collection.delete(wait_seconds=wait_seconds)
    return tuple(places)
