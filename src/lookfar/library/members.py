"""The collections of a library by name, as far as the caller may reach them.

A folder has its own name. Its commits are ``FOLDER@git``, its memories ``FOLDER@memory`` or
``user@memory``, a database is ``NAME@documents``, and a source that was added ``NAME@source``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeGuard

from lookfar.collections.outside.opened import SOURCE_SUFFIX, SUFFIXES
from lookfar.errors import InvalidArgument, NotFound

if TYPE_CHECKING:
    from lookfar.collections.collection import Collection
    from lookfar.collections.commits import Commits
    from lookfar.collections.databases import Databases, Documents
    from lookfar.collections.folder import Folder
    from lookfar.collections.memories import Memories
    from lookfar.collections.outside.collection import Outside
    from lookfar.collections.outside.opened import OutsideSources
    from lookfar.collections.outside.packages import ProjectPackages
    from lookfar.collections.outside.shelf import Shelf
    from lookfar.config import Settings

_HISTORY: Final = "@git"
_MEMORY: Final = "@memory"
_DOCUMENTS: Final = "@documents"
USER_MEMORIES: Final = f"user{_MEMORY}"


class Members:
    """The folders and databases of a library. May be shared by threads."""

    def __init__(
        self,
        folders: Mapping[str, Folder],
        databases: Databases,
        outside: OutsideSources,
        reachable: frozenset[str] | None = None,
    ) -> None:
        """``reachable`` names the collections that may be used besides the folders and what
        belongs to them; None means all."""
        self.folders = dict(folders)
        self._databases = databases
        self._outside = outside
        self._reachable = reachable

    def restrict(self, names: Sequence[str]) -> Members:
        """Return the same collections, reduced to those that a token names."""
        folders = {name: folder for name, folder in self.folders.items() if name in names}
        if not folders:
            raise NotFound(
                "Your token does not give access to any folder here.",
                hint="Ask for a token for one of them: lookfar tokens add NAME --collection FOLDER",
            )
        return Members(folders, self._databases, self._outside, frozenset(names))

    def reaches(self, name: str) -> bool:
        """Return whether a collection that does not belong to one folder may be used."""
        return self._reachable is None or name in self._reachable

    @property
    def settings(self) -> Settings:
        for folder in self.folders.values():
            return folder.settings
        return self._databases.settings

    @property
    def first_name(self) -> str:
        if not self.folders:
            raise NotFound("This library has no folder.", hint="Open it with a folder.")
        return next(iter(self.folders))

    @property
    def only_name(self) -> str:
        self.folder()
        return self.first_name

    def folder(self, name: str = "") -> Folder:
        if name in self.folders:
            return self.folders[name]
        names = ", ".join(self.folders)
        if name:
            raise InvalidArgument(
                f"There is no collection {name!r} here.",
                hint=f"Collections: {names}.",
                details={"candidates": list(self.folders)},
            )
        if len(self.folders) > 1:
            raise InvalidArgument(
                f"This library has {len(self.folders)} collections: name one of them.",
                hint=f"Collections: {names}.",
                details={"candidates": list(self.folders)},
            )
        return self.folders[self.first_name]

    def first_folder(self) -> dict[str, Folder]:
        """Return a mapping of the first folder by its name; empty without folders."""
        return dict(list(self.folders.items())[:1])

    def find(self, name: str = "") -> Collection:
        """Return any collection by its name, or the only folder."""
        if name in self.folders:
            return self.folders[name]
        if name.endswith(_DOCUMENTS):
            return self.database(name.removesuffix(_DOCUMENTS)).require()
        if self.is_outside_name(name):
            return self.outside(name)
        collection: Collection | None = None
        if name.endswith(_MEMORY):
            collection = self.memories().get(name)
        elif name.endswith(_HISTORY):
            collection = self.histories(look=False).get(name) or self.histories().get(name)
        return collection if collection is not None else self.folder(name)

    def is_companion_name(self, name: str) -> bool:
        """Return whether a name is that of commits, memories, a database or an outside source."""
        suffixes = (_HISTORY, _MEMORY, _DOCUMENTS, *SUFFIXES)
        return name.endswith(suffixes) and name not in self.folders

    def is_database_name(self, name: str) -> bool:
        return name.endswith(_DOCUMENTS) and name not in self.folders

    def settle(self) -> None:
        """Apply settings that were edited since, before a query is planned for a model."""
        for folder in self.folders.values():
            folder.settle()

    # -- commits -----------------------------------------------------------------

    def histories(self, *, look: bool = True) -> dict[str, Commits]:
        histories: dict[str, Commits] = {}
        stores: set[Path] = set()
        for folder_name, folder in self.folders.items():
            for uri, commits in folder.histories(look=look).items():
                name = f"{folder_name}/{uri}{_HISTORY}" if uri else f"{folder_name}{_HISTORY}"
                # A repository that begins above the folder contains other folders, too.
                wider = not uri and Path(commits.repository.top) != Path(folder.root.path)
                if commits.index_dir in stores or (wider and not self.reaches(name)):
                    continue
                stores.add(commits.index_dir)
                histories[name] = commits
        return histories

    # -- memories ----------------------------------------------------------------

    def memories(self) -> dict[str, Memories]:
        """Return the memories of each folder, or ``user@memory`` if they are the user's."""
        memories: dict[str, Memories] = {}
        for folder_name, folder in self.folders.items():
            collection = folder.memories()
            shared = folder.settings.memory.scope == "user"
            if collection is not None and (not shared or self.reaches(USER_MEMORIES)):
                memories.setdefault(self.memory_name(folder_name), collection)
        return memories

    def memory_name(self, folder_name: str) -> str:
        shared = self.folders[folder_name].settings.memory.scope == "user"
        return USER_MEMORIES if shared else f"{folder_name}{_MEMORY}"

    def homes(self, memory_name: str) -> list[Folder]:
        """Return the folders that a collection of memories is about."""
        owner = self.folders.get(memory_name.removesuffix(_MEMORY))
        return [owner] if owner is not None else list(self.folders.values())

    def refresh_memories(self, name: str) -> bool:
        """Index new memories if this is a collection of memories; return whether it is."""
        collection = self.find(name)
        if is_memories(collection):
            collection.refresh()
            return True
        return False

    # -- databases ---------------------------------------------------------------

    def database(self, name: str = "") -> Documents:
        """Return a database, which need not exist; by default the usual one."""
        from lookfar.collections.databases import DEFAULT

        name = name or DEFAULT
        if not self.reaches(f"{name}{_DOCUMENTS}"):
            raise NotFound(
                "Your token does not give access to such a database.",
                hint=f"Ask for a token with --collection {name}{_DOCUMENTS}",
            )
        return self._databases.open(name)

    def databases(self) -> dict[str, Documents]:
        return {
            f"{name}{_DOCUMENTS}": self._databases.open(name)
            for name in self._databases.names()
            if self.reaches(f"{name}{_DOCUMENTS}")
        }

    # -- outside sources ---------------------------------------------------------

    def is_outside_name(self, name: str) -> bool:
        return name.endswith(SUFFIXES) and name not in self.folders

    def reaches_outside(self, name: str) -> bool:
        """Return whether an outside source may be used.

        Everyone who may read a project may read the packages that it uses, in every version.
        """
        if self.reaches(name) or name.endswith(SOURCE_SUFFIX):
            return self.reaches(name)
        known = self._outside.shelf.find(name)
        wanted = (known.options.get("package"), name.rpartition("@")[2]) if known else None
        return any(
            (installed.name, installed.registry) == wanted
            for packages in self.packages().values()
            for installed in packages.find()
        )

    def outside(self, name: str) -> Outside:
        """Return an outside source by its name."""
        if not self.reaches_outside(name):
            raise NotFound(
                "Your token does not give access to such a source.",
                hint=f"Ask for a token with --collection {name}",
            )
        return self._outside.open(name)

    @property
    def outside_shelf(self) -> Shelf:
        """The records of all outside sources of the user."""
        return self._outside.shelf

    @property
    def is_restricted(self) -> bool:
        """Whether the caller has a token for some collections only."""
        return self._reachable is not None

    def added_sources(self) -> dict[str, Outside]:
        """Return the sources that the user added for these folders."""
        roots = [folder.root.path for folder in self.folders.values()]
        added = self._outside.added_for(roots)
        return {name: outside for name, outside in added.items() if self.reaches(name)}

    def packages(self) -> dict[str, ProjectPackages]:
        """Return the packages of each folder by its name."""
        return {
            name: self._outside.packages_of(folder.root.path)
            for name, folder in self.folders.items()
        }

    def packages_for(
        self, question: str, wait_seconds: float = 0.0
    ) -> tuple[dict[str, Outside], int]:
        """Return the packages that a question is about, and how many are not ready yet.

        What was never asked for is prepared first, while ``wait_seconds`` have not passed.
        """
        opened: dict[str, Outside] = {}
        missing = 0
        for packages in self.packages().values():
            chosen = packages.choose(question)
            if not chosen or not packages.enable():
                continue
            packages.prepare(wait_seconds, chosen)
            ready = packages.open(chosen)
            missing += len(chosen) - len(ready)
            opened |= ready
        return opened, missing

    def count_packages(self, folder_name: str) -> int | None:
        """Return how many packages of a folder are indexed; None if they are not asked for."""
        project = self.folders[folder_name].root.path
        record = self._outside.projects.get(project)
        setting = self._outside.packages_setting
        enabled = setting == "on" or (setting == "auto" and record.enabled)
        return len(record.uses) if enabled else None

    def drop_package_name(self, question: str) -> str:
        """Return a question about one package without its name, which selects that package."""
        texts = [packages.drop_name(question) for packages in self.packages().values()]
        return min(texts, key=len, default=question)

    def named_packages(self, question: str) -> dict[str, Outside]:
        """Return the packages that a question names, of projects that have them indexed.

        Nothing is indexed for it, and nothing is waited for.
        """
        opened: dict[str, Outside] = {}
        for packages in self.packages().values():
            if packages.may_name(question):
                named = packages.find_named(question)
                packages.list_ready(named)
                opened |= packages.open(named)
        return opened

    def close(self) -> None:
        self._outside.close()
        for folder in self.folders.values():
            folder.close()
        self._databases.close()


def name_folders(folders: Sequence[Folder]) -> list[str]:
    """Return a unique name for each folder: its own, with parents where two are the same."""
    paths = [Path(folder.root.path).parts for folder in folders]
    depths = [1] * len(paths)
    while True:
        names = ["/".join(path[-n:]) for path, n in zip(paths, depths, strict=True)]
        twins = [at for at, name in enumerate(names) if names.count(name) > 1]
        longer = [at for at in twins if depths[at] < len(paths[at])]
        if not longer:
            return [name.lstrip("/") or "root" for name in names]
        for at in longer:
            depths[at] += 1


def is_history(collection: Collection) -> TypeGuard[Commits]:
    """Return whether this is a collection of commits, without importing that class."""
    return collection.kind == "commits"


def is_outside(collection: Collection) -> TypeGuard[Outside]:
    """Return whether this is an outside source, without importing that class."""
    return collection.kind == "outside"


def is_memories(collection: Collection) -> TypeGuard[Memories]:
    """Return whether this is a collection of memories, without importing that class."""
    return collection.kind == "memory"
