"""Add, update, pin and remove sources outside the folders. Only adding and updating fetches."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from lookfar.collections.passes import timestamp
from lookfar.errors import InvalidArgument, LookfarError
from lookfar.model import OutsideSource, SourceChange
from lookfar.store.ground import files

if TYPE_CHECKING:
    from lookfar.collections.outside.fetching import OnFetch
    from lookfar.collections.outside.opened import OutsideSources
    from lookfar.index.progress import OnProgress
    from lookfar.library.members import Members


_PREPARE_SECONDS: Final = 86_400.0


class SourceManager:
    """The sources that this user added. May be shared by threads."""

    def __init__(self, members: Members, outside: OutsideSources) -> None:
        self._members = members
        self._outside = outside

    def list_all(self) -> tuple[OutsideSource, ...]:
        """Return every source of the user, also those of other folders."""
        return tuple(self._outside.shelf.list_all())

    def get(self, name: str) -> OutsideSource:
        """Return a source by its name; the suffix is optional."""
        return self._outside.shelf.get(self.full_name(name))

    def add(
        self,
        origin: str,
        *,
        name: str = "",
        everywhere: bool = False,
        options: Mapping[str, str | int | bool] | None = None,
        on_fetch: OnFetch | None = None,
        on_progress: OnProgress | None = None,
    ) -> SourceChange:
        """Fetch a site, repository, archive or folder, and index it.

        Searches of the folders of this library include it, or with ``everywhere`` those of all
        folders. If it was added before, it is updated, and these folders are added to it.
        """
        from lookfar.collections.outside.fetching import recognise

        source = recognise(origin, name, options)
        folders = () if everywhere else self._real_folders()
        known = self._outside.shelf.find(source.name)
        if known is not None and known.origin != source.origin:
            raise InvalidArgument(
                f"{known.name} is already the name of {known.origin}.",
                hint="Choose another one with --name, or remove that source first.",
            )
        if known is not None:
            shared = known.folders and folders
            folders = tuple(dict.fromkeys((*known.folders, *folders))) if shared else ()
            source = replace(known, options=source.options or known.options)
        return self._fetch(replace(source, folders=folders), on_fetch, on_progress)

    def update(
        self,
        names: Sequence[str] = (),
        *,
        on_fetch: OnFetch | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[SourceChange]:
        """Fetch what changed of the named sources, or of all that are not pinned or packages.

        If one of all cannot be fetched, it stays as it is, and its change says why.
        """
        shelf = self._outside.shelf
        chosen = [shelf.get(self.full_name(name)) for name in names] or [
            source for source in shelf.list_all() if not source.pinned and source.kind != "package"
        ]
        pinned = [source.name for source in chosen if source.pinned]
        if pinned:
            raise InvalidArgument(
                f"{pinned[0]} is pinned.",
                hint=f"Release it first: lookfar sources unpin {pinned[0]}",
            )
        if names:
            return [self._fetch(source, on_fetch, on_progress) for source in chosen]
        changes: list[SourceChange] = []
        for source in chosen:
            try:
                changes.append(self._fetch(source, on_fetch, on_progress))
            except LookfarError as error:
                changes.append(SourceChange(source, notes=(f"not updated: {error.message}",)))
        return changes

    def pin(self, name: str, *, pinned: bool = True) -> OutsideSource:
        """Keep a source as it is when others are updated, or release it."""
        shelf, name = self._outside.shelf, self.full_name(name)
        with shelf.writing(name):
            source = replace(shelf.get(name), pinned=pinned)
            shelf.write(source)
        return source

    def remove(self, name: str) -> OutsideSource:
        """Delete the files and the index of a source; a folder elsewhere is not touched."""
        shelf, name = self._outside.shelf, self.full_name(name)
        source = shelf.get(name)
        if shelf.files_folder(source).is_dir():
            self._outside.open(name).delete()
        self._outside.forget(name)
        shelf.remove(name)
        return source

    def packages(
        self,
        *,
        prepare: bool = True,
        on_package: Callable[[str, int, int], None] | None = None,
    ) -> list[dict[str, Any]]:
        """Return the installed packages of the folders; index those that are not yet indexed."""
        rows: list[dict[str, Any]] = []
        for packages in self._members.packages().values():
            installed = packages.find()
            if prepare:
                packages.prepare(_PREPARE_SECONDS, on_package=on_package)
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
                    "problem": packages.failures.get(package.full_name, ""),
                }
                for package in installed
            ]
        return rows

    def full_name(self, name: str) -> str:
        """Return the name with its suffix, which is optional."""
        from lookfar.collections.outside.opened import SOURCE_SUFFIX

        return name if self._members.is_outside_name(name) else f"{name}{SOURCE_SUFFIX}"

    def _fetch(
        self, source: OutsideSource, on_fetch: OnFetch | None, on_progress: OnProgress | None
    ) -> SourceChange:
        from lookfar.collections.outside.fetching import Request, find_fetcher

        shelf = self._outside.shelf
        fetch = find_fetcher(source.kind)
        is_new = shelf.find(source.name) is None
        try:
            with shelf.writing(source.name) as incoming:
                fetched = fetch(
                    Request(
                        source,
                        incoming,
                        shelf.files_folder(source),
                        shelf.origins(source.name),
                        self._outside.settings,
                        on_fetch or (lambda _what, _done, _total: None),
                    )
                )
                source = replace(
                    source, fetched=timestamp(), version=fetched.version or source.version
                )
                if fetched.unchanged:
                    shelf.write(source)
                    change = SourceChange(source)
                else:
                    change = shelf.take_over(source, fetched.origins)
        except BaseException:
            if is_new and source.kind != "site":  # What was fetched of a site is used again.
                files.remove(shelf.place(source.name))
            raise
        self._outside.open(source.name).index(on_progress=on_progress)
        return replace(change, notes=fetched.notes)

    def _real_folders(self) -> tuple[str, ...]:
        return tuple(
            os.path.realpath(folder.root.path) for folder in self._members.folders.values()
        )
