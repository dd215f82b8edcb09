"""The keyword index: BM25 over fields, in tantivy, fed with our own terms.

Takes: analysed term streams per field, keyed by chunk. Gives: the best chunks for
a set of terms. Refuses: to analyse; every text passes ``analyser`` first, at
index and at query time alike.

Like the vectors it runs ahead of the catalogue, never behind: it is committed
first, and chunks the catalogue does not know are dropped when the next writer
starts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import tantivy
from tantivy import Occur, Query

from lookfar.errors import IndexCorrupt
from lookfar.ports import Entry
from lookfar.store import files

FIELDS = Entry._fields
PAGE_FIELDS = ("name", "page")
"""Of the one entry per document that stands beside those of its chunks."""

_HEAP_BYTES = 96_000_000
_ANALYSER = "whitespace"


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("key", stored=False, indexed=True, fast=True)
    builder.add_unsigned_field("document", stored=False, indexed=True, fast=True)
    for field in FIELDS:
        builder.add_text_field(field, tokenizer_name=_ANALYSER, index_option="position")
    for field in PAGE_FIELDS:
        builder.add_text_field(field, tokenizer_name=_ANALYSER, index_option="freq")
    return builder.build()


class KeywordIndex:
    """A tantivy index in one folder."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        self._folder = folder
        if create:
            files.make_folder(folder)
        try:
            self._schema = _schema()
            self._index = (
                tantivy.Index(self._schema, path=str(folder), reuse=False)
                if create
                else tantivy.Index.open(str(folder))
            )
        except Exception as error:
            raise _damaged(folder, error) from error
        self._index.register_tokenizer(
            _ANALYSER, tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
        )
        self._index.config_reader(reload_policy="manual")
        self._writer: tantivy.IndexWriter | None = None
        self._searcher = self._index.searcher()

    def committed(self) -> int:
        """The stamp of the last commit on disk, to compare with what the catalogue recorded."""
        try:
            return int(json.loads((self._folder / "meta.json").read_bytes())["opstamp"])
        except (OSError, ValueError, KeyError) as error:
            raise _damaged(self._folder, error) from error

    def reload(self) -> None:
        """See what the last commit of any process made visible."""
        self._index.reload()
        self._searcher = self._index.searcher()

    # -- writing -----------------------------------------------------------

    def open_writer(self, known_keys: int) -> None:
        """Start writing; drop what a crashed writer left beyond the catalogue's last key."""
        self._writer = self._index.writer(_HEAP_BYTES, 1)
        beyond = Query.range_query(
            self._schema,
            "key",
            tantivy.FieldType.Unsigned,
            lower_bound=known_keys + 1,
            use_inverted_index=True,
        )
        self._writer.delete_documents_by_query(beyond)

    def add(self, first_key: int, document: int, entries: Sequence[Sequence[str]]) -> None:
        """Index the chunks of one document under consecutive keys, and the document as a whole."""
        assert self._writer is not None
        for key, entry in enumerate(entries, first_key):
            record = tantivy.Document()
            record.add_unsigned("key", key)
            record.add_unsigned("document", document)
            for field, stream in zip(FIELDS, entry, strict=True):
                if stream:
                    record.add_text(field, stream)
            self._writer.add_document(record)
        if entries:
            page = tantivy.Document()
            page.add_unsigned("document", document)
            page.add_text("name", entries[0][FIELDS.index("title")])
            for entry in entries:
                page.add_text("page", entry[FIELDS.index("body")])
                page.add_text("page", entry[FIELDS.index("code")])
            self._writer.add_document(page)

    def remove_documents(self, documents: Iterable[int]) -> None:
        assert self._writer is not None
        for document in documents:
            self._writer.delete_documents_by_term("document", document)

    def commit(self) -> int:
        """Make everything since the last commit durable; gives the stamp to record."""
        assert self._writer is not None
        with files.disk("writing the keyword index"):
            try:
                stamp = self._writer.commit()
            except (ValueError, RuntimeError) as error:
                raise _write_failed(error) from error
        return int(stamp)

    def abandon(self) -> None:
        """Forget everything since the last commit."""
        if self._writer is not None:
            self._writer.rollback()
            self._writer = None

    def close_writer(self) -> None:
        if self._writer is not None:
            self._writer.wait_merging_threads()
            self._writer = None

    # -- searching ---------------------------------------------------------

    def search(
        self,
        terms: Sequence[str],
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None = None,
    ) -> list[tuple[int, float]]:
        """The best ``(chunk key, score)``, best first; only within ``documents`` where given."""
        return self._best("key", terms, weights, limit, documents)

    def best_of_each(
        self, terms: Sequence[str], weights: Mapping[str, float], documents: Sequence[int]
    ) -> list[tuple[int, float]]:
        """The best chunk of each document that has one among the best overall."""
        found = self._found(terms, weights, 6 * len(documents), documents)
        addresses = [address for _, address in found]
        owners = self._searcher.fast_field_values("document", addresses)
        keys = self._searcher.fast_field_values("key", addresses)
        best: dict[int, tuple[int, float]] = {}
        for owner, key, (score, _) in zip(owners, keys, found, strict=True):
            if owner is not None and key is not None:
                best.setdefault(int(owner), (int(key), float(score)))
        return list(best.values())

    def search_pages(
        self,
        terms: Sequence[str],
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None = None,
    ) -> list[tuple[int, float]]:
        """The best ``(document, score)`` by the whole text of each document."""
        return self._best("document", terms, weights, limit, documents)

    def _best(
        self,
        named: str,
        terms: Sequence[str],
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None,
    ) -> list[tuple[int, float]]:
        found = self._found(terms, weights, limit, documents)
        names = self._searcher.fast_field_values(named, [address for _, address in found])
        hits = [
            (int(name), float(score))
            for name, (score, _) in zip(names, found, strict=True)
            if name is not None
        ]
        return sorted(hits, key=lambda hit: (-hit[1], hit[0]))

    def _found(
        self,
        terms: Sequence[str],
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None,
    ) -> list[tuple[float, tantivy.DocAddress]]:
        scoring = self._scoring(terms, weights)
        if scoring is None or (documents is not None and not documents):
            return []
        if documents is not None:
            among = Query.term_set_query(self._schema, "document", list(documents))
            scoring = Query.boolean_query(
                [(Occur.Must, scoring), (Occur.Must, Query.const_score_query(among, 0.0))]
            )
        return self._searcher.search(scoring, limit=limit, count=False).hits

    def _scoring(self, terms: Sequence[str], weights: Mapping[str, float]) -> Query | None:
        clauses: list[tuple[Occur, Query]] = []
        for term in terms:
            for field, weight in weights.items():
                if weight <= 0 or not self._searcher.doc_freq(field, term):
                    continue
                option = Query.term_query(self._schema, field, term, index_option="freq")
                clauses.append((Occur.Should, Query.boost_query(option, weight)))
        return Query.boolean_query(clauses) if clauses else None

    def document_frequency(self, term: str, field: str = "body") -> int:
        return self._searcher.doc_freq(field, term)

    def __len__(self) -> int:
        return self._searcher.num_docs


def _damaged(folder: Path, error: Exception) -> IndexCorrupt:
    return IndexCorrupt(
        "The keyword index is damaged.",
        hint="Rebuild it from the sources: lookfar index PATH --rebuild.",
        developer=f"{folder.name}: {type(error).__name__}: {error}",
        details={"path": str(folder)},
    )


def _write_failed(error: Exception) -> OSError:
    """tantivy reports a full disk as text; give it back its number."""
    import errno

    text = str(error)
    number = errno.ENOSPC if "No space" in text or "StorageFull" in text else errno.EIO
    return OSError(number, text)
