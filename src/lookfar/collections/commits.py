"""The history of a git repository as a collection: each commit is a document, named by its hash.

A commit never changes, so its stored text is current. Commits that no branch contains any more
are removed by the next pass. A query runs git only if a branch has moved.
"""

from __future__ import annotations

import time
from collections.abc import Collection as Several
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookfar.collections.collection import Collection, OpenModel
from lookfar.collections.passes import KEEPER_PATIENCE, PATIENCE, find_notes
from lookfar.collections.statuses import describe_status
from lookfar.collections.variants import Variants, place_index
from lookfar.errors import (
    IndexBusy,
    IndexCorrupt,
    IOFailed,
    LookfarError,
    ModelUnavailable,
    RepositoryRefused,
)
from lookfar.model import CommitInfo, Document, Failure, Filters, Incomplete, IndexReport, Status
from lookfar.retrieve.locate.nearest import unknown_document
from lookfar.retrieve.question.admission import resolve_globs
from lookfar.sources.git import history
from lookfar.store.ground import files
from lookfar.store.ground.records import pack_record, unpack_record
from lookfar.store.opening import open_store

if TYPE_CHECKING:
    from lookfar.config import Settings
    from lookfar.freshness.changed_names import Work
    from lookfar.freshness.keeper import Keeper
    from lookfar.ports import CollectionSnapshot, Snapshot
    from lookfar.sources.git.repositories import Repository

MIN_HASH_LENGTH = 7
"""Characters that an abbreviated hash must have."""


class Commits(Collection):
    kind = "commits"
    # Measured on the history of flask: nDCG@10 .616 without it, .548 with it.
    gains_by_second_model = False

    def __init__(
        self, repository: Repository, name: str, settings: Settings, open_model: OpenModel
    ) -> None:
        """``name`` and ``open_model`` are those of the folder the repository was found by."""
        # The repository identifies the index, not the folder, so that its worktrees share it.
        git_dir = Path(repository.git_dir)
        label = git_dir.parent.name if git_dir.name == ".git" else git_dir.name
        source = f"{repository.git_dir}\0{repository.below}"
        if repository.refused is not None:
            # A place where there is never an index, so nothing of the repository can be shown.
            label, source = Path(repository.top).name, f"{repository.top}\0refused"
        place = place_index(f"{label}@git", source, settings)
        super().__init__(
            f"{name}@git", settings, open_store(place, settings), open_model=open_model
        )
        self.variants = Variants(place, settings)
        self.repository = repository
        self._stamp = ""
        """The stamp of the branches that the index is known to contain."""
        self._branches: dict[str, tuple[str, tuple[str, ...]]] = {}

    # -- the index ---------------------------------------------------------------

    def index(
        self,
        *,
        rebuild: bool = False,
        only: Several[str] | None = None,  # noqa: ARG002
        wait_seconds: float = 0.0,
        diffs: bool = True,
        let_go: bool = True,
    ) -> IndexReport:
        """Read the new commits and forget those that vanished; with ``rebuild``, read all.

        Without ``diffs``, the diffs of many new commits are left to a later pass. ``only`` has no
        effect here: git says what is new.
        """
        options = {"wait_seconds": wait_seconds, "diffs": diffs, "let_go": let_go}
        with self.passes.hold():
            try:
                return self._run_pass(rebuild=rebuild, **options)
            except IndexCorrupt as damage:
                self.store.set_aside(damage.developer, wait_seconds=wait_seconds)
                return self._run_pass(rebuild=rebuild, **options)

    def _run_pass(self, *, wait_seconds: float, **options: Any) -> IndexReport:
        from lookfar.index.commits import HistoryBuild

        build = HistoryBuild(self.repository, self.name, self.store, self.settings, self.embedder)

        def write(wait: float) -> IndexReport:
            return build.run(wait_seconds=wait, **options)

        return self.passes.run(write, wait_seconds)

    def delete(self, *, wait_seconds: float = 0.0) -> None:
        """Stop following the branches and remove the index; the repository is not touched."""
        self.unwatch()
        self.remove_index(wait_seconds)
        self._stamp = ""

    @property
    def source_path(self) -> str:
        return self.repository.top

    def _fingerprint(self) -> str:
        from lookfar.index.commits import history_fingerprint

        return history_fingerprint(self.settings, self.embedder)

    # -- queries -----------------------------------------------------------------

    def freshen(self) -> list[Incomplete]:
        """Build a missing index, and read what is new if a branch has moved."""
        if (notes := find_notes(self.place)) is not None:
            return notes
        try:
            if not self.store.exists or (
                self.store.held() is None and self.store.fingerprint() != self._fingerprint()
            ):
                self.index(wait_seconds=PATIENCE, diffs=False)
            elif self.store.held() is None and self._has_moved():
                stamp, settled = history.compute_stamp(self.repository)
                report = self.index(diffs=False, let_go=False)
                self._stamp = stamp if settled else ""
                if settled:
                    self._write_stamp(report.generation, stamp)
        except IndexBusy as busy:
            return [Incomplete("stale", f"the history is to be indexed: {busy.message}")]
        except RepositoryRefused:
            raise
        except (IOFailed, ModelUnavailable) as error:
            if not self.store.exists:
                raise
            return [Incomplete("stale", f"the history could not be compared: {error.message}")]
        with self.store.snapshot() as snapshot:
            manifest = snapshot.manifest()
        without_diff = manifest.get("thin", 0)
        if not without_diff:
            return []
        partial_clone = manifest.get("partial")
        why = "this partial clone does not have" if partial_clone else "are read later"
        detail = f"{without_diff:,} commits are searched without their diffs, which {why}"
        return [Incomplete("no_diffs", detail)]

    def _has_moved(self) -> bool:
        """Return whether a branch may have moved since the last pass, without running git."""
        from lookfar.index.commits import describe_scope

        stamp, settled = history.compute_stamp(self.repository)
        if settled and stamp == self._stamp:
            return False
        with self.store.snapshot() as snapshot:
            manifest = snapshot.manifest()
        recorded = _stamp_record(snapshot.generation, stamp)
        same = manifest.get("stamp") == stamp or self._read_stamp() == recorded
        if settled and same and manifest.get("scope") == describe_scope(self.settings):
            self._stamp = stamp
            return False
        return True

    def _write_stamp(self, generation: int, stamp: str) -> None:
        """Record which branches a generation contains.

        Its manifest does not say that if the branches had just moved when it was made, or if git
        packed them since.
        """
        from lookfar.freshness.changed_names import SEEN_FILE

        record = pack_record(_stamp_record(generation, stamp))
        with suppress(LookfarError):  # The next process runs git again.
            files.write_shared(self.store.folder / SEEN_FILE, record)

    def _read_stamp(self) -> object:
        from lookfar.freshness.changed_names import SEEN_FILE

        try:
            return unpack_record((self.store.folder / SEEN_FILE).read_bytes())
        except (OSError, ValueError, RecursionError):
            return None

    def source(self, uri: str) -> str | None:
        """Return the stored text of a commit, which never changes."""
        with self.store.snapshot() as snapshot:
            return snapshot.text(uri)

    def narrow(self, filters: Filters) -> Filters:
        """Replace a branch in the filters by the commits that it contains."""
        if not filters.branch:
            return filters
        name = history.check_branch(filters.branch)
        tips = {
            alias: ref.commit
            for ref in history.list_refs(self.repository)
            for alias in (ref.name, ref.name.split("/", 2)[-1])
        }
        tip = tips.get(name)
        if tip is None:
            return replace(filters, branch="", uris=("\0",))
        if self._branches.get(name, ("",))[0] != tip:
            self._branches[name] = (tip, tuple(history.list_commits(self.repository, [tip])))
        commits = self._branches[name][1]
        uris = tuple(set(commits).intersection(filters.uris)) if filters.uris else commits
        return replace(filters, branch="", uris=uris or ("\0",))

    def has_branch(self, name: str) -> bool:
        """Return whether a branch or tag has this name; True for a refused repository."""
        if self.repository.refused is not None:
            return True  # It is searched, so that the answer says why it is missing.
        short = (ref.name.split("/", 2)[-1] for ref in history.list_refs(self.repository))
        return history.check_branch(name) in short

    # -- reading -----------------------------------------------------------------

    def expand_hash(self, prefix: str) -> str:
        """Return the full hash of the commit with this prefix; empty if none or several have it."""
        if not self.store.exists or len(prefix) < MIN_HASH_LENGTH:
            return ""
        with self.store.snapshot() as snapshot:
            hashes = snapshot.uris(prefix)
        return hashes[0] if len(hashes) == 1 else ""

    def commits_touching(self, path: str, limit: int) -> tuple[list[tuple[str, str, int]], int]:
        """Return the commits that changed a file, also under earlier names, and their number.

        Each as hash, title and time in nanoseconds, the latest first.
        """
        if not self.store.exists:
            return [], 0
        with self.store.snapshot() as snapshot:
            names = [path]
            for name in names:  # Grows while it is iterated.
                ending = f" -> {name}"
                for uri, _, _ in snapshot.linking([name], "R"):
                    earlier = (
                        line[2 : -len(ending)]
                        for line in (snapshot.text(uri) or "").split("\n")
                        if line.startswith("R ") and line.endswith(ending)
                    )
                    names += (former for former in earlier if former not in names)
            commits = snapshot.linking(names)
        return commits[:limit], len(commits)

    def latest(self, filters: Filters, limit: int) -> tuple[list[CommitInfo], list[Incomplete]]:
        """Return the newest commits that the filters admit, and notes on what may be missing."""
        notes = self.freshen()
        narrowed = self.narrow(filters)

        def look() -> list[CommitInfo]:
            commits: list[CommitInfo] = []
            with self.store.snapshot() as snapshot:
                wanted = resolve_globs(narrowed, snapshot)
                facts = snapshot.cached("listed", snapshot.facts)
                for fact in sorted(facts, key=lambda fact: (-fact.modified_ns, fact.uri)):
                    if len(commits) == limit:
                        break
                    if not wanted or snapshot.admitted(fact.uri, wanted):
                        commits.append(_describe_commit(self.name, snapshot, fact.uri))
            return commits

        return self.run_healed(look), notes

    def describe(self, uri: str) -> CommitInfo:
        with self.store.snapshot() as snapshot:
            return _describe_commit(self.name, snapshot, uri)

    def path_in_repository(self, file: str) -> str:
        try:
            return Path(file).relative_to(self.repository.top).as_posix()
        except ValueError:
            return ""

    def details(self, uri: str) -> dict[str, Any]:
        """Return everything about a commit: text by section, files, author and time."""
        with self.store.snapshot() as snapshot:
            row = snapshot.document(uri)
            if row is None:
                raise unknown_document(snapshot, uri)
            text = snapshot.text(uri) or ""
            parts = {
                section.title: text[section.body : section.span.end].strip("\n")
                for section in snapshot.sections(uri)
            }
            files = snapshot.targets(uri)
        return {**row["commit"], "title": row["title"], "parts": parts, "files": files}

    def read_current(self, snapshot: Snapshot, uri: str) -> tuple[Document, bool]:
        from lookfar.collections.read_documents import stored_document

        return stored_document(snapshot, uri), True

    def status(self, *, collection: str = "", check: bool = True) -> Status:
        def find_stale(snapshot: CollectionSnapshot) -> tuple[str, ...]:
            seen = frozenset(snapshot.manifest().get("tips", ()))
            refs = history.list_refs(self.repository, self.settings.git.branches)
            return tuple(ref.name for ref in refs if ref.commit not in seen)

        refusal = self.refusal()
        looks = check and refusal is None
        status = describe_status(
            self, collection, self._fingerprint(), find_stale if looks else None
        )
        if refusal is None:
            return status
        failure = Failure(refusal.details["entry"], refusal.code, refusal.message)
        return replace(status, failures=(failure, *status.failures))

    def refusal(self) -> RepositoryRefused | None:
        return history.find_refusal(self.repository)

    # -- following the branches --------------------------------------------------

    def watch(self) -> None:
        """Follow the branches in the background, and build a missing index."""
        if self.repository.refused is None:
            self.following.start(self._make_keeper)

    def _make_keeper(self) -> Keeper:
        from lookfar.freshness.changed_names import Changes
        from lookfar.freshness.keeper import Keeper

        head = _SettledStamp(self.repository, self.settings.git.cool_down_seconds)
        changes = Changes(self.store.folder)
        return Keeper(None, changes, self._catch_up, strategy="git", head=head)

    def unwatch(self) -> None:
        self.following.stop()

    def _catch_up(self, _: Work) -> IndexReport:
        """Index the messages first, so that they can be searched soon, then the diffs."""

        def run(diffs: bool) -> IndexReport:
            return self.index(
                wait_seconds=KEEPER_PATIENCE,
                diffs=diffs,
                let_go=False,
            )

        with self.passes.until_closing():
            report = run(False)
            return run(True) if self.settings.git.diff_lines else report

    def close(self) -> None:
        """Stop following, and close the index files."""
        self.passes.closing = True
        self.unwatch()
        self.store.close()


def _stamp_record(generation: int, stamp: str) -> dict[str, Any]:
    return {"generation": generation, "stamp": stamp}


def _describe_commit(collection: str, snapshot: Snapshot, uri: str) -> CommitInfo:
    row = snapshot.document(uri)
    if row is None:
        raise unknown_document(snapshot, uri)
    commit = row["commit"]
    moment = datetime.fromtimestamp(commit["committed"], UTC).isoformat(timespec="seconds")
    return CommitInfo(collection, uri, row["title"], commit["author"], moment, commit["files"])


class _SettledStamp:
    """The stamp of the branches once they stopped moving: git often moves several at once."""

    def __init__(self, repository: Repository, seconds: float) -> None:
        self._repository = repository
        self._seconds = seconds
        self._settled = self._latest = history.compute_stamp(repository)[0]
        self._since = time.monotonic()

    def __call__(self) -> str:
        stamp = history.compute_stamp(self._repository)[0]
        if stamp != self._latest:
            self._latest, self._since = stamp, time.monotonic()
        elif time.monotonic() - self._since >= self._seconds:
            self._settled = stamp
        return self._settled
