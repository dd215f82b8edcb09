"""The keyword index: BM25 over several fields, in tantivy.

Texts are not analysed here: both indexed texts and queries pass through ``analyser`` first.

Like the vectors, the keyword index may be ahead of the catalogue but never behind it. It is
committed first, and the next writer drops documents that the catalogue does not have.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import BinaryIO
from zlib import crc32

import tantivy
from tantivy import Occur, Query

from lookfar.common.folders import list_folder
from lookfar.errors import IndexCorrupt, LookfarError, from_os_error
from lookfar.ports import Entry, Statistics, Streams, Terms
from lookfar.store.ground import files
from lookfar.store.ground.headroom import require_memory

KEYWORDS = "keywords"
"""The folder of the index inside an epoch."""
FIELDS = Entry._fields
NAMES = ("title", "path", "description", "aliases", "keywords")
"""Fields for the names of a document and its front matter."""
PAGE_FIELDS = (*NAMES, "page")
"""Fields of the one entry that each document has in addition to its chunks."""
_ALL_FIELDS = frozenset((*FIELDS, *PAGE_FIELDS))

MOST_PAIRS = 20
"""The most pairs of words that one query looks for."""
_MOST_EQUAL = 4096
"""How many more entries are read if they tie with the last wanted one."""
_HEAP_BYTES = 96_000_000
_HEADROOM = 3 * _HEAP_BYTES
"""Memory that writing and merging may need at once; with less, tantivy may abort the process."""
_CACHED_TERMS = 20_000
"""Terms whose frequency a view caches."""
_ANALYSER = "whitespace"
_META = "meta.json"
_FOOTER_MAGIC = 1337
_LONGEST_FOOTER = 4096
_PIECE = 1 << 20
_PARTS = ("fast", "fieldnorm", "idx", "pos", "store", "term")
_CHECKED_BYTES = 1 << 24
"""How many bytes are checked when an index is opened: about 10 ms."""
_SEGMENT = re.compile(r"[0-9a-f]{32}")
_OS_ERROR = re.compile(r"\bos error (\d+)|\bcode: (\d+)")
_CANNOT_WRITE = frozenset((errno.EROFS, errno.EACCES, errno.EPERM))


def segment_files(folder: Path) -> list[Path]:
    """Return the files of the last commit, without any left by a crash."""
    paths: list[Path] = []
    for segment in json.loads((folder / _META).read_bytes())["segments"]:
        name = segment["segment_id"].replace("-", "")
        paths += (folder / f"{name}.{part}" for part in _PARTS)
        if segment["deletes"]:
            paths.append(folder / f"{name}.{segment['deletes']['opstamp']}.del")
    return paths


def describe_file_damage(path: Path) -> str:
    """Compare a tantivy file with the checksum in its footer; describe any difference."""
    try:
        with path.open("rb") as file:
            return _check_footer(file)
    except OSError as error:
        return error.strerror or str(error)


def _check_footer(file: BinaryIO) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _LONGEST_FOOTER))
    end = file.read()
    if len(end) < 8 or int.from_bytes(end[-4:], "little") != _FOOTER_MAGIC:
        return "its footer is missing"
    length = int.from_bytes(end[-8:-4], "little")
    try:
        footer = json.loads(end[-8 - length : -8])
        expected = footer["crc"]
    except (ValueError, KeyError, TypeError):
        return "its footer is unreadable"
    if set(footer) != {"version", "crc"}:
        return "its footer differs from what was written"
    # In pieces, because a file may be larger than memory.
    file.seek(0)
    remaining, checksum = size - 8 - length, 0
    while remaining > 0 and (piece := file.read(min(remaining, _PIECE))):
        remaining -= len(piece)
        checksum = crc32(piece, checksum)
    return "" if checksum == expected else "its checksum differs"


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
    with TemporaryDirectory(prefix="lookfar-") as folder, _writing(Path(folder)):
        tantivy.Index(_make_schema(), path=folder, reuse=False)
        return Path(folder, _META).read_bytes()


def file_version() -> dict[str, int]:
    """Return the version that this tantivy writes into its files."""
    numbers = map(int, re.findall(r"\d+", tantivy.__version__))  # type: ignore[attr-defined]
    return dict(zip(("major", "minor", "patch", "index_format_version"), numbers, strict=True))


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
        with _writing(self._folder):
            files.fault_point("create", self._folder.name)
            index = tantivy.Index(self._schema, path=str(self._folder), reuse=False)
        return _configure(index)

    def _open(self) -> tantivy.Index:
        with _reading(self._folder):
            try:
                return self._check_schema(tantivy.Index.open(str(self._folder)))
            except ValueError as error:
                if _parse_errno(error) not in _CANNOT_WRITE:
                    raise
            return self._check_schema(tantivy.Index.open(self._link()))

    def _check_schema(self, index: tantivy.Index) -> tantivy.Index:
        """Check that the index has our fields: a renamed field would silently not be searched."""
        if index.schema != self._schema:
            if not self._older:
                raise ValueError(f"{_META}: it has other fields")
            # Queries refer to fields by position, so they must use the index's own schema.
            self._schema = index.schema
            fields = json.loads((self._folder / _META).read_bytes())["schema"]
            self._lacking = _ALL_FIELDS.difference(field["name"] for field in fields)
        return _configure(index)

    def _link(self) -> str:
        """Make a writable folder of links to this one, because tantivy locks even to read."""
        if self._linked is None:
            self._linked = TemporaryDirectory(prefix="lookfar-", ignore_cleanup_errors=True)
        files.link_files(self._folder, Path(self._linked.name), copied=_META)
        return self._linked.name

    def _open_view(self) -> KeywordView:
        # Stamp first: a view may contain more than its stamp says, but never less.
        stamp = self.committed()
        with _reading(self._folder):
            self._check_small_files()
            if self._linked is not None:
                self._link()
            self._index.reload()
            return KeywordView(
                self._folder, self._schema, self._index.searcher(), stamp, lacking=self._lacking
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
        with _reading(self._folder):
            return int(json.loads((self._folder / _META).read_bytes())["opstamp"])

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
        with _writing(self._folder):
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
        """Add the chunks of one document under consecutive keys, and the whole document."""
        assert self._writer is not None
        require_memory(_HEADROOM)
        with _writing(self._folder):
            for key, entry in enumerate(entries, first_key):
                record = tantivy.Document()
                record.add_unsigned("key", key)
                record.add_unsigned("document", document)
                for field, stream in zip(FIELDS, entry, strict=True):
                    if stream:
                        record.add_text(field, stream)
                self._writer.add_document(record)
            if entries:
                self._writer.add_document(_make_page(document, names, entries))

    def remove_documents(self, documents: Iterable[int]) -> None:
        assert self._writer is not None
        # By query: deleting by term silently matches nothing in a numeric field.
        among = Query.term_set_query(self._schema, "document", list(documents))
        with _writing(self._folder):
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
        with _reading(self._folder):
            segments = json.loads((self._folder / _META).read_bytes())["segments"]
            return any(segment["deletes"] for segment in segments)

    def remove_leftovers(self) -> None:
        """Remove files of segments that are not in the last commit; the caller holds the lock."""
        with _reading(self._folder):
            segments = json.loads((self._folder / _META).read_bytes())["segments"]
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
        with _writing(self._folder):
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


class KeywordView:
    """The state of one commit; later commits, merges and deletions do not change it."""

    def __init__(
        self,
        folder: Path,
        schema: tantivy.Schema,
        searcher: tantivy.Searcher,
        stamp: int,
        shared: Statistics | None = None,
        lacking: frozenset[str] = frozenset(),
    ) -> None:
        """``lacking`` are the fields that an index of an older format does not have."""
        self._folder = folder
        self._lacking = lacking
        self._schema = schema
        self._searcher = searcher
        self._shared = shared
        self._frequencies: dict[tuple[str, str], int] = {}
        self.stamp = stamp
        """At least this commit is visible."""

    def _frequency(self, field: str, term: str) -> int:
        """Count the entries with a term; cached, because a query asks several times."""
        count = self._frequencies.get((field, term))
        if count is None:
            if len(self._frequencies) >= _CACHED_TERMS:
                self._frequencies.clear()
            lacks = field in self._lacking
            count = 0 if lacks else self._searcher.doc_freq(field, term)
            self._frequencies[field, term] = count
        return count

    def statistics(self, terms: Iterable[str]) -> Statistics:
        """Return how common these terms are in this index."""
        with _reading(self._folder):
            frequency = {
                (field, term): self._frequency(field, term)
                for term in terms
                for field in (*FIELDS, *PAGE_FIELDS)
            }
            return Statistics(self._searcher.num_docs, frequency)

    def scored_with(self, shared: Statistics) -> KeywordView:
        """Return the same state, scored with statistics shared by several indexes."""
        view = KeywordView(
            self._folder, self._schema, self._searcher, self.stamp, shared, self._lacking
        )
        view._frequencies = self._frequencies
        return view

    def search(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None = None,
    ) -> list[tuple[int, float]]:
        """Return the best ``(chunk key, score)``, best first; within ``documents`` if given."""
        return self._best("key", terms, weights, limit, documents)

    def best_of_each(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        documents: Sequence[int],
        admits: Callable[[int], bool] | None = None,
    ) -> list[tuple[int, float]]:
        """Return the best admitted chunk of each document with one among the best overall."""
        hits = self._find_hits(terms, weights, 6 * len(documents), documents)
        addresses = [address for _, address in hits]
        with _reading(self._folder):
            owners = self._searcher.fast_field_values("document", addresses)
            keys = self._searcher.fast_field_values("key", addresses)
        rows = sorted(
            (-float(score), int(key), int(owner))
            for owner, key, (score, _) in zip(owners, keys, hits, strict=True)
            if owner is not None and key is not None
        )
        best: dict[int, tuple[int, float]] = {}
        for score, key, owner in rows[: 6 * len(documents)]:
            if admits is None or admits(key):
                best.setdefault(owner, (key, -score))
        return list(best.values())

    def search_pages(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None = None,
    ) -> list[tuple[int, float]]:
        """Return the best ``(document, score)`` by the whole text of each document."""
        return self._best("document", terms, weights, limit, documents)

    def _best(
        self,
        field: str,
        terms: Terms,
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None,
    ) -> list[tuple[int, float]]:
        hits = self._find_hits(terms, weights, limit, documents)
        with _reading(self._folder):
            numbers = self._searcher.fast_field_values(field, [address for _, address in hits])
        scores = [
            (int(number), float(score))
            for number, (score, _) in zip(numbers, hits, strict=True)
            if number is not None
        ]
        return sorted(scores, key=lambda pair: (-pair[1], pair[0]))[:limit]

    def _find_hits(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None,
    ) -> list[tuple[float, tantivy.DocAddress]]:
        """Return the best ``limit`` entries, and any that tie with the last of them.

        The order of ties depends on the order of segments, which is random.
        """
        with _reading(self._folder):
            scoring = self._make_query(terms, weights)
            if scoring is None or (documents is not None and not documents):
                return []
            if documents is not None:
                among = Query.term_set_query(self._schema, "document", list(documents))
                scoring = Query.boolean_query(
                    [(Occur.Must, scoring), (Occur.Must, Query.const_score_query(among, 0.0))]
                )
            hits = self._searcher.search(scoring, limit=limit + 1, count=False).hits
            if len(hits) <= limit or hits[limit][0] < hits[limit - 1][0]:
                return hits[:limit]
            return self._searcher.search(scoring, limit=limit + _MOST_EQUAL, count=False).hits

    def _make_query(self, terms: Terms, weights: Mapping[str, float]) -> Query | None:
        clauses: list[tuple[Occur, Query]] = []
        for term, importance in weigh_terms(terms):
            for field, weight in weights.items():
                here = self._frequency(field, term) if weight > 0 else 0
                if not here:
                    continue
                option = Query.term_query(self._schema, field, term, index_option="freq")
                boost = weight * importance * self._shared_rarity(field, term, here)
                clauses.append((Occur.Should, Query.boost_query(option, boost)))
        return Query.boolean_query(clauses) if clauses else None

    def _shared_rarity(self, field: str, term: str, here: int) -> float:
        """Return how much rarer a term is by the shared statistics than in this index."""
        if self._shared is None:
            return 1.0
        there = self._shared.frequency.get((field, term), here)
        return _idf(self._shared.entries, there) / _idf(self._searcher.num_docs, here)

    def knows(self, term: str) -> bool:
        """Whether any document has this term in its text or its names."""
        with _reading(self._folder):
            return any(self._frequency(field, term) for field in PAGE_FIELDS)

    def holding(self, terms: Sequence[str], apart: int = 0, most: int | None = None) -> list[int]:
        """Return the chunks with these terms in order, at most ``apart`` positions apart.

        With ``most``, return any that many of them.
        """
        with _reading(self._folder):
            limit = most or max(1, self._searcher.num_docs)
            result = self._searcher.search(self._phrase(terms, apart), limit=limit, count=False)
            addresses = [address for _, address in result.hits]
            keys = self._searcher.fast_field_values("key", addresses)
        return sorted(int(key) for key in keys if key is not None)

    def adjoining(
        self, pairs: Sequence[tuple[str, str, int]], keys: Sequence[int]
    ) -> dict[int, int]:
        """Return as bits which of ``pairs`` each chunk contains: two terms and their distance."""
        if not pairs or not keys:
            return {}
        # A score is a sum, and a sum of powers of two shows its terms, as far as the precision
        # of a float reaches.
        clauses = [
            (Occur.Should, Query.const_score_query(self._phrase(pair[:2], 0, pair[2]), 2.0**at))
            for at, pair in enumerate(pairs[:MOST_PAIRS])
        ]
        return {key: int(score) for key, score in self._among(clauses, keys).items()}

    def _among(
        self, clauses: Sequence[tuple[Occur, Query]], keys: Sequence[int]
    ) -> dict[int, float]:
        """Return the score of each of these chunks that matches a clause."""
        with _reading(self._folder):
            among = Query.const_score_query(
                Query.term_set_query(self._schema, "key", list(keys)), 0.0
            )
            both = [(Occur.Must, Query.boolean_query(clauses)), (Occur.Must, among)]
            hits = self._searcher.search(
                Query.boolean_query(both), limit=len(keys), count=False
            ).hits
            matching = self._searcher.fast_field_values("key", [address for _, address in hits])
        return {
            int(key): float(score)
            for key, (score, _) in zip(matching, hits, strict=True)
            if key is not None
        }

    def wording(
        self, groups: Sequence[Mapping[str, float]], keys: Sequence[int]
    ) -> dict[int, float]:
        """Return for each chunk the sum over the groups of the best term that it contains."""
        clauses = [
            (
                Occur.Should,
                Query.disjunction_max_query(
                    [
                        Query.const_score_query(self._phrase((term,), 0), worth)
                        for term, worth in group.items()
                    ]
                ),
            )
            for group in groups
        ]
        return self._among(clauses, keys) if clauses and keys else {}

    def _phrase(self, terms: Sequence[str], apart: int, step: int = 1) -> Query:
        """Match these terms next to each other in any one field of a chunk."""
        if len(terms) == 1:
            return Query.boolean_query(
                [(Occur.Should, Query.term_query(self._schema, field, terms[0], "basic"))
                 for field in FIELDS]
            )  # fmt: skip
        words: list[str | tuple[int, str]] = [(at * step, term) for at, term in enumerate(terms)]
        return Query.boolean_query(
            [(Occur.Should, Query.phrase_query(self._schema, field, words, apart))
             for field in FIELDS]
        )  # fmt: skip

    def vocabulary(self, prefix: str = "", most: int | None = None) -> list[tuple[str, int]]:
        """Return the terms with this prefix and their document counts, most frequent first."""
        with _reading(self._folder):
            return list(self._searcher.terms_with_prefix("page", prefix, limit=most))

    def beside(self, documents: Sequence[int]) -> set[int]:
        """Return the documents that share a segment with one of these, including these."""
        if not documents or not len(self):
            return set()
        among = Query.term_set_query(self._schema, "document", list(documents))
        with _reading(self._folder):
            hits = self._searcher.search(among, limit=len(self), count=False).hits
        return self._in_segments({address.segment_ord for _, address in hits})

    def documents(self) -> set[int]:
        """Return every document that has an entry."""
        return self._in_segments(set(range(self._searcher.num_segments)))

    def _in_segments(self, wanted: Collection[int]) -> set[int]:
        if not wanted or not len(self):
            return set()
        with _reading(self._folder):
            hits = self._searcher.search(Query.all_query(), limit=len(self), count=False).hits
            addresses = [address for _, address in hits if address.segment_ord in wanted]
            owners = self._searcher.fast_field_values("document", addresses)
        return {int(owner) for owner in owners if owner is not None}

    def count_entries_of(self, documents: Sequence[int]) -> int:
        """Count the entries of these documents, both chunks and whole documents."""
        if not documents:
            return 0
        return self._count(Query.term_set_query(self._schema, "document", list(documents)))

    def count_declared(self) -> int:
        """Count the entries by what ``meta.json`` says of each segment."""
        return self._count(Query.all_query())

    def count_entries(self) -> int:
        """Count the entries one by one; each has a document."""
        anything = Query.range_query(
            self._schema,
            "document",
            tantivy.FieldType.Unsigned,
            lower_bound=0,
            use_inverted_index=True,
        )
        return self._count(anything)

    def _count(self, query: Query) -> int:
        with _reading(self._folder):
            result = self._searcher.search(query, limit=1, count=True)
            return int(result.count)  # type: ignore[attr-defined]  # Missing in its stubs.

    def __len__(self) -> int:
        return self._searcher.num_docs


def _idf(entries: int, having: int) -> float:
    """Return the inverse document frequency as tantivy computes it."""
    return math.log(1 + (entries - having + 0.5) / (having + 0.5))


def weigh_terms(terms: Terms) -> Iterable[tuple[str, float]]:
    """Return each term with its weight."""
    return terms.items() if isinstance(terms, Mapping) else ((term, 1.0) for term in terms)


def _configure(index: tantivy.Index) -> tantivy.Index:
    """Split texts on spaces only, and reload only on request."""
    index.register_tokenizer(
        _ANALYSER, tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
    )
    index.config_reader(reload_policy="manual")
    return index


def _make_page(
    document: int, names: Sequence[str], entries: Sequence[Sequence[str]]
) -> tantivy.Document:
    page = tantivy.Document()
    page.add_unsigned("document", document)
    for field, stream in zip(NAMES, names, strict=True):
        if stream:
            page.add_text(field, stream)
    for entry in entries:
        page.add_text("page", entry[FIELDS.index("body")])
        page.add_text("page", entry[FIELDS.index("code")])
    return page


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """Report what tantivy cannot read as damage, unless the operating system caused it."""
    try:
        yield
    except (LookfarError, MemoryError):
        raise
    except BaseException as error:
        # A panic of the native code is a BaseException, but not a request to exit.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        number = error.errno if isinstance(error, OSError) else _parse_errno(error)
        if number and number != errno.ENOENT:
            cause = OSError(number, os.strerror(number), str(folder))
            raise from_os_error(cause, "reading the keyword index") from error
        raise IndexCorrupt(
            "The keyword index is damaged.",
            hint="Rebuild it from the sources: lookfar index PATH --rebuild.",
            developer=f"{folder.name}: {type(error).__name__}: {error}",
            details={"path": str(folder)},
        ) from error


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Restore the error number that tantivy reports as text or not at all."""
    with files.translate_errors("writing the keyword index"):
        try:
            yield
        except (ValueError, RuntimeError) as error:
            number = _parse_errno(error)
            if not number:  # An error in tantivy's own threads has no cause.
                files.probe_write(folder)
            raise OSError(number or errno.EIO, str(error)) from error


def _parse_errno(error: BaseException) -> int:
    """Return the error number in one of tantivy's messages, or 0."""
    match = _OS_ERROR.search(str(error))
    return int(match[1] or match[2]) if match else 0
