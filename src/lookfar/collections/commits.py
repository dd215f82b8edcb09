"""The history of a repository as a collection: each commit is a document, named by its hash.

Takes: a repository and the settings of the folder it was found by. Gives: passes over what is
new, snapshots to search in, commits by their hash or its beginning, and a keeper that
follows the branches. Refuses: to run git for a question while no branch has moved.

A commit never changes, so what is stored of it is what it says; one that no branch leads to
any more is forgotten with the next pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Collection as Several
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookfar.collections.collection import (
    KEEPER_PATIENCE,
    PATIENCE,
    Closing,
    Collection,
    store_of,
    stored,
    unknown,
)
from lookfar.errors import (
    IndexBusy,
    IndexCorrupt,
    IOFailed,
    LookfarError,
    ModelUnavailable,
    RepositoryRefused,
)
from lookfar.model import CommitInfo, Document, Failure, Incomplete, IndexReport, Status
from lookfar.retrieve.question.admission import resolve_globs
from lookfar.sources.git import history
from lookfar.store.ground import files
from lookfar.store.ground.records import pack_record, unpack_record

if TYPE_CHECKING:
    from lookfar.config import Settings
    from lookfar.index.progress import OnProgress, Progress
    from lookfar.index.strategies import Work
    from lookfar.model import Filters
    from lookfar.ports import Batch, Embedder, Snapshot
    from lookfar.sources.git.repositories import Repository
    from lookfar.store.shared.snapshot import StoredSnapshot

SHORTEST = 7
"""Characters of a hash that are taken for one."""


class Commits(Collection):
    """One repository and the index of its commits. May be shared by threads."""

    kind = "commits"

    def __init__(
        self,
        repository: Repository,
        name: str,
        settings: Settings,
        embedder: Callable[[], Embedder | None],
    ) -> None:
        """``embedder`` gives the model of the folder, which is not loaded twice."""
        # By the repository and not by the folder: its worktrees share one index.
        shared = Path(repository.git_dir)
        called = shared.parent.name if shared.name == ".git" else shared.name
        source = f"{repository.git_dir}\0{repository.below}"
        if repository.refused is not None:
            # A place where there never is an index, so nothing of it can be shown.
            called, source = Path(repository.top).name, f"{repository.top}\0refused"
        super().__init__(f"{name}@git", settings, store_of(f"{called}@git", source, settings))
        self.repository = repository
        self._embedder = embedder
        self._stamp = ""
        self._branches: dict[str, tuple[str, tuple[str, ...]]] = {}

    def _open_embedder(self) -> Embedder | None:
        return self._embedder()

    # -- the index ---------------------------------------------------------

    def index(
        self,
        *,
        rebuild: bool = False,
        only: Several[str] | None = None,  # noqa: ARG002
        on_progress: OnProgress | None = None,
        wait_seconds: float = 0.0,
        diffs: bool = True,
        let_go: bool = True,
    ) -> IndexReport:
        """Read the commits that are new and forget those that vanished, with ``rebuild`` read all.

        Without ``diffs`` those of many new commits wait for a later pass. ``only`` means
        nothing here: git says what is new.
        """
        how = {"wait_seconds": wait_seconds, "diffs": diffs, "let_go": let_go}
        with self._held(on_progress):
            try:
                return self._pass(on_progress, rebuild=rebuild, **how)
            except IndexCorrupt as damage:
                self._store.set_aside(damage.developer, wait_seconds=wait_seconds)
                return self._pass(on_progress, rebuild=rebuild, **how)

    def _pass(
        self, on_progress: OnProgress | None, *, wait_seconds: float, **how: Any
    ) -> IndexReport:
        from lookfar.index.commits import HistoryBuild

        build = HistoryBuild(
            self.repository, self.name, self._store, self.settings, self.embedder, on_progress
        )

        def write(wait: float) -> IndexReport:
            return build.run(wait_seconds=wait, **how)

        return self._passed(lambda: self._when_free(write, wait_seconds, on_progress))

    def delete(self, *, wait_seconds: float = 0.0) -> None:
        """Stop following the branches and remove the index. The repository is not touched."""
        self.unwatch()
        self._remove_index(wait_seconds)
        self._stamp = ""

    @property
    def _made_of(self) -> str:
        return self.repository.top

    def _fingerprint(self) -> str:
        from lookfar.index.commits import history_fingerprint

        return history_fingerprint(self.settings, self.embedder)

    # -- what a question needs -------------------------------------------------

    def _freshen(self, on_progress: OnProgress | None) -> list[Incomplete]:
        """Index what was never indexed, and what is new where a branch has moved."""
        try:
            if not self._store.exists or (
                self._store.held() is None and self._store.fingerprint() != self._fingerprint()
            ):
                self.index(on_progress=on_progress, wait_seconds=PATIENCE, diffs=False)
            elif self._store.held() is None and self._moved():
                stamp, settled = history.stamp_of(self.repository)
                report = self.index(on_progress=on_progress, diffs=False, let_go=False)
                self._stamp = stamp if settled else ""
                if settled:
                    self._remember(report.generation, stamp)
        except IndexBusy:
            return [Incomplete("stale", "the history is being indexed at this moment")]
        except RepositoryRefused:
            raise
        except (IOFailed, ModelUnavailable) as error:
            if not self._store.exists:
                raise
            return [Incomplete("stale", f"the history could not be compared: {error.message}")]
        with self._store.snapshot() as snapshot:
            made = snapshot.manifest()
        thin = made.get("thin", 0)
        if not thin:
            return []
        why = "this partial clone does not have" if made.get("partial") else "are read later"
        detail = f"{thin:,} commits are searched without their diffs, which {why}"
        return [Incomplete("no_diffs", detail)]

    def _moved(self) -> bool:
        """Whether a branch may have moved since the last pass; costs a few looks at the disk."""
        stamp, settled = history.stamp_of(self.repository)
        if settled and stamp == self._stamp:
            return False
        with self._store.snapshot() as snapshot:
            made = snapshot.manifest()
        from lookfar.index.commits import describe_scope

        same = made.get("stamp") == stamp or self._seen() == _seen(snapshot.generation, stamp)
        if settled and same and made.get("scope") == describe_scope(self.settings):
            self._stamp = stamp
            return False
        return True

    def _remember(self, generation: int, stamp: str) -> None:
        """A generation says where the branches stood; but not one that was made so soon after
        they moved that it could not tell, nor does it learn that they only were packed."""
        from lookfar.index.strategies import SEEN_FILE

        with suppress(LookfarError):  # Then the next process asks git again.
            files.write_shared(
                self._store.folder / SEEN_FILE, pack_record(_seen(generation, stamp))
            )

    def _seen(self) -> object:
        from lookfar.index.strategies import SEEN_FILE

        try:
            return unpack_record((self._store.folder / SEEN_FILE).read_bytes())
        except (OSError, ValueError, RecursionError):
            return None

    def source(self, uri: str) -> str | None:
        """What is stored of a commit is what it says, as long as it is there."""
        with self._store.snapshot() as snapshot:
            return snapshot.text(uri)

    def narrowed(self, filters: Filters) -> Filters:
        """The same filters with a branch spelt out as the commits that lead to it."""
        if not filters.branch:
            return filters
        name = history.checked_branch(filters.branch)
        refs = {
            known: each.commit
            for each in history.refs_of(self.repository)
            for known in (each.name, each.name.split("/", 2)[-1])
        }
        tip = refs.get(name)
        if tip is None:
            return replace(filters, branch="", uris=("\0",))
        if self._branches.get(name, ("",))[0] != tip:
            self._branches[name] = (tip, tuple(history.commits_of(self.repository, [tip])))
        wanted = self._branches[name][1]
        uris = tuple(set(wanted).intersection(filters.uris)) if filters.uris else wanted
        return replace(filters, branch="", uris=uris or ("\0",))

    def has_branch(self, name: str) -> bool:
        """Whether a branch or tag is called so; of a refused repository nobody knows."""
        if self.repository.refused is not None:
            return True  # So it is asked, and the answer says why it is missing.
        short = (each.name.split("/", 2)[-1] for each in history.refs_of(self.repository))
        return history.checked_branch(name) in short

    # -- reading -----------------------------------------------------------

    def full(self, beginning: str) -> str:
        """The hash that begins so, if there is exactly one such commit; else nothing."""
        if not self._store.exists or len(beginning) < SHORTEST:
            return ""
        with self._store.snapshot() as snapshot:
            found = snapshot.uris(beginning)
        return found[0] if len(found) == 1 else ""

    def touching(self, path: str, limit: int) -> tuple[list[tuple[str, str, int]], int]:
        """The commits that shaped a file, also under its earlier names, the latest first: hash,
        title and time in nanoseconds; and how many there are."""
        if not self._store.exists:
            return [], 0
        with self._store.snapshot() as snapshot:
            names = [path]
            for name in names:  # Grows while it is gone through.
                ending = f" -> {name}"
                for uri, _, _ in snapshot.linking([name], "R"):
                    lines = (snapshot.text(uri) or "").split("\n")
                    earlier = (
                        line[2 : -len(ending)]
                        for line in lines
                        if line.startswith("R ") and line.endswith(ending)
                    )
                    names += (each for each in earlier if each not in names)
            found = snapshot.linking(names)
        return found[:limit], len(found)

    def latest(
        self, filters: Filters, limit: int, on_progress: OnProgress | None = None
    ) -> tuple[list[CommitInfo], list[Incomplete]]:
        """The newest commits that the filters admit, and what may be missing."""
        notes = self._freshen(on_progress)
        narrowed = self.narrowed(filters)

        def look() -> list[CommitInfo]:
            found: list[CommitInfo] = []
            with self._store.snapshot() as snapshot:
                wanted = resolve_globs(narrowed, snapshot)
                every = snapshot.cached("listed", snapshot.facts)
                for each in sorted(every, key=lambda fact: (-fact.modified_ns, fact.uri)):
                    if len(found) == limit:
                        break
                    if not wanted or snapshot.admitted(each.uri, wanted):
                        found.append(_commit(self.name, snapshot, each.uri))
            return found

        return self._healing(look), notes

    def about(self, uri: str) -> CommitInfo:
        """Who made a commit, when, and what it is called."""
        with self._store.snapshot() as snapshot:
            return _commit(self.name, snapshot, uri)

    def path_of(self, file: str) -> str:
        """What the repository calls a file; nothing for one that lies elsewhere."""
        try:
            return Path(file).relative_to(self.repository.top).as_posix()
        except ValueError:
            return ""

    def details(self, uri: str) -> dict[str, Any]:
        """All that is known of a commit: its text by section, its files, who and when."""
        with self._store.snapshot() as snapshot:
            known = snapshot.document(uri)
            if known is None:
                raise unknown(snapshot, uri)
            text = snapshot.text(uri) or ""
            parts = {
                each.title: text[each.body : each.span.end].strip("\n")
                for each in snapshot.sections(uri)
            }
            files = snapshot.targets(uri)
        return {**known["commit"], "title": known["title"], "parts": parts, "files": files}

    def _current(self, snapshot: Snapshot, uri: str) -> tuple[Document, bool]:
        return stored(snapshot, uri), True

    def status(self, *, collection: str = "", check: bool = True) -> Status:
        """What is indexed; with ``check`` the branches that moved since are named."""

        def stale_in(snapshot: StoredSnapshot) -> tuple[str, ...]:
            seen = frozenset(snapshot.manifest().get("tips", ()))
            chosen = self.settings.git.branches
            refs = history.refs_of(self.repository, chosen)
            return tuple(each.name for each in refs if each.commit not in seen)

        refusal = self.refusal()
        status = self._status(
            collection,
            self.repository.top,
            self._fingerprint(),
            stale_in if check and refusal is None else None,
        )
        if refusal is None:
            return status
        failure = Failure(refusal.details["entry"], refusal.code, refusal.message)
        return replace(status, failures=(failure, *status.failures))

    def refusal(self) -> RepositoryRefused | None:
        """Why the repository is not read; None where it is."""
        return history.refusal_of(self.repository)

    # -- following the branches --------------------------------------------------

    def watch(self) -> None:
        """Follow the branches in the background, and index what was never indexed."""
        from lookfar.index.keeper import Keeper
        from lookfar.index.strategies import Dirty

        with self._watching:
            if self._keeper is not None or self.repository.refused is not None:
                return
            calm = _Calm(self.repository, self.settings.git.cool_down_seconds)
            self._keeper = Keeper(
                _Unwatched(), Dirty(self._store.folder), self._catch_up, strategy="git", head=calm
            )
            self._keeper.start()

    def unwatch(self) -> None:
        """Stop following, after the pass that is under way."""
        with self._watching:
            self._let_keeper_go()

    def _catch_up(self, _: Work) -> IndexReport:
        """The keeper's pass: messages first, so that they can be asked for; then diffs."""

        def go_on(_: Progress) -> None:
            if self._closing:
                raise Closing

        def run(diffs: bool) -> IndexReport:
            return self.index(
                on_progress=go_on, wait_seconds=KEEPER_PATIENCE, diffs=diffs, let_go=False
            )

        report = run(False)
        return run(True) if self.settings.git.diff_lines else report

    def close(self) -> None:
        """Stop following, and let go of the index files."""
        self._closing = True
        self.unwatch()
        self._store.close()


def _seen(generation: int, stamp: str) -> dict[str, Any]:
    return {"generation": generation, "stamp": stamp}


def _commit(collection: str, snapshot: Snapshot, uri: str) -> CommitInfo:
    known = snapshot.document(uri)
    if known is None:
        raise unknown(snapshot, uri)
    made = known["commit"]
    moment = datetime.fromtimestamp(made["committed"], UTC).isoformat(timespec="seconds")
    return CommitInfo(collection, uri, known["title"], made["author"], moment, made["files"])


class _Calm:
    """Where the branches stand, told only after they stood still: git moves several at once."""

    def __init__(self, repository: Repository, seconds: float) -> None:
        self._repository = repository
        self._seconds = seconds
        self._told = self._seen = history.stamp_of(repository)[0]
        self._since = time.monotonic()

    def __call__(self) -> str:
        stamp = history.stamp_of(self._repository)[0]
        if stamp != self._seen:
            self._seen, self._since = stamp, time.monotonic()
        elif time.monotonic() - self._since >= self._seconds:
            self._told = stamp
        return self._told


class _Unwatched:
    """A watcher of nothing: where the branches stand is looked at instead."""

    healthy = True
    reason = ""

    def start(self, wake: Callable[[], None]) -> None: ...

    def stop(self) -> None: ...

    def tend(self) -> None: ...

    def ready_in(self) -> float | None:
        return None

    def take(self) -> Batch:
        from lookfar.ports import Batch

        return Batch()

    def peek(self) -> Batch:
        return self.take()

    def fence(self, timeout: float) -> bool:  # noqa: ARG002
        """It cannot say what was written, so whenever a branch moves all of them are compared."""
        return False
