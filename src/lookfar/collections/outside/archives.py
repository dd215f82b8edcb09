"""A local tar or zip archive as a source: its text files are stored, so it need not stay."""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import sha256
from typing import TYPE_CHECKING

from lookfar.collections.outside.admission import Admission
from lookfar.collections.outside.fetching import Fetched
from lookfar.collections.outside.shelf import write_incoming
from lookfar.errors import PermissionDenied
from lookfar.sources.archive import read_archive, read_limited
from lookfar.sources.confine import path_problem
from lookfar.store.ground import files

if TYPE_CHECKING:
    from lookfar.collections.outside.fetching import Request


def fetch_archive(request: Request) -> Fetched:
    """Store the files of an archive; a folder that contains all of them is not part of paths."""
    files.remove(request.incoming)
    path = request.source.origin
    prefix = _find_common_folder(_name_file(name) for name, _, _ in read_archive(path))
    if request.source.named and os.stat(path).st_nlink > 1:
        problem = f"{path} has several hard links, so it may be a file from outside the project."
        raise PermissionDenied(problem, hint="Add it yourself if you trust it: lookfar add PATH")
    admission = Admission(request.settings, path)
    version = sha256()
    for done, (name, size, stream) in enumerate(read_archive(path), 1):
        uri = _name_file(name).removeprefix(prefix)
        request.on_fetch(uri, done, 0)
        if admission.refuse(uri, size):
            continue
        # The size in the archive may be wrong.
        data, reason = read_limited(stream, admission.limit(uri))
        if reason:
            admission.skipped[reason] += 1
            continue
        admission.count(len(data))
        write_incoming(request.incoming, uri, data)
        version.update(uri.encode("utf-8", "surrogateescape") + sha256(data).digest())
    return Fetched(version=version.hexdigest()[:12], notes=admission.notes())


def _name_file(name: str) -> str:
    return name.replace("\\", "/").removeprefix("./")


def _find_common_folder(uris: Iterable[str]) -> str:
    """Return the folder, with its slash, that all files with a usable path are in, or nothing."""
    common = ""
    for uri in uris:
        first, slash, _ = uri.partition("/")
        if path_problem(uri):
            continue
        if not slash or common not in ("", f"{first}/"):
            return ""
        common = f"{first}/"
    return common
