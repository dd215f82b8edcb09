"""Bring a collection up to date with its folder: one pass, one new generation.

A file that cannot be read keeps its stored state and is reported; it is not removed.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice

from lookfar.common.caller import Progress, check_cancelled, report_progress
from lookfar.common.garbage import collecting_seldom
from lookfar.config import EmbedSettings, Settings
from lookfar.embed.providers import WITHOUT_MODEL, in_workers
from lookfar.errors import InvalidArgument, ModelUnavailable
from lookfar.index.prepare import CheckpointTimer
from lookfar.index.recipe import (
    CHUNKING,
    allowance_from,
    describe_format,
    epoch_fingerprint,
    policy_from,
    secrets_from,
    sizes_from,
)
from lookfar.index.reconcile import (
    MOST_EXAMPLES,
    NO_FINGERPRINT,
    Changes,
    Request,
    choose_first,
    compare,
    name_extractor,
    summarise_skipped,
)
from lookfar.index.worker import Outcome, Preparer, Recipe, Unchanged, WorkerPool, adopt_vectors
from lookfar.model import Failure, IndexReport, Lane, Skipped
from lookfar.ports import Embedder, Known, LeftOut, Store, VectorSource, Version, Writer
from lookfar.sources.confine import Root
from lookfar.sources.fingerprints import is_settled
from lookfar.sources.folder.walk import Walk, examine_files, walk

_BATCH_BYTES = 512_000
_BATCH_FILES = 64
_WORTH_PROCESSES = 4_000_000
_UNLISTED = "this folder could not be listed"


Batches = Iterator[tuple[Sequence[Request], list[Outcome]]]
"""Requests with their outcomes."""


class Build:
    """One pass over one collection."""

    def __init__(
        self,
        root: Root,
        collection: str,
        store: Store,
        settings: Settings,
        embedder: Embedder | None,
        lane: Lane | None = None,
        given: VectorSource | None = None,
    ) -> None:
        """``given`` has vectors that need not be made."""
        self._root = root
        self._collection = collection
        self._store = store
        self._settings = settings
        self._embedder = embedder
        self._lane = lane
        self._given = given
        self._tally: Counter[str] = Counter()
        self._left: list[LeftOut] = []
        self._masked: list[str] = []
        self._warned: dict[str, str] = {}
        self._started_ns = time.time_ns()
        self.base = 0
        """The generation that the pass built on."""
        self.examined: frozenset[str] | None = None
        """The files that the pass looked at; None for all of them."""
        self.missing = 0
        """The files that it left for the next pass."""

    def run(
        self,
        *,
        before: Walk | None = None,
        only: Collection[str] | None = None,
        rebuild: bool = False,
        wait_seconds: float = 0.0,
        let_go: bool = True,
        many: bool = False,
        most_bytes: int = 0,
    ) -> tuple[IndexReport, Walk | None]:
        """Walk, compare, write and activate; return the walk too, to speed up the next one.

        With ``only``, just these URIs are looked at; one that ends in ``/`` is a folder and
        causes a full walk. Without ``let_go``, an index that a user rolled back raises
        ``IndexHeld``: background passes must not undo a rollback. ``many`` allows more files
        than the settings do. With ``most_bytes``, only the first files are read, and ``missing``
        says how many are left for the next pass.
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
            writer.retain_days = self._settings.index.retain_days
            writer.communities = self._settings.search.communities
            # Walk inside the lock: what another writer stored while this one waited would be
            # missing from an earlier walk and look deleted.
            if writer.fresh:
                only = None
            self.base = writer.base
            self.examined = None if only is None else frozenset(only)
            policy = policy_from(self._settings, self._root.path)
            seen = (
                walk(self._root, policy, before=before)
                if only is None
                else examine_files(self._root, policy, only)
            )
            known = writer.known(only)
            left_out = writer.left_out()
            changes = compare(seen, known, left_out, any_text=policy.any_text)
            if not many:
                self._refuse_too_many(changes, known)
            if most_bytes and changes.bytes > most_bytes:
                first = choose_first(changes.read, most_bytes)
                self.missing = len(changes.read) - len(first)
                changes = replace(changes, read=first)
            self._tally["resumed"] = len(known) if writer.resumed else 0
            if only is not None:
                self._left += (entry for uri, entry in left_out.items() if uri not in only)
            with collecting_seldom():
                self._write(writer, changes, known)
            generation = self._finish(writer, changes, seen, known, started)
            self._tally["embedded"] = writer.embedded
        walked = seen if only is None else before
        return self._report(changes, seen, generation, started), walked

    def _refuse_too_many(self, changes: Changes, known: dict[str, Known]) -> None:
        total = len(changes.read) + changes.same
        most = self._settings.sources.max_files
        # If the index already has more files than the limit, the user allowed them before.
        if total > most >= len(known):
            raise InvalidArgument(
                f"This folder has {total:,} files to index, more than the limit of {most:,}.",
                hint="Choose a smaller folder, exclude some files, or raise sources.max_files.",
                developer=f"FILE_LIMIT_WARNING: {total} files, {len(known)} known",
            )

    def _write(self, writer: Writer, changes: Changes, known: dict[str, Known]) -> None:
        for uri in changes.gone:
            writer.remove(uri)
        done_files = done_bytes = 0
        total = Progress(0, len(changes.read), 0, changes.bytes)
        checkpoints = CheckpointTimer()
        report_progress(total)
        try:
            for requests, outcomes in self._prepare(writer, changes):
                check_cancelled()
                for request, outcome in zip(requests, outcomes, strict=True):
                    self._apply(writer, request, outcome, known)
                if writer.fresh:
                    checkpoints.run_if_due(writer.checkpoint)
                done_files += len(requests)
                done_bytes += sum(request.file.fingerprint.size for request in requests)
                report_progress(
                    Progress(done_files, total.total_files, done_bytes, total.total_bytes)
                )
        except ModelUnavailable:
            if writer.fresh:
                writer.checkpoint()  # What the model made is there for the next build.
            raise

    def _prepare(self, writer: Writer, changes: Changes) -> Batches:
        recipe = Recipe(
            root=self._root,
            max_file_bytes=self._settings.sources.max_file_bytes,
            sizes=sizes_from(self._settings),
            # Workers of a parent without a model must not load one.
            embed=self._settings.embed if self._embedder else EmbedSettings(WITHOUT_MODEL),
            catalogue=writer.catalogue,
            siblings=writer.siblings,
            given=self._given,
            lane=self._lane,
            secrets=secrets_from(self._settings),
            max_document_bytes=self._settings.sources.max_document_bytes,
            allowance=allowance_from(self._settings),
        )
        batches = list(_batched(changes.read))
        workers = min(self._settings.index.workers or os.cpu_count() or 1, len(batches))
        if workers < 2 or changes.bytes < _WORTH_PROCESSES or not in_workers(self._settings.embed):
            sources = [self._given] if self._given else []
            with closing(Preparer(recipe, self._embedder, writer.stored_entries)) as preparer:
                prepare = adopt_vectors(preparer, writer.missing, sources)
                for batch in batches:
                    yield batch, prepare(batch)
            return
        pool = WorkerPool(recipe, workers)
        try:
            yield from zip(batches, pool.run(batches), strict=True)
        finally:
            pool.close()

    def _apply(
        self, writer: Writer, request: Request, outcome: Outcome, known: dict[str, Known]
    ) -> None:
        before = known.get(outcome.uri)
        match outcome:
            case Version():
                writer.put(outcome)
                self._tally["changed" if before else "added"] += 1
                self._tally["text_bytes"] += outcome.text_bytes
                if outcome.masked:
                    self._masked.append(outcome.uri)
                if outcome.doubts:
                    self._warned[outcome.uri] = outcome.doubts[0]
            case Unchanged():
                assert before is not None
                writer.touch(before.document, outcome.fingerprint, outcome.settled)
                self._tally["same"] += 1
            case Skipped():
                self._skip(request, outcome.reason, outcome.detail, failed=False)
                if before:
                    writer.remove(outcome.uri)
                    self._tally["removed"] += 1
            case Failure():
                self._skip(request, outcome.code, outcome.message, failed=True)

    def _skip(self, request: Request, code: str, message: str, *, failed: bool) -> None:
        # The walk's fingerprint is older than the read, so a change in between will show.
        disk = request.file.fingerprint
        steady = is_settled(disk, self._started_ns)
        uri = request.file.uri
        self._left.append(LeftOut(uri, failed, code, message, disk, steady, name_extractor(uri)))

    def _finish(
        self,
        writer: Writer,
        changes: Changes,
        seen: Walk,
        known: dict[str, Known],
        started: float,
    ) -> int:
        self._left += changes.left
        self._left += (
            LeftOut(uri or ".", True, "PERMISSION_DENIED", _UNLISTED, NO_FINGERPRINT, False)
            for uri in seen.unreadable
        )
        writer.leave_out(self._left)
        self._tally["removed"] += len(changes.gone)
        changed = self._tally["added"] + self._tally["changed"] + self._tally["removed"]
        if not changed and not writer.fresh and not self._was_missing():
            return writer.commit_touches()
        return writer.activate(
            {
                **describe_format(self._embedder),
                "chunking": CHUNKING,
                "documents_before": len(known),
                "resumed": self._tally["resumed"],
                "added": self._tally["added"],
                "changed": self._tally["changed"],
                "removed": self._tally["removed"],
                "failures": sum(entry.failed for entry in self._left),
                "missing": self.missing,
                "seconds": round(time.perf_counter() - started, 3),
            }
        )

    def _was_missing(self) -> bool:
        """Return whether the last pass left files, so that its generation must be replaced."""
        active, generations = self._store.history()
        manifests = (entry.manifest for entry in generations if entry.number == active)
        return any(manifest.get("missing") for manifest in manifests)

    def _report(self, changes: Changes, seen: Walk, generation: int, started: float) -> IndexReport:
        skipped = summarise_skipped(seen, self._left, changes.without_parser)
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
                Failure(entry.uri, entry.code, entry.message)
                for entry in sorted(self._left)
                if entry.failed
            ),
            skipped=skipped.counts,
            skipped_examples=skipped.examples,
            seconds=time.perf_counter() - started,
            text_bytes=self._tally["text_bytes"],
            masked=len(self._masked),
            masked_examples=tuple(self._masked[:MOST_EXAMPLES]),
            warned=len(self._warned),
            warned_examples=dict(islice(self._warned.items(), MOST_EXAMPLES)),
        )


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
