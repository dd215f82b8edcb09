"""Making the store true to the disk: one pass, one new generation.

Takes: a root, a store, settings and an embedder. Gives: a report of what was
found and done. Refuses: to remove what it could not look at; a file that cannot
be read keeps its old state and is reported.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lookfar.config import EmbedSettings
from lookfar.embed.providers import WITHOUT_MODEL, in_workers
from lookfar.errors import InvalidArgument, ModelUnavailable
from lookfar.index.progress import CheckpointTimer, OnProgress, Progress
from lookfar.index.recipe import (
    CHUNKING,
    epoch_fingerprint,
    policy_from,
    secrets_from,
    sizes_from,
)
from lookfar.index.reconcile import Changes, Request, compare
from lookfar.index.worker import Outcome, Preparer, Recipe, Unchanged, WorkerPool
from lookfar.model import Failure, Fingerprint, IndexReport, Lane, Skipped
from lookfar.ports import LeftOut, Version
from lookfar.sources.fingerprints import settled
from lookfar.sources.folder.walk import Walk, glance, walk
from lookfar.store.catalogue.migrations import FORMAT

if TYPE_CHECKING:
    from pathlib import Path

    from lookfar.config import Settings
    from lookfar.ports import Embedder, Known
    from lookfar.sources.confine import Root
    from lookfar.store.opening import Store
    from lookfar.store.sqlite.write_session import EpochWriter

_BATCH_BYTES = 512_000
_BATCH_FILES = 64
_WORTH_PROCESSES = 4_000_000
_UNLISTED = "this folder could not be listed"
_NOWHERE = Fingerprint(0, 0, 0, 0)
_MOST_EXAMPLES = 5


Batches = Iterator[tuple[Sequence[Request], list[Outcome]]]
"""What was asked for, and what became of it."""


class Build:
    """One pass over one collection."""

    def __init__(
        self,
        root: Root,
        collection: str,
        store: Store,
        settings: Settings,
        embedder: Embedder | None,
        on_progress: OnProgress | None = None,
        lane: Lane | None = None,
    ) -> None:
        self._root = root
        self._collection = collection
        self._store = store
        self._settings = settings
        self._embedder = embedder
        self._on_progress = on_progress or (lambda _: None)
        self._lane = lane
        self._tally: Counter[str] = Counter()
        self._left: list[LeftOut] = []
        self._masked: list[str] = []
        self._began = time.time_ns()

    def run(
        self,
        *,
        before: Walk | None = None,
        only: Collection[str] | None = None,
        rebuild: bool = False,
        wait_seconds: float = 0.0,
        let_go: bool = True,
        many: bool = False,
    ) -> tuple[IndexReport, Walk | None]:
        """Walk, compare, write, activate. Gives the walk too, to speed up the next one.

        With ``only``, nothing but these URIs is looked at; one that ends in ``/`` names a
        folder, for which everything is walked. Without ``let_go``, an index that someone
        rolled back and holds is refused with ``IndexHeld``: for passes that nobody asked for.
        ``many`` lets in more files than the settings do.
        """
        started = time.perf_counter()
        if only is not None and (rebuild or any(uri.endswith("/") for uri in only)):
            only = None
        with self._store.writer(
            epoch_fingerprint(self._settings, self._embedder),
            self._embedder.dimensions if self._embedder else 1,
            model=self._embedder.fingerprint if self._embedder else "",
            about={"root": self._root.path, "collection": self._collection},
            retain=self._settings.index.retain_generations,
            rebuild=rebuild,
            wait_seconds=wait_seconds,
            let_go=let_go,
        ) as writer:
            # Inside the lock: what another writer stored while this one waited for it would
            # be missing from an earlier walk, and taken for deleted.
            if writer.fresh:
                only = None
            policy = policy_from(self._settings, self._root.path)
            seen = (
                walk(self._root, policy, before=before)
                if only is None
                else glance(self._root, policy, only)
            )
            known = writer.known(only)
            left_out = writer.left_out()
            changes = compare(seen, known, left_out)
            if not many:
                self._refuse_too_many(changes, known)
            self._tally["resumed"] = len(known) if writer.resumed else 0
            if only is not None:
                self._left += (each for uri, each in left_out.items() if uri not in only)
            self._write(writer, changes, known, writer.catalogue)
            generation = self._finish(writer, changes, seen, known, started)
            self._tally["embedded"] = writer.embedded
        walked = seen if only is None else before
        return self._report(changes, seen, generation, started), walked

    def _refuse_too_many(self, changes: Changes, known: dict[str, Known]) -> None:
        total = len(changes.read) + changes.same
        most = self._settings.sources.max_files
        # Where so many are in the index already, somebody let them in.
        if total > most >= len(known):
            raise InvalidArgument(
                f"This folder holds {total:,} files to index, more than the limit of {most:,}.",
                hint="Name a smaller folder, exclude some, or raise sources.max_files.",
                developer=f"FILE_LIMIT_WARNING: {total} files, {len(known)} known",
            )

    def _write(
        self,
        writer: EpochWriter,
        changes: Changes,
        known: dict[str, Known],
        catalogue: Path | None,
    ) -> None:
        for uri in changes.gone:
            writer.remove(uri)
        done_files = done_bytes = 0
        total = Progress(0, len(changes.read), 0, changes.bytes)
        checkpoints = CheckpointTimer()
        self._on_progress(total)
        for requests, outcomes in self._kept_up(writer, self._outcomes(writer, changes, catalogue)):
            for request, outcome in zip(requests, outcomes, strict=True):
                self._apply(writer, request, outcome, known)
            if writer.fresh:
                checkpoints.run_if_due(writer.checkpoint)
            done_files += len(requests)
            done_bytes += sum(request.file.fingerprint.size for request in requests)
            self._on_progress(
                Progress(done_files, total.total_files, done_bytes, total.total_bytes)
            )

    def _kept_up(self, writer: EpochWriter, outcomes: Batches) -> Batches:
        """The same, but where the model fails, what it has made stays for the next build."""
        try:
            yield from outcomes
        except ModelUnavailable:
            if writer.fresh:
                writer.checkpoint()
            raise

    def _outcomes(self, writer: EpochWriter, changes: Changes, catalogue: Path | None) -> Batches:
        recipe = Recipe(
            root=self._root,
            max_file_bytes=self._settings.sources.max_file_bytes,
            sizes=sizes_from(self._settings),
            # A parent that goes without its model has children that do.
            embed=self._settings.embed if self._embedder else EmbedSettings(WITHOUT_MODEL),
            catalogue=catalogue,
            siblings=writer.siblings,
            lane=self._lane,
            secrets=secrets_from(self._settings),
        )
        batches = list(_batched(changes.read))
        workers = min(self._settings.index.workers or os.cpu_count() or 1, len(batches))
        if workers < 2 or changes.bytes < _WORTH_PROCESSES or not in_workers(self._settings.embed):
            preparer = Preparer(recipe, self._embedder)
            for batch in batches:
                yield batch, preparer.run(batch, writer.missing)
            return
        pool = WorkerPool(recipe, workers)
        try:
            yield from zip(batches, pool.run(batches), strict=True)
        finally:
            pool.close()

    def _apply(
        self, writer: EpochWriter, request: Request, outcome: Outcome, known: dict[str, Known]
    ) -> None:
        before = known.get(outcome.uri)
        match outcome:
            case Version():
                writer.put(outcome)
                self._tally["changed" if before else "added"] += 1
                self._tally["text_bytes"] += outcome.text_bytes
                if outcome.masked:
                    self._masked.append(outcome.uri)
            case Unchanged():
                assert before is not None
                writer.touch(before.document, outcome.fingerprint, outcome.settled)
                self._tally["same"] += 1
            case Skipped():
                self._leave(request, outcome.reason, outcome.detail, failed=False)
                if before:
                    writer.remove(outcome.uri)
                    self._tally["removed"] += 1
            case Failure():
                self._leave(request, outcome.code, outcome.message, failed=True)

    def _leave(self, request: Request, code: str, message: str, *, failed: bool) -> None:
        # By the walk's fingerprint, which is older than the reading: a change since then shows.
        disk = request.file.fingerprint
        steady = settled(disk, self._began)
        self._left.append(LeftOut(request.file.uri, failed, code, message, disk, steady))

    def _finish(
        self,
        writer: EpochWriter,
        changes: Changes,
        seen: Walk,
        known: dict[str, Known],
        started: float,
    ) -> int:
        self._left += changes.left
        self._left += (
            LeftOut(uri or ".", True, "PERMISSION_DENIED", _UNLISTED, _NOWHERE, False)
            for uri in seen.unreadable
        )
        writer.leave_out(self._left)
        self._tally["removed"] += len(changes.gone)
        touched = self._tally["added"] + self._tally["changed"] + self._tally["removed"]
        if not touched and not writer.fresh:
            return writer.commit_touches()
        return writer.activate(self._manifest(started, known))

    def _manifest(self, started: float, known: dict[str, Known]) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "chunking": CHUNKING,
            "model": self._embedder.name if self._embedder else WITHOUT_MODEL,
            "model_fingerprint": self._embedder.fingerprint if self._embedder else WITHOUT_MODEL,
            "documents_before": len(known),
            "resumed": self._tally["resumed"],
            "added": self._tally["added"],
            "changed": self._tally["changed"],
            "removed": self._tally["removed"],
            "failures": sum(each.failed for each in self._left),
            "seconds": round(time.perf_counter() - started, 3),
        }

    def _report(self, changes: Changes, seen: Walk, generation: int, started: float) -> IndexReport:
        skipped = Counter(seen.skipped_counts)
        skipped.update(each.code for each in self._left if not each.failed)
        if changes.without_parser:
            skipped["no_parser"] += changes.without_parser
        return IndexReport(
            collection=self._collection,
            root=self._root.path,
            generation=generation,
            added=self._tally["added"],
            changed=self._tally["changed"],
            removed=self._tally["removed"],
            unchanged=changes.same + self._tally["same"],
            chunks_embedded=self._tally["embedded"],
            failures=tuple(
                Failure(each.uri, each.code, each.message)
                for each in sorted(self._left)
                if each.failed
            ),
            skipped=dict(sorted(skipped.items())),
            skipped_examples=_examples(seen, self._left),
            seconds=time.perf_counter() - started,
            text_bytes=self._tally["text_bytes"],
            masked=len(self._masked),
            masked_examples=tuple(self._masked[:_MOST_EXAMPLES]),
        )


def _examples(
    seen: Walk, left: Sequence[LeftOut], most: int = _MOST_EXAMPLES
) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for each in seen.skipped:
        found.setdefault(each.reason, []).append(each.uri)
    for entry in sorted(left):
        if not entry.failed:
            found.setdefault(entry.code, []).append(entry.uri)
    return {reason: tuple(uris[:most]) for reason, uris in sorted(found.items())}


def _batched(requests: Sequence[Request]) -> Iterator[list[Request]]:
    batch: list[Request] = []
    size = 0
    for request in requests:
        batch.append(request)
        size += request.file.fingerprint.size
        if size >= _BATCH_BYTES or len(batch) >= _BATCH_FILES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
