"""Check the documentation of a folder against its code and the history of its repositories."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from lookfar.library.members import Members
from lookfar.library.reading import require_histories
from lookfar.model import Drift, DriftReport, Incomplete
from lookfar.retrieve.drift.find_drifts import Checked, find_drifts

if TYPE_CHECKING:
    from lookfar.collections.commits import Commits
    from lookfar.collections.folder import Folder


def check_drift(members: Members, collection: str) -> DriftReport:
    """Return the places in documents that name what is gone, and mark their passages."""
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
