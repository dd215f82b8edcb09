"""The files of the documents in one root: read, checked for writing, staged and replaced.

Every file is reached through an open folder of the root, never by its absolute path. Errors are
those a user sees: ``NotFound``, ``Conflict``, ``PermissionDenied`` and ``InvalidArgument``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from lookfar.errors import (
    Conflict,
    InvalidArgument,
    LookfarError,
    NotFound,
    PermissionDenied,
    from_os_error,
)
from lookfar.sources.confine import Handle, Refused, Root, close_folder, components, lstat_in
from lookfar.store.ground import files

MAX_BYTES: Final = 64 << 20
"""Larger documents are not edited."""


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


class DocumentFiles:
    """Reads and replaces documents below one root. Holds nothing open between calls."""

    def __init__(self, root: Root) -> None:
        self.root = root

    # -- reading -----------------------------------------------------------------

    def read(self, uri: str) -> bytes:
        """Return a document's bytes; ``NotFound`` if there is none."""
        try:
            return self.root.read(uri, MAX_BYTES)[0]
        except Refused as refusal:
            raise _user_error(refusal) from refusal

    def read_writable(self, uri: str) -> bytes:
        """Return a document's bytes, and raise unless it can be replaced."""
        raw = self.read(uri)
        with self.open_parent(uri) as handle:
            self.check_writable(handle, uri)
        return raw

    def read_if_present(self, uri: str) -> bytes | None:
        try:
            return self.read(uri)
        except NotFound:
            return None

    def digest_at(self, uri: str) -> str | None:
        """Return the hash of the file at a URI, or None if there is none.

        For anything but a readable file it is an error code, which equals no hash.
        """
        try:
            return digest(self.read_if_present(uri))
        except (InvalidArgument, Conflict) as error:
            return error.code

    def digest_of_staged(self, document: StepDocument) -> str | None:
        above = parent_folder(document.uri)
        return self.digest_at(f"{above}/{document.staged}" if above else document.staged)

    def mode_of(self, uri: str) -> int:
        with self.open_parent(uri) as handle:
            try:
                return stat.S_IMODE(lstat_in(handle, base_name(uri)).st_mode)
            except OSError as error:
                raise changed_meanwhile(uri) from error

    # -- folders -----------------------------------------------------------------

    def open_folder(self, folder: str) -> Handle:
        """Open a folder of the root; the caller closes it."""
        try:
            return self.root.open_folder(folder)
        except Refused as refusal:
            if refusal.reason == "gone" and folder and self.root.stat(folder) is not None:
                raise InvalidArgument(
                    f"{folder!r} is a file, not a folder.",
                    hint="Nothing was changed. Choose another name.",
                    details={"uri": folder, "reason": "not_a_folder"},
                ) from refusal
            raise _user_error(refusal) from refusal
        except OSError as error:
            raise from_os_error(error, f"opening the folder {folder!r}") from error

    @contextmanager
    def open_parent(self, uri: str) -> Iterator[Handle]:
        """Open the folder that contains a document or a folder."""
        handle = self.open_folder(parent_folder(uri))
        try:
            yield handle
        finally:
            close_folder(handle)

    def missing_folders(self, uri: str) -> tuple[str, ...]:
        """Return the folders that a new document needs and that do not exist, outermost first."""
        parts = components(uri)[:-1]
        for depth in range(len(parts), -1, -1):
            try:
                close_folder(self.open_folder("/".join(parts[:depth])))
            except NotFound:
                continue
            return tuple("/".join(parts[:n]) for n in range(depth + 1, len(parts) + 1))
        return ()

    def make_folder(self, folder: str) -> None:
        with self.open_parent(folder) as handle:
            _check_not_read_only(os.stat(handle), "The folder of", folder)
            files.make_subfolder(handle, base_name(folder))
            files.sync_open_folder(handle)

    def remove_new_folders(self, documents: Iterable[StepDocument]) -> None:
        """Remove the folders that were created for these documents, if they are empty."""
        for document in documents:
            for folder in reversed(document.new_folders):
                try:
                    handle = self.open_folder(parent_folder(folder))
                except LookfarError:
                    continue  # The parent does not exist, so neither does the folder.
                try:
                    files.remove_empty_folder(handle, base_name(folder))
                finally:
                    close_folder(handle)

    # -- checks ------------------------------------------------------------------

    def check_creatable(self, uri: str) -> None:
        """Raise unless a new document can be created there; for dry runs, too."""
        missing = self.missing_folders(uri)
        with self.open_parent(missing[0] if missing else uri) as handle:
            _check_not_read_only(os.stat(handle), "The folder of", uri)

    def check_writable(self, handle: Handle, uri: str) -> None:
        """Raise if a document or its folder is read-only.

        Replacing a read-only file would succeed, and root may write to anything, so the
        permission bits are checked here.
        """
        parent = os.stat(handle)
        try:
            info = lstat_in(handle, base_name(uri))
        except FileNotFoundError:
            info = None
        except OSError as error:
            raise from_os_error(error, f"examining {uri!r}") from error
        _check_not_read_only(parent, "The folder of", uri)
        if info is None:
            return
        _check_not_read_only(info, "", uri)
        if info.st_nlink > 1:
            raise _user_error(Refused(uri, "hard_link"))
        if isinstance(handle, int):
            effective = os.access in os.supports_effective_ids
            if not os.access(base_name(uri), os.W_OK, dir_fd=handle, effective_ids=effective):
                raise PermissionDenied(
                    f"{uri!r} is not writable.",
                    hint="Check its permissions.",
                    details={"uri": uri},
                )

    # -- replacing ---------------------------------------------------------------

    def replace_with_staged(self, document: StepDocument, handle: Handle) -> None:
        """Give a document its new, staged content, or delete it."""
        name = base_name(document.uri)
        if document.new is None:
            files.remove_entry(handle, name)
        elif document.old is not None:
            files.replace_document(handle, document.staged, name)
        elif not files.create_document(handle, document.staged, name):
            raise changed_meanwhile(document.uri)

    def drop_second_name(self, document: StepDocument) -> None:
        """Remove the staged name of a new document if a crash left it linked under both names."""
        if document.old is not None or not document.staged:
            return
        try:
            handle = self.open_folder(parent_folder(document.uri))
        except (NotFound, InvalidArgument):
            return
        try:
            names = base_name(document.uri), document.staged
            if os.path.samestat(*(lstat_in(handle, name) for name in names)):
                files.remove_entry(handle, document.staged)
        except OSError:
            return  # One of the two does not exist.
        finally:
            close_folder(handle)


def digest(raw: bytes | None) -> str | None:
    """Return the SHA-256 of a document, or None for a document that does not exist."""
    return None if raw is None else sha256(raw).hexdigest()


def changed_meanwhile(uri: str) -> Conflict:
    """Build the error for a document that another process changed during the edit."""
    return Conflict(
        f"{uri!r} was changed by another process during the edit.",
        hint="Nothing was changed. Read it again and repeat the edit.",
        details={"uri": uri},
    )


def parent_folder(uri: str) -> str:
    return uri.rpartition("/")[0]


def base_name(uri: str) -> str:
    return uri.rpartition("/")[2]


def _check_not_read_only(info: os.stat_result, prefix: str, uri: str) -> None:
    if not info.st_mode & 0o222:
        raise PermissionDenied(
            f"{prefix} {uri!r} is read-only.".strip(),
            hint="Make it writable first.",
            details={"uri": uri},
        )


_REASONS: Final = {
    "symlink": "is a symbolic link, or is below one",
    "hard_link": "has several hard links, and replacing it would separate them",
    "not_a_file": "is not a file",
    "too_large": "is too large to edit",
}


def unknown_document(uri: str) -> NotFound:
    """Return the error for a document that does not exist."""
    return NotFound(
        f"There is no document {uri!r}.",
        hint="Create it first.",
        details={"uri": uri, "reason": "gone"},
    )


def _user_error(refusal: Refused) -> LookfarError:
    details = {"uri": refusal.uri, "reason": refusal.reason}
    if refusal.reason == "gone":
        return unknown_document(refusal.uri)
    if refusal.reason == "changing":
        return changed_meanwhile(refusal.uri)
    return InvalidArgument(
        f"{refusal.uri!r} {_REASONS[refusal.reason]}.",
        hint="Nothing was changed. Edit a regular file inside the folder.",
        details=details,
    )
