"""The keyword index: BM25 over fields, in tantivy, fed with our own terms.

Takes: analysed term streams per field, keyed by chunk. Gives: the best chunks for
a set of terms. Refuses: to analyse; every text passes ``analyser`` first, at
index and at query time alike.

Like the vectors it runs ahead of the catalogue, never behind: it is committed
first, and documents the catalogue does not know are dropped when the next writer
starts.
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
"""In the folder of an epoch."""
FIELDS = Entry._fields
NAMES = ("title", "path", "description", "aliases", "keywords")
"""What a document is called, and what it says of itself before its text begins."""
PAGE_FIELDS = (*NAMES, "page")
"""Of the one entry per document that stands beside those of its chunks."""
_ALL_FIELDS = frozenset((*FIELDS, *PAGE_FIELDS))

MOST_PAIRS = 20
"""Pairs of words that one question looks for."""
_MOST_EQUAL = 4096
"""Entries with the score of the last one wanted that are looked at. More than these are as alike
as a word in one line of a log."""
_HEAP_BYTES = 96_000_000
_HEADROOM = 3 * _HEAP_BYTES
"""What writing and merging may take at once; below it, tantivy could end the process."""
_REMEMBERED = 20_000
"""Terms whose frequency a view remembers."""
_ANALYSER = "whitespace"
_META = "meta.json"
_FOOTER_MAGIC = 1337
_LONGEST_FOOTER = 4096
_PIECE = 1 << 20
_PARTS = ("fast", "fieldnorm", "idx", "pos", "store", "term")
_CHECKED_BYTES = 1 << 24
"""Of keyword files, checked when an index is opened: some 10 ms."""
_SEGMENT = re.compile(r"[0-9a-f]{32}")
_OS_ERROR = re.compile(r"\bos error (\d+)|\bcode: (\d+)")
_CANNOT_WRITE = frozenset((errno.EROFS, errno.EACCES, errno.EPERM))


def segment_files(folder: Path) -> list[Path]:
    """The files that the last commit consists of; what a crash left beside them is no matter."""
    found: list[Path] = []
    for segment in json.loads((folder / _META).read_bytes())["segments"]:
        name = segment["segment_id"].replace("-", "")
        found += (folder / f"{name}.{part}" for part in _PARTS)
        if segment["deletes"]:
            found.append(folder / f"{name}.{segment['deletes']['opstamp']}.del")
    return found


def file_damage(path: Path) -> str:
    """Compare a tantivy file with the checksum in its footer."""
    try:
        with path.open("rb") as file:
            return _wrong_in(file)
    except OSError as error:
        return error.strerror or str(error)


def _wrong_in(file: BinaryIO) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _LONGEST_FOOTER))
    end = file.read()
    if len(end) < 8 or int.from_bytes(end[-4:], "little") != _FOOTER_MAGIC:
        return "its footer is gone"
    length = int.from_bytes(end[-8:-4], "little")
    try:
        footer = json.loads(end[-8 - length : -8])
        expected = footer["crc"]
    except (ValueError, KeyError, TypeError):
        return "its footer is unreadable"
    if set(footer) != {"version", "crc"}:
        return "its footer differs from what was written"
    # Piece by piece: a file may be larger than the memory.
    file.seek(0)
    left, found = size - 8 - length, 0
    while left > 0 and (piece := file.read(min(left, _PIECE))):
        left -= len(piece)
        found = crc32(piece, found)
    return "" if found == expected else "its checksum differs"


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("key", stored=False, indexed=True, fast=True)
    builder.add_unsigned_field("document", stored=False, indexed=True, fast=True)
    for field in FIELDS:
        builder.add_text_field(field, tokenizer_name=_ANALYSER, index_option="position")
    for field in PAGE_FIELDS:
        builder.add_text_field(field, tokenizer_name=_ANALYSER, index_option="freq")
    return builder.build()


def meta_of_an_empty_one() -> bytes:
    """What tantivy writes down of an index like ours before anything is in it."""
    with TemporaryDirectory(prefix="lookfar-") as folder, _writing(Path(folder)):
        tantivy.Index(_schema(), path=folder, reuse=False)
        return Path(folder, _META).read_bytes()


def file_version() -> dict[str, int]:
    """How the tantivy of this process marks the files that it writes."""
    numbers = map(int, re.findall(r"\d+", tantivy.__version__))  # type: ignore[attr-defined]
    return dict(zip(("major", "minor", "patch", "index_format_version"), numbers, strict=True))


class KeywordIndex:
    """A tantivy index in one folder."""

    def __init__(self, folder: Path, *, create: bool = False, older: bool = False) -> None:
        """``older``: its catalogue says that another format wrote it, which had other fields."""
        self._folder = folder
        self._older = older
        self._linked: TemporaryDirectory[str] | None = None
        self._reloading = Lock()
        self._writer: tantivy.IndexWriter | None = None
        self._checked: set[str] = set()
        self._schema = _schema()
        self._lacking: frozenset[str] = frozenset()
        self._index = self._create() if create else self._open()
        self.view = self._look()
        """What the last reload made visible; a reader keeps the one it began with."""

    def _create(self) -> tantivy.Index:
        files.make_folder(self._folder, sync=False)
        with _writing(self._folder):
            files.fault_point("create", self._folder.name)
            index = tantivy.Index(self._schema, path=str(self._folder), reuse=False)
        return _with_terms(index)

    def _open(self) -> tantivy.Index:
        with _reading(self._folder):
            try:
                return self._checked_schema(tantivy.Index.open(str(self._folder)))
            except ValueError as error:
                if _number(error) not in _CANNOT_WRITE:
                    raise
            return self._checked_schema(tantivy.Index.open(self._link()))

    def _checked_schema(self, index: tantivy.Index) -> tantivy.Index:
        """The index, if its fields are ours: a field of another name would just not be searched."""
        if index.schema != self._schema:
            if not self._older:
                raise ValueError(f"{_META}: it tells of other fields")
            # Fields go by their place among the others, so questions are asked by its own.
            self._schema = index.schema
            told = json.loads((self._folder / _META).read_bytes())["schema"]
            self._lacking = _ALL_FIELDS.difference(field["name"] for field in told)
        return _with_terms(index)

    def _link(self) -> str:
        """A folder of links to this one: tantivy locks even to read, and here it may not."""
        if self._linked is None:
            self._linked = TemporaryDirectory(prefix="lookfar-", ignore_cleanup_errors=True)
        files.link_files(self._folder, Path(self._linked.name), copied=_META)
        return self._linked.name

    def _look(self) -> KeywordView:
        # The stamp before the reader: a view may hold more than its stamp says, never less.
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
        """Compare what was not looked at yet with its checksum, as far as that is quick: tantivy
        maps its files and believes them, and a wrong number can end the process or the answer.
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
            why = file_damage(path)
            if why and path in segment_files(self._folder):
                raise ValueError(f"{path.name}: {why}")
            self._checked.add(path.name)

    def committed(self) -> int:
        """The stamp of the last commit on disk, to compare with what the catalogue recorded."""
        with _reading(self._folder):
            return int(json.loads((self._folder / _META).read_bytes())["opstamp"])

    def reload(self) -> None:
        """See what the last commit of any process made visible."""
        with self._reloading:
            self.view = self._look()

    # -- writing -----------------------------------------------------------

    def open_writer(self, known_documents: int) -> None:
        """Start writing; drop what a crashed writer left beyond the catalogue's last document."""
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
            for left in (*list_folder(self._folder, ".tmp*"), *self._never_committed()):
                files.remove(left)
            self._writer.delete_documents_by_query(beyond)

    def _never_committed(self) -> list[Path]:
        """Deletions that a writer wrote down and died before it committed them.

        They bear the number of that commit, and the next one with the same number, which
        is what trying again comes to, would not overwrite them.
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
        """Index the chunks of one document under consecutive keys, and the document as a whole."""
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
                self._writer.add_document(_page(document, names, entries))

    def remove_documents(self, documents: Iterable[int]) -> None:
        assert self._writer is not None
        # By query: deleting by term silently matches nothing in a field of numbers.
        among = Query.term_set_query(self._schema, "document", list(documents))
        with _writing(self._folder):
            self._writer.delete_documents_by_query(among)

    def rewrite(
        self,
        known_documents: int,
        gone: Sequence[int],
        entries: Callable[[Sequence[int]], Iterable[tuple[int, int, Streams]]],
    ) -> int:
        """Write anew every segment that holds something of the documents ``gone``, which alone
        removes their terms from the files; gives the stamp to record.

        ``entries`` makes those of documents again: first key, document, streams.
        """
        self.reload()
        stamp = self._rewritten(known_documents, gone, self.view.beside(gone), entries)
        if self._has_deletions():
            # Left by deletions that came before: which segment holds what, nobody knows.
            self.reload()
            stamp = self._rewritten(known_documents, gone, self.view.documents(), entries)
        return stamp

    def _rewritten(
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
            return any(each["deletes"] for each in segments)

    def remove_leftovers(self) -> None:
        """Remove files of segments that the last commit does not have, while nobody writes."""
        with _reading(self._folder):
            segments = json.loads((self._folder / _META).read_bytes())["segments"]
        named = {each["segment_id"].replace("-", "") for each in segments}
        for path in list_folder(self._folder):
            name = path.name.partition(".")[0]
            if _SEGMENT.fullmatch(name) and name not in named:
                # A reader elsewhere may still map it (Windows); the next one tries again.
                with suppress(LookfarError):
                    files.remove(path)

    def commit(self) -> int:
        """Make everything since the last commit durable; gives the stamp to record."""
        assert self._writer is not None
        with _writing(self._folder):
            files.fault_point("commit", self._folder.name)
            stamp = int(self._writer.commit())
        # It syncs its files, and the folder before it names them, but not that name itself.
        files.sync_folder(self._folder)
        return stamp

    def abandon(self) -> None:
        """Forget everything since the last commit."""
        if self._writer is not None:
            # Where even that fails, letting go has the same effect: nothing was committed.
            with suppress(Exception):
                self._writer.rollback()
            self._writer = None

    def close_writer(self) -> None:
        """Let merges finish. One that fails costs nothing: the next writer tries it again."""
        if self._writer is not None:
            with suppress(Exception):
                files.fault_point("merge", self._folder.name)
                self._writer.wait_merging_threads()
            self._writer = None


class KeywordView:
    """The state of one commit: later commits, merges and deletions do not show in it."""

    def __init__(
        self,
        folder: Path,
        schema: tantivy.Schema,
        searcher: tantivy.Searcher,
        stamp: int,
        shared: Statistics | None = None,
        lacking: frozenset[str] = frozenset(),
    ) -> None:
        """``lacking``: the fields that an index of an earlier format does not have."""
        self._folder = folder
        self._lacking = lacking
        self._schema = schema
        self._searcher = searcher
        self._shared = shared
        self._having: dict[tuple[str, str], int] = {}
        self.stamp = stamp
        """At least this commit is visible."""

    def _frequency(self, field: str, term: str) -> int:
        """Entries that hold a term; asked of each several times for one question."""
        found = self._having.get((field, term))
        if found is None:
            if len(self._having) >= _REMEMBERED:
                self._having.clear()
            lacks = field in self._lacking
            found = 0 if lacks else self._searcher.doc_freq(field, term)
            self._having[field, term] = found
        return found

    def statistics(self, terms: Iterable[str]) -> Statistics:
        """How common these words are here."""
        with _reading(self._folder):
            frequency = {
                (field, term): self._frequency(field, term)
                for term in terms
                for field in (*FIELDS, *PAGE_FIELDS)
            }
            return Statistics(self._searcher.num_docs, frequency)

    def scored_with(self, shared: Statistics) -> KeywordView:
        """The same state, with words weighed by statistics from beyond it."""
        view = KeywordView(
            self._folder, self._schema, self._searcher, self.stamp, shared, self._lacking
        )
        view._having = self._having
        return view

    def search(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None = None,
    ) -> list[tuple[int, float]]:
        """The best ``(chunk key, score)``, best first; only within ``documents`` where given."""
        return self._best("key", terms, weights, limit, documents)

    def best_of_each(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        documents: Sequence[int],
        admits: Callable[[int], bool] | None = None,
    ) -> list[tuple[int, float]]:
        """The best admitted chunk of each document that has one among the best overall."""
        found = self._found(terms, weights, 6 * len(documents), documents)
        addresses = [address for _, address in found]
        with _reading(self._folder):
            owners = self._searcher.fast_field_values("document", addresses)
            keys = self._searcher.fast_field_values("key", addresses)
        rows = sorted(
            (-float(score), int(key), int(owner))
            for owner, key, (score, _) in zip(owners, keys, found, strict=True)
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
        """The best ``(document, score)`` by the whole text of each document."""
        return self._best("document", terms, weights, limit, documents)

    def _best(
        self,
        named: str,
        terms: Terms,
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None,
    ) -> list[tuple[int, float]]:
        found = self._found(terms, weights, limit, documents)
        with _reading(self._folder):
            names = self._searcher.fast_field_values(named, [address for _, address in found])
        hits = [
            (int(name), float(score))
            for name, (score, _) in zip(names, found, strict=True)
            if name is not None
        ]
        return sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:limit]

    def _found(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None,
    ) -> list[tuple[float, tantivy.DocAddress]]:
        """The best ``limit``, and whatever scores as the last of them: which of equals come first
        depends on the order of segments, and that on chance.
        """
        with _reading(self._folder):
            scoring = self._scoring(terms, weights)
            if scoring is None or (documents is not None and not documents):
                return []
            if documents is not None:
                among = Query.term_set_query(self._schema, "document", list(documents))
                scoring = Query.boolean_query(
                    [(Occur.Must, scoring), (Occur.Must, Query.const_score_query(among, 0.0))]
                )
            found = self._searcher.search(scoring, limit=limit + 1, count=False).hits
            if len(found) <= limit or found[limit][0] < found[limit - 1][0]:
                return found[:limit]
            return self._searcher.search(scoring, limit=limit + _MOST_EQUAL, count=False).hits

    def _scoring(self, terms: Terms, weights: Mapping[str, float]) -> Query | None:
        clauses: list[tuple[Occur, Query]] = []
        for term, importance in weighed(terms):
            for field, weight in weights.items():
                here = self._frequency(field, term) if weight > 0 else 0
                if not here:
                    continue
                option = Query.term_query(self._schema, field, term, index_option="freq")
                boost = weight * importance * self._rarer(field, term, here)
                clauses.append((Occur.Should, Query.boost_query(option, boost)))
        return Query.boolean_query(clauses) if clauses else None

    def _rarer(self, field: str, term: str, here: int) -> float:
        """How much more a word says by the shared statistics than by those of this index."""
        if self._shared is None:
            return 1.0
        there = self._shared.frequency.get((field, term), here)
        return _idf(self._shared.entries, there) / _idf(self._searcher.num_docs, here)

    def knows(self, term: str) -> bool:
        """Whether any document holds this term, in its text or its names."""
        with _reading(self._folder):
            return any(self._frequency(field, term) for field in PAGE_FIELDS)

    def holding(self, terms: Sequence[str], apart: int = 0, most: int | None = None) -> list[int]:
        """The chunks that hold these terms in this order, at most so many positions apart; with
        ``most`` any so many of them."""
        with _reading(self._folder):
            limit = most or max(1, self._searcher.num_docs)
            found = self._searcher.search(self._phrase(terms, apart), limit=limit, count=False)
            addresses = [address for _, address in found.hits]
            keys = self._searcher.fast_field_values("key", addresses)
        return sorted(int(key) for key in keys if key is not None)

    def adjoining(
        self, pairs: Sequence[tuple[str, str, int]], keys: Sequence[int]
    ) -> dict[int, int]:
        """Which of ``pairs``, two terms and how far apart, each of these chunks holds, as bits."""
        if not pairs or not keys:
            return {}
        # A score is a sum, and a sum of powers of two tells what it is the sum of: of as many
        # as single precision tells apart.
        clauses = [
            (Occur.Should, Query.const_score_query(self._phrase(pair[:2], 0, pair[2]), 2.0**at))
            for at, pair in enumerate(pairs[:MOST_PAIRS])
        ]
        return {key: int(score) for key, score in self._among(clauses, keys).items()}

    def _among(
        self, clauses: Sequence[tuple[Occur, Query]], keys: Sequence[int]
    ) -> dict[int, float]:
        """The score of each of these chunks that any clause matches."""
        with _reading(self._folder):
            among = Query.const_score_query(
                Query.term_set_query(self._schema, "key", list(keys)), 0.0
            )
            both = [(Occur.Must, Query.boolean_query(clauses)), (Occur.Must, among)]
            found = self._searcher.search(
                Query.boolean_query(both), limit=len(keys), count=False
            ).hits
            named = self._searcher.fast_field_values("key", [address for _, address in found])
        return {
            int(key): float(score)
            for key, (score, _) in zip(named, found, strict=True)
            if key is not None
        }

    def wording(
        self, groups: Sequence[Mapping[str, float]], keys: Sequence[int]
    ) -> dict[int, float]:
        """For each chunk the sum, over the groups, of the best term of each that it holds."""
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
        """These terms beside each other in any one field of a chunk."""
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
        """Terms of whole texts that begin so and how many documents hold each, the most first."""
        with _reading(self._folder):
            return list(self._searcher.terms_with_prefix("page", prefix, limit=most))

    def beside(self, documents: Sequence[int]) -> set[int]:
        """All documents that share a segment with one of these, themselves included."""
        if not documents or not len(self):
            return set()
        among = Query.term_set_query(self._schema, "document", list(documents))
        with _reading(self._folder):
            found = self._searcher.search(among, limit=len(self), count=False).hits
        return self._in_segments({address.segment_ord for _, address in found})

    def documents(self) -> set[int]:
        """Every document that has an entry."""
        return self._in_segments(set(range(self._searcher.num_segments)))

    def _in_segments(self, wanted: Collection[int]) -> set[int]:
        if not wanted or not len(self):
            return set()
        with _reading(self._folder):
            hits = self._searcher.search(Query.all_query(), limit=len(self), count=False).hits
            there = [address for _, address in hits if address.segment_ord in wanted]
            owners = self._searcher.fast_field_values("document", there)
        return {int(owner) for owner in owners if owner is not None}

    def entries_of(self, documents: Sequence[int]) -> int:
        """How many entries, of chunks and of wholes, these documents have."""
        if not documents:
            return 0
        among = Query.term_set_query(self._schema, "document", list(documents))
        with _reading(self._folder):
            found = self._searcher.search(among, limit=1, count=True)
            return int(found.count)  # type: ignore[attr-defined]  # its stubs forget it

    def told(self) -> int:
        """How many entries there are by what ``meta.json`` says of each segment."""
        with _reading(self._folder):
            found = self._searcher.search(Query.all_query(), limit=1, count=True)
            return int(found.count)  # type: ignore[attr-defined]  # its stubs forget it

    def stored(self) -> int:
        """How many entries there are, counted one by one: each has a document."""
        anything = Query.range_query(
            self._schema,
            "document",
            tantivy.FieldType.Unsigned,
            lower_bound=0,
            use_inverted_index=True,
        )
        with _reading(self._folder):
            found = self._searcher.search(anything, limit=1, count=True)
            return int(found.count)  # type: ignore[attr-defined]  # its stubs forget it

    def __len__(self) -> int:
        return self._searcher.num_docs


def _idf(entries: int, having: int) -> float:
    """What tantivy multiplies a word's weight with."""
    return math.log(1 + (entries - having + 0.5) / (having + 0.5))


def weighed(terms: Terms) -> Iterable[tuple[str, float]]:
    """Terms with how much each counts."""
    return terms.items() if isinstance(terms, Mapping) else ((term, 1.0) for term in terms)


def _with_terms(index: tantivy.Index) -> tantivy.Index:
    """Split on spaces and nothing else; reload when told and not before."""
    index.register_tokenizer(
        _ANALYSER, tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
    )
    index.config_reader(reload_policy="manual")
    return index


def _page(
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
    """What tantivy cannot read of its own files is damaged, unless the disk is to blame."""
    try:
        yield
    except (LookfarError, MemoryError):
        raise
    except BaseException as error:
        # A panic of the native code is no ``Exception``, but it is no wish to exit either.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        number = error.errno if isinstance(error, OSError) else _number(error)
        if number and number != errno.ENOENT:
            blame = OSError(number, os.strerror(number), str(folder))
            raise from_os_error(blame, "reading the keyword index") from error
        raise IndexCorrupt(
            "The keyword index is damaged.",
            hint="Rebuild it from the sources: lookfar index PATH --rebuild.",
            developer=f"{folder.name}: {type(error).__name__}: {error}",
            details={"path": str(folder)},
        ) from error


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """tantivy reports what the disk said as text, or not at all; give it back its number."""
    with files.translate_errors("writing the keyword index"):
        try:
            yield
        except (ValueError, RuntimeError) as error:
            number = _number(error)
            if not number:  # Its own threads say only that they ended.
                files.probe_write(folder)
            raise OSError(number or errno.EIO, str(error)) from error


def _number(error: BaseException) -> int:
    """The operating system's number in one of tantivy's messages, or 0."""
    found = _OS_ERROR.search(str(error))
    return int(found[1] or found[2]) if found else 0
