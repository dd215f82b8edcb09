"""A folder that a user opens: its files, the history of its repositories, and its memories."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lookfar import config
from lookfar.collections.file_collection import Files
from lookfar.collections.passes import require_writer
from lookfar.errors import RootNotFound
from lookfar.sources.confine import Root

if TYPE_CHECKING:
    from lookfar.collections.collection import Collection
    from lookfar.collections.commits import Commits
    from lookfar.collections.memories import Memories
    from lookfar.freshness.changed_names import Work
    from lookfar.freshness.keeper import Pass
    from lookfar.model import IndexReport
    from lookfar.sources.folder.walk import Walk
    from lookfar.sources.git.repositories import Repository


_LOOK_SECONDS: Final = 10.0
"""How long a search for repositories below a folder remains valid."""


class Folder(Files):
    """One folder with its histories and memories. May be shared by threads."""

    def __init__(
        self,
        root: Root,
        settings: config.Settings,
        load_settings: Callable[[], config.Settings] | None = None,
        settings_files: tuple[Path, ...] = (),
        load_user_settings: Callable[[], config.Settings] | None = None,
    ) -> None:
        """``load_user_settings`` does not read the settings of the folder itself."""
        super().__init__(root, settings, load_settings, settings_files)
        self.load_user_settings = load_user_settings or (lambda: settings)
        self._commits: dict[str, Commits] = {}
        """The histories that were found so far."""
        self._below: dict[str, Repository] = {}
        """The repositories below the folder, as of the last look."""
        self._looked_in: Walk | None = None
        self._look_at = 0.0
        self._memories: Memories | None = None
        self._memories_at: tuple[str, int, int] | None = None
        self.followers: list[Callable[[bool], None]] = []
        """Called with whether this folder is followed, when that changes."""

    @classmethod
    def open(
        cls,
        path: str | Path = ".",
        *,
        index_dir: str | Path | None = None,
        settings: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Folder:
        """Open a folder with its settings; nothing is read or written yet.

        ``settings`` are dotted keys, as in the settings reference, and override every file and
        variable. ``environ`` replaces the environment of this process.
        """
        folder = Path(path).expanduser()
        explicit = dict(settings or {})
        if index_dir is not None:
            explicit["index.dir"] = str(Path(index_dir).expanduser().absolute())
        try:
            root = Root.open(folder)
        except RootNotFound:
            if not config.load(None, explicit, environ).store.read_only:
                raise
            root = Root.absent(folder)
        load = partial(config.load, Path(root.path), explicit, environ)
        loaded = load()
        files = (*config.settings_files(Path(root.path), environ), *loaded.foreign.watched)
        if loaded.sources.allow_hard_links:
            root = Root.open(folder, allow_hard_links=True)
        return cls(root, loaded, load, files, partial(config.load, None, explicit, environ))

    def settle(self) -> None:
        """Apply settings that were edited since, here and to the memories."""
        super().settle()
        if self._memories is not None:
            self._memories.settle()

    def _apply(self, settings: config.Settings, *, other_model: bool) -> None:
        super()._apply(settings, other_model=other_model)
        for commits in list(self._commits.values()):
            commits.settings = settings
            if other_model:
                commits.forget_model()

    def catch_up(self, work: Work) -> IndexReport:
        """Index what changed, then follow the histories and memories that appeared."""
        report = super().catch_up(work)
        if self.watch_wanted and not self.passes.closing:
            for commits in self.histories(look=True).values():
                commits.watch()
        self.memories()
        return report

    # -- histories and memories --------------------------------------------------

    def histories(self, *, look: bool) -> dict[str, Commits]:
        """Return the commits of the repository that contains the folder, under ``""``.

        With ``look``, which takes a walk, also of the repositories below it, by their URI.
        """
        if not self.settings.git.history or self.sealed:
            return {}
        from lookfar.sources.git.repositories import find_repository, is_unchanged

        trusted = self.settings.git.trusted
        around = find_repository(self.root.path, trusted)
        if around is None and look:
            self._look_below()
        gone: list[Commits] = []
        with self.settings_lock:
            if around is not None:
                repositories = {"": around}
            else:
                repositories = {
                    uri: repository
                    for uri, repository in self._below.items()
                    if is_unchanged(repository, self.root.path, trusted)
                }
            for uri, commits in list(self._commits.items()):
                if repositories.get(uri) != commits.repository:
                    gone.append(self._commits.pop(uri))
            for uri, repository in repositories.items():
                if uri not in self._commits:
                    from lookfar.collections.commits import Commits

                    self._commits[uri] = Commits(
                        repository, self.name, self.settings, lambda: self.embedder
                    )
            current = dict(self._commits)
        for commits in gone:
            commits.close()
        return current

    def _look_below(self) -> None:
        """Find the repositories below the folder, again if folders may have been added."""
        from lookfar.sources.git.repositories import list_repositories

        require_writer("finding repositories takes a walk")
        walked, now = self.disk.walk, time.monotonic()
        if walked is self._looked_in and now < self._look_at:
            return
        followed = self.following.keeper is not None
        folders: Iterable[str] | None = None
        if walked is None and followed:
            folders = self.disk.list_folders()
        if folders is None:
            if walked is None or (walked is self._looked_in and not followed):
                # With a keeper, the pass after a new folder walks anyway.
                walked = self.walk()
            folders = walked.memory.folders
        below = dict(list_repositories(self.root.path, folders, self.settings.git.trusted))
        with self.settings_lock:
            self._below = below
        self._looked_in, self._look_at = walked, now + _LOOK_SECONDS

    def list_open(self) -> list[Collection]:
        """List this collection, and its commits and memories as far as they were used."""
        memories = [self._memories] if self._memories is not None else []
        return [self, *self.histories(look=False).values(), *memories]

    @property
    def memory_folder(self) -> Path:
        """Where the memories of this folder are, or would be."""
        return config.memory_folder(self.settings, self.root.path)

    def memories(self) -> Memories | None:
        """Return the memories of this folder; None until their folder exists."""
        user_scope, identity = self.settings.memory.scope == "user", _identify(self.memory_folder)
        with self.settings_lock:
            former, memories = None, self._memories
            if identity != self._memories_at:
                # The settings name another folder, or the folder was replaced.
                former, memories = memories, None
                if identity is not None and not self.passes.closing:
                    from lookfar.collections.memories import Memories

                    name = "user@memory" if user_scope else f"{self.name}@memory"
                    memories = Memories(
                        Root.open(identity[0]),
                        name,
                        self._load_settings,
                        self._settings_files,
                        lambda: self.embedder,
                    )
                self._memories, self._memories_at = memories, identity
        if former is not None:
            former.close()
        if memories is not None and self.watch_wanted and not memories.watch_wanted:
            memories.watch()
        return memories

    # -- closing -----------------------------------------------------------------

    def _companions(self) -> list[Commits | Memories]:
        memories = [self._memories] if self._memories is not None else []
        return [*self._commits.values(), *memories]

    def watch(
        self,
        strategy: str | None = None,
        debounce_ms: int | None = None,
        on_pass: Callable[[Pass], None] | None = None,
    ) -> None:
        super().watch(strategy, debounce_ms, on_pass)
        for tell in self.followers if not self.sealed else ():
            tell(True)

    def unwatch(self) -> None:
        for tell in self.followers:
            tell(False)
        super().unwatch()
        for companion in self._companions():
            companion.unwatch()

    def rest(self) -> None:
        for companion in self._companions():
            companion.rest()
        super().rest()

    def close(self) -> None:
        super().close()
        for companion in self._companions():
            companion.close()


def _identify(folder: Path) -> tuple[str, int, int] | None:
    """Return the real path, device and inode of a folder; None if there is none."""
    real = os.path.realpath(folder)
    try:
        info = os.stat(real)
    except OSError:
        return None
    return (real, info.st_dev, info.st_ino) if os.path.isdir(real) else None
