"""The keyword index: BM25 over several fields, in tantivy.

Texts are not analysed here: both indexed texts and queries pass through ``analyser`` first.

Like the vectors, the keyword index may be ahead of the catalogue but never behind it. It is
committed first, and the next writer drops documents that the catalogue does not have.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

import tantivy
from tantivy import Query

from lookfar.common.folders import list_folder
from lookfar.errors import LookfarError
from lookfar.ports import Streams
from lookfar.store.ground import files
from lookfar.store.ground.headroom import require_memory
from lookfar.store.keywords.fields import FIELDS, NAMES, PAGE_FIELDS
from lookfar.store.keywords.keyword_view import KeywordView
from lookfar.store.keywords.tantivy_files import (
    META,
    describe_file_damage,
    parse_errno,
    reading,
    segment_files,
    writing,
)

KEYWORDS = "keywords"
"""The folder of the index inside an epoch."""
_ALL_FIELDS = frozenset((*FIELDS, *PAGE_FIELDS))

_HEAP_BYTES = 96_000_000
_HEADROOM = 3 * _HEAP_BYTES
"""Memory that writing and merging may need at once; with less, tantivy may abort the process."""
_ANALYSER = "whitespace"
_CHECKED_BYTES = 1 << 24
"""How many bytes are checked when an index is opened: about 10 ms."""
_SEGMENT = re.compile(r"[0-9a-f]{32}")
_CANNOT_WRITE = frozenset((errno.EROFS, errno.EACCES, errno.EPERM))


def _make_schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("key", stored=False, indexed=True, fast=True)
    builder.add_unsigned_field("document", stored=False, indexed=True, fast=True)
    for field in FIELDS:
        builder.add_text_field(field, tokenizer_name=_ANALYSER, index_option="position")
    for field in PAGE_FIELDS:
        builder.add_text_field(field, tokenizer_name=_ANALYSER, index_option="freq")
    return builder.build()


def empty_index_meta() -> bytes:
    """Return the ``meta.json`` that tantivy writes for an empty index like ours."""
    with TemporaryDirectory(prefix="lookfar-") as folder, writing(Path(folder)):
        tantivy.Index(_make_schema(), path=folder, reuse=False)
        return Path(folder, META).read_bytes()


class KeywordIndex:
    """A tantivy index in one folder."""

    def __init__(self, folder: Path, *, create: bool = False, older: bool = False) -> None:
        """``older`` means that the catalogue has an older format, with other fields here."""
        self._folder = folder
        self._older = older
        self._linked: TemporaryDirectory[str] | None = None
        self._reloading = Lock()
        self._writer: tantivy.IndexWriter | None = None
        self._checked: set[str] = set()
        self._schema = _make_schema()
        self._lacking: frozenset[str] = frozenset()
        self._index = self._create() if create else self._open()
        self.view = self._open_view()
        """The state at the last reload; a reader keeps the view it began with."""

    def _create(self) -> tantivy.Index:
        files.make_folder(self._folder, sync=False)
        with writing(self._folder):
            files.fault_point("create", self._folder.name)
            index = tantivy.Index(self._schema, path=str(self._folder), reuse=False)
        return _configure(index)

    def _open(self) -> tantivy.Index:
        with reading(self._folder):
            try:
                return self._check_schema(tantivy.Index.open(str(self._folder)))
            except ValueError as error:
                if parse_errno(error) not in _CANNOT_WRITE:
                    raise
            return self._check_schema(tantivy.Index.open(self._link()))

    def _check_schema(self, index: tantivy.Index) -> tantivy.Index:
        """Check that the index has our fields: a renamed field would silently not be searched."""
        if index.schema != self._schema:
            if not self._older:
                raise ValueError(f"{META}: it has other fields")
            # Queries refer to fields by position, so they must use the index's own schema.
            self._schema = index.schema
            fields = json.loads((self._folder / META).read_bytes())["schema"]
            self._lacking = _ALL_FIELDS.difference(field["name"] for field in fields)
        return _configure(index)

    def _link(self) -> str:
        """Make a writable folder of links to this one, because tantivy locks even to read."""
        if self._linked is None:
            self._linked = TemporaryDirectory(prefix="lookfar-", ignore_cleanup_errors=True)
        files.link_files(self._folder, Path(self._linked.name), copied=META)
        return self._linked.name

    def _open_view(self) -> KeywordView:
        # Stamp first: a view may contain more than its stamp says, but never less.
        stamp = self.committed()
        with reading(self._folder):
            self._check_small_files()
            if self._linked is not None:
                self._link()
            self._index.reload()
            return KeywordView(
                self._folder,
                self._schema,
                self._index.searcher(),
                stamp,
                lacking=self._lacking,
                deletions=self._has_deletions(),
            )

    def _check_small_files(self) -> None:
        """Compare files that were not checked yet with their checksum, as far as that is quick.

        tantivy trusts the files it maps: a wrong number can crash the process or change results.
        """
        allowance = _CHECKED_BYTES
        for path in sorted(segment_files(self._folder)):
            if path.name in self._checked:
                continue
            try:
                allowance -= path.stat().st_size
            except FileNotFoundError:
                if path in segment_files(self._folder):
                    raise
                continue  # A writer merged it away meanwhile.
            if allowance < 0:
                return
            why = describe_file_damage(path)
            if why and path in segment_files(self._folder):
                raise ValueError(f"{path.name}: {why}")
            self._checked.add(path.name)

    def committed(self) -> int:
        """Return the stamp of the last commit on disk, to compare with the catalogue's."""
        with reading(self._folder):
            return int(json.loads((self._folder / META).read_bytes())["opstamp"])

    def reload(self) -> None:
        """Make the last commit of any process visible."""
        with self._reloading:
            self.view = self._open_view()

    # --- writing ---

    def open_writer(self, known_documents: int) -> None:
        """Start writing; drop documents that a crashed writer left and the catalogue lacks."""
        beyond = Query.range_query(
            self._schema,
            "document",
            tantivy.FieldType.Unsigned,
            lower_bound=known_documents + 1,
            use_inverted_index=True,
        )
        require_memory(_HEADROOM)
        with writing(self._folder):
            self._writer = self._index.writer(_HEAP_BYTES, 1)
            for path in (*list_folder(self._folder, ".tmp*"), *self._uncommitted_deletions()):
                files.remove(path)
            self._writer.delete_documents_by_query(beyond)

    def _uncommitted_deletions(self) -> list[Path]:
        """Return deletion files of a writer that died before it committed them.

        Their names contain the number of that commit. A retry commits under the same number and
        would not overwrite them.
        """
        last = self.committed()
        numbered = (
            (path, path.name.split(".")[-2]) for path in list_folder(self._folder, "*.*.del")
        )
        return [path for path, number in numbered if number.isdecimal() and int(number) > last]

    def add(
        self,
        first_key: int,
        document: int,
        names: Sequence[str],
        entries: Sequence[Sequence[str]],
    ) -> None:
        """Add the chunks of one document under consecutive keys.

        The entry of the first chunk also has the fields of the whole document. An entry of its own
        would lower the average length of the other fields, to which BM25 compares each text: to
        half of it where documents have one chunk each.
        """
        assert self._writer is not None
        require_memory(_HEADROOM)
        with writing(self._folder):
            for key, entry in enumerate(entries, first_key):
                record = tantivy.Document()
                record.add_unsigned("key", key)
                record.add_unsigned("document", document)
                _add_streams(record, FIELDS, entry)
                if key == first_key:
                    _add_streams(record, NAMES, names)
                    for chunk in entries:
                        record.add_text("page", chunk[FIELDS.index("body")])
                        record.add_text("page", chunk[FIELDS.index("code")])
                self._writer.add_document(record)

    def remove_documents(self, documents: Iterable[int]) -> None:
        assert self._writer is not None
        # By query: deleting by term silently matches nothing in a numeric field.
        among = Query.term_set_query(self._schema, "document", list(documents))
        with writing(self._folder):
            self._writer.delete_documents_by_query(among)

    def rewrite(
        self,
        known_documents: int,
        gone: Sequence[int],
        entries: Callable[[Sequence[int]], Iterable[tuple[int, int, Streams]]],
    ) -> int:
        """Rewrite every segment with entries of the documents ``gone``; return the new stamp.

        Only a rewrite removes their terms from the files. ``entries`` makes the entries of other
        documents again: first key, document, streams.
        """
        self.reload()
        stamp = self._rewrite_documents(known_documents, gone, self.view.beside(gone), entries)
        if self._has_deletions():
            # Earlier deletions are left, and their segments are unknown: rewrite everything.
            self.reload()
            stamp = self._rewrite_documents(known_documents, gone, self.view.documents(), entries)
        return stamp

    def _rewrite_documents(
        self,
        known_documents: int,
        gone: Sequence[int],
        beside: Collection[int],
        entries: Callable[[Sequence[int]], Iterable[tuple[int, int, Streams]]],
    ) -> int:
        self.open_writer(known_documents)
        try:
            self.remove_documents({*gone, *beside})
            for first_key, document, (names, streams) in entries(sorted({*beside} - {*gone})):
                self.add(first_key, document, names, streams)
            stamp = self.commit()
        except BaseException:
            self.abandon()
            raise
        self.close_writer()
        return stamp

    def _has_deletions(self) -> bool:
        with reading(self._folder):
            segments = json.loads((self._folder / META).read_bytes())["segments"]
            return any(segment["deletes"] for segment in segments)

    def remove_leftovers(self) -> None:
        """Remove files of segments that are not in the last commit; the caller holds the lock."""
        with reading(self._folder):
            segments = json.loads((self._folder / META).read_bytes())["segments"]
        current = {segment["segment_id"].replace("-", "") for segment in segments}
        for path in list_folder(self._folder):
            name = path.name.partition(".")[0]
            if _SEGMENT.fullmatch(name) and name not in current:
                # On Windows a reader may still map it; the next call tries again.
                with suppress(LookfarError):
                    files.remove(path)

    def commit(self) -> int:
        """Make everything since the last commit durable; return the stamp to record."""
        assert self._writer is not None
        with writing(self._folder):
            files.fault_point("commit", self._folder.name)
            stamp = int(self._writer.commit())
        # tantivy syncs its files, but not the final rename of its meta file.
        files.sync_folder(self._folder)
        return stamp

    def abandon(self) -> None:
        """Discard everything since the last commit."""
        if self._writer is not None:
            # If this fails, dropping the writer has the same effect: nothing was committed.
            with suppress(Exception):
                self._writer.rollback()
            self._writer = None

    def close_writer(self) -> None:
        """Wait for merges. A failed merge does no harm: the next writer tries it again."""
        if self._writer is not None:
            with suppress(Exception):
                files.fault_point("merge", self._folder.name)
                self._writer.wait_merging_threads()
            self._writer = None


def _configure(index: tantivy.Index) -> tantivy.Index:
    """Split texts on spaces only, and reload only on request."""
    index.register_tokenizer(
        _ANALYSER, tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
    )
    index.config_reader(reload_policy="manual")
    return index


def _add_streams(record: tantivy.Document, fields: Sequence[str], streams: Sequence[str]) -> None:
    for field, stream in zip(fields, streams, strict=True):
        if stream:
            record.add_text(field, stream)
