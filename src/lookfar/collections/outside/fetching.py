"""What an origin is, and who fetches it: folders, repositories and archives here, sites and packs
in modules of their own.

A fetcher writes the next state of a source into a folder (:mod:`~lookfar.collections.outside.shelf`
takes it over) and says what it skipped. Nothing is fetched unless the user adds or updates.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from lookfar.collections.outside.opened import SOURCE_SUFFIX
from lookfar.collections.outside.shelf import write_incoming
from lookfar.common.skip_reasons import BINARY_EXTENSIONS
from lookfar.errors import InvalidArgument, PermissionDenied, how_many
from lookfar.index.recipe import policy_from
from lookfar.model import OutsideKind, OutsideSource
from lookfar.sources.archive import read_archive, read_limited
from lookfar.sources.confine import Root, path_problem
from lookfar.sources.folder.policy import read_extension
from lookfar.sources.git.clone import RemoteFile, fetch_commit, find_commit, parse_remote
from lookfar.sources.pack_format import SUFFIX as PACK_SUFFIX
from lookfar.sources.pack_format import is_pack
from lookfar.store.ground import files

if TYPE_CHECKING:
    from lookfar.collections.outside.shelf import Origins
    from lookfar.config import Settings

OnFetch = Callable[[str, int, int], None]
"""Called with what is being fetched, how much is done, and how much there is (0: unknown)."""
_REPOSITORY: Final = re.compile(r"git\+\S+|https?://\S+\.git(?:@\S+)?")
_ARCHIVE_ENDING: Final = re.compile(r"\.(?:tgz|zip|tar(?:\.(?:gz|bz2|xz))?)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a fetcher reports about the files that it wrote."""

    version: str = ""
    origins: Origins = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What was refused or skipped, and why."""
    unchanged: bool = False
    """Whether the origin has nothing new; then nothing was written."""
    described: OutsideSource | None = None
    """The source as a pack describes it, with the date of its contents."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a fetcher needs to know."""

    source: OutsideSource
    """As it was before; only name, origin and options for a new one."""
    incoming: Path
    """Where the next state is written, with ``shelf.write_incoming``. What an interrupted fetch
    left there may be used."""
    files: Path
    """The state before, which may not exist."""
    origins: Origins
    """What the last fetch reported."""
    settings: Settings
    on_fetch: OnFetch


Fetcher = Callable[[Request], Fetched]


def find_fetcher(kind: OutsideKind) -> Fetcher:
    """Return who fetches this kind of source."""
    match kind:
        case "folder":
            return fetch_folder
        case "repository":
            return fetch_repository
        case "archive":
            return fetch_archive
        case "site":
            from lookfar.collections.outside.sites import fetch_site

            return fetch_site
        case "pack":
            from lookfar.collections.outside.packs import fetch_pack

            return fetch_pack
        case "package":
            raise InvalidArgument(
                "A package is not fetched: it is read where it is installed.",
                hint="Install its new version.",
            )


def recognise(
    origin: str, name: str, options: Mapping[str, str | int | bool] | None = None
) -> OutsideSource:
    """Return a new source for what a user typed: an address, a repository or a path."""
    origin = os.path.expanduser(origin.strip())
    kind = _recognise_kind(origin)
    if kind in ("folder", "archive", "pack"):
        if not os.path.exists(origin):
            raise InvalidArgument(
                f"The file or folder {origin!r} does not exist.",
                hint="Check the path. For a site or repository, give https://HOST/PATH or"
                " git+https://HOST/PATH@TAG.",
            )
        origin = os.path.realpath(origin)
    if kind == "pack":
        return _describe_pack(origin, name)
    label = name.removesuffix(SOURCE_SUFFIX) or _suggest_name(origin)
    return OutsideSource(
        f"{label}{SOURCE_SUFFIX}", kind, origin, remote="://" in origin, options=dict(options or {})
    )


def _describe_pack(path: str, name: str) -> OutsideSource:
    """Return the source that a pack describes."""
    from lookfar.collections.outside.packs import FILE_OPTION, describe_pack

    packed_name, origin = describe_pack(path)
    label = re.sub(r"[^\w.@+-]+", "-", name.removesuffix(SOURCE_SUFFIX) or packed_name).strip("-.")
    return OutsideSource(
        f"{label[:80] or 'source'}{SOURCE_SUFFIX}",
        "pack",
        origin,
        remote=True,  # Also if it was made from a folder, its text comes from elsewhere.
        options={FILE_OPTION: path},
    )


def _recognise_kind(origin: str) -> OutsideKind:
    if _REPOSITORY.fullmatch(origin):
        return "repository"
    if origin.startswith(("https://", "http://")):
        return "site"
    if "://" in origin:
        raise InvalidArgument(
            f"{origin!r} is not an address that can be fetched.",
            hint="Use https:// for a site, and git+https://HOST/PATH@TAG for a repository.",
        )
    if is_pack(origin) or origin.endswith(PACK_SUFFIX):
        return "pack"
    return "archive" if _ARCHIVE_ENDING.search(origin) and Path(origin).is_file() else "folder"


def _suggest_name(origin: str) -> str:
    """Return a short name made from an address or a path, such as ``example.org-org-repo@v2``."""
    plain = re.sub(r"^(?:git\+)?[a-z]+://|\.git(?=@|$)|[?#].*$", "", origin)
    if "://" not in origin:
        plain = _ARCHIVE_ENDING.sub("", Path(plain).name)
    return re.sub(r"[^\w.@-]+", "-", plain).strip("-.")[:80] or "source"


# -- folders, repositories and archives ---------------------------------------------


def fetch_folder(request: Request) -> Fetched:
    """Check that the folder can be read; searches compare it with the index themselves."""
    Root.open(request.source.origin)
    return Fetched(unchanged=True)


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


SAME_PATH: Final = "a file and a folder have the same path"
_LONGEST_NAME: Final = 255
"""Bytes in the name of a file or folder, which most file systems limit."""
_LONGEST_PATH: Final = 1_000
_SPARE_FOLDERS: Final = 500


class Admission:
    """Counts what is stored, and remembers why files were skipped."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._settings = settings
        self._policy = policy_from(settings, "/")
        self._name = name
        self._files = 0
        self._bytes = 0
        self._stored: set[str] = set()
        self._folders: set[str] = set()
        self.skipped: Counter[str] = Counter()

    def limit(self, uri: str) -> int:
        """Return how many bytes a file may have."""
        return self._policy.size_limit(uri)

    def refuse(self, uri: str, size: int) -> str:
        """Return why a file is not stored; empty if it is. The reason is counted."""
        reason = ""
        # The parents of a path of any length could take gigabytes.
        short = uri if len(uri) <= _LONGEST_PATH else ""
        parents = {str(parent) for parent in PurePosixPath(short).parents}
        names = short.split("/")
        if path_problem(short) or any(len(name.encode()) > _LONGEST_NAME for name in names):
            reason = "unusable path"
        elif uri in self._folders or not parents.isdisjoint(self._stored):
            reason = SAME_PATH
        elif read_extension(uri) in BINARY_EXTENSIONS:
            reason = "binary"
        elif size > self.limit(uri):
            reason = "too large"
        if reason:
            self.skipped[reason] += 1
        else:
            self._stored.add(uri)
            self._folders |= parents
        return reason

    def count(self, size: int) -> None:
        """Count a stored file; raise ``InvalidArgument`` if the source is too large."""
        self._files += 1
        self._bytes += size
        outside = self._settings.outside
        # Each file may have a deep path of its own.
        files = max(self._files, len(self._folders) // 2 - _SPARE_FOLDERS)
        if files > outside.max_files or self._bytes > outside.max_bytes:
            limit = "max_files" if files > outside.max_files else "max_bytes"
            most = getattr(outside, limit)
            raise InvalidArgument(
                f"{self._name} is larger than outside.{limit} allows ({most:,}).",
                hint=f"Raise outside.{limit}, or add a part of it.",
            )

    def notes(self) -> tuple[str, ...]:
        return tuple(
            f"{how_many(number, 'file')} skipped: {reason}"
            for reason, number in sorted(self.skipped.items())
        )
