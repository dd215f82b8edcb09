"""Add, update, pin and remove sources outside the folders. Only adding and updating fetches."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lookfar.collections.outside.projects import parse_time
from lookfar.collections.passes import timestamp
from lookfar.errors import InvalidArgument, LookfarError, NotFound, PermissionDenied
from lookfar.library import named_sources, package_versions
from lookfar.model import NamedStatus, OutsideSource, PackReport, SourceChange, VersionChanges

if TYPE_CHECKING:
    from lookfar.collections.outside.fetching import OnFetch
    from lookfar.collections.outside.opened import OutsideSources
    from lookfar.library.members import Members
    from lookfar.sources.pack_format import Sign

Describe = Callable[[OutsideSource | None], OutsideSource]
"""Returns the source to fetch, given what is stored of it now; None if nothing is."""
_PREPARE_SECONDS: Final = 86_400.0
_STALE_DAYS: Final = 30.0
"""Age at which what came over the network counts as stale."""


class SourceManager:
    """The sources that this user added. May be shared by threads."""

    def __init__(self, members: Members, outside: OutsideSources) -> None:
        self._members = members
        self._outside = outside

    @property
    def may_change(self) -> bool:
        """Whether the caller may change sources: they belong to the user, not to a folder."""
        return not self._members.is_restricted

    def require_changes(self) -> None:
        """Raise ``PermissionDenied`` for callers whose token is for some collections."""
        if not self.may_change:
            raise PermissionDenied(
                "Your token is limited to some collections, and sources are shared by all.",
                hint="Use a token without --collection.",
            )

    def judge(self, source: OutsideSource) -> str:
        """Return what is special about a source: pinned, stale, or without its origin.

        Nothing is fetched for it, so a remote source counts as stale by its age.
        """
        if source.pinned:
            return "pinned"
        if source.kind in ("folder", "archive"):
            try:
                changed = os.stat(source.origin).st_mtime
            except OSError:
                return "origin is gone"
            is_newer = source.kind == "archive" and changed > parse_time(source.fetched)
            return "stale: its archive has changed" if is_newer else ""
        age = (time.time() - parse_time(source.fetched)) / 86_400
        is_old = source.kind in ("site", "repository") and age > _STALE_DAYS
        return f"stale: fetched {age:.0f} days ago" if is_old else ""

    def list_all(self) -> tuple[OutsideSource, ...]:
        """Return every source of the user, also those of other folders."""
        sources = self._outside.shelf.list_all()
        return tuple(source for source in sources if self._members.reaches(source.name))

    def get(self, name: str) -> OutsideSource:
        """Return a source by its name; the suffix is optional."""
        return self._outside.shelf.get(self.full_name(name))

    def list_named(self) -> tuple[NamedStatus, ...]:
        """Return the sources that ``lookfar.toml`` of the folders names; nothing is fetched."""
        return tuple(named_sources.list_named(self._members))

    def get_named(self, name: str) -> NamedStatus:
        """Return a source that a folder names, by the name of its entry."""
        return named_sources.get_named(self._members, name)

    def add_named(
        self,
        status: NamedStatus,
        *,
        on_fetch: OnFetch | None = None,
    ) -> SourceChange:
        """Fetch a source that a project names. The caller has shown it to the user, who agreed.

        If it is stored already, nothing is fetched: searches of the project include it from then
        on. What was fetched for the entry before it changed is replaced.
        """
        self.require_changes()
        entry, shelf = status.source, self._outside.shelf
        origin = named_sources.locate_origin(status)
        key = named_sources.make_key(status.folder, entry.name)
        confirmed = {key: named_sources.compute_digest(entry)}
        only_page = entry.only_page
        same = next(
            (
                source
                for source in shelf.list_all()
                if source.origin == origin and bool(source.options.get("only_page")) == only_page
            ),
            None,
        )
        # A pack is not fetched from its origin.
        is_ours = same is not None and same.kind != "pack" and set(same.named) == {key}
        if same is not None and not is_ours:
            change = SourceChange(self._attach(same.name, status.folder, confirmed))
        else:
            from lookfar.collections.outside.fetching import recognise

            name = same.name if same else named_sources.choose_name(shelf, status, origin)
            fresh = recognise(origin, name, named_sources.make_options(entry))

            def describe(known: OutsideSource | None) -> OutsideSource:
                folders = (status.folder,) if known is None else known.folders
                return replace(
                    known or fresh,
                    options=fresh.options,
                    folders=folders,
                    named=confirmed,
                    pinned=entry.pin,
                )

            change = self._fetch(fresh.name, describe, on_fetch)
        if status.stored and status.stored != change.source.name:
            self._detach(status.stored, status.folder, key)
        return change

    def add(
        self,
        origin: str,
        *,
        name: str = "",
        everywhere: bool = False,
        options: Mapping[str, str | int | bool] | None = None,
        on_fetch: OnFetch | None = None,
    ) -> SourceChange:
        """Fetch a site, repository, archive or folder, and index it.

        Searches of the folders of this library include it, or with ``everywhere`` those of all
        folders. If it was added before, it is updated, and these folders are added to it.
        """
        from lookfar.collections.outside.fetching import recognise

        self.require_changes()
        source = recognise(origin, name, options)
        folders = () if everywhere else self._real_folders()
        source = replace(source, folders=folders)
        return self._fetch(source.name, partial(_merge_added, source), on_fetch)

    def update(
        self,
        names: Sequence[str] = (),
        *,
        on_fetch: OnFetch | None = None,
    ) -> list[SourceChange]:
        """Fetch what changed of the named sources, or of all that are not pinned or packages.

        If one of all cannot be fetched, it stays as it is, and its change says why.
        """
        self.require_changes()
        shelf = self._outside.shelf
        chosen = [shelf.get(self.full_name(name)) for name in names] or [
            source for source in shelf.list_all() if not source.pinned and _can_update(source)
        ]
        for source in chosen:
            _require_unpinned(source.name, source)
        changes: list[SourceChange] = []
        for source in chosen:
            describe = partial(_require_unpinned, source.name)
            try:
                changes.append(self._fetch(source.name, describe, on_fetch))
            except LookfarError as error:
                if names:
                    raise
                changes.append(SourceChange(source, notes=(f"not updated: {error.message}",)))
        return changes

    def pin(self, name: str, *, pinned: bool = True) -> OutsideSource:
        """Keep a source as it is when others are updated, or release it."""
        self.require_changes()
        shelf, name = self._outside.shelf, self.full_name(name)
        with shelf.writing(name):
            source = replace(shelf.get(name), pinned=pinned)
            shelf.write(source)
        return source

    def remove(self, name: str) -> OutsideSource:
        """Delete the files and the index of a source; a folder elsewhere is not touched."""
        self.require_changes()
        shelf, name = self._outside.shelf, self.full_name(name)
        source = shelf.get(name)
        self._outside.remove(name)
        return source

    def packages(
        self,
        *,
        prepare: bool = True,
        on_package: Callable[[str, int, int], None] | None = None,
    ) -> list[dict[str, Any]]:
        """Return the installed packages of the folders; index those that are not yet indexed.

        With ``prepare``, they are also indexed in the background from then on.
        """
        rows: list[dict[str, Any]] = []
        for packages in self._members.packages().values():
            installed, failures = packages.find(), dict(packages.failures)
            if prepare:
                if not packages.enable():
                    raise InvalidArgument(
                        "Packages are turned off.",
                        hint="Set outside.packages to auto: lookfar config set outside.packages"
                        " auto",
                    )
                failures = packages.prepare(_PREPARE_SECONDS, on_package=on_package)
            ready = packages.list_ready()
            rows += [
                {
                    "name": package.name,
                    "version": package.version,
                    "registry": package.registry,
                    "direct": package.direct,
                    "place": package.place,
                    "source": ready.get(package.full_name, ""),
                    "state": "indexed" if package.full_name in ready else "not indexed",
                    "problem": failures.get(package.full_name, ""),
                }
                for package in installed
            ]
        return rows

    def compare(self, package: str, older: str, newer: str) -> VersionChanges:
        """Return what changed between two versions of a package that are on this machine."""
        wanted = package_versions.Comparison(package, older, newer)
        return package_versions.compare(self._members, wanted, _PREPARE_SECONDS)

    def disable_packages(self) -> None:
        """Stop indexing the packages of the folders.

        What is stored is removed after it was unused for some time.
        """
        for packages in self._members.packages().values():
            packages.disable()

    def full_name(self, name: str) -> str:
        """Return the name with its suffix, which is optional."""
        from lookfar.collections.outside.opened import SOURCE_SUFFIX

        return name if self._members.is_outside_name(name) else f"{name}{SOURCE_SUFFIX}"

    def _fetch(
        self,
        name: str,
        describe: Describe,
        on_fetch: OnFetch | None,
    ) -> SourceChange:
        """Fetch a source and index it. ``describe`` is called once nothing else can change it."""
        from lookfar.collections.outside.fetching import Request, find_fetcher

        shelf = self._outside.shelf
        with shelf.writing(name) as incoming:
            # Asked now: another process may have changed or removed it until a moment ago.
            known = shelf.find(name)
            source = describe(known)
            _check_still_there(source)
            try:
                fetched = find_fetcher(source.kind)(
                    Request(
                        source,
                        incoming,
                        shelf.files_folder(source),
                        shelf.origins(name),
                        named_sources.lower_limits(self._outside.settings, source),
                        on_fetch or (lambda _what, _done, _total: None),
                    )
                )
                if source.kind != "pack":  # A pack has the date of its contents.
                    version = fetched.version or source.version
                    source = replace(source, fetched=timestamp(), version=version)
                source = fetched.described or source
                if fetched.unchanged:
                    shelf.write(source)
                    change = SourceChange(source)
                else:
                    change = shelf.take_over(source, fetched.origins)
            except BaseException:
                # What was fetched of a site is used again.
                if known is None and source.kind != "site":
                    shelf.discard(name)
                raise
        collection = self._outside.open(name)
        try:
            report = collection.index()
        except LookfarError:
            if known is None and source.kind == "pack":
                self.remove(name)
            raise
        if source.kind == "folder":
            number = report.added + report.changed + report.unchanged
            change = replace(change, source=self._record_files(name, number))
        notes = fetched.notes
        if source.kind == "pack":
            from lookfar.collections.outside.packs import note_embedded

            notes += note_embedded(source, report, collection.embedder)
        return replace(change, notes=notes)

    def pack(
        self,
        name: str,
        path: str | os.PathLike[str] = "",
        *,
        sign: Sign | None = None,
    ) -> PackReport:
        """Write a source and its vectors into one file, which other machines can add.

        Without ``path``, the file is named after the source, in the current folder.
        """
        from lookfar.collections.outside.packing import pack_source, suggest_file

        source = self.get(name)
        target = Path(path or suggest_file(source)).expanduser().absolute()
        return pack_source(self._outside.open(source.name), target, sign)

    def _record_files(self, name: str, number: int) -> OutsideSource:
        """Record how many files of a folder elsewhere are indexed; they are not stored."""
        shelf = self._outside.shelf
        with shelf.writing(name):
            source = replace(shelf.get(name), files=number)
            shelf.write(source)
        return source

    def _attach(self, name: str, folder: str, confirmed: Mapping[str, str]) -> OutsideSource:
        """Include a stored source in the searches of a folder whose entry was confirmed."""
        shelf = self._outside.shelf
        with shelf.writing(name):
            known = shelf.get(name)
            folders = (*known.folders, folder) if known.folders else ()
            named = {**known.named, **confirmed}
            if folder in known.folders and not named_sources.is_named_by(folder, known.named):
                named |= {named_sources.make_key(folder, ""): ""}  # The user added it here.
            source = replace(known, folders=tuple(dict.fromkeys(folders)), named=named)
            shelf.write(source)
        return source

    def _detach(self, name: str, folder: str, key: str) -> None:
        """Remove what an entry named before it changed, unless something else needs it.

        That may be another folder, another entry of this one, or the user, who added it here.
        """
        shelf = self._outside.shelf
        if shelf.find(name) is None:
            return
        with shelf.writing(name):
            known = shelf.get(name)
            named = {entry: digest for entry, digest in known.named.items() if entry != key}
            folders = known.folders
            if not named_sources.is_named_by(folder, named):
                folders = tuple(other for other in folders if other != folder)
            # A source without folders is searched from everywhere.
            is_needed = bool(folders) or not known.folders
            if is_needed:
                shelf.write(replace(known, folders=folders, named=named))
        if not is_needed:
            self.remove(name)

    def _real_folders(self) -> tuple[str, ...]:
        return tuple(
            os.path.realpath(folder.root.path) for folder in self._members.folders.values()
        )


def _merge_added(source: OutsideSource, known: OutsideSource | None) -> OutsideSource:
    """Return what a user adds, with what is known if it was added before.

    Raises ``InvalidArgument`` if its name is taken by something else.
    """
    if known is None:
        return source
    if (known.origin, known.kind) != (source.origin, source.kind):
        raise InvalidArgument(
            f"{known.name} is already the name of the {known.kind} {known.origin}.",
            hint="Choose another one with --name, or remove that source first.",
        )
    shared = known.folders and source.folders  # Without folders, it is searched from all of them.
    folders = tuple(dict.fromkeys((*known.folders, *source.folders))) if shared else ()
    asked_before = known.options if source.kind == "pack" or not source.options else {}
    return replace(known, folders=folders, options={**asked_before, **source.options})


def _require_unpinned(name: str, known: OutsideSource | None) -> OutsideSource:
    """Return a source that may be updated; raise a typed error if it may not."""
    if known is None:
        raise NotFound(
            f"There is no source {name!r} any more.",
            hint="To list the sources, run: lookfar sources",
        )
    if known.pinned:
        raise InvalidArgument(
            f"{name} is pinned.", hint=f"Release it first: lookfar sources unpin {name}"
        )
    return known


def _check_still_there(source: OutsideSource) -> None:
    """Refuse an archive of a project that was replaced by a link since the user confirmed it."""
    if source.named and not source.remote and os.path.realpath(source.origin) != source.origin:
        raise PermissionDenied(
            f"{source.origin} is now a link to another place.",
            hint="Add it yourself if you trust it: lookfar add PATH",
        )


def _can_update(source: OutsideSource) -> bool:
    """Return whether there is something to compare a source with."""
    if source.kind == "pack":
        return os.path.isfile(str(source.options.get("file", "")))
    return source.kind != "package"
