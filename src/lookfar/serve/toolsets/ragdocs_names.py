"""Document IDs of the ``ragdocs`` toolset.

A ``doc_id`` is the file's stem, or a longer part of its path where the stem is not unique. With
several folders a path begins with the name of its collection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from lookfar.collections.read_documents import titles
from lookfar.serve.toolsets.common import display_path, resolve_path, trim_path

if TYPE_CHECKING:
    from lookfar.library import Library
    from lookfar.model import Answer
    from lookfar.serve.tools.tool import Session

_CACHE_KEY: Final = "ragdocs.names"


def load_doc_ids(session: Session, answer: Answer) -> Mapping[str, str]:
    """Return the ``doc_id`` of each path: the shortest unique form of it."""
    library = session.library
    # What is unique depends on the collections that the caller may read.
    cache: dict[tuple[str, ...], tuple[Mapping[str, int], dict[str, str]]]
    cache = session.memory.setdefault(_CACHE_KEY, {})
    collections = tuple(library.collections)
    cached = cache.get(collections)
    if cached is not None and cached[0] == answer.generations:
        return cached[1]
    # Files of this answer may have been removed since.
    shown = [display_path(library, hit.collection, hit.uri) for hit in answer.hits]
    doc_ids = _shorten(dict.fromkeys([*_list_paths(library), *shown]))
    cache[collections] = (dict(answer.generations), doc_ids)
    return doc_ids


def find_document(session: Session, target: str) -> tuple[str, str]:
    """Return collection and URI of the document that a path or a ``doc_id`` names.

    A document that does not exist is taken as a path, since a memory may link to it already.
    """
    library = session.library
    for name in library.collections:
        library.folder(name).freshen()
    paths = list(_list_paths(library))
    wanted = trim_path(_make_relative(library, target))
    if wanted in paths:
        return resolve_path(library, wanted)
    by_id = {doc_id: path for path, doc_id in _shorten(paths).items()}
    by_page = {_strip_suffix(path): path for path in reversed(paths)}
    return resolve_path(library, by_id.get(wanted) or by_page.get(wanted) or wanted)


def _make_relative(library: Library, target: str) -> str:
    """Return an absolute path below a served folder as the results show it."""
    for name in library.collections:
        root = f"{library.folder(name).root.path}/"
        if target.startswith(root):
            return display_path(library, name, target[len(root) :])
    return target


def _list_paths(library: Library) -> Iterable[str]:
    for name in library.collections:
        for uri, _ in titles(library.folder(name)):
            yield display_path(library, name, uri)


def _shorten(paths: Iterable[str]) -> dict[str, str]:
    """Return the stem of each path, or a longer part of it if the stem is not unique."""
    known = list(paths)
    stems = Counter(PurePosixPath(path).stem for path in known)
    pages = Counter(map(_strip_suffix, known))
    doc_ids = {}
    for path in known:
        stem, page = PurePosixPath(path).stem, _strip_suffix(path)
        longer = page if pages[page] == 1 else path
        doc_ids[path] = stem if stems[stem] == 1 else longer
    return doc_ids


def _strip_suffix(path: str) -> str:
    return str(PurePosixPath(path).with_suffix(""))
