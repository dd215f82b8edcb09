"""Change several documents at once, or none of them, even if the process dies on the way.

The journal is written first. New contents are staged beside the documents and synced; once the
journal says "complete", only renames are left. After a crash the next editor finishes those
renames, or removes the staged files. If another program changed a document in the meantime, the
transaction is rolled back. On disk:

    EDITS/lock               held by the process that edits; the kernel frees it
    EDITS/journal.json       the transaction in progress, or the one a crash interrupted
    EDITS/000012/step.json   a finished transaction
    EDITS/000012/0.old       a document as it was before that transaction
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from lookfar.common.folders import list_folder
from lookfar.edit.document_files import (
    DocumentFiles,
    StepDocument,
    base_name,
    changed_meanwhile,
    digest,
    parent_folder,
)
from lookfar.errors import Conflict, IndexBusy, InvalidArgument, IOFailed, LookfarError, NotFound
from lookfar.model import Fingerprint
from lookfar.sources.confine import Handle, Root, close_folder
from lookfar.store.ground import files

Phase = Literal["staging", "complete", "taking back"]

LOCK: Final = "lock"
_MAX_STEPS: Final = 200
_JOURNAL: Final = "journal.json"
_STEP: Final = "step.json"
_NUMBER: Final = re.compile(r"[0-9]{6,12}")
_STAGED: Final = re.compile(r"\.lookfar-[0-9]{6,12}-[0-9]+-[0-9a-f]{8}\.tmp")
_LOCK_SECONDS: Final = 30.0


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


@dataclass(frozen=True, slots=True)
class Write:
    """A document as it was read and as it should become; None means that it does not exist."""

    uri: str
    old: bytes | None
    new: bytes | None
    mode: int = 0o666
    """Permission bits for a new document."""
    new_folders: tuple[str, ...] = ()
    """Folders to remove together with a deleted document, if they are empty."""


class Transactions:
    """The edits of one root. Holds nothing open between calls."""

    def __init__(self, root: Root, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.root = root
        self.documents = DocumentFiles(root)
        self.steps = StepFolder(folder)
        self._folder = folder
        self._clock = clock

    @property
    def interrupted(self) -> bool:
        """Whether an edit is in progress, or a crash interrupted one."""
        return self.steps.has_journal

    @contextmanager
    def alone(self, wait_seconds: float = _LOCK_SECONDS) -> Iterator[None]:
        """Hold the editing lock of this root; recover from a crash first."""
        files.make_folder(self._folder)
        with files.WriterLock(self._folder / LOCK) as lock:
            lock.acquire(
                wait_seconds,
                "Another process is editing documents of this folder.",
                "Try again; nothing was changed.",
            )
            self._recover()
            yield

    def recover(self) -> bool:
        """Finish or roll back what a crash interrupted; False if another process is editing."""
        try:
            with self.alone(0.0):
                return True
        except IndexBusy:
            return False

    # -- one transaction -----------------------------------------------------

    def commit(self, writes: Sequence[Write]) -> int:
        """Perform all writes or none, and return the transaction's number; inside ``alone``."""
        number = self.steps.next_number()
        step = Step(number, self._now(), self._describe(number, writes))
        done: list[str] = []
        try:
            old = (write.old for write in writes)
            self.steps.save_old(number, list(zip(step.documents, old, strict=True)))
            self.steps.write_journal("staging", step)
            with ExitStack() as opened:
                handles = self._prepare(opened, writes, step.documents)
                checked = self._refuse_changed(writes, handles)
                self.steps.write_journal("complete", step)
                self._perform(step, handles, checked, done)
        except BaseException:
            self._give_up(step, done)
            raise
        # Every document is written. If recording that fails, the journal still says "complete",
        # and the next editor records it.
        with suppress(IOFailed):
            self._finish(step)
        return number

    def _describe(self, number: int, writes: Sequence[Write]) -> tuple[StepDocument, ...]:
        """Build the record of each document: hashes, names of its files, missing folders."""
        token = secrets.token_hex(4)
        documents = self.documents
        return tuple(
            StepDocument(
                write.uri,
                digest(write.old),
                digest(write.new),
                write.mode if write.old is None else documents.mode_of(write.uri),
                documents.missing_folders(write.uri) if write.old is None else write.new_folders,
                f"{index}.old" if write.old is not None else "",
                f".lookfar-{number:06}-{index}-{token}.tmp" if write.new is not None else "",
            )
            for index, write in enumerate(writes)
        )

    def _prepare(
        self, opened: ExitStack, writes: Sequence[Write], documents: Sequence[StepDocument]
    ) -> dict[str, Handle]:
        """Create missing folders, lock every folder, and stage the new contents."""
        for document in documents:
            for folder in document.new_folders:
                self.documents.make_folder(folder)
        handles: dict[str, Handle] = {}
        for folder in sorted({parent_folder(write.uri) for write in writes}):
            handles[folder] = self.documents.open_folder(folder)
            opened.callback(close_folder, handles[folder])
            files.lock_folder(handles[folder], _LOCK_SECONDS)
        for write, document in zip(writes, documents, strict=True):
            handle, name = handles[parent_folder(write.uri)], base_name(write.uri)
            self.documents.check_writable(handle, write.uri)
            if write.new is not None:
                like = name if write.old is not None else ""
                files.stage(handle, document.staged, write.new, like, document.mode)
        for handle in handles.values():
            files.sync_open_folder(handle)
        return handles

    def _refuse_changed(
        self, writes: Sequence[Write], handles: Mapping[str, Handle]
    ) -> dict[str, Fingerprint | None]:
        """Check that each document is still what was read, in the folder that was opened."""
        checked: dict[str, Fingerprint | None] = {}
        for write in writes:
            checked[write.uri] = self.root.stat(write.uri)
            if self.documents.read_if_present(write.uri) != write.old:
                raise changed_meanwhile(write.uri)
            with self.documents.open_parent(write.uri) as handle:
                opened = handles[parent_folder(write.uri)]
                if not os.path.samestat(os.stat(handle), os.stat(opened)):
                    raise changed_meanwhile(write.uri)
        return checked

    def _perform(
        self,
        step: Step,
        handles: Mapping[str, Handle],
        checked: Mapping[str, Fingerprint | None],
        done: list[str],
    ) -> None:
        """Replace the documents; ``done`` collects those that have their new content."""
        for document in step.documents:
            # Other programs take no lock, and writing the journal took time.
            if self.root.stat(document.uri) != checked[document.uri]:
                raise changed_meanwhile(document.uri)
            done.append(document.uri)
            try:
                self.documents.replace_with_staged(document, handles[parent_folder(document.uri)])
            except Conflict:
                done.pop()
                raise
        for handle in handles.values():
            files.sync_open_folder(handle)

    def _finish(self, step: Step) -> None:
        """Record the transaction as done, so that it can be undone."""
        self.steps.finish(step)
        deleted = [document for document in step.documents if document.new is None]
        self.documents.remove_new_folders(deleted)
        # If cleaning up fails, the next editor does it.
        with suppress(IOFailed):
            self.steps.remove_journal()
            files.sync_folder(self._folder)
            self.steps.remove_older(step)

    # -- after a failure or a crash ----------------------------------------------

    def _give_up(self, step: Step, done: Collection[str]) -> None:
        """Roll back after a failure; if that fails too, the next editor does it."""
        try:
            if self.steps.has_journal:
                try:
                    self.steps.write_journal("taking back", step)
                except IOFailed:
                    # On a full disk staged files can still be removed if nothing was replaced.
                    if done:
                        raise
            self._roll_back(step, done)
        except LookfarError:
            # The journal still exists, so the next editor continues. The caller gets the
            # original failure.
            return

    def _recover(self) -> None:
        """Finish or roll back what a crash interrupted; called inside the lock."""
        for leftover in list_folder(self._folder, ".*.tmp"):
            files.remove(leftover)
        if self.steps.has_journal:
            phase, step = self.steps.read_journal()
            if phase == "complete" and self._can_finish(step):
                self._resume(step)
            else:
                uris = {document.uri for document in step.documents}
                self._roll_back(step, () if phase == "staging" else uris)
        self.steps.remove_unfinished()

    def _can_finish(self, step: Step) -> bool:
        """Whether each document has its old or new content, and the staged files are intact."""
        for document in step.documents:
            self.documents.drop_second_name(document)
            now = self.documents.digest_at(document.uri)
            if now == document.new:
                continue
            if now != document.old:
                return False
            intact = document.new is None or (
                self.documents.digest_of_staged(document) == document.new
            )
            if not intact:
                return False
        return True

    def _resume(self, step: Step) -> None:
        for document in step.documents:
            now = self.documents.digest_at(document.uri)
            if document.new is None and now is None:
                continue  # Already deleted, perhaps with the folder created for it.
            with self.documents.open_parent(document.uri) as handle:
                if now != document.new:
                    self.documents.replace_with_staged(document, handle)
                elif document.staged:
                    files.remove_entry(handle, document.staged)
                files.sync_open_folder(handle)
        self._finish(step)

    def _roll_back(self, step: Step, done: Collection[str]) -> None:
        """Restore the documents in ``done``, and remove staged files, new folders and journal."""
        for document in step.documents:
            try:
                handle = self.documents.open_folder(parent_folder(document.uri))
            except (NotFound, InvalidArgument):
                continue  # Its folder was not created yet, or was removed with its contents.
            try:
                self.documents.drop_second_name(document)
                if document.staged:
                    files.remove_entry(handle, document.staged)
                if document.uri in done and self.documents.digest_at(document.uri) == document.new:
                    self._restore(step, document, handle)
                files.sync_open_folder(handle)
            finally:
                close_folder(handle)
        self.documents.remove_new_folders(step.documents)
        self.steps.remove_journal()
        self.steps.remove_step(step)

    def _restore(self, step: Step, document: StepDocument, handle: Handle) -> None:
        name = base_name(document.uri)
        if document.old is None:
            files.remove_entry(handle, name)
            return
        old = self.steps.read_old(step, document)
        staged = document.staged or f".lookfar-{step.number:06}-0-{secrets.token_hex(4)}.tmp"
        files.stage(handle, staged, old, name if document.new is not None else "", document.mode)
        files.replace_document(handle, staged, name)

    # -- undo --------------------------------------------------------------------

    def last_step(self, uri: str) -> Step | None:
        for step in self.steps.list_steps():
            if any(document.uri == uri for document in step.documents):
                return step
        return None

    def plan_undo(self, step: Step) -> list[Write]:
        """Return the writes that undo a transaction; ``Conflict`` if a document changed since."""
        writes: list[Write] = []
        for document in step.documents:
            now = self.documents.read_if_present(document.uri)
            if digest(now) != document.new:
                raise Conflict(
                    f"{document.uri!r} was changed after the edit to undo.",
                    hint="Nothing was changed. Correct the document with another edit.",
                    details={"uri": document.uri, "transaction": step.number},
                )
            old = self.steps.read_old(step, document) if document.old is not None else None
            folders = document.new_folders if old is None else ()
            writes.append(Write(document.uri, now, old, document.mode, folders))
        return writes

    def _now(self) -> str:
        when = datetime.fromtimestamp(self._clock(), UTC)
        return when.isoformat(timespec="seconds").replace("+00:00", "Z")
