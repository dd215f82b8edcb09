"""Read the current text of files on disk, with secrets masked.

For an unchanged file that had to be extracted, or whose encoding had to be guessed, the text comes
from the index. The hash of the file proves that the file is unchanged, and answers do not wait for
an extractor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lookfar.errors import IOFailed, NotFound
from lookfar.index.recipe import allowance_from, policy_from, secrets_from
from lookfar.model import Document, Fingerprint, Places, Skipped
from lookfar.retrieve.locate.nearest import unknown_document
from lookfar.sources.confine import Refused, Root
from lookfar.sources.fingerprints import content_hash, is_settled
from lookfar.text.extract.formats import extractor_for
from lookfar.text.normalise import UTF8, decode, normalise_lines
from lookfar.text.parse.formats import text_parser_for

if TYPE_CHECKING:
    from lookfar.config import Settings
    from lookfar.ports import Snapshot, Store

_MOST_HASHES: Final = 4_096


class CurrentText(NamedTuple):
    """The normalised text of a file, with its places if it was extracted."""

    text: str
    places: Places = ()
    warnings: tuple[str, ...] = ()
    as_source: bool = False
    """Whether the text is the source of the file, although there is an extractor for it."""


def read_places(row: Mapping[str, Any]) -> Places:
    """Return the places of a document from its row in the catalogue."""
    return tuple((int(start), str(label)) for start, label in row.get("places", ()))


def is_source(row: Mapping[str, Any]) -> bool:
    """Whether the stored text is the source of the file, although there is an extractor for it."""
    return bool(row.get("as_source"))


class CurrentTexts:
    """Reads the files of one collection. May be shared by threads."""

    def __init__(self, root: Root, store: Store, settings: Callable[[], Settings]) -> None:
        self._root = root
        self._store = store
        self._settings = settings
        self._hashes: dict[str, tuple[Fingerprint, bytes]] = {}
        """Hashes of extracted files by URI, each valid for one fingerprint."""

    def read_source(self, uri: str) -> str | None:
        """Return the text of a file, or None as :meth:`read` does.

        If the store is read-only, return the stored text.
        """
        if self._settings().store.read_only:
            with self._store.snapshot() as snapshot:
                return snapshot.text(uri)
        current = self.read(uri)
        return current.text if current is not None else None

    def read_for_citing(self, uri: str, snapshot: Snapshot | None = None) -> str | None:
        """Return the text of a file for citing; None if the disk refuses to read it.

        The text is empty if the document would have to be extracted again: an answer does not wait
        for that, and reports the passage as changed. ``snapshot`` is the one that is cited.
        """
        try:
            current = self.read(uri, extract=False, snapshot=snapshot)
        except IOFailed:
            return None
        return current.text if current is not None else None

    def read_document(self, snapshot: Snapshot, uri: str) -> tuple[Document, bool]:
        """Parse a document from disk; return it and whether its text is the indexed one."""
        row = snapshot.document(uri)
        if row is None:
            raise unknown_document(snapshot, uri)
        current: CurrentText | None
        if self._settings().store.read_only:
            current = CurrentText(
                snapshot.text(uri) or "", read_places(row), as_source=is_source(row)
            )
        else:
            current = self.read(uri)
        if current is None:
            raise NotFound(
                f"{uri!r} was deleted after it was indexed.",
                hint="Search still shows the indexed text; lookfar index removes it.",
            )
        same = _hash_text(current.text) == row["text_sha"]
        document = parse_text(uri, current.text, as_source=current.as_source)
        parsed = replace(
            document,
            # The title of an extracted document may come from the metadata of its file.
            title=document.title or (row["title"] if same else ""),
            places=current.places,
            warnings=tuple(dict.fromkeys((*current.warnings, *document.warnings))),
        )
        return parsed, same

    def read(
        self, uri: str, *, extract: bool = True, snapshot: Snapshot | None = None
    ) -> CurrentText | None:
        """Return the text of a file; None if it is gone or contains secrets.

        Without ``extract``, the text is empty if the file has changed and would have to be
        extracted again. Raises ``NotFound`` if it can no longer be extracted. A stored text is
        looked up in ``snapshot`` first, then in the newest snapshot.
        """
        try:
            if extractor_for(uri) is None:
                return self._read_text(uri, snapshot)
            sha = self._hash_file(uri)
            stored = self._find_stored(uri, sha, snapshot) if sha is not None else None
            if stored is not None or sha is None:
                return stored
            return self._extract(uri) if extract else CurrentText("")
        except Refused:
            return None

    def _read_text(self, uri: str, snapshot: Snapshot | None) -> CurrentText | None:
        raw, _ = self._root.read(uri, self._settings().sources.max_file_bytes)
        try:
            text = raw.decode(UTF8).removeprefix("\ufeff") if b"\0" not in raw else None
        except UnicodeDecodeError:
            text = None
        if text is None or "\x1b" in text:
            # Detecting an encoding takes longer than looking up the stored text.
            stored = self._find_stored(uri, content_hash(raw), snapshot)
            if stored is not None:
                return stored
            decoded = decode(raw)
            return self._mask(uri, CurrentText(normalise_lines(decoded.text), (), decoded.warnings))
        current = CurrentText(normalise_lines(text))
        # What is in the index was masked, by the rules that are part of its fingerprint.
        if snapshot is not None and snapshot.holds_text(uri, _hash_text(current.text)):
            return current
        return self._mask(uri, current)

    def _mask(self, uri: str, current: CurrentText) -> CurrentText | None:
        screened = secrets_from(self._settings()).screen(uri, current.text)
        return None if screened.refused else current._replace(text=screened.text)

    def _hash_file(self, uri: str) -> bytes | None:
        """Return the hash of a file; None if it is gone."""
        disk = self._root.stat(uri)
        known = self._hashes.get(uri)
        if known is not None and known[0] == disk:
            return known[1]
        raw, disk = self._read_document(uri)
        sha = content_hash(raw)
        if is_settled(disk, time.time_ns()):
            if len(self._hashes) >= _MOST_HASHES:
                self._hashes.clear()
            self._hashes[uri] = disk, sha
        return sha

    def _read_document(self, uri: str) -> tuple[bytes, Fingerprint]:
        settings = self._settings()
        return self._root.read(uri, policy_from(settings, self._root.path).size_limit(uri))

    def _find_stored(self, uri: str, sha: bytes, snapshot: Snapshot | None) -> CurrentText | None:
        """Return the indexed text of a file with this hash; its secrets are already masked."""
        stored = _load_stored(snapshot, uri, sha) if snapshot is not None else None
        if stored is not None or not self._store.exists:
            return stored
        with self._store.snapshot() as newest:
            return _load_stored(newest, uri, sha)

    def _extract(self, uri: str) -> CurrentText | None:
        from lookfar.index.extraction import Extraction, extract_content

        raw, _ = self._read_document(uri)
        with closing(Extraction(allowance_from(self._settings()))) as extraction:
            content = extract_content(uri, raw, extraction)
        if isinstance(content, Skipped):
            raise NotFound(
                f"{uri!r} changed, and its text cannot be extracted: {content.detail}.",
                hint="Search still shows the indexed text; lookfar index removes it.",
                details={"uri": uri, "reason": content.reason},
            )
        return self._mask(
            uri, CurrentText(content.text, content.places, content.warnings, content.as_source)
        )


def _hash_text(text: str) -> bytes:
    return sha256(text.encode("utf-8")).digest()


def _load_stored(snapshot: Snapshot, uri: str, sha: bytes) -> CurrentText | None:
    row = snapshot.document(uri)
    text = snapshot.text(uri) if row is not None and bytes(row["raw_sha"]) == sha else None
    if row is None or text is None:
        return None
    return CurrentText(text, read_places(row), tuple(row["warnings"]), is_source(row))


_MOST_KEPT: Final = 4
_LONGEST_KEPT: Final = 2_000_000
"""Characters of a text whose result is kept; longer ones would fill the memory of a server."""


def parse_text(uri: str, text: str, *, as_source: bool) -> Document:
    """Parse the text of a document; the result belongs to all callers and is not changed."""
    parse = _parse_and_keep if len(text) <= _LONGEST_KEPT else _parse
    return parse(uri, text, as_source)


def _parse(uri: str, text: str, as_source: bool) -> Document:
    return text_parser_for(uri, as_source=as_source)(uri, text)


# Equal arguments give equal results: a parser is a pure function.
_parse_and_keep = lru_cache(_MOST_KEPT)(_parse)
