"""A git repository elsewhere as a source: the files of one commit, which is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lookfar.collections.outside.admission import Admission
from lookfar.collections.outside.fetching import Fetched
from lookfar.collections.outside.shelf import write_incoming
from lookfar.sources.git.clone import RemoteFile, fetch_commit, find_commit, parse_remote
from lookfar.store.ground import files

if TYPE_CHECKING:
    from lookfar.collections.outside.fetching import Request


def fetch_repository(request: Request) -> Fetched:
    """Store the files of the commit that the branch or tag means now."""
    remote = parse_remote(request.source.origin)
    allow_private = request.settings.outside.allow_private

    def on_wait() -> None:
        request.on_fetch(remote.url, 0, 0)

    commit = find_commit(remote, allow_private=allow_private, on_wait=on_wait)
    if commit == request.source.version and request.files.is_dir():
        return Fetched(version=commit, unchanged=True)
    files.remove(request.incoming)
    admission = Admission(request.settings, remote.url)
    wanted: list[RemoteFile] = []
    with fetch_commit(remote, commit, allow_private=allow_private, on_wait=on_wait) as fetched:
        for file in fetched.list_files():
            if not admission.refuse(file.uri, file.size):
                admission.count(file.size)
                wanted.append(file)
        for done, (uri, data) in enumerate(fetched.read_files(wanted), 1):
            write_incoming(request.incoming, uri, data)
            request.on_fetch(uri, done, len(wanted))
    return Fetched(version=commit, notes=admission.notes())
