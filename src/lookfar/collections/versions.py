"""The texts that a document had in the generations that a collection keeps."""

from __future__ import annotations

from dataclasses import replace

from lookfar.collections.collection import Collection
from lookfar.model import DocumentVersion
from lookfar.retrieve.locate.nearest import unknown_document


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
