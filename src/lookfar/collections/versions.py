"""The texts that a document had in the generations that a collection keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from lookfar.collections.collection import Collection
from lookfar.collections.current_texts import parse_text
from lookfar.errors import InvalidArgument, NotFound
from lookfar.model import DocumentVersion, GenerationInfo, Reading, State, Target
from lookfar.ports import Snapshot
from lookfar.retrieve.locate.nearest import unknown_document
from lookfar.retrieve.locate.places import list_places, stored_places
from lookfar.retrieve.locate.resolve import resolve_target
from lookfar.retrieve.locate.target import locate
from lookfar.text.extract.formats import extractor_for


def list_versions(collection: Collection, uri: str) -> list[DocumentVersion]:
    """Return the different texts of a document, the oldest first.

    Generations in a row with the same text are one version. Raises ``NotFound`` if no kept
    generation has the document.
    """
    versions: list[DocumentVersion] = []
    continues = False
    for generation in collection.generations.list():
        with collection.store.snapshot(generation.number) as snapshot:
            row = snapshot.document(uri)
        if row is None:
            continues = False
            continue
        sha = row["text_sha"].hex()
        if continues and versions[-1].sha256 == sha:
            active = versions[-1].active or generation.active
            versions[-1] = replace(versions[-1], newest=generation.number, active=active)
        else:
            versions.append(
                DocumentVersion(
                    oldest=generation.number,
                    newest=generation.number,
                    created_at=generation.created_at,
                    title=row["title"],
                    sha256=sha,
                    modified_ns=row["mtime_ns"],
                    active=generation.active,
                )
            )
        continues = True
    if not versions:
        with collection.store.snapshot() as snapshot:
            raise unknown_document(snapshot, uri)
    return versions


def choose_version(versions: Sequence[DocumentVersion], before: int) -> DocumentVersion | None:
    """Return the text that a document had at a time in nanoseconds; None if it is not kept.

    A text that was indexed later is the right one if its file was not changed since that time.
    """
    earlier = [version for version in versions if _to_nanoseconds(version.created_at) < before]
    if earlier:
        return earlier[-1]
    return versions[0] if versions[0].modified_ns < before else None


def read_before(
    collection: Collection, target: str | Target, before: int, *, name: str = ""
) -> Reading:
    """Return a document, or a part of it, as it was at a time in nanoseconds.

    Raises ``NotFound`` if no generation that is kept is so old, unless the file of the oldest one
    was not changed since then.
    """
    generations = collection.generations.list()
    if not generations:
        raise NotFound("Nothing is indexed yet.", hint="Run: lookfar index")
    earlier = [made for made in generations if _to_nanoseconds(made.created_at) < before]
    chosen = earlier[-1] if earlier else _find_first(collection, target, generations)
    with collection.store.snapshot(chosen.number) as snapshot:
        reading, row = _read_stored(snapshot, target, name or collection.name, chosen)
    if not earlier and row["mtime_ns"] >= before:
        raise too_old(reading.uri, before, chosen)
    with collection.store.snapshot() as snapshot:
        now = snapshot.document(reading.uri)
    state: State = "gone"
    if now is not None:
        state = "same" if now["text_sha"] == row["text_sha"] else "changed"
    note = f"as it was in generation {chosen.number}, indexed {chosen.created_at}"
    later = {"gone": "removed since", "changed": "changed since", "same": "not changed since"}
    return replace(reading, state=state, warnings=(f"{note}; {later[state]}",))


def _find_first(
    collection: Collection, target: str | Target, generations: Sequence[GenerationInfo]
) -> GenerationInfo:
    """Return the oldest generation that has a document; the last one if none has it."""
    for generation in generations:
        with collection.store.snapshot(generation.number) as snapshot:
            if snapshot.document(resolve_target(snapshot, target).uri) is not None:
                return generation
    return generations[-1]


def too_old(uri: str, before: int, oldest: GenerationInfo | DocumentVersion) -> NotFound:
    """Return the error for a state of a document that is no longer kept, or never was."""
    number = oldest.number if isinstance(oldest, GenerationInfo) else oldest.oldest
    time = datetime.fromtimestamp(before // 10**9, UTC).isoformat()
    return NotFound(
        f"No text of {uri!r} from before {time} is kept: the oldest is from {oldest.created_at}"
        f" (generation {number}).",
        hint="Ask for a later time. index.retain_days sets for how many days texts are kept; the"
        " commits of a repository go back further.",
        details={"uri": uri, "oldest": oldest.created_at, "generation": number},
    )


def _read_stored(
    snapshot: Snapshot, target: str | Target, name: str, generation: GenerationInfo
) -> tuple[Reading, Mapping[str, Any]]:
    """Return a document or part as it is indexed, and its row in the catalogue."""
    wanted = resolve_target(snapshot, target)
    row, text = snapshot.document(wanted.uri), snapshot.text(wanted.uri)
    if row is None or text is None:
        error = unknown_document(snapshot, wanted.uri)
        raise NotFound(
            f"There was no document {wanted.uri!r} in generation {generation.number}, indexed"
            f" {generation.created_at}.",
            hint=error.hint,
            details=error.details,
        )
    if wanted.chars:
        raise InvalidArgument(
            "A citation names one text, so that it has no earlier one.",
            hint="Name the document, or one of its headings.",
        )
    document = parse_text(wanted.uri, text, as_source=bool(row.get("as_source")))
    document = replace(document, places=stored_places(snapshot, wanted.uri))
    path, span = locate(document, wanted)
    part = text[span.start : span.end]
    reading = Reading(
        collection=name,
        uri=wanted.uri,
        title=row["title"],
        heading_path=path,
        span=span,
        sha256=sha256(part.encode("utf-8")).hexdigest(),
        text=part,
        state="same",
        extracted=extractor_for(wanted.uri) is not None and row["lane"] == "docs",
        places=list_places(document.places, span.start, span.end),
    )
    return reading, row


def _to_nanoseconds(created_at: str) -> int:
    return int(datetime.fromisoformat(created_at).timestamp() * 10**9)
