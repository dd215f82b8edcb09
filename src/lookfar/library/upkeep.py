"""Report the status of a library's indexes, verify and delete them, and check documentation."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from lookfar.errors import LookfarError, RootNotFound
from lookfar.library.members import USER_MEMORIES, Members
from lookfar.library.named_sources import list_waiting
from lookfar.model import Drift, DriftReport, Incomplete

if TYPE_CHECKING:
    from lookfar.collections.collection import Collection
    from lookfar.collections.commits import Commits
    from lookfar.collections.file_collection import Files
    from lookfar.collections.folder import Folder
    from lookfar.model import Status, Verified
    from lookfar.retrieve.drift.find_drifts import Checked


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


def check_drift(members: Members, collection: str) -> DriftReport:
    """Return the places in documents that name what is gone, and mark their passages."""
    from lookfar.library.reading import require_histories
    from lookfar.retrieve.drift.find_drifts import find_drifts

    folder = members.folder(collection)
    name = collection or members.only_name
    histories = [
        history
        for history in require_histories(members).values()
        if history.repository.refused is None
    ]

    def look() -> tuple[int, list[Checked], list[Incomplete]]:
        notes = folder.freshen()
        with folder.store.snapshot() as snapshot:
            checked = [
                find_drifts(snapshot, history.repository, *places)
                for history in histories
                if (places := _place_in(folder, history)) is not None
            ]
            return snapshot.generation, checked, notes

    generation, checked, notes = folder.run_healed(look)
    drifts: list[Drift] = [drift for part in checked for drift in part.drifts]
    drifts.sort(key=lambda drift: (drift.uri, drift.line, drift.name))
    folder.drift_marks.save(drifts)
    return DriftReport(
        collection=name,
        generation=generation,
        documents=sum(part.documents for part in checked),
        claims=sum(part.claims for part in checked),
        drifts=tuple(drifts),
        incomplete=tuple(notes),
    )


def _place_in(folder: Folder, history: Commits) -> tuple[str, str] | None:
    """Return the folder's path in a repository, and the repository's path in the folder."""
    root, top = Path(folder.root.path), Path(history.repository.top)
    if root.is_relative_to(top):
        return PurePosixPath(root.relative_to(top).as_posix()).as_posix().lstrip("."), ""
    if top.is_relative_to(root):
        return "", top.relative_to(root).as_posix()
    return None
