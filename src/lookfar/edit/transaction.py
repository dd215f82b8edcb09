"""Change several documents at once, or none of them, even if the process dies on the way.

The journal is written first. New contents are staged beside the documents and synced; once the
journal says "complete", only renames are left. After a crash the next editor finishes those
renames, or removes the staged files. If another program changed a document in the meantime, the
transaction is rolled back. ``steps`` describes the files.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from lookfar.common.folders import list_folder
from lookfar.edit.document_files import DocumentFiles, base_name, changed_meanwhile, parent_folder
from lookfar.edit.steps import LOCK, Step, StepDocument, StepFolder, digest
from lookfar.errors import Conflict, IndexBusy, InvalidArgument, IOFailed, LookfarError, NotFound
from lookfar.model import Fingerprint
from lookfar.sources.confine import Handle, Root, close_folder
from lookfar.store.ground import files

_LOCK_SECONDS: Final = 30.0


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
