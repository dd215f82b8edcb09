"""The outside sources of a user, opened when they are asked."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from lookfar.collections.outside.projects import Projects
from lookfar.collections.outside.shelf import Shelf
from lookfar.errors import IndexBusy, LookfarError, RootNotFound

if TYPE_CHECKING:
    from lookfar.collections.collection import OpenModel
    from lookfar.collections.outside.collection import Outside
    from lookfar.collections.outside.packages import ProjectPackages
    from lookfar.config import Settings
    from lookfar.model import OutsideSource

_log = logging.getLogger(__name__)

SOURCE_SUFFIX: Final = "@source"
"""Ends the name of a source that the user added."""
REGISTRY_SUFFIXES: Final = ("@pypi", "@npm", "@crates", "@go", "@maven")
"""End the names of packages, by the registry they come from."""
SUFFIXES: Final = (SOURCE_SUFFIX, *REGISTRY_SUFFIXES)


class OutsideSources:
    """Opens and caches the collections of outside sources. May be shared by threads."""

    def __init__(
        self,
        folder_settings: Callable[[], Settings],
        load_settings: Callable[[], Settings],
        open_model: OpenModel,
    ) -> None:
        """Sources have the settings of the user, which ``load_settings`` reads: projects with
        other settings share them. ``open_model`` opens the model of ``folder_settings``."""
        self._folder_settings = folder_settings
        self._load_settings = load_settings
        self._open_model = open_model
        self._opened: dict[str, Outside] = {}
        self._packages: dict[str, ProjectPackages] = {}
        self._shelf: Shelf | None = None
        self._lock = Lock()

    @property
    def settings(self) -> Settings:
        return self._load_settings()

    @property
    def shelf(self) -> Shelf:
        # A project cannot move the sources, so its settings name the same folder.
        folder = Path(self._folder_settings().outside.dir)
        if self._shelf is None or self._shelf.folder != folder:
            self._shelf = Shelf(folder)
        return self._shelf

    def open(self, name: str) -> Outside:
        """Open a source by name; raises ``NotFound`` if there is none."""
        from lookfar.collections.outside.collection import Outside

        with self._lock:
            if name not in self._opened:
                shelf = self.shelf
                with suppress(IndexBusy):  # Another process is finishing it.
                    shelf.finish(name)
                same_model = self.settings.embed == self._folder_settings().embed
                open_model = self._open_model if same_model else None
                self._opened[name] = Outside(
                    shelf, shelf.get(name), self._load_settings, open_model
                )
            return self._opened[name]

    def added_for(self, folders: list[str]) -> dict[str, Outside]:
        """Return the sources that the user added for one of these folders, or for all folders."""
        shelf = self.shelf
        if not shelf.folder.is_dir():
            return {}
        real = {os.path.realpath(folder) for folder in folders}
        wanted = [source for source in shelf.list_all() if _is_added_for(source, real)]
        opened: dict[str, Outside] = {}
        for source in wanted:
            try:
                opened[source.name] = self.open(source.name)
            except RootNotFound:
                continue  # A folder elsewhere that is gone is listed as such.
            except LookfarError as error:
                # One source that cannot be opened must not end every search.
                _log.warning("%s cannot be searched: %s", source.name, error.message)
        return opened

    def packages_of(self, folder: str) -> ProjectPackages:
        """Return the packages that the project in a folder uses."""
        from lookfar.collections.outside.packages import ProjectPackages

        with self._lock:
            if folder not in self._packages:
                self._packages[folder] = ProjectPackages(self, Path(folder))
            return self._packages[folder]

    @property
    def packages_setting(self) -> str:
        """Whether packages are indexed: ``on``, ``off``, or ``auto`` for projects that ask."""
        return self._folder_settings().outside.packages

    @property
    def projects(self) -> Projects:
        """Which projects have their packages indexed."""
        return Projects(self.shelf.folder)

    def drop_unused_packages(self) -> None:
        """Remove packages that no project has used for ``outside.drop_after_days``."""
        days = self._folder_settings().outside.drop_after_days
        packages = [source for source in self.shelf.list_all() if source.kind == "package"]
        for name in self.projects.find_unused(packages, days) if days else ():
            with suppress(LookfarError):  # Another process uses it, so it stays for now.
                self.remove(name)

    def remove(self, name: str) -> None:
        """Delete the files and the index of a source; a folder elsewhere is not touched."""
        if self.shelf.files_folder(self.shelf.get(name)).is_dir():
            self.open(name).delete()
        self.forget(name)
        self.shelf.remove(name)

    def follow_packages(self, folder: str, wanted: bool) -> None:
        """Follow the packages of a project in the background, or stop following them."""
        if wanted:
            self.packages_of(folder).follow()
        elif folder in self._packages:
            self._packages[folder].unfollow()

    def forget(self, name: str) -> None:
        """Close a collection, so that it is opened again."""
        with self._lock:
            outside = self._opened.pop(name, None)
        if outside is not None:
            outside.close()

    def close(self) -> None:
        for packages in self._packages.values():
            packages.close()
        for name in list(self._opened):
            self.forget(name)


def _is_added_for(source: OutsideSource, folders: set[str]) -> bool:
    if not source.name.endswith(SOURCE_SUFFIX):
        return False
    return not source.folders or not folders.isdisjoint(source.folders)
