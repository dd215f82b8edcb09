"""Suggest documents whose path, file name, alias or title is close to a name that is unknown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from heapq import nlargest
from typing import Final

from lookfar.errors import NotFound
from lookfar.ports import Snapshot
from lookfar.store.catalogue.link_names import fold, page_path

_MAX_NAME: Final = 300
"""Characters of a name that are compared with other names: comparing takes time."""
_MAX_COMPARED: Final = 300
"""Names that an unknown one is compared with letter by letter."""
_COMPARED_END: Final = 60
"""Characters at the end of a name by which these names are chosen."""
_SHOWN: Final = 3
_HASH: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def unknown_document(snapshot: Snapshot, name: str) -> NotFound:
    """Return the error for a path or name that is not in the index, with the nearest ones."""
    candidates = _select_similar(name, snapshot.uris())
    # Hashes that look alike are unrelated commits.
    paths = [candidate for candidate in candidates if _HASH.fullmatch(candidate) is None]
    only_hashes = bool(candidates) and not paths
    near = dict.fromkeys(get_close_matches(name[:_MAX_NAME], paths, n=_SHOWN, cutoff=0.4), "")
    if not only_hashes and "/" not in name:
        near = {**_find_by_name(snapshot, name), **near}
    shown = dict(list(near.items())[:_SHOWN])
    hint = "Give its whole hash." if only_hashes else "Give its path below the folder."
    listed = ", ".join(f"{uri} ({known})" if known else uri for uri, known in shown.items())
    return NotFound(
        f"There is no document {name!r} in this index.",
        hint=f"Nearest: {listed}." if listed else hint,
        details={"candidates": list(shown)},
    )


def describe_document(uri: str, title: str) -> str:
    """Return the path of a document with its title, unless the file has the same name."""
    stem = page_path(uri).rpartition("/")[2]
    return f"{uri} ({title})" if title and fold(title) != stem else uri


def _find_by_name(snapshot: Snapshot, name: str) -> dict[str, str]:
    """Return the documents with a similar file name, alias or title, each with its title."""
    documents: dict[str, list[tuple[str, str]]] = {}
    for other, uri, title in snapshot.note_names():
        documents.setdefault(other, []).append((uri, title))
    wanted = fold(name)[:_MAX_NAME]
    similar = _select_similar(wanted, list(documents))
    near = get_close_matches(wanted, similar, n=_SHOWN, cutoff=0.7)
    return {
        uri: title if fold(title) != page_path(uri).rpartition("/")[2] else ""
        for other in near
        for uri, title in documents[other]
    }


def _select_similar(name: str, known: Sequence[str]) -> Sequence[str]:
    """Return the names that share the most trigrams with one.

    A full comparison with every name would take seconds in a large index.
    """
    if len(known) <= _MAX_COMPARED:
        return known
    end = name[-_COMPARED_END:]
    trigrams = {end[at : at + 3] for at in range(max(1, len(end) - 2))}

    def similarity(candidate: str) -> tuple[int, int]:
        return sum(map(candidate.__contains__, trigrams)), -abs(len(candidate) - len(name))

    return nlargest(_MAX_COMPARED, known, key=similarity)
