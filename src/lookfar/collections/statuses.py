"""Describe the state of a collection: what is indexed, what is stale, and what failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lookfar.errors import IndexBusy, ModelUnavailable
from lookfar.model import Counts, QualityStatus, Status

if TYPE_CHECKING:
    from lookfar.collections.collection import Collection
    from lookfar.ports import CollectionSnapshot, Embedder, Store


def describe_status(
    collection: Collection,
    name: str,
    fingerprint: str,
    find_stale: Callable[[CollectionSnapshot], tuple[str, ...]] | None,
) -> Status:
    """Return the status of a collection; ``fingerprint`` is the one the settings ask for."""
    store, embedder = collection.store, collection.embedder
    common: dict[str, Any] = {
        "collection": name or collection.name,
        "root": collection.source_path,
        "index_dir": store.place,
        "model": embedder.name if embedder else "none",
        "dimensions": _dimensions(embedder),
        "watcher": collection.watching(),
    }
    missing = Status(
        **common, indexed=False, generation=0, generations=(), created_at="",
        held=None, counts=Counts(), current=False, disk_bytes=0,
        damage=store.damage(), failures=(), stale=(), stale_count=0,
    )  # fmt: skip
    if not store.exists:
        return missing
    try:
        state = _describe_stored(store, missing, fingerprint, find_stale)
        return replace(state, quality=describe_quality(collection))
    except IndexBusy as busy:
        if not busy.details.get("rebuilding"):
            raise
        return replace(missing, damage=store.damage())  # It was set aside just now.


def _describe_stored(
    store: Store,
    missing: Status,
    fingerprint: str,
    find_stale: Callable[[CollectionSnapshot], tuple[str, ...]] | None,
) -> Status:
    """Return the status with what the index contains; ``missing`` is the one without an index."""
    generations = store.generations()
    with store.snapshot() as snapshot:
        counts, failures = snapshot.counts(), tuple(snapshot.failures())
        held, number = snapshot.held(), snapshot.generation
        vectors = snapshot.vector_pass() if missing.dimensions else None
        stale = find_stale(snapshot) if find_stale is not None else ()
    return replace(
        missing,
        indexed=True,
        generation=number,
        generations=tuple(generation.number for generation in generations),
        created_at=next((g.created_at for g in generations if g.number == number), ""),
        counts=counts,
        held=held,
        current=store.fingerprint() == fingerprint,
        disk_bytes=store.disk_bytes(),
        damage=store.damage(),
        failures=failures,
        stale=stale[:100],
        stale_count=len(stale),
        vectors=vectors,
    )


def describe_quality(collection: Collection) -> QualityStatus | None:
    """Return the progress of the second model; None without one."""
    model, state = collection.second_model, collection.embedding
    if model is None:
        why = collection.without_second_model
        return QualityStatus("none", 0, 0, 0, 0, failure=why) if why else None
    with collection.store.snapshot() as snapshot:
        counts = snapshot.quality_counts(model.fingerprint, model.dimensions)
    return QualityStatus(
        model.name,
        model.dimensions,
        counts.embedded,
        counts.unreadable,
        counts.total,
        working=state.working,
        # Another process may have embedded the rest meanwhile.
        paused=state.paused if counts.lacking else "",
        per_second=round(state.pace, 1) if state.working else 0.0,
        failure=state.failure or collection.without_second_model,
    )


def _dimensions(embedder: Embedder | None) -> int:
    """Return the length of the vectors; 0 without a model, or if a service does not answer."""
    try:
        return embedder.dimensions if embedder else 0
    except ModelUnavailable:
        return 0
