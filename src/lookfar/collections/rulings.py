"""Which files of a folder would be indexed, and which rule decides about a path."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from lookfar.collections.file_collection import Files
from lookfar.collections.file_edits import to_uri
from lookfar.collections.read_documents import contains
from lookfar.common.skip_reasons import PARTLY
from lookfar.index.recipe import secrets_from
from lookfar.model import Ruling, Skipped
from lookfar.sources.confine import Refused
from lookfar.sources.fingerprints import is_binary
from lookfar.text.extract.formats import extractor_for
from lookfar.text.normalise import normalise
from lookfar.text.parse.formats import detect_format, is_readable

_EVERY = 10_000_000
"""More skipped entries than this are only counted."""


def measure_files(folder: Files, prefix: str = "") -> Mapping[str, int]:
    """Return the files that a full pass would read, by URI, and their bytes."""
    return {
        file.uri: file.fingerprint.size
        for file in folder.walk().files
        if file.uri.startswith(prefix)
        and is_readable(file.uri, folder.policy.any_text)
        and file.fingerprint.size <= folder.policy.size_limit(file.uri)
    }


def list_skipped(folder: Files) -> list[Skipped]:
    """Return every file and folder that is skipped, by URI, with the reason."""
    from lookfar.index import reconcile
    from lookfar.sources.folder.walk import walk

    seen = None if folder.sealed else walk(folder.root, folder.policy, most_skipped=_EVERY)
    return reconcile.list_skipped(seen, reconcile.load_left_out(folder.store))


def count_folders(folder: Files) -> int:
    """Return how many folders a watcher would have to follow."""
    return len(folder.walk().memory.folders)


def explain_path(folder: Files, path: str) -> Ruling:
    """Return which rule admits or refuses a path below a folder, and where that rule is.

    ``path`` is a URI, or absolute; raises ``OutsideRoot`` for one that leaves the folder.
    """
    from lookfar.index.reconcile import load_left_out
    from lookfar.sources.folder.why import BUILT_IN, why

    uri = folder.root.uri_of(path) if os.path.isabs(path) else to_uri(path)
    ruling = why(
        folder.root,
        folder.policy,
        uri,
        understood=detect_format(uri) is not None,
        decode=lambda raw: normalise(raw)[0],
    )
    if ruling.admitted:
        for left in load_left_out(folder.store):
            if left.uri == uri and not left.failed and left.code != PARTLY:
                # Only reading it showed why: it is encrypted, damaged, or has no text.
                ruling = Ruling(uri, False, left.code, left.message, BUILT_IN, uri)
    return replace(ruling, indexed=contains(folder, uri), collection=folder.name)


def skip_reason(folder: Files, uri: str) -> str:
    """Return the code for why a file is not indexed (``symlink``, ``gone``, ``ignored``, ...).

    Empty for a file that is; raises ``OutsideRoot`` for a path that leaves the folder.
    """
    from lookfar.sources.folder.walk import judge_file

    try:
        raw, _ = folder.root.read(uri, folder.policy.size_limit(uri))
    except Refused as refusal:
        return refusal.reason
    verdict = judge_file(folder.root, folder.policy, uri)
    if verdict is not None:
        return verdict.reason
    if not is_readable(uri, folder.policy.any_text):
        return "no_parser"
    if extractor_for(uri) is not None:
        return ""
    if is_binary(raw, known=detect_format(uri) is not None):
        return "binary"
    refused = secrets_from(folder.settings).screen(uri, normalise(raw)[0]).refused
    return "secret" if refused else ""
