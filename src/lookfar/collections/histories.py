"""Find the git repositories of a folder, and keep one collection of commits for each."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lookfar.collections.commits import Commits
    from lookfar.collections.file_collection import Files
    from lookfar.config import Settings
    from lookfar.sources.folder.walk import Walk
    from lookfar.sources.git.repositories import Repository

_LOOK_SECONDS: Final = 10.0
"""How long a search for repositories below a folder remains valid."""


class Histories:
    """The collections of commits that belong to one folder."""

    def __init__(self, folder: Files) -> None:
        self._folder = folder
        self._commits: dict[str, Commits] = {}
        self._below: dict[str, Repository] = {}
        """The repositories below the folder, as of the last look."""
        self._looked_in: Walk | None = None
        self._look_at = 0.0

    @property
    def opened(self) -> list[Commits]:
        """The collections that were found so far."""
        return list(self._commits.values())

    def apply(self, settings: Settings, *, other_model: bool) -> None:
        """Give the folder's settings to its histories, which share its model."""
        for commits in self.opened:
            commits.settings = settings
            if other_model:
                commits.forget_model()

    def find(self, *, look: bool) -> dict[str, Commits]:
        """Return the commits of the repository that contains the folder, under ``""``.

        With ``look``, which takes a walk, also of the repositories below it, by their URI.
        """
        folder = self._folder
        if not folder.settings.git.history or folder.sealed:
            return {}
        from lookfar.collections.commits import Commits
        from lookfar.sources.git.repositories import find_repository, is_unchanged

        trusted = folder.settings.git.trusted
        around = find_repository(folder.root.path, trusted)
        if around is None and look:
            self._look_below()
        gone: list[Commits] = []
        with folder.settings_lock:
            if around is not None:
                repositories = {"": around}
            else:
                repositories = {
                    uri: repository
                    for uri, repository in self._below.items()
                    if is_unchanged(repository, folder.root.path, trusted)
                }
            for uri, commits in list(self._commits.items()):
                if repositories.get(uri) != commits.repository:
                    gone.append(self._commits.pop(uri))
            for uri, repository in repositories.items():
                if uri not in self._commits:
                    self._commits[uri] = Commits(
                        repository, folder.name, folder.settings, lambda: folder.embedder
                    )
            current = dict(self._commits)
        for commits in gone:
            commits.close()
        return current

    def _look_below(self) -> None:
        """Find the repositories below the folder, again if folders may have been added."""
        from lookfar.sources.git.repositories import list_repositories

        folder = self._folder
        walked, now = folder.last_walk, time.monotonic()
        if walked is not None and walked is self._looked_in and now < self._look_at:
            return
        if walked is None or (walked is self._looked_in and folder.following.keeper is None):
            # With a keeper, the pass after a new folder walks anyway.
            walked = folder.walk()
        trusted = folder.settings.git.trusted
        below = dict(list_repositories(folder.root.path, walked.memory.folders, trusted))
        with folder.settings_lock:
            self._below = below
        self._looked_in, self._look_at = walked, now + _LOOK_SECONDS
