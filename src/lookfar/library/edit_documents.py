"""Edit documents of a library by section, and write memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from lookfar.collections.file_edits import to_uri
from lookfar.errors import (
    IndexBusy,
    IndexCorrupt,
    IndexHeld,
    InvalidArgument,
    IOFailed,
    LookfarError,
    NotFound,
)
from lookfar.library.members import USER_MEMORIES, Members
from lookfar.library.reading import resolve
from lookfar.model import Edit, EditResult, UndoStep, Validation
from lookfar.retrieve.locate.address import SCHEME, parse_address
from lookfar.retrieve.locate.nearest import unknown_document
from lookfar.retrieve.locate.resolve import is_link
from lookfar.retrieve.locate.target import parse_target
from lookfar.retrieve.neighbours.mentions import ABOUT

if TYPE_CHECKING:
    from lookfar.collections.file_collection import Files
    from lookfar.edit.memories import MemoryFolder
    from lookfar.edit.memory_file import Memory


_INDEX_PATIENCE: Final = 30.0
"""Seconds that a finished edit waits for the index to be updated."""
_CHANGES_LINKS: Final = frozenset(
    ("create", "replace", "insert", "move", "rename", "delete", "fix")
)
"""Operations that may change where links lead."""


def edit(
    members: Members,
    edits: Edit | Sequence[Edit],
    *,
    dry_run: bool,
    rewrite_links: bool,
    collection: str,
) -> EditResult:
    changes = [edits] if isinstance(edits, Edit) else list(edits)
    name = ""
    for change in changes:
        _refuse_missing_text(change)
        own = _find_folder(members, change.target, collection, new=change.op == "create")
        if name and own != name:
            raise InvalidArgument(
                f"These edits affect two collections, {name} and {own}.",
                hint="Send the edits of each collection separately.",
            )
        name = own
    folder = members.folder(name)
    folder.refuse_sealed()
    folder.settle()
    if any(_renames_document(change) for change in changes):
        folder.first_index()  # Only an index knows the links to a document.
    unsure = ""
    if any(change.op in _CHANGES_LINKS for change in changes):
        unsure = "this folder was never indexed"
        if folder.was_indexed:  # Backlinks come from the index.
            notes = folder.run_when_ready(folder.freshen)
            unsure = "; ".join(note.detail for note in notes)
    editor = folder.editor(name, unsure)
    try:
        result = editor.edit(changes, dry_run=dry_run, rewrite_links=rewrite_links)
    except NotFound as error:
        raise _suggest_documents(folder, error) from error
    return _index_edited(folder, result)


def undo(members: Members, target: str, *, dry_run: bool, collection: str) -> EditResult:
    uri, name = _uri_of(target), collection
    if not name and not target.startswith(SCHEME) and len(members.folders) > 1:
        # The document may be gone, so that only the transactions know its folder.
        names = {step.collection for step in list_undoable(members, "") if uri in step.uris}
        name = names.pop() if len(names) == 1 else ""
    name = _find_folder(members, target, name, new=True)
    folder = members.folder(name)
    folder.refuse_sealed()
    return _index_edited(folder, folder.editor(name).undo(to_uri(uri), dry_run=dry_run))


def list_undoable(members: Members, collection: str) -> list[UndoStep]:
    names = [collection] if collection else list(members.folders)
    steps = [step for name in names for step in members.folder(name).editor(name).undoable()]
    return sorted(steps, key=lambda step: step.at, reverse=True)


def validate(
    members: Members, target: str, *, collection: str, single_h1: bool | None
) -> Validation:
    name = _find_folder(members, target, collection)
    folder = members.folder(name)
    try:
        return folder.editor(name).validate(target, single_h1=single_h1)
    except NotFound as error:
        raise _suggest_documents(folder, error) from error


def _uri_of(target: str) -> str:
    return parse_address(target)[1].uri if target.startswith(SCHEME) else target


def _find_folder(members: Members, target: str, collection: str, *, new: bool = False) -> str:
    """Return the folder of a document to edit; for a new one it must be named or the only one."""
    if target.startswith(SCHEME):
        collection = parse_address(target)[0]
    if members.is_companion_name(collection):
        raise InvalidArgument(
            f"Documents of {collection!r} cannot be edited by section.",
            hint="Edit a document of a folder; memories have commands of their own.",
        )
    if collection or len(members.folders) == 1 or new:
        members.folder(collection)
        return collection or members.only_name
    return resolve(members, target, "")[0]


def _renames_document(change: Edit) -> bool:
    """Return whether an edit renames or moves a whole document, as far as its target shows."""
    if change.op not in ("rename", "move") or change.path:
        return False
    wanted = parse_target(change.target, exists=False)
    return not (wanted.heading or wanted.lines or change.target.startswith(SCHEME))


def _refuse_missing_text(change: Edit) -> None:
    """Refuse None in place of a text before anything is read."""
    for name in ("target", "text", "heading", "template", "expected"):
        if not isinstance(getattr(change, name), str):
            raise InvalidArgument(
                f"{name} must be a text.", hint=f"Give {name} as a str, or omit it."
            )


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
    changed = [document for document in result.documents if document.action != "unchanged"]
    uris = [uri for document in changed for uri in (document.uri, document.moved_from) if uri]
    if result.dry_run or not uris or not folder.indexed:
        return result
    try:
        folder.index_written(uris, _INDEX_PATIENCE)
    except IndexHeld as held:
        return replace(result, warnings=(*result.warnings, f"Not searched yet: {held}"))
    except (IndexBusy, IndexCorrupt, IOFailed) as error:
        warning = f"Not indexed yet; the next pass will: {error}"
        return replace(result, warnings=(*result.warnings, warning))
    written = [d.uri for d in result.documents if d.action in ("created", "changed", "moved")]
    with folder.store.snapshot() as snapshot:
        # A file that the policy skips was written but is not indexed.
        indexed = all(snapshot.document(uri) is not None for uri in written)
    return replace(result, indexed=indexed)


# -- memories --------------------------------------------------------------------------------------


def open_notebook(members: Members, collection: str) -> MemoryFolder:
    from lookfar.collections.memories import open_notebook

    owner = members.folder(collection or members.first_name)
    shared = owner.settings.memory.scope == "user"
    if shared and not members.reaches(USER_MEMORIES):
        raise NotFound(
            "Your token does not give access to the memories.",
            hint=f"Ask for a token with --collection {USER_MEMORIES}",
        )
    homes = list(members.folders.values()) if shared else [owner]
    return open_notebook(owner, owner.memory_folder, homes)


def remember(
    members: Members,
    text: str,
    *,
    title: str,
    type: str,
    tags: Sequence[str],
    about: Sequence[str],
    author: str,
    supersedes: Sequence[str] = (),
    valid_since: str = "",
) -> tuple[str, Memory]:
    if isinstance(about, str):
        raise InvalidArgument("about is a str.", hint="Pass a tuple of URIs.")
    subjects = [_link_to(target) for target in about]
    named = [name for name, _ in subjects if name in members.folders]
    owner = named[0] if named else members.first_name
    links = ", ".join(link for _, link in subjects)
    content = f"{text.rstrip()}\n\n{ABOUT}{links}" if links and text.strip() else text
    notebook = open_notebook(members, owner)
    memory = notebook.create(
        content, title=title, type=type, tags=tags, author=author, supersedes=supersedes,
        valid_since=valid_since,
    )  # fmt: skip
    name = members.memory_name(owner)
    return name, _compare_with_others(members, name, memory)


def _compare_with_others(members: Members, name: str, memory: Memory) -> Memory:
    """Return a new memory with those that it may contradict; a failure does not undo the write."""
    collection = members.memories().get(name)
    if collection is None:
        return memory
    try:
        return replace(memory, near=collection.find_near(memory))
    except LookfarError as error:
        warning = f"it was not compared with other memories: {error.message}"
        return replace(memory, warnings=(*memory.warnings, warning))


def _link_to(target: str) -> tuple[str, str]:
    """Return the collection that an address names, or "", and a Markdown link to the target."""
    name = ""
    if is_link(target) and "\n" not in target:
        return name, target.strip()
    if target.startswith(SCHEME):
        name, wanted = parse_address(target)
    else:
        wanted = parse_target(target, exists=False)
    if not wanted.uri.strip() or "\n" in target:
        raise InvalidArgument(f"{target[:100]!r} does not name a document.", hint="Give its URI.")
    place = f"{wanted.uri}#{wanted.heading}" if wanted.heading else wanted.uri
    lines = f"|{wanted.uri}:{wanted.lines[0]}-{wanted.lines[1]}" if wanted.lines else ""
    if set(wanted.uri) & set("[]|#\\") or set(wanted.heading) & set("[]|"):
        return name, f"[{quote(wanted.uri)}](<{quote(wanted.uri)}>)"
    return name, f"[[{place}{lines}]]"
