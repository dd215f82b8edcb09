"""Edit the documents of a folder by section, and index what was written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lookfar.collections.file_collection import Files, to_uri
from lookfar.collections.read_documents import unknown_document
from lookfar.errors import IndexBusy, IndexCorrupt, IndexHeld, IOFailed, NotFound
from lookfar.model import Edit, EditResult, Validation

_INDEX_PATIENCE: Final = 30.0
"""Seconds that a finished edit waits for the index to be updated."""
_CHANGES_LINKS: Final = frozenset(
    ("create", "replace", "insert", "move", "rename", "delete", "fix")
)
"""Operations that may change where links lead."""


def edit(
    folder: Files,
    edits: Sequence[Edit],
    *,
    dry_run: bool = False,
    rewrite_links: bool = False,
    collection: str = "",
) -> EditResult:
    """Change documents by section, all or none, and index what was written."""
    folder.refuse_sealed()
    folder.settle()
    unsure = ""
    if any(change.op in _CHANGES_LINKS for change in edits):
        unsure = "this folder was never indexed"
        if folder.indexed:  # Backlinks come from the index.
            unsure = "; ".join(note.detail for note in folder.freshen(None))
    editor = folder.editor(collection, unsure)
    try:
        result = editor.edit(edits, dry_run=dry_run, rewrite_links=rewrite_links)
    except NotFound as error:
        raise _suggest_documents(folder, error) from error
    return _index_edited(folder, result)


def undo(folder: Files, uri: str, *, dry_run: bool = False, collection: str = "") -> EditResult:
    """Undo the last transaction that changed a document."""
    folder.refuse_sealed()
    return _index_edited(folder, folder.editor(collection).undo(to_uri(uri), dry_run=dry_run))


def validate(
    folder: Files, uri: str, *, single_h1: bool | None = None, collection: str = ""
) -> Validation:
    """Check a document against the rules for headings."""
    try:
        return folder.editor(collection).validate(to_uri(uri), single_h1=single_h1)
    except NotFound as error:
        raise _suggest_documents(folder, error) from error


def _suggest_documents(folder: Files, error: NotFound) -> NotFound:
    """Add the documents with similar names to an error about a missing one."""
    if error.details.get("reason") != "gone" or not folder.indexed:
        return error
    with folder.store.snapshot() as snapshot:
        suggestion = unknown_document(snapshot, str(error.details["uri"]))
    details = {**error.details, **suggestion.details}
    return NotFound(error.message, hint=suggestion.hint, details=details)


def _index_edited(folder: Files, result: EditResult) -> EditResult:
    """Index what was written; a failure becomes a warning, because the edit is done."""
    uris = [document.uri for document in result.documents if document.action != "unchanged"]
    if result.dry_run or not uris or not folder.indexed:
        return result
    try:
        if not folder.passes.lock.acquire(timeout=_INDEX_PATIENCE):
            raise IndexBusy("The index is being built.", hint="Wait for it.")
        try:
            folder.run_pass(folder.last_walk, only=uris, let_go=False, wait_seconds=_INDEX_PATIENCE)
        finally:
            folder.passes.lock.release()
    except IndexHeld as held:
        return replace(result, warnings=(*result.warnings, f"Not searched yet: {held}"))
    except (IndexBusy, IndexCorrupt, IOFailed) as error:
        warning = f"Not indexed yet; the next pass will: {error}"
        return replace(result, warnings=(*result.warnings, warning))
    written = [d.uri for d in result.documents if d.action in ("created", "changed")]
    with folder.store.snapshot() as snapshot:
        # A file that the policy skips was written but is not indexed.
        indexed = all(snapshot.document(uri) is not None for uri in written)
    return replace(result, indexed=indexed)
