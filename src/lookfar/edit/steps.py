"""The records of transactions on disk: the journal of a running one, and the finished ones.

EDITS/lock               held by the process that edits; the kernel frees it
EDITS/journal.json       the transaction in progress, or the one a crash interrupted
EDITS/000012/step.json   a finished transaction
EDITS/000012/0.old       a document as it was before that transaction
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal

from lookfar.common.folders import list_folder
from lookfar.errors import IOFailed
from lookfar.store.ground import files

Phase = Literal["staging", "complete", "taking back"]

LOCK: Final = "lock"
_MAX_STEPS: Final = 200
_JOURNAL: Final = "journal.json"
_STEP: Final = "step.json"
_NUMBER: Final = re.compile(r"[0-9]{6,12}")
_STAGED: Final = re.compile(r"\.lookfar-[0-9]{6,12}-[0-9]+-[0-9a-f]{8}\.tmp")


@dataclass(frozen=True, slots=True)
class StepDocument:
    uri: str
    old: str | None
    """SHA-256 of the bytes before the transaction; None if the document did not exist."""
    new: str | None
    """SHA-256 of the bytes after it; None if the document is deleted."""
    mode: int
    new_folders: tuple[str, ...] = ()
    """Folders created for the document, outermost first."""
    old_file: str = ""
    """Name of the copy of the old bytes in the folder of the step."""
    staged: str = ""
    """Name of the temporary file, beside the document, that holds the new bytes."""


@dataclass(frozen=True, slots=True)
class Step:
    """A transaction as it is recorded on disk."""

    number: int
    at: str
    documents: tuple[StepDocument, ...]


class StepFolder:
    """The journal and the finished steps of one root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    # -- journal -----------------------------------------------------------------

    @property
    def has_journal(self) -> bool:
        return (self.folder / _JOURNAL).exists()

    def write_journal(self, phase: Phase, step: Step) -> None:
        files.write_atomic(self.folder / _JOURNAL, _to_json(step, phase=phase))

    def read_journal(self) -> tuple[Phase, Step]:
        """Return the interrupted transaction and its phase; set a damaged journal aside."""
        journal = self.folder / _JOURNAL
        with files.translate_errors("reading the journal of an edit"):
            text = journal.read_bytes()
        try:
            row = json.loads(text)
            return row["phase"], _from_json(row)
        except (ValueError, KeyError, TypeError) as error:
            files.rename(journal, self.folder / "journal.damaged")
            raise IOFailed(
                "The journal of an interrupted edit cannot be read.",
                hint="It was renamed to journal.damaged; repeat the edit. Remove files named "
                ".lookfar-*.tmp beside your documents.",
                developer=str(error),
                details={"path": str(journal)},
            ) from error

    def remove_journal(self) -> None:
        files.remove(self.folder / _JOURNAL)

    # -- steps -------------------------------------------------------------------

    def list_steps(self) -> list[Step]:
        """Return the finished transactions, newest first."""
        steps: list[Step] = []
        for home in self._step_folders():
            try:
                steps.append(_from_json(json.loads((home / _STEP).read_bytes())))
            except (OSError, ValueError, KeyError, TypeError):
                continue  # Unfinished, or being removed by another process.
        return sorted(steps, key=lambda step: -step.number)

    def next_number(self) -> int:
        return max((int(home.name) for home in self._step_folders()), default=0) + 1

    def save_old(self, number: int, copies: Sequence[tuple[StepDocument, bytes | None]]) -> None:
        """Copy the documents as they are now into the folder of a step."""
        home = self._step_folder(number)
        files.make_folder(home)
        for document, raw in copies:
            if raw is not None:
                files.write_atomic(home / document.old_file, raw)

    def read_old(self, step: Step, document: StepDocument) -> bytes:
        """Return a document as it was before a step, and check its hash."""
        path = self._step_folder(step.number) / document.old_file
        with files.translate_errors("reading the document as it was before the edit"):
            old = path.read_bytes()
        if digest(old) != document.old:
            raise IOFailed(
                f"The saved copy of {document.uri!r} from before the edit is damaged.",
                hint="The document itself was not changed; check the disk.",
                details={"path": str(path)},
            )
        return old

    def finish(self, step: Step) -> None:
        files.write_atomic(self._step_folder(step.number) / _STEP, _to_json(step))

    def remove_step(self, step: Step) -> None:
        files.remove(self._step_folder(step.number))

    def remove_unfinished(self) -> None:
        for home in self._step_folders():
            if not (home / _STEP).exists():
                files.remove(home)

    def remove_older(self, newest: Step) -> None:
        """Remove steps whose documents all have a later step, and those above the limit."""
        seen = {document.uri for document in newest.documents}
        older = (step for step in self.list_steps() if step.number < newest.number)
        for count, step in enumerate(older, 1):
            uris = {document.uri for document in step.documents}
            if uris <= seen or count >= _MAX_STEPS:
                self.remove_step(step)
            seen |= uris

    def _step_folder(self, number: int) -> Path:
        return self.folder / f"{number:06}"

    def _step_folders(self) -> list[Path]:
        return [home for home in list_folder(self.folder) if _NUMBER.fullmatch(home.name)]


def digest(raw: bytes | None) -> str | None:
    """Return the SHA-256 of a document, or None for a document that does not exist."""
    return None if raw is None else sha256(raw).hexdigest()


def _to_json(step: Step, **more: Any) -> bytes:
    documents = [
        {
            "uri": document.uri,
            "old": document.old,
            "new": document.new,
            "mode": document.mode,
            "made": list(document.new_folders),
            "file": document.old_file,
            "staged": document.staged,
        }
        for document in step.documents
    ]
    row = {"transaction": step.number, "at": step.at, "documents": documents, **more}
    return json.dumps(row, ensure_ascii=True).encode()


def _from_json(row: Any) -> Step:
    documents = tuple(
        StepDocument(
            entry["uri"],
            entry["old"],
            entry["new"],
            int(entry["mode"]) & 0o777,
            tuple(entry["made"]),
            entry["file"],
            entry["staged"] if _STAGED.fullmatch(entry["staged"]) else "",
        )
        for entry in row["documents"]
    )
    return Step(int(row["transaction"]), str(row["at"]), documents)
