"""Open the editor of a collection of files, with what it needs to know about them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from lookfar.collections.variants import strip_preset
from lookfar.errors import InvalidArgument
from lookfar.model import Edit, Target
from lookfar.sources.confine import Root

if TYPE_CHECKING:
    from lookfar.config import EditSettings
    from lookfar.edit.editor import Editor
    from lookfar.ports import MovedDocument, Store
    from lookfar.sources.folder.policy import Policy

_EDITS: Final = "edits"
"""The folder of edit transactions beside the index; deleting the index does not remove it."""


class IndexedLinks:
    """What the index knows about links, for documents that are renamed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find_sources(self, uri: str, names: Iterable[str]) -> list[str]:
        if not self._store.exists:
            return []
        with self._store.snapshot() as snapshot:
            sources = [edge.source for edge in snapshot.links_to(uri)]
            sources += (edge.source for _, edge in snapshot.links_named(names))
        return list(dict.fromkeys(sources))

    def resolve(
        self, links: Sequence[tuple[str, str, str]], moved: MovedDocument | None
    ) -> list[str]:
        if not self._store.exists:
            return [""] * len(links)
        with self._store.snapshot() as snapshot:
            return snapshot.resolve_from(links, moved)


class FileEdits:
    """The edit transactions of the files below one root, the same for every preset."""

    def __init__(self, root: Root, store: Store) -> None:
        self._root = root
        self._store = store
        self._place = strip_preset(store.folder) / _EDITS

    @property
    def is_interrupted(self) -> bool:
        """Whether a crash interrupted an edit."""
        return (self._place / "journal.json").exists()

    def open_editor(
        self, policy: Policy, settings: EditSettings, collection: str, unsure: str
    ) -> Editor:
        """Return the editor of these files; ``unsure`` says why links may be unknown."""
        from lookfar.edit.editor import Editor

        return Editor(
            self._root,
            policy,
            self._place,
            resolve=partial(_resolve_target, self._root, self._find_note),
            collection=collection,
            single_h1=settings.single_h1,
            templates=settings.templates,
            backlinks=self._list_backlinks,
            links=IndexedLinks(self._store),
            unsure=unsure,
        )

    def _find_note(self, target: str | Target) -> Target | None:
        """Return the note that a name or a link means, by the index."""
        if not self._store.exists:
            return None
        from lookfar.retrieve.locate.resolve import resolve_note

        with self._store.snapshot() as snapshot:
            return resolve_note(snapshot, target)

    def _list_backlinks(self, uri: str) -> Iterator[tuple[str, str, str]]:
        """Yield the links to a document: source, kind, and target as written."""
        if self._store.exists:
            with self._store.snapshot() as snapshot:
                for edge in snapshot.links_to(uri):
                    yield edge.source, edge.kind, edge.written


def to_uri(path: str) -> str:
    """Return a relative path as people type it as a URI."""
    uri = path.replace(os.sep, "/").rstrip("/")
    while uri.startswith("./"):
        uri = uri[2:].lstrip("/")
    return uri


def _resolve_target(
    root: Root, find_note: Callable[[str | Target], Target | None], edit: Edit
) -> Target:
    """Parse the target of an edit: a path, or the name of a note or a link if there is no file."""
    from lookfar.retrieve.locate.address import SCHEME, parse_address
    from lookfar.retrieve.locate.resolve import is_link
    from lookfar.retrieve.locate.target import parse_target

    target, whole_document = edit.target, edit.op in ("create", "fix")
    if target.startswith(SCHEME):
        _, wanted = parse_address(target)
    elif is_link(target) and edit.op != "create":
        wanted = find_note(target) or Target(target)
    else:
        is_uri = bool(edit.path) or whole_document or root.contains(target)
        wanted = parse_target(target, is_uri, root.contains)
    part = wanted.heading or wanted.lines or wanted.chars
    if isinstance(edit.path, str) and not edit.path.strip():
        # An empty path is a mistake; it must not select the whole document.
        raise InvalidArgument("The heading path is empty.", hint="Name a heading, or omit it.")
    if part and (edit.path or whole_document):
        raise InvalidArgument(
            f"{target!r} names a part of a document, but the whole document is needed.",
            hint="Give only its URI.",
        )
    wanted = replace(wanted, uri=to_uri(wanted.uri))
    if edit.op == "create" or wanted.chars or root.contains(wanted.uri):
        return wanted
    return find_note(wanted) or wanted
