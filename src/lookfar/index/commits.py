"""Bring a collection of commits up to date with its repository: one pass, one new generation.

New commits are those that the branches contain now and did not contain at the last generation,
whatever their dates are. Reading a diff takes ten times as long as the message and the paths, so
that with many new commits a search waits only for those, and the next pass adds the diffs.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from lookfar.common.caller import Progress, check_cancelled, report_progress
from lookfar.config import Settings
from lookfar.index.commit_document import RENDERING, prepare_commit
from lookfar.index.prepare import CheckpointTimer, batched, embed
from lookfar.index.recipe import (
    CHUNKING,
    describe_format,
    epoch_fingerprint,
    policy_from,
    sizes_from,
)
from lookfar.index.words import Words
from lookfar.model import IndexReport
from lookfar.ports import Embedder, Known, Store, Writer
from lookfar.sources.folder.build_output import presume_output
from lookfar.sources.git.history import (
    compute_stamp,
    find_present,
    is_partial,
    list_commits,
    list_refs,
    read_commits,
    shallow_stamp,
)
from lookfar.sources.git.repositories import Repository
from lookfar.sources.secrets.screen import mask_diff

_FEW_COMMITS = 500
"""Up to this many new commits, diffs are read in the same pass."""


def history_fingerprint(settings: Settings, embedder: Embedder | None) -> str:
    """Return a hash that is equal for passes whose commits can share an epoch."""
    recipe = f"{epoch_fingerprint(settings, embedder)}; commits {RENDERING}"
    recipe += f"; diff lines {settings.git.diff_lines}"
    return sha256(recipe.encode()).hexdigest()[:32]


def describe_scope(settings: Settings) -> str:
    """Return the settings that select commits, in a form to compare."""
    return json.dumps([settings.git.max_commits, sorted(settings.git.branches)])


@dataclass(frozen=True, slots=True)
class _Plan:
    """The work of one pass."""

    new: Sequence[str]
    gone: Sequence[str]
    thin: Sequence[str]
    """Indexed commits whose diff is read now."""
    tips: Sequence[str]
    same: int


class HistoryBuild:
    """One pass over the commits of one repository."""

    def __init__(
        self,
        repository: Repository,
        collection: str,
        store: Store,
        settings: Settings,
        embedder: Embedder | None,
    ) -> None:
        self._repository = repository
        self._collection = collection
        self._store = store
        self._settings = settings
        self._embedder = embedder
        self._tally: Counter[str] = Counter()
        self._partial = is_partial(repository)
        self._policy = policy_from(settings)
        self._hidden: dict[str, bool] = {}

    def run(
        self,
        *,
        rebuild: bool = False,
        wait_seconds: float = 0.0,
        let_go: bool = True,
        diffs: bool = True,
    ) -> IndexReport:
        """Ask git what is new, index it, and activate a generation.

        Without ``diffs``, the diffs of many new commits are left to a later pass.
        """
        started = time.perf_counter()
        repository, settings, embedder, tally = (
            self._repository, self._settings, self._embedder, self._tally
        )  # fmt: skip
        with self._store.writer(
            history_fingerprint(settings, embedder),
            embedder.dimensions if embedder else 1,
            model=embedder.fingerprint if embedder else "",
            about={"root": repository.top, "collection": self._collection},
            retain=settings.index.retain_generations,
            rebuild=rebuild,
            wait_seconds=wait_seconds,
            let_go=let_go,
        ) as writer:
            # Before the refs are read, so that a ref that moves meanwhile shows as a change.
            stamp, settled = compute_stamp(repository)
            shallow = shallow_stamp(repository)
            before: Mapping[str, Any] = {}
            if not writer.fresh:
                with self._store.snapshot() as snapshot:
                    before = snapshot.manifest()
            plan = self._make_plan(writer.known(), before, shallow, diffs)
            self._write(writer, plan, diffs)
            moved = list(plan.tips) != before.get("tips") or shallow != before.get("shallow")
            if writer.fresh or moved or plan.new or plan.gone or plan.thin:
                generation = writer.activate(
                    {
                        **describe_format(embedder),
                        "chunking": CHUNKING,
                        "added": tally["added"],
                        "changed": tally["changed"],
                        "removed": len(plan.gone),
                        "failures": 0,
                        "tips": list(plan.tips),
                        "scope": describe_scope(settings),
                        "shallow": shallow,
                        "stamp": stamp if settled else "",
                        "thin": tally["thin"],
                        "partial": self._partial,
                        "seconds": round(time.perf_counter() - started, 3),
                    }
                )
            else:
                generation = writer.commit_touches()
            embedded = writer.embedded
        return IndexReport(
            collection=self._collection,
            root=repository.top,
            generation=generation,
            added=tally["added"],
            changed=tally["changed"],
            removed=len(plan.gone),
            unchanged=plan.same,
            chunks_embedded=embedded,
            seconds=time.perf_counter() - started,
            text_bytes=tally["text_bytes"],
        )

    def _make_plan(
        self, known: dict[str, Known], before: Mapping[str, Any], shallow: str, diffs: bool
    ) -> _Plan:
        repository, git = self._repository, self._settings.git
        tips = sorted({ref.commit for ref in list_refs(repository, git.branches)})
        old_tips: list[str] = before.get("tips", [])
        comparable = (
            before.get("scope") == describe_scope(self._settings)
            and before.get("shallow") == shallow
            and len(find_present(repository, old_tips)) == len(old_tips)
        )
        if comparable:
            candidates = list_commits(repository, tips, old_tips, git.max_commits)
            new = [commit for commit in candidates if commit not in known]
            gone = [
                commit for commit in list_commits(repository, old_tips, tips) if commit in known
            ]
        else:
            candidates = list_commits(repository, tips, most=git.max_commits)
            new = [commit for commit in candidates if commit not in known]
            gone = sorted(set(known).difference(candidates))
        gone_set = frozenset(gone)
        without_diff = [
            commit
            for commit, entry in known.items()
            if not entry.settled and commit not in gone_set
        ]
        # A partial clone may become a full one, so these stay pending.
        thin = without_diff if diffs and git.diff_lines and not self._partial else []
        self._tally["thin"] = len(without_diff) - len(thin)
        return _Plan(new, gone, thin, tips, len(known) - len(gone) - len(thin))

    def _write(self, writer: Writer, plan: _Plan, diffs: bool) -> None:
        for uri in plan.gone:
            writer.remove(uri)
        diff_lines = self._settings.git.diff_lines
        few = diffs or len(plan.new) <= _FEW_COMMITS
        diffs_now = bool(diff_lines) and few and not self._partial
        total = len(plan.new) + len(plan.thin)
        done = size = 0
        checkpoints = CheckpointTimer()
        sizes = sizes_from(self._settings)
        count = Words(self._embedder, by_length=sizes.by_length).count
        report_progress(Progress(0, total, 0, 0))
        for outcome, commits, lines in (
            ("added", plan.new, diff_lines if diffs_now else 0),
            ("changed", plan.thin, diff_lines),
        ):
            stream = read_commits(
                self._repository, commits, diff_lines=lines, hidden=self._is_hidden, mask=mask_diff
            )
            for batch in batched(prepare_commit(commit, sizes, count) for commit in stream):
                check_cancelled()
                embed(batch, self._embedder, writer.missing)
                for prepared in batch:
                    prepared.version.settled = lines == diff_lines
                    writer.put(prepared.version)
                    size += prepared.version.text_bytes
                self._tally[outcome] += len(batch)
                done += len(batch)
                if writer.fresh:
                    checkpoints.run_if_due(writer.checkpoint)
                report_progress(Progress(done, total, size, size))
        if not diffs_now and diff_lines:
            self._tally["thin"] += len(plan.new)
        self._tally["text_bytes"] = size

    def _is_hidden(self, path: str) -> bool:
        """Whether the diff of a path must not be indexed."""
        if path not in self._hidden:
            verdict = self._policy.verdict(path, evidence=presume_output)
            refused = verdict is not None and verdict.reason in ("denied", "excluded")
            # Where a file's content decides, a diff shows too little of it to decide.
            self._hidden[path] = refused or self._policy.secrets.rule_for(path) is not None
        return self._hidden[path]
