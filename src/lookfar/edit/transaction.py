"""Several documents changed at once, or none of them, whatever happens meanwhile.

Takes: a root, a folder of ours beside its index, and for each document what it was and what it
shall be. Gives: a numbered transaction that can be taken back. Refuses: a document that is not
what it was, with ``Conflict``, and to reach anything but through the folders of the root.

    EDITS/lock               held by the one editor, freed by the kernel
    EDITS/journal.json       what is under way; there only then, or after a crash
    EDITS/000012/step.json   a transaction that was finished...
    EDITS/000012/0.old       ...and what its documents were before

The journal is written before anything else. New contents are staged beside the documents and
synced; once the journal says that they are complete, nothing but renaming is left. Whoever
comes after a crash finishes that, or removes what was staged. A document that somebody else
changed in between is never written over: then all of it is taken back.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from lookfar.common.folders import list_folder
from lookfar.errors import (
    Conflict,
    IndexBusy,
    InvalidArgument,
    IOFailed,
    LookfarError,
    NotFound,
    PermissionDenied,
    from_os_error,
)
from lookfar.model import Fingerprint
from lookfar.sources.confine import Handle, Refused, Root, close_folder, components, lstat_in
from lookfar.store.ground import files

MOST_BYTES: Final = 64 << 20
"""Larger documents are not edited."""
_MOST_STEPS: Final = 200
_PATIENCE: Final = 30.0
_LOCK: Final = "lock"
_JOURNAL: Final = "journal.json"
_STEP: Final = "step.json"
_NUMBER: Final = re.compile(r"[0-9]{6,12}")
_STAGED: Final = re.compile(r"\.lookfar-[0-9]{6,12}-[0-9]+-[0-9a-f]{8}\.tmp")


@dataclass(frozen=True, slots=True)
class Write:
    """A document, as it was when it was read and as it shall be; None is absence."""

    uri: str
    old: bytes | None
    new: bytes | None
    mode: int = 0o666
    """Of a document that is not there yet."""
    made: tuple[str, ...] = ()
    """Folders that go with a document that goes, if nothing else is in them."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A document of a finished transaction."""

    uri: str
    old: str | None
    """The hash of the bytes that it had, or None where it was not there."""
    new: str | None
    mode: int
    made: tuple[str, ...] = ()
    """Folders that were made for it, the outermost first."""
    file: str = ""
    staged: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """A finished transaction."""

    number: int
    at: str
    documents: tuple[Kept, ...]


class Transactions:
    """The edits of one root. Holds nothing open: safe to share and forget."""

    def __init__(self, root: Root, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.root = root
        self.folder = folder
        self._clock = clock

    # -- before --------------------------------------------------------------

    @property
    def interrupted(self) -> bool:
        """Whether somebody is editing at this moment, or was when their process died."""
        return (self.folder / _JOURNAL).exists()

    @contextmanager
    def alone(self, wait_seconds: float = _PATIENCE) -> Iterator[None]:
        """Be the only one who edits this root, after what a crash left was put in order."""
        files.make_folder(self.folder)
        with files.WriterLock(self.folder / _LOCK) as lock:
            try:
                lock.acquire(wait_seconds)
            except IndexBusy as busy:
                raise IndexBusy(
                    "Others are editing documents of this folder at this moment.",
                    hint="Try again; nothing was changed.",
                    developer=busy.developer,
                    details=busy.details,
                ) from busy
            self._recover()
            yield

    def recover(self) -> bool:
        """Put in order what a crash left; False where somebody is at work and alive."""
        try:
            with self.alone(0.0):
                return True
        except IndexBusy:
            return False

    def look(self, uri: str) -> bytes:
        """A document's bytes."""
        try:
            return self.root.read(uri, MOST_BYTES)[0]
        except Refused as refusal:
            raise _refusal(refusal) from refusal

    def read(self, uri: str) -> bytes:
        """A document's bytes, if it is one that could be replaced as well."""
        raw = self.look(uri)
        handle = self._folder_of(uri)
        try:
            self._refuse_unwritable(handle, uri)
        finally:
            close_folder(handle)
        return raw

    def refuse_no_room(self, uri: str) -> None:
        """Whether a new document could be put there, so that a dry run says so, too."""
        made = self._missing(uri)
        handle = self._folder_of(made[0] if made else uri)
        try:
            _refuse_read_only(os.stat(handle), "The folder of", uri)
        finally:
            close_folder(handle)

    # -- one transaction -----------------------------------------------------

    def commit(self, writes: Sequence[Write]) -> int:
        """Make the writes, all or none, and give the transaction's number; inside ``alone``."""
        number = self._next()
        home = self.folder / f"{number:06}"
        token = secrets.token_hex(4)
        kept = tuple(
            Kept(
                each.uri,
                _sha(each.old),
                _sha(each.new),
                self._mode(each),
                self._missing(each.uri) if each.old is None else each.made,
                f"{at}.old" if each.old is not None else "",
                f".lookfar-{number:06}-{at}-{token}.tmp" if each.new is not None else "",
            )
            for at, each in enumerate(writes)
        )
        step = Step(number, self._now(), kept)
        done: list[str] = []
        try:
            files.make_folder(home)
            for each, made in zip(writes, kept, strict=True):
                if each.old is not None:
                    files.write_atomic(home / made.file, each.old)
            self._note("staging", step)
            with ExitStack() as opened:
                handles = self._prepare(opened, writes, kept)
                looked = self._refuse_changed(writes, handles)
                self._note("complete", step)
                self._perform(step, handles, looked, done)
        except BaseException:
            self._give_up(step, done)
            raise
        # All of it is there. Where even that cannot be written down, the journal still says so,
        # and the next editor does.
        with suppress(IOFailed):
            self._finish(step)
        return number

    def _prepare(
        self, opened: ExitStack, writes: Sequence[Write], kept: Sequence[Kept]
    ) -> dict[str, Handle]:
        """Make folders that are missing, keep others out of all of them, stage what is new."""
        for each in kept:
            for folder in each.made:
                above, _, name = folder.rpartition("/")
                handle = self._open(above)
                try:
                    _refuse_read_only(os.stat(handle), "The folder of", folder)
                    files.make_inside(handle, name)
                    files.sync_open(handle)
                finally:
                    close_folder(handle)
        handles: dict[str, Handle] = {}
        for folder in sorted({_above(each.uri) for each in writes}):
            handles[folder] = self._open(folder)
            opened.callback(close_folder, handles[folder])
            files.lock_open(handles[folder], _PATIENCE)
        for write, each in zip(writes, kept, strict=True):
            handle, name = handles[_above(each.uri)], _name(each.uri)
            self._refuse_unwritable(handle, each.uri)
            if write.new is not None:
                like = name if write.old is not None else ""
                files.stage(handle, each.staged, write.new, like, each.mode)
        for handle in handles.values():
            files.sync_open(handle)
        return handles

    def _refuse_changed(
        self, writes: Sequence[Write], handles: Mapping[str, Handle]
    ) -> dict[str, Fingerprint | None]:
        """The last look: each document is what it was, in the folder that was opened."""
        looked: dict[str, Fingerprint | None] = {}
        for write in writes:
            looked[write.uri] = self.root.stat(write.uri)
            if self._now_at(write.uri) != write.old:
                raise _conflict(write.uri)
            handle = self._open(_above(write.uri))
            try:
                if not os.path.samestat(os.stat(handle), os.stat(handles[_above(write.uri)])):
                    raise _conflict(write.uri)
            finally:
                close_folder(handle)
        return looked

    def _perform(
        self,
        step: Step,
        handles: Mapping[str, Handle],
        looked: Mapping[str, Fingerprint | None],
        done: list[str],
    ) -> None:
        """Give each document its new content; ``done`` says which have it."""
        for each in step.documents:
            # Editors of others take no lock, and the journal took its time.
            if self.root.stat(each.uri) != looked[each.uri]:
                raise _conflict(each.uri)
            done.append(each.uri)
            try:
                self._carry_out(each, handles[_above(each.uri)])
            except Conflict:
                done.pop()
                raise
        for handle in handles.values():
            files.sync_open(handle)

    def _carry_out(self, each: Kept, handle: Handle) -> None:
        name = _name(each.uri)
        if each.new is None:
            files.drop(handle, name)
        elif each.old is not None:
            files.swap(handle, each.staged, name)
        elif not files.put_new(handle, each.staged, name):
            raise _conflict(each.uri)

    def _finish(self, step: Step) -> None:
        """The transaction is done: what it replaced is what an undo goes back to."""
        files.write_atomic(self.folder / f"{step.number:06}" / _STEP, _packed(step))
        self._unmake([each for each in step.documents if each.new is None])
        # Tidying that fails is left to the next editor: it would find nothing else to do.
        with suppress(IOFailed):
            files.remove(self.folder / _JOURNAL)
            files.sync_folder(self.folder)
            self._forget_older(step)

    # -- after a failure or a crash ----------------------------------------------

    def _give_up(self, step: Step, done: Collection[str]) -> None:
        """Take everything back after a failure; where that fails too, the next start does."""
        try:
            if (self.folder / _JOURNAL).exists():
                try:
                    self._note("taking back", step)
                except IOFailed:
                    # On a full disk what was staged can still go, where nothing was replaced yet.
                    if done:
                        raise
            self._take_back(step, done)
        except LookfarError:
            # The journal is still there, so the next editor goes on from here. The caller
            # hears of the failure that led to this one.
            return

    def _recover(self) -> None:
        """Finish or take back what a crash interrupted; inside the lock."""
        for left in list_folder(self.folder, ".*.tmp"):
            files.remove(left)
        journal = self.folder / _JOURNAL
        if journal.exists():
            with files.disk("reading the journal of an edit"):
                text = journal.read_bytes()
            try:
                noted = json.loads(text)
                step, phase = _unpacked(noted), noted["phase"]
            except (ValueError, KeyError, TypeError) as error:
                files.rename(journal, self.folder / "journal.damaged")
                raise IOFailed(
                    "The journal of an interrupted edit cannot be read.",
                    hint="It was set aside as journal.damaged; edit again. Look for files named "
                    ".lookfar-*.tmp beside your documents.",
                    developer=str(error),
                    details={"path": str(journal)},
                ) from error
            if phase == "complete" and self._can_finish(step):
                self._go_on(step)
            else:
                everything = {each.uri for each in step.documents}
                self._take_back(step, () if phase == "staging" else everything)
        for home in self._homes():
            if not (home / _STEP).exists():
                files.remove(home)

    def _can_finish(self, step: Step) -> bool:
        """Whether each document is what it was or what it shall be, and what is new is there."""
        for each in step.documents:
            self._part_names(each)
            now = self._sha_at(each.uri)
            if now == each.new:
                continue
            if now != each.old:
                return False
            if each.new is not None and self._sha_of_staged(each) != each.new:
                return False
        return True

    def _go_on(self, step: Step) -> None:
        for each in step.documents:
            if each.new is None and self._sha_at(each.uri) is None:
                continue  # It went, and the folder that was made for it perhaps, too.
            handle = self._open(_above(each.uri))
            try:
                if self._sha_at(each.uri) != each.new:
                    self._carry_out(each, handle)
                elif each.staged:
                    files.drop(handle, each.staged)
                files.sync_open(handle)
            finally:
                close_folder(handle)
        self._finish(step)

    def _take_back(self, step: Step, done: Collection[str]) -> None:
        """Each document that has its new content from us gets the old one; what was staged goes."""
        for each in step.documents:
            try:
                handle = self._open(_above(each.uri))
            except (NotFound, InvalidArgument):
                continue  # Its folder was not made yet, or is gone with all that was in it.
            try:
                self._part_names(each)
                if each.staged:
                    files.drop(handle, each.staged)
                if each.uri in done and self._sha_at(each.uri) == each.new:
                    self._restore(step, each, handle)
                files.sync_open(handle)
            finally:
                close_folder(handle)
        self._unmake(step.documents)
        files.remove(self.folder / _JOURNAL)
        files.remove(self.folder / f"{step.number:06}")

    def _restore(self, step: Step, each: Kept, handle: Handle) -> None:
        name = _name(each.uri)
        if each.old is None:
            files.drop(handle, name)
            return
        old = self.old_of(step, each)
        staged = each.staged or f".lookfar-{step.number:06}-0-{secrets.token_hex(4)}.tmp"
        files.stage(handle, staged, old, name if each.new is not None else "", each.mode)
        files.swap(handle, staged, name)

    def _part_names(self, each: Kept) -> None:
        """A new document may have its staged name as well, if the end came between the two."""
        if each.old is not None or not each.staged:
            return
        try:
            handle = self._open(_above(each.uri))
        except (NotFound, InvalidArgument):
            return
        try:
            one, other = (lstat_in(handle, name) for name in (_name(each.uri), each.staged))
            if os.path.samestat(one, other):
                files.drop(handle, each.staged)
        except OSError:
            return  # One of them is not there.
        finally:
            close_folder(handle)

    def _sha_of_staged(self, each: Kept) -> str | None:
        above = _above(each.uri)
        return self._sha_at(f"{above}/{each.staged}" if above else each.staged)

    def _unmake(self, documents: Sequence[Kept]) -> None:
        """Remove the folders that were made for documents that are not there, if empty."""
        for each in documents:
            for folder in reversed(each.made):
                above, _, name = folder.rpartition("/")
                try:
                    handle = self._open(above)
                except LookfarError:
                    continue  # Not there, so it need not go.
                try:
                    files.drop_empty(handle, name)
                finally:
                    close_folder(handle)

    # -- taking back -------------------------------------------------------------

    def steps(self) -> list[Step]:
        """Every transaction that is kept, the newest first."""
        found: list[Step] = []
        for home in self._homes():
            try:
                found.append(_unpacked(json.loads((home / _STEP).read_bytes())))
            except (OSError, ValueError, KeyError, TypeError):
                continue  # Not finished, or being removed this moment.
        return sorted(found, key=lambda step: -step.number)

    def last(self, uri: str) -> Step | None:
        """The last transaction that changed a document."""
        return next((s for s in self.steps() if any(each.uri == uri for each in s.documents)), None)

    def undoing(self, step: Step) -> list[Write]:
        """The writes that take a transaction back; ``Conflict`` where a document changed since."""
        writes: list[Write] = []
        for each in step.documents:
            now = self._now_at(each.uri)
            if _sha(now) != each.new:
                raise Conflict(
                    f"{each.uri!r} was changed since the edit that would be taken back.",
                    hint="Nothing was changed. Mend it by another edit.",
                    details={"uri": each.uri, "transaction": step.number},
                )
            old = self.old_of(step, each) if each.old is not None else None
            writes.append(Write(each.uri, now, old, each.mode, each.made if old is None else ()))
        return writes

    def old_of(self, step: Step, each: Kept) -> bytes:
        """What a document was before a transaction, checked."""
        path = self.folder / f"{step.number:06}" / each.file
        with files.disk("reading what an edit replaced"):
            old = path.read_bytes()
        if _sha(old) != each.old:
            raise IOFailed(
                f"What {each.uri!r} was before the edit was damaged on the disk.",
                hint="The document itself was not touched; check the disk.",
                details={"path": str(path)},
            )
        return old

    def _forget_older(self, newest: Step) -> None:
        """Drop transactions of which each document has a later one, and all beyond the limit."""
        seen = {each.uri for each in newest.documents}
        for count, step in enumerate(each for each in self.steps() if each.number < newest.number):
            uris = {each.uri for each in step.documents}
            if uris <= seen or count + 1 >= _MOST_STEPS:
                files.remove(self.folder / f"{step.number:06}")
            seen |= uris

    # -- the disk ------------------------------------------------------------------

    def _homes(self) -> list[Path]:
        return [home for home in list_folder(self.folder) if _NUMBER.fullmatch(home.name)]

    def _next(self) -> int:
        return max((int(home.name) for home in self._homes()), default=0) + 1

    def _note(self, phase: str, step: Step) -> None:
        files.write_atomic(self.folder / _JOURNAL, _packed(step, phase=phase))

    def _now(self) -> str:
        when = datetime.fromtimestamp(self._clock(), UTC)
        return when.isoformat(timespec="seconds").replace("+00:00", "Z")

    def _now_at(self, uri: str) -> bytes | None:
        """What stands at a URI now, or None for nothing."""
        try:
            return self.look(uri)
        except NotFound:
            return None

    def _sha_at(self, uri: str) -> str | None:
        """The hash of what stands at a URI; of what is no document any more, none that fits."""
        try:
            return _sha(self._now_at(uri))
        except (InvalidArgument, Conflict) as error:
            return error.code

    def _open(self, folder: str) -> Handle:
        try:
            return self.root.open_folder(folder)
        except Refused as refusal:
            if refusal.reason == "gone" and folder and self.root.stat(folder) is not None:
                raise InvalidArgument(
                    f"{folder!r} is a file, and nothing can lie below it.",
                    hint="Nothing was changed. Choose another name.",
                    details={"uri": folder, "reason": "not_a_folder"},
                ) from refusal
            raise _refusal(refusal) from refusal
        except OSError as error:
            raise from_os_error(error, f"opening the folder {folder!r}") from error

    def _folder_of(self, uri: str) -> Handle:
        return self._open(_above(uri))

    def _missing(self, uri: str) -> tuple[str, ...]:
        """The folders on the way to a new document that are not there, the outermost first."""
        parts = components(uri)[:-1]
        for depth in range(len(parts), -1, -1):
            try:
                close_folder(self._open("/".join(parts[:depth])))
            except NotFound:
                continue
            return tuple("/".join(parts[:n]) for n in range(depth + 1, len(parts) + 1))
        return ()

    def _mode(self, write: Write) -> int:
        if write.old is None:
            return write.mode
        handle = self._folder_of(write.uri)
        try:
            return stat.S_IMODE(lstat_in(handle, _name(write.uri)).st_mode)
        except OSError as error:
            raise _conflict(write.uri) from error
        finally:
            close_folder(handle)

    def _refuse_unwritable(self, handle: Handle, uri: str) -> None:
        """A document or folder that nobody may write to is meant to stay as it is.

        The system would let us replace the one, and whoever is root write to both.
        """
        here = os.stat(handle)
        try:
            info = lstat_in(handle, _name(uri))
        except FileNotFoundError:
            info = None
        except OSError as error:
            raise from_os_error(error, f"examining {uri!r}") from error
        for what, found in (("The folder of", here), ("", info)):
            if found is not None:
                _refuse_read_only(found, what, uri)
        if info is not None and info.st_nlink > 1:
            raise _refusal(Refused(uri, "hard_link"))
        if info is not None and isinstance(handle, int):
            by_us = os.access in os.supports_effective_ids
            if not os.access(_name(uri), os.W_OK, dir_fd=handle, effective_ids=by_us):
                raise PermissionDenied(
                    f"{uri!r} may not be written to.",
                    hint="Check its permissions.",
                    details={"uri": uri},
                )


def _refuse_read_only(found: os.stat_result, what: str, uri: str) -> None:
    if not found.st_mode & 0o222:
        raise PermissionDenied(
            f"{what} {uri!r} is read-only.".strip(),
            hint="Make it writable first, if it is to be edited.",
            details={"uri": uri},
        )


def _conflict(uri: str) -> Conflict:
    return Conflict(
        f"{uri!r} was changed by somebody else at this moment.",
        hint="Nothing was changed. Read it again, and repeat the edit.",
        details={"uri": uri},
    )


_WORDS: Final = {
    "symlink": "is a link, or lies behind one",
    "hard_link": "has further names, so replacing it would part them",
    "not_a_file": "is no file: a folder or something special is in its place",
    "too_large": "is too large to be edited",
}


def _refusal(refusal: Refused) -> LookfarError:
    about = {"uri": refusal.uri, "reason": refusal.reason}
    if refusal.reason == "gone":
        return NotFound(
            f"There is no document {refusal.uri!r}.", hint="Create it first.", details=about
        )
    if refusal.reason == "changing":
        return _conflict(refusal.uri)
    return InvalidArgument(
        f"{refusal.uri!r} {_WORDS[refusal.reason]}.",
        hint="Nothing was changed. Edit a plain file inside the folder.",
        details=about,
    )


def _packed(step: Step, **more: Any) -> bytes:
    documents = [
        {
            "uri": each.uri,
            "old": each.old,
            "new": each.new,
            "mode": each.mode,
            "made": list(each.made),
            "file": each.file,
            "staged": each.staged,
        }
        for each in step.documents
    ]
    row = {"transaction": step.number, "at": step.at, "documents": documents, **more}
    return json.dumps(row, ensure_ascii=True).encode()


def _unpacked(row: Any) -> Step:
    documents = tuple(
        Kept(
            each["uri"],
            each["old"],
            each["new"],
            int(each["mode"]) & 0o777,
            tuple(each["made"]),
            each["file"],
            each["staged"] if _STAGED.fullmatch(each["staged"]) else "",
        )
        for each in row["documents"]
    )
    return Step(int(row["transaction"]), str(row["at"]), documents)


def _sha(raw: bytes | None) -> str | None:
    return None if raw is None else sha256(raw).hexdigest()


def _above(uri: str) -> str:
    return uri.rpartition("/")[0]


def _name(uri: str) -> str:
    return uri.rpartition("/")[2]
